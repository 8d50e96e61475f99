/** The SQL of sent mails and text messages as lists. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { type Channel, type MessageRow, messageColumns } from './queries.ts';

export interface RecordFilter {
  readonly skip: number;
  readonly limit: number;
  readonly oldestFirst?: boolean | undefined;
  readonly id?: string | undefined;
  /** A part of the recipient's address. */
  readonly recipient?: string | undefined;
  /** The provider's name for it, or ours. */
  readonly messageId?: string | undefined;
  readonly templateId?: string | undefined;
  readonly sender?: string | undefined;
  readonly copy?: string | undefined;
  readonly replyTo?: string | undefined;
  readonly from?: Date | undefined;
  readonly until?: Date | undefined;
  readonly statuses?: readonly string[] | undefined;
}

const part = (column: string) => (place: string) =>
  `position(lower(${place}) in lower(${column})) > 0`;

/** Conditions by the name of what is given. */
const conditions: ReadonlyMap<keyof RecordFilter, (place: string) => string> = new Map([
  ['id', (place: string) => `id = ${place}::uuid`],
  ['recipient', part('recipient')],
  ['messageId', (place: string) => `(provider_id = ${place} or id::text = ${place})`],
  [
    'templateId',
    (place: string) =>
      `template = (select "name" from "app"."EmailTemplate" where "_id" = ${place}::uuid)`,
  ],
  ['sender', part('sender')],
  ['copy', (place: string) => `${place} = any(copies)`],
  ['replyTo', part('reply_to')],
  ['from', (place: string) => `created_at >= ${place}`],
  ['until', (place: string) => `created_at < ${place}`],
  ['statuses', (place: string) => `status = any(${place}::text[])`],
]);

/** A page of one channel, and how many there are. */
export async function listRecords(
  database: Queryable,
  channel: Channel,
  filter: RecordFilter,
): Promise<{ readonly rows: readonly MessageRow[]; readonly count: number }> {
  const values: unknown[] = [channel];
  const where = ['channel = $1'];
  for (const [name, condition] of conditions)
    if (filter[name] !== undefined) where.push(condition(`$${values.push(filter[name])}`));
  const text = where.join(' and ');
  const order = filter.oldestFirst ? 'created_at, id' : 'created_at desc, id desc';
  const { rows } = await database.query<MessageRow>({
    text: `select ${messageColumns} from penstock.messages where ${text} order by ${order}
      offset $${values.length + 1}::integer limit $${values.length + 2}::integer`,
    values: [...values, filter.skip, filter.limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.messages where ${text}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** A message by the provider's name for it, or by ours. */
export const messageByName = async (
  database: Queryable,
  channel: Channel,
  name: string,
): Promise<MessageRow | undefined> =>
  (
    await database.query<MessageRow>({
      text: `select ${messageColumns} from penstock.messages where channel = $1 and (provider_id = $2 or id = $3::uuid) limit 1`,
      values: [channel, name, isUuid(name) ? name : null],
    })
  ).rows[0];

const isUuid = (text: string): boolean =>
  /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);

/** What a message is sent again from; nothing while its content is not kept. */
export const contentOf = async (
  database: Queryable,
  id: string,
): Promise<
  | { readonly sealed: string | null; readonly userId: string | null; readonly critical: boolean }
  | undefined
> =>
  (
    await database.query<{ sealed: string | null; userId: string | null; critical: boolean }>(
      sql`select content_sealed as sealed, user_id as "userId", critical from penstock.messages where id = ${id}::uuid and channel = 'email'`,
    )
  ).rows[0];
