/** The SQL of messages: reading, and what is too old. Writing is penstock.chat_send_batch (migrations.ts), changing message-changes.ts. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql, statementName } from '../../../kernel/database/sql.ts';
import type { MessageType } from '../schemas.ts';

export interface MessageRow {
  readonly id: string;
  readonly room: string;
  readonly sender: string | null;
  readonly type: MessageType;
  readonly content: string | null;
  readonly files: readonly string[];
  readonly mentions: readonly string[];
  readonly seq: number;
  readonly change: number;
  readonly changeKind: 'sent' | 'edited' | 'deleted' | 'reacted' | null;
  readonly nonce: string | null;
  readonly threadRoot: string | null;
  readonly replyCount: number;
  readonly deleted: boolean;
  readonly removed: boolean;
  readonly editedAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** With what hangs on it. */
export interface ListedMessage extends MessageRow {
  readonly readBy: readonly string[];
  readonly reactions: readonly {
    readonly emoji: string;
    readonly count: number;
    readonly users: readonly string[];
  }[];
}

/** Readers, and users of a reaction, that a message shows. */
const SHOWN = 100;

const plain = `t."_id" as id, t."room", t."senderUser" as sender, t."messageType" as type, t."message" as content, t."files",
  t."mentions", t."seq", t."change", t."changeKind", t."nonce", t."threadRoot", t."replyCount", t."deleted", t."removed",
  t."editedAt", t."createdAt", t."updatedAt"`;

export const reactionsOf = `coalesce((select json_agg(json_build_object('emoji', e.emoji, 'count', e.count, 'users', e.users) order by e.first)
  from (select x.emoji, count(*)::integer as count, min(x.created_at) as first,
      (array_agg(x.user_id order by x.created_at))[1:${SHOWN}] as users
    from penstock.chat_reactions x where x.message_id = t."_id" group by x.emoji) e), '[]') as reactions`;

const listed = `${plain}, ${reactionsOf}, array(select c."user" from "app"."ChatMember" c where c."room" = t."room"
  and c."lastReadSeq" >= t."seq" and c."joinedSeq" < t."seq" order by c."lastReadSeq" desc limit ${SHOWN}) as "readBy"`;

export interface RoomPage {
  readonly room: string;
  /** Messages up to this one are not theirs to read. */
  readonly from: number;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly threadRoot?: string | undefined;
  readonly search?: string | undefined;
  readonly skip: number;
  readonly limit: number;
}

const has = `to_tsvector('simple', left(t."message", 200000)) @@ plainto_tsquery('simple',`;

/** Messages up to here are counted off one by one. */
const COUNTED_OFF = 1_000;
/** Messages of a page in the order of its index that is read about as fast as a single one. */
const SHORT_PAGE = 100;

/**
 * The number of the first message of a page far back: numbers have no gaps, so it follows from how many are skipped and
 * how many of those in between are tombstones (which have an index of their own). `$1` is the room.
 */
const numberBehind = (skip: string, before: string): string => `(select p.top - ${skip}::integer - (
    select count(*)::integer from (
      select d."seq", (row_number() over (order by d."seq" desc))::integer as n from "app"."ChatMessage" d
      where d."room" = $1::uuid and d."deleted" and d."seq" <= p.top) x
    where p.top - x."seq" - (x.n - 1) <= ${skip}::integer)
  from (select least(r."lastSeq", ${before}::integer - 1) as top from "app"."ChatRoom" r where r."_id" = $1::uuid) p)`;

/** Newest first; with `after`, the ones that follow it, oldest first. */
export async function messagesOf(
  database: Queryable,
  { room, from, before, after, threadRoot, search, skip, limit }: RoomPage,
): Promise<readonly ListedMessage[]> {
  const isFar =
    skip > COUNTED_OFF && after === undefined && threadRoot === undefined && search === undefined;
  const values: unknown[] = [room, Math.max(from, after ?? 0), isFar ? 0 : skip, limit];
  const given = (value: unknown): string => `$${values.push(value)}`;
  const conditions = [
    't."room" = $1::uuid',
    't."seq" > $2::integer',
    'not t."deleted"',
    ...(before === undefined ? [] : [`t."seq" < ${given(before)}::integer`]),
    ...(isFar ? [`t."seq" <= ${numberBehind(given(skip), given(before ?? null))}`] : []),
    ...(threadRoot === undefined ? [] : [`t."threadRoot" = ${given(threadRoot)}::uuid`]),
    ...(search === undefined ? [] : [`${has} ${given(search)})`]),
  ];
  const text = `select ${listed} from "app"."ChatMessage" t where ${conditions.join(' and ')}
    order by t."seq" ${after === undefined ? 'desc' : 'asc'} offset $3::integer limit $4::integer`;
  const isShort = skip + limit <= SHORT_PAGE && threadRoot === undefined && search === undefined;
  const { rows } = await database.query<ListedMessage>({
    ...{ text, values, name: statementName(text) },
    class: isShort ? 'list' : 'pooled',
  });
  return rows;
}

/** Messages of a room that a member may read, without the deleted ones. */
export async function countMessages(
  database: Queryable,
  { room, from, threadRoot, search }: Omit<RoomPage, 'skip' | 'limit' | 'before' | 'after'>,
): Promise<number> {
  const { rows } =
    from === 0 && threadRoot === undefined && search === undefined
      ? await database.query<{ count: number }>(
          shortSql`select "lastSeq" - "removedCount" as count from "app"."ChatRoom" where "_id" = ${room}::uuid`,
        )
      : await database.query<{ count: number }>(sql`
          select count(*)::integer as count from "app"."ChatMessage" t where t."room" = ${room}::uuid and t."seq" > ${from}::integer
            and not t."deleted" and (${threadRoot ?? null}::uuid is null or t."threadRoot" = ${threadRoot ?? null}::uuid)
            and (${search ?? null}::text is null or
              to_tsvector('simple', left(t."message", 200000)) @@ plainto_tsquery('simple', ${search ?? null}))`);
  return rows[0]?.count ?? 0;
}

/** The newest messages of all rooms of a user. The newest n of them are in the n rooms that were active last. */
export async function messagesOfAll(
  database: Queryable,
  userId: string,
  {
    skip,
    limit,
    search,
    joinedOnly,
  }: {
    readonly skip: number;
    readonly limit: number;
    readonly search?: string | undefined;
    readonly joinedOnly: boolean;
  },
): Promise<{ readonly rows: readonly ListedMessage[]; readonly count: number }> {
  const mine = `"app"."ChatMember" m join "app"."ChatRoom" r on r."_id" = m."room" where m."user" = $1::uuid and not r."deleted"`;
  const visible = `t."room" = a."_id" and not t."deleted" and t."seq" > case when $2::boolean then a."joinedSeq" else 0 end`;
  const found = `${visible} and ${has} $5)`;
  // A room in which nothing is visible takes no place of one in which something is.
  const withVisible = joinedOnly
    ? `and exists (select from "app"."ChatMessage" s where s."room" = r."_id" and s."seq" > m."joinedSeq" and not s."deleted")`
    : '';
  const text = `with active as (select r."_id", m."joinedSeq" from ${mine} and r."lastMessageAt" is not null ${withVisible}
      order by r."lastMessageAt" desc ${search === undefined ? 'limit $3::integer + $4::integer' : ''}),
    newest as (select n.id from active a cross join lateral (select t."_id" as id, t."createdAt" from "app"."ChatMessage" t
      where ${search === undefined ? visible : found} order by t."seq" desc limit $3::integer + $4::integer) n
      order by n."createdAt" desc, n.id desc offset $3::integer limit $4::integer)
    select ${listed} from newest join "app"."ChatMessage" t on t."_id" = newest.id order by t."createdAt" desc, t."_id" desc`;
  const counting =
    search === undefined && !joinedOnly
      ? `select coalesce(sum(r."lastSeq" - r."removedCount"), 0)::integer as count from ${mine}`
      : `with a as (select r."_id", m."joinedSeq" from ${mine}) select count(*)::integer as count from a
          join "app"."ChatMessage" t on ${visible}${search === undefined ? '' : ` and ${has} $3)`}`;
  const counted =
    search === undefined && !joinedOnly
      ? [userId]
      : [userId, joinedOnly, ...(search === undefined ? [] : [search])];
  const [{ rows }, total] = await Promise.all([
    database.query<ListedMessage>({
      text,
      values: [userId, joinedOnly, skip, limit, ...(search === undefined ? [] : [search])],
    }),
    database.query<{ count: number }>({ text: counting, values: counted }),
  ]);
  return { rows, count: total.rows[0]?.count ?? 0 };
}

/** A message of a room that the user is in. */
export async function messageFor(
  database: Queryable,
  userId: string,
  messageId: string,
  joinedOnly: boolean,
): Promise<ListedMessage | undefined> {
  const text = `select ${listed} from "app"."ChatMessage" t join "app"."ChatRoom" r on r."_id" = t."room" and not r."deleted"
    join "app"."ChatMember" m on m."room" = t."room" and m."user" = $1::uuid
    where t."_id" = $2::uuid and not t."deleted" and (not $3::boolean or t."seq" > m."joinedSeq")`;
  const values = [userId, messageId, joinedOnly];
  return (await database.query<ListedMessage>({ text, values, name: statementName(text) })).rows[0];
}

export async function messageById(
  database: Queryable,
  messageId: string,
): Promise<MessageRow | undefined> {
  const text = `select ${plain} from "app"."ChatMessage" t where t."_id" = $1::uuid`;
  return (await database.query<MessageRow>({ text, values: [messageId] })).rows[0];
}

/** What happened in a room after a change, in the order of the changes. */
export async function changesAfter(
  database: Queryable,
  room: string,
  after: number,
  limit: number,
): Promise<readonly (MessageRow & Pick<ListedMessage, 'reactions'>)[]> {
  const text = `select ${plain}, ${reactionsOf} from "app"."ChatMessage" t where t."room" = $1::uuid and t."change" > $2::integer
    order by t."change" limit $3::integer`;
  const { rows } = await database.query<MessageRow & Pick<ListedMessage, 'reactions'>>({
    text,
    values: [room, after, limit],
    name: 'chat_changes_after',
  });
  return rows;
}

export interface AdminMessageFilter {
  readonly sender?: string | undefined;
  readonly room?: string | undefined;
  readonly search?: string | undefined;
  readonly order: string;
  readonly skip: number;
  readonly limit: number;
}

/** For operators: with the deleted ones whose content is kept. */
export async function findMessages(
  database: Queryable,
  { sender, room, search, order, skip, limit }: AdminMessageFilter,
): Promise<{ readonly rows: readonly ListedMessage[]; readonly count: number }> {
  const where = `not t."removed" and ($1::uuid is null or t."senderUser" = $1) and ($2::uuid is null or t."room" = $2)
    and ($3::text is null or ${has} $3))`;
  const values = [sender ?? null, room ?? null, search ?? null];
  const [{ rows }, counted] = await Promise.all([
    database.query<ListedMessage>({
      text: `select ${listed} from "app"."ChatMessage" t where ${where} order by ${order} offset $4::integer limit $5::integer`,
      values: [...values, skip, limit],
    }),
    database.query<{ count: number }>({
      text: `select count(*)::integer as count from "app"."ChatMessage" t where ${where}`,
      values,
    }),
  ]);
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** Deletes up to `limit` messages that are older than so many days, for good. Answers how many. */
export async function purgeMessages(
  database: Queryable,
  days: number,
  limit: number,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`
    with old as (select "_id", "room", "deleted" from "app"."ChatMessage"
        where "createdAt" < now() - ${days}::integer * interval '1 day' order by "createdAt" limit ${limit}::integer),
      gone as (delete from "app"."ChatMessage" t using old where t."_id" = old."_id" returning t."room", old."deleted"),
      counted as (update "app"."ChatRoom" r set "removedCount" = r."removedCount" + g.n
        from (select "room", count(*)::integer as n from gone where not "deleted" group by "room") g where r."_id" = g."room")
    select count(*)::integer as count from gone`);
  return rows[0]?.count ?? 0;
}

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

/** Moves the words, files and mentions of new messages from the list that they are written to into their index. */
export const indexWords = async (database: Queryable): Promise<void> =>
  void (await database.query(sql`
    select gin_clean_pending_list(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid
    join pg_am a on a.oid = c.relam
    where i.indrelid = to_regclass('"app"."ChatMessage"') and i.indisvalid and a.amname = 'gin'`));
