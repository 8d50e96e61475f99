/** The SQL of files in messages. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql } from '../../../kernel/database/sql.ts';

/** Whether a message that the user can read holds the file. */
export const readableThroughRooms = async (
  database: Queryable,
  userId: string,
  fileId: string,
  joinedOnly: boolean,
): Promise<boolean> =>
  (
    await database.query(shortSql`
      select from "app"."ChatMessage" t join "app"."ChatMember" m on m."room" = t."room" and m."user" = ${userId}::uuid
      join "app"."ChatRoom" r on r."_id" = t."room" and not r."deleted"
      where t."files" @> array[${fileId}::uuid] and not t."deleted" and (not ${joinedOnly}::boolean or t."seq" > m."joinedSeq") limit 1`)
  ).rows.length > 0;
