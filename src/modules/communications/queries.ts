/** The SQL of the outbox. Values are always parameters. */

import { system } from '../../kernel/caller.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { instantText, sql, statementName } from '../../kernel/database/sql.ts';
import { outboxTable } from '../../kernel/events/events.ts';
import { actorOf, actorSql, currentCauses } from '../../kernel/hooks/hooks.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export type Channel = 'email' | 'sms' | 'push';
/** In the order in which they may follow each other, as far as they do. */
export const messageStatuses = [
  'queued',
  'sending',
  'captured',
  'cancelled',
  'failed',
  'sent',
  'delivered',
  'opened',
  'clicked',
  'bounced',
  'complained',
] as const;
export type MessageStatus = (typeof messageStatuses)[number];

interface NewMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly template: string | null;
  readonly contentSealed: string;
  readonly idempotencyKey: string | null;
  readonly requestHash: string | null;
  /** What lists of mails show beside the recipient. */
  readonly sender: string | null;
  readonly copies: readonly string[] | null;
  readonly replyTo: string | null;
  /** Kind of message by which users choose; none for what belongs to their account. */
  readonly category: string | null;
  /** Goes out whatever its recipient chose. */
  readonly critical: boolean;
  /** When it is to go out, where that is not now. */
  readonly dueAt: Date | null;
  readonly resentFrom: string | null;
  readonly chainId: string | null;
  readonly broadcastId: string | null;
}

/**
 * Writes the events of messages, a row for each, as a part of the statement that changes them: subscribers hear of what
 * was committed, and a batch costs no statement more. `rows` has the columns kind, id, channel, recipient, user_id,
 * template, provider, error. Addresses stay here: who knows one finds its hash.
 */
export const announcing = (rows: string, actor = "'system:communications'"): string => `
  insert into ${outboxTable} (topic, ids, payload, actor)
  select 'communications:' || kind || ':' || channel, case when id is not null then array[id::text] end,
    jsonb_strip_nulls(jsonb_build_object('messageId', id, 'userId', user_id,
      'recipientHash', encode(sha256(convert_to(lower(recipient), 'UTF8')), 'hex'),
      'templateName', template, 'provider', provider, 'error', error)), ${actor}
  from (${rows}) happened`;

/** Of messages that say what caused them, in `caused_by`. */
export const causedActor = actorSql("'system:communications'", 'caused_by');

const insertText = `
  with stored as (
    insert into penstock.messages (id, channel, recipient, user_id, template, status, content_sealed, idempotency_key, request_hash,
      sender, copies, reply_to, category, critical, due_at, resent_from, chain_id, broadcast_id, caused_by)
    select id, channel, recipient, user_id, template, 'queued', content_sealed, idempotency_key, request_hash, sender,
      case when copies is not null then array(select jsonb_array_elements_text(copies)) end, reply_to, category, critical, due_at, resent_from, chain_id, broadcast_id, $19::text[]
    from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::jsonb[],
      $11::text[], $12::text[], $13::boolean[], $14::timestamptz[], $15::uuid[], $16::uuid[], $17::uuid[])
      as m(id, channel, recipient, user_id, template, content_sealed, idempotency_key, request_hash, sender, copies, reply_to, category, critical,
        due_at, resent_from, chain_id, broadcast_id)
    returning id, channel, recipient, user_id, template, due_at),
  told as (${announcing(`select 'queued' as kind, id, channel, recipient, user_id, template, null as provider, null as error from stored`, '$18::text')})
  insert into penstock.message_events (message_id, kind, detail)
  select id, 'queued', case when due_at is not null then 'not before ' || ${instantText('due_at')} end from stored`;

const causesNow = (): readonly string[] | null => {
  const chain = currentCauses();
  return chain.length > 0 ? chain : null;
};

/** Stores messages, the beginning of their timelines, and their events. One statement, however many there are. */
export const insertMessages = (
  database: Queryable,
  messages: readonly NewMessage[],
): Promise<unknown> => {
  const of = <K extends keyof NewMessage>(key: K): NewMessage[K][] =>
    messages.map((message) => message[key]);
  return database.query({
    text: insertText,
    name: statementName(insertText),
    values: [
      of('id'),
      of('channel'),
      of('recipient'),
      of('userId'),
      of('template'),
      of('contentSealed'),
      of('idempotencyKey'),
      of('requestHash'),
      of('sender'),
      of('copies').map((list) => list && JSON.stringify(list)),
      of('replyTo'),
      of('category'),
      of('critical'),
      of('dueAt'),
      of('resentFrom'),
      of('chainId'),
      of('broadcastId'),
      actorOf(system('communications')),
      causesNow(),
    ],
  });
};

/** Puts the sealed content of a large message in its place. Bytes go to the database as they are, a text would be copied. */
export const putContent = (database: Queryable, id: string, sealed: Buffer): Promise<unknown> =>
  database.query(
    sql`update penstock.messages set content_sealed = ${sealed}::text where id = ${id}`,
  );

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
  readonly sender: string | null;
  readonly copies: readonly string[] | null;
  readonly replyTo: string | null;
  readonly category: string | null;
  readonly dueAt: Date | null;
  readonly contentSealed: string | null;
}

export const messageColumns = `id as "_id", channel, recipient, template, status, attempts, error, provider, provider_id as "providerId", created_at as "createdAt",
  finished_at as "finishedAt", sender, copies, reply_to as "replyTo", category, due_at as "dueAt", content_sealed as "contentSealed"`;

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
    text: `select ${messageColumns} from penstock.messages where ${where} order by created_at desc, id desc offset $5 limit $6`,
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
      text: `select ${messageColumns} from penstock.messages where id = $1::uuid`,
      values: [id],
    }),
  );

const requeueText = `
  with again as (
    update penstock.messages set status = 'queued', attempts = 0, error = null, finished_at = null,
      broadcast_id = (select b.id from penstock.broadcasts b where b.id = broadcast_id and b.status <> 'stopped'),
      chain_id = (select c.id from penstock.message_chains c where c.id = chain_id and c.status <> 'cancelled'),
      settled = (select jsonb_agg(device) from jsonb_array_elements_text(settled) device where not starts_with(device, '!'))
    where id = $1::uuid and status = 'failed' and content_sealed is not null returning id, channel, recipient, user_id, template),
  told as (${announcing(`select 'queued' as kind, id, channel, recipient, user_id, template, null as provider, null as error from again`)})
  insert into penstock.message_events (message_id, kind, detail) select id, 'queued', 'sent again by an operator' from again`;

/**
 * Puts a failed message back to be sent, also to devices that took nothing (`!` before their ids); false when it has not
 * failed. The stop of its broadcast or chain no longer holds for it.
 */
export const requeueMessage = async (database: Queryable, id: string): Promise<boolean> =>
  (await database.query({ text: requeueText, values: [id] })).count > 0;

/** Takes back what has not gone out; false when it has. */
export const cancelMessage = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(sql`
      with gone as (
        update penstock.messages set status = 'cancelled', content_sealed = null, finished_at = now()
        where id = ${id}::uuid and status = 'queued' returning id)
      insert into penstock.message_events (message_id, kind) select id, 'cancelled' from gone`)
  ).count > 0;

/** Everything that was written to these users. */
export const deleteMessagesOf = async (
  database: Queryable,
  userIds: readonly string[],
): Promise<void> =>
  void (await database.query(
    sql`delete from penstock.messages where user_id = any(${userIds}::uuid[])`,
  ));

/** What still is to be sent stays: it may be due in a year. The others count from their end. */
export const purgeMessages = async (
  database: Queryable,
  maxAgeMs: number,
  limit: number,
): Promise<number> =>
  (
    await database.query(sql`
      with ago as (select now() - ${maxAgeMs}::double precision * interval '1 millisecond' as at)
      delete from penstock.messages where id in (
        select id from penstock.messages, ago
        where created_at < ago.at and coalesce(finished_at, created_at) < ago.at and status not in ('queued', 'sending')
        order by created_at limit ${limit}::integer)`)
  ).count;
