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

export async function templateByName(
  database: Queryable,
  name: string,
): Promise<StoredTemplate | undefined> {
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
  const { rows } = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from "app"."EmailTemplate"`,
  );
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

export async function templateOrigin(
  database: Queryable,
  id: string,
): Promise<TemplateOrigin | undefined> {
  const { rows } = await database.query<TemplateOrigin>(
    sql`select "name", "builtIn" from "app"."EmailTemplate" where "_id" = ${id}::uuid`,
  );
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
export const storeBuiltIn = (
  database: Queryable,
  row: BuiltInRow,
  force = false,
): Promise<unknown> =>
  database.query(sql`
    insert into "app"."EmailTemplate" ("_id", "name", "subject", "body", "variables", "externalManaged", "builtIn", "edited", "createdAt", "updatedAt", "__v")
    values (${row.id}::uuid, ${row.name}, ${row.subject}, ${row.body}, ${JSON.stringify(row.variables)}::jsonb, false, true, false, now(), now(), 0)
    on conflict ("name") do update set
      "subject" = excluded."subject", "body" = excluded."body", "variables" = excluded."variables", "edited" = false,
      "sender" = case when ${force}::boolean then null else "EmailTemplate"."sender" end,
      "updatedAt" = now(), "__v" = "EmailTemplate"."__v" + 1
    where "EmailTemplate"."builtIn" and (${force}::boolean or not "EmailTemplate"."edited")
      and (${force}::boolean or ("EmailTemplate"."subject", "EmailTemplate"."body") is distinct from (excluded."subject", excluded."body"))`);

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export type Channel = 'email' | 'sms' | 'push';
export type MessageStatus =
  | 'queued'
  | 'sending'
  | 'sent'
  | 'delivered'
  | 'opened'
  | 'captured'
  | 'failed';

interface NewMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly template: string | null;
  readonly contentSealed: string;
  readonly idempotencyKey?: string | null;
  readonly requestHash?: string | null;
}

export const insertMessage = (database: Queryable, message: NewMessage): Promise<unknown> =>
  database.query(sql`
    with stored as (
      insert into penstock.messages (id, channel, recipient, user_id, template, status, content_sealed, idempotency_key, request_hash)
      values (${message.id}::uuid, ${message.channel}, ${message.recipient}, ${message.userId}::uuid, ${message.template}, 'queued', ${message.contentSealed},
        ${message.idempotencyKey ?? null}, ${message.requestHash ?? null})
      returning id)
    insert into penstock.message_events (message_id, kind) select id, 'queued' from stored`);

/** Held to the end of the transaction: two requests with one key come one after the other. */
export const lockKey = (transaction: Queryable, key: string): Promise<unknown> =>
  transaction.query(sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`);

/** The message that was stored under this key, if any. */
export const messageByKey = (
  database: Queryable,
  key: string,
): Promise<{ readonly id: string; readonly requestHash: string | null } | undefined> =>
  first(
    database.query(
      sql`select id, request_hash as "requestHash" from penstock.messages where idempotency_key = ${key}`,
    ),
  );

export interface ClaimedMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly contentSealed: string;
  readonly attempts: number;
  /** Devices that need no further attempt. */
  readonly settled: readonly string[] | null;
  /** An earlier attempt of this message never told how it ended. */
  readonly retaken: boolean;
}

/**
 * Takes a message for delivery, so that no two workers send it. One that a worker took `lostAfterMs`
 * ago and never finished is taken again: it may then arrive twice, under the same Message-ID.
 */
export const claimMessage = (
  database: Queryable,
  id: string,
  lostAfterMs: number,
): Promise<ClaimedMessage | undefined> =>
  first(
    database.query<ClaimedMessage>(sql`
      update penstock.messages m set status = 'sending', claimed_at = now(), attempts = m.attempts + 1
      from (select id, status from penstock.messages where id = ${id}::uuid for update) before
      where m.id = before.id and m.content_sealed is not null
        and (m.status = 'queued' or (m.status = 'sending' and m.claimed_at < now() - ${lostAfterMs}::double precision * interval '1 millisecond'))
      returning m.id, m.channel, m.recipient, m.content_sealed as "contentSealed", m.attempts, m.settled, before.status = 'sending' as retaken`),
  );

export interface Ending {
  readonly status: MessageStatus;
  readonly error?: string | undefined;
  readonly provider?: string | undefined;
  readonly providerId?: string | undefined;
  /** What the timeline says. */
  readonly kind: string;
  readonly detail?: string | undefined;
}

/** Notes how an attempt ended. What was sent loses its content; what was captured or failed keeps it for operators. */
export const finishMessage = (
  database: Queryable,
  id: string,
  { status, error, provider, providerId, kind, detail }: Ending,
): Promise<unknown> =>
  database.query(sql`
    with done as (
      update penstock.messages set status = ${status}, error = ${error ?? null},
        provider = coalesce(${provider ?? null}, provider), provider_id = coalesce(${providerId ?? null}, provider_id),
        finished_at = case when ${status} = 'queued' then null else now() end,
        content_sealed = case when ${status} <> 'sent' then content_sealed end
      where id = ${id}::uuid returning id)
    insert into penstock.message_events (message_id, kind, provider, detail)
    select id, ${kind}, ${provider ?? null}, ${detail ?? null} from done`);

/** One more line of the timeline of a message. */
export const noteEvent = (
  database: Queryable,
  id: string,
  { kind, provider, detail }: Pick<Ending, 'kind' | 'provider' | 'detail'>,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.message_events (message_id, kind, provider, detail)
    select id, ${kind}, ${provider ?? null}, ${detail ?? null} from penstock.messages where id = ${id}::uuid`);

export interface TimelineRow {
  readonly kind: string;
  readonly provider: string | null;
  readonly detail: string | null;
  readonly at: Date;
}

export const timelineOf = async (
  database: Queryable,
  id: string,
): Promise<readonly TimelineRow[]> =>
  (
    await database.query<TimelineRow>(
      sql`select kind, provider, detail, at from penstock.message_events where message_id = ${id}::uuid order by sequence limit 500`,
    )
  ).rows;

/** Devices of a push message that are done with, for the next attempt. */
export const noteSettled = (
  database: Queryable,
  id: string,
  devices: readonly string[],
): Promise<unknown> =>
  database.query(
    sql`update penstock.messages set settled = ${JSON.stringify(devices)}::jsonb where id = ${id}::uuid`,
  );

/* Who gets no messages of a channel any more. */

export const suppressionOf = (
  database: Queryable,
  channel: Channel,
  address: string,
): Promise<{ readonly reason: string } | undefined> =>
  first(
    database.query(
      sql`select reason from penstock.suppressions where channel = ${channel} and address = ${address.toLowerCase()}`,
    ),
  );

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
  readonly provider: string | null;
  readonly providerId: string | null;
  readonly contentSealed: string | null;
}

const shown = `id as "_id", channel, recipient, template, status, attempts, error, provider, provider_id as "providerId", created_at as "createdAt",
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
export async function listMessages(
  database: Queryable,
  filter: MessageFilter,
): Promise<{ rows: readonly MessageRow[]; count: number }> {
  const values = [
    filter.channel ?? null,
    filter.recipient ?? null,
    filter.status ?? null,
    filter.template ?? null,
  ];
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
  first(
    database.query<MessageRow>({
      text: `select ${shown} from penstock.messages where id = $1::uuid`,
      values: [id],
    }),
  );

/** Puts a failed message back to be sent; false when it has not failed. */
export const requeueMessage = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(sql`
      with again as (
        update penstock.messages set status = 'queued', attempts = 0, error = null, finished_at = null
        where id = ${id}::uuid and status = 'failed' and content_sealed is not null returning id)
      insert into penstock.message_events (message_id, kind, detail) select id, 'queued', 'sent again by an operator' from again`)
  ).count > 0;

/** Everything that was written to these users. */
export const deleteMessagesOf = async (
  database: Queryable,
  userIds: readonly string[],
): Promise<void> =>
  void (await database.query(
    sql`delete from penstock.messages where user_id = any(${userIds}::uuid[])`,
  ));

/** Deletes up to `limit` messages that are older than `maxAgeMs`; answers how many. */
export const purgeMessages = async (
  database: Queryable,
  maxAgeMs: number,
  limit: number,
): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.messages where id in (
        select id from penstock.messages
        where created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond' order by created_at limit ${limit}::integer)`)
  ).count;

/* Templates that a provider holds too. */

export const noteExternal = (
  database: Queryable,
  id: string,
  externalId: string,
): Promise<unknown> =>
  database.query(sql`
    update "app"."EmailTemplate" set "externalId" = ${externalId}, "externalManaged" = true, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${id}::uuid`);

interface ExternalTemplateRow {
  readonly id: string;
  readonly externalId: string;
  readonly subject: string;
  readonly body: string;
}

export const externalTemplates = async (
  database: Queryable,
): Promise<readonly ExternalTemplateRow[]> =>
  (
    await database.query<ExternalTemplateRow>(sql`
      select "_id" as id, "externalId", "subject", "body" from "app"."EmailTemplate" where "externalId" is not null order by "name" limit 500`)
  ).rows;
