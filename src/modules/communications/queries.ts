/** The SQL of the outbox. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

/* The SQL of templates that the record engine does not express. Values are always parameters. */

interface StoredTemplate {
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly sender: string | null;
  readonly variables: readonly string[] | null;
}

export async function templateByName(database: Queryable, name: string): Promise<StoredTemplate | undefined> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables" from "app"."EmailTemplate" where "name" = ${name}`,
  );
  return rows[0];
}

/** What operators wrote: their own templates, and those of modules that they changed. */
export async function operatorTemplates(database: Queryable): Promise<readonly StoredTemplate[]> {
  const { rows } = await database.query<StoredTemplate>(
    sql`select "name", "subject", "body", "sender", "variables" from "app"."EmailTemplate" where not "builtIn" or "edited"`,
  );
  return rows;
}

export async function countTemplates(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`select count(*)::integer as count from "app"."EmailTemplate"`);
  return rows[0]?.count ?? 0;
}

export async function templateIdOf(database: Queryable, name: string): Promise<string | undefined> {
  const { rows } = await database.query<{ id: string }>(
    sql`select "_id" as id from "app"."EmailTemplate" where "name" = ${name} for update`,
  );
  return rows[0]?.id;
}

interface TemplateOrigin {
  readonly name: string;
  readonly builtIn: boolean;
}

export async function templateOrigin(database: Queryable, id: string): Promise<TemplateOrigin | undefined> {
  const { rows } = await database.query<TemplateOrigin>(sql`select "name", "builtIn" from "app"."EmailTemplate" where "_id" = ${id}::uuid`);
  return rows[0];
}

interface BuiltInRow {
  readonly id: string;
  readonly name: string;
  readonly subject: string;
  readonly body: string;
  readonly variables: readonly string[];
}

/**
 * Stores what a module brings. A row that an operator wrote or changed stays as it is; one that
 * nobody touched follows the module's text. `force` puts the module's text back in any case.
 */
export const storeBuiltIn = (database: Queryable, row: BuiltInRow, force = false): Promise<unknown> =>
  database.query(sql`
    insert into "app"."EmailTemplate" ("_id", "name", "subject", "body", "variables", "externalManaged", "builtIn", "edited", "createdAt", "updatedAt", "__v")
    values (${row.id}::uuid, ${row.name}, ${row.subject}, ${row.body}, ${JSON.stringify(row.variables)}::jsonb, false, true, false, now(), now(), 0)
    on conflict ("name") do update set
      "subject" = excluded."subject", "body" = excluded."body", "variables" = excluded."variables", "edited" = false,
      "sender" = case when ${force}::boolean then null else "EmailTemplate"."sender" end,
      "updatedAt" = now(), "__v" = "EmailTemplate"."__v" + 1
    where "EmailTemplate"."builtIn" and (${force}::boolean or not "EmailTemplate"."edited")
      and (${force}::boolean or ("EmailTemplate"."subject", "EmailTemplate"."body") is distinct from (excluded."subject", excluded."body"))`);

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> => (await result).rows[0];

export type Channel = 'email' | 'sms';
type MessageStatus = 'queued' | 'sending' | 'sent' | 'captured' | 'failed';

interface NewMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly template: string | null;
  readonly contentSealed: string;
}

export const insertMessage = (database: Queryable, message: NewMessage): Promise<unknown> =>
  database.query(sql`
    insert into penstock.messages (id, channel, recipient, user_id, template, status, content_sealed)
    values (${message.id}::uuid, ${message.channel}, ${message.recipient}, ${message.userId}::uuid, ${message.template}, 'queued', ${message.contentSealed})`);

export interface ClaimedMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly contentSealed: string;
  readonly attempts: number;
}

/**
 * Takes a message for delivery, so that no two workers send it. One that a worker took `lostAfterMs`
 * ago and never finished is taken again: it may then arrive twice, under the same Message-ID.
 */
export const claimMessage = (database: Queryable, id: string, lostAfterMs: number): Promise<ClaimedMessage | undefined> =>
  first(
    database.query<ClaimedMessage>(sql`
      update penstock.messages set status = 'sending', claimed_at = now(), attempts = attempts + 1
      where id = ${id}::uuid and content_sealed is not null
        and (status = 'queued' or (status = 'sending' and claimed_at < now() - ${lostAfterMs}::double precision * interval '1 millisecond'))
      returning id, channel, recipient, content_sealed as "contentSealed", attempts`),
  );

/** Notes how an attempt ended. What was sent loses its content; what was captured or failed keeps it for operators. */
export const finishMessage = (
  database: Queryable,
  id: string,
  { status, error }: { readonly status: MessageStatus; readonly error?: string },
): Promise<unknown> =>
  database.query(sql`
    update penstock.messages set status = ${status}, error = ${error ?? null},
      finished_at = case when ${status} = 'queued' then null else now() end,
      content_sealed = case when ${status} <> 'sent' then content_sealed end
    where id = ${id}::uuid`);

export interface MessageRow {
  readonly _id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly template: string | null;
  readonly status: MessageStatus;
  readonly attempts: number;
  readonly error: string | null;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
  readonly contentSealed: string | null;
}

const shown = `id as "_id", channel, recipient, template, status, attempts, error, created_at as "createdAt",
  finished_at as "finishedAt", content_sealed as "contentSealed"`;

export interface MessageFilter {
  readonly skip: number;
  readonly limit: number;
  readonly channel?: string | undefined;
  readonly recipient?: string | undefined;
  readonly status?: string | undefined;
  readonly template?: string | undefined;
}

/** A page of messages, newest first, and how many there are. */
export async function listMessages(database: Queryable, filter: MessageFilter): Promise<{ rows: readonly MessageRow[]; count: number }> {
  const values = [filter.channel ?? null, filter.recipient ?? null, filter.status ?? null, filter.template ?? null];
  const where = `($1::text is null or channel = $1) and ($2::text is null or recipient = $2)
    and ($3::text is null or status = $3) and ($4::text is null or template = $4)`;
  const { rows } = await database.query<MessageRow>({
    text: `select ${shown} from penstock.messages where ${where} order by created_at desc, id desc offset $5 limit $6`,
    values: [...values, filter.skip, filter.limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::int as count from penstock.messages where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export const messageById = (database: Queryable, id: string): Promise<MessageRow | undefined> =>
  first(database.query<MessageRow>({ text: `select ${shown} from penstock.messages where id = $1::uuid`, values: [id] }));

/** Puts a failed message back to be sent; false when it has not failed. */
export const requeueMessage = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.messages set status = 'queued', attempts = 0, error = null, finished_at = null
      where id = ${id}::uuid and status = 'failed' and content_sealed is not null`)
  ).count > 0;

/** Everything that was written to these users. */
export const deleteMessagesOf = async (database: Queryable, userIds: readonly string[]): Promise<void> =>
  void (await database.query(sql`delete from penstock.messages where user_id = any(${userIds}::uuid[])`));

/** Deletes up to `limit` messages that are older than `maxAgeMs`; answers how many. */
export const purgeMessages = async (database: Queryable, maxAgeMs: number, limit: number): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.messages where id in (
        select id from penstock.messages
        where created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond' order by created_at limit ${limit}::integer)`)
  ).count;
