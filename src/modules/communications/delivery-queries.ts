/** The SQL of attempts to deliver. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import type { Channel, MessageStatus } from './queries.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export interface ClaimedMessage {
  readonly id: string;
  readonly channel: Channel;
  readonly recipient: string;
  readonly contentSealed: string;
  readonly attempts: number;
  /** Devices that need no further attempt. */
  readonly completed: readonly string[] | null;
  /** An earlier attempt of this message never told how it ended. */
  readonly retaken: boolean;
  readonly category: string | null;
  readonly critical: boolean;
  readonly chainId: string | null;
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
      returning m.id, m.channel, m.recipient, m.content_sealed as "contentSealed", m.attempts, m.settled as completed, before.status = 'sending' as retaken, m.category, m.critical, m.chain_id as "chainId"`),
  );

export interface Ending {
  readonly status: MessageStatus;
  readonly error?: string | undefined;
  readonly provider?: string | undefined;
  readonly providerId?: string | undefined;
  /** What the timeline says. */
  readonly kind: string;
  readonly detail?: string | undefined;
  /** What was sent stays to be read and sent again. */
  readonly keep?: boolean | undefined;
}

/**
 * Notes how an attempt ended. What the provider told by a webhook meanwhile stays. What was sent loses its content; what was captured or failed keeps it for operators.
 */
export const finishMessage = (
  database: Queryable,
  id: string,
  { status, error, provider, providerId, kind, detail, keep }: Ending,
): Promise<unknown> =>
  database.query(sql`
    with done as (
      update penstock.messages set status = case when status = 'sending' then ${status} else status end, error = ${error ?? null},
        provider = coalesce(${provider ?? null}, provider), provider_id = coalesce(${providerId ?? null}, provider_id),
        finished_at = case when ${status} = 'queued' then null else now() end,
        content_sealed = case when ${status} <> 'sent' or ${keep ?? false}::boolean then content_sealed end
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

/** Devices of a push message that are done with, for the next attempt. */
export const noteCompleted = (
  database: Queryable,
  id: string,
  devices: readonly string[],
): Promise<unknown> =>
  database.query(
    sql`update penstock.messages set settled = ${JSON.stringify(devices)}::jsonb where id = ${id}::uuid`,
  );
