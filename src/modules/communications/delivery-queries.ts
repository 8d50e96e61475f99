/** The SQL of attempts to deliver, each statement for as many messages as there are. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql, statementName } from '../../kernel/database/sql.ts';
import { storableJson } from '../../kernel/text.ts';
import type { Subject } from './broadcast-queries.ts';
import { allButCritical } from './feedback-queries.ts';
import { announcing, type Channel, causedActor, type MessageStatus } from './queries.ts';

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
  readonly broadcastId: string | null;
  /** The hooks and functions that caused it, the first cause first. */
  readonly causedBy: readonly string[] | null;
}

interface Taken extends Omit<ClaimedMessage, 'attempts'> {
  /** Nothing where another worker has it. */
  readonly attempts: number | null;
}

/**
 * Takes messages for delivery, so that no two workers send one. What a worker took, never finished and did not speak of
 * for `lostAfterMs` is taken again, and its timeline says that it may arrive twice, under the same Message-ID. `busy`: another worker has
 * them. `onlyDue`: not those that wait for their time; their job comes then. What was on its way while its broadcast or
 * its chain was stopped comes back here, and is cancelled.
 */
export async function claimMessages(
  database: Queryable,
  ids: readonly string[],
  { lostAfterMs, onlyDue = false }: { readonly lostAfterMs: number; readonly onlyDue?: boolean },
): Promise<{ readonly claimed: readonly ClaimedMessage[]; readonly busy: readonly string[] }> {
  const { rows } = await database.query<Taken>(sql`
    with before as (
      select id, status, claimed_at, due_at, broadcast_id, chain_id, content_sealed is not null as kept
      from penstock.messages where id = any(${ids}::uuid[]) order by id for update),
    free as (
      select id, status, broadcast_id, case
          when exists (select from penstock.broadcasts b where b.id = broadcast_id and b.status = 'stopped') then 'the broadcast was stopped'
          when exists (select from penstock.message_chains c where c.id = chain_id and c.status = 'cancelled') then 'the chain was cancelled' end as stopped
      from before
      where kept and (not ${onlyDue}::boolean or due_at is null or due_at <= now())
        and (status = 'queued' or (status = 'sending' and claimed_at < now() - ${lostAfterMs}::double precision * interval '1 millisecond'))),
    taken as (
      update penstock.messages m set status = 'sending', claimed_at = now(), attempts = m.attempts + 1
      from free where m.id = free.id and free.stopped is null
      returning m.id, m.channel, m.recipient, m.content_sealed as "contentSealed", m.attempts, m.settled as completed, free.status = 'sending' as retaken,
        m.category, m.critical, m.chain_id as "chainId", m.broadcast_id as "broadcastId", m.caused_by as "causedBy"),
    cancelled as (
      update penstock.messages m set status = 'cancelled', content_sealed = null, finished_at = now()
      from free where m.id = free.id and free.stopped is not null),
    counted as (
      update penstock.broadcasts b set cancelled = b.cancelled + gone.count
      from (select broadcast_id, count(*)::integer as count from free where stopped is not null group by 1) gone where b.id = gone.broadcast_id),
    told as (
      insert into penstock.message_events (message_id, kind, detail)
      select id, 'retaken', 'an earlier attempt never told how it ended: the message may arrive twice' from taken where retaken
      union all select id, 'cancelled', stopped from free where stopped is not null)
    select * from before left join taken using (id)
    where attempts is not null or (before.status = 'sending' and not exists (select from free where free.id = before.id))`);
  return {
    claimed: rows.flatMap(({ attempts, ...row }) =>
      attempts === null ? [] : { ...row, attempts },
    ),
    busy: rows.filter(({ attempts }) => attempts === null).map(({ id }) => id),
  };
}

/** Says of messages that whoever took them is still at work on them. */
export const renewClaims = (database: Queryable, ids: readonly string[]): Promise<unknown> =>
  database.query(sql`
    update penstock.messages set claimed_at = now() where id = any(${ids}::uuid[]) and status = 'sending'`);

/** Gives back what was taken and not begun: that was no attempt. */
export const releaseMessages = (database: Queryable, ids: readonly string[]): Promise<unknown> =>
  database.query(sql`
    update penstock.messages set status = 'queued', attempts = greatest(attempts - 1, 0)
    where id = any(${ids}::uuid[]) and status = 'sending'`);

/** Why some of these get no such message, by the id of the message. Critical ones stop only at what stops everything. */
export const suppressedOf = async (
  database: Queryable,
  messages: readonly Pick<
    ClaimedMessage,
    'id' | 'channel' | 'recipient' | 'category' | 'critical'
  >[],
): Promise<ReadonlyMap<string, string>> =>
  new Map(
    (
      await database.query<{ id: string; reason: string }>(sql`
        select distinct on (m.id) m.id, s.reason
        from unnest(${messages.map(({ id }) => id)}::uuid[], ${messages.map(({ channel }) => channel)}::text[],
          ${messages.map(({ recipient }) => recipient.toLowerCase())}::text[], ${messages.map(({ category }) => category)}::text[],
          ${messages.map(({ critical }) => critical)}::boolean[]) as m(id, channel, address, category, critical)
        join penstock.suppressions s on s.channel = m.channel and s.address = m.address
          and (s.scope = '' or (not m.critical and (s.scope = ${allButCritical} or s.scope = m.category)))
        order by m.id, s.scope`)
    ).rows.map(({ id, reason }) => [id, reason]),
  );

/** Why a message is not to go out any more, or what it is about, for whoever knows more. */
export type Overtaken = { readonly id: string; readonly userId: string } & (
  | { readonly reason: string }
  | (Subject & { readonly reason: null })
);

/**
 * Why some of these are not to go out any more: their users have chosen so since then, follow the topic no more, or were
 * blocked (what goes to topics and to everybody passes blocked users over; `withUsers`: there are users). Those about which
 * a module is to be asked, too.
 */
export const overtakenOf = async (
  database: Queryable,
  messages: readonly Pick<ClaimedMessage, 'id' | 'category' | 'critical' | 'broadcastId'>[],
  withUsers: boolean,
): Promise<readonly Overtaken[]> => {
  const ids = messages
    .filter(
      ({ category, critical, broadcastId }) =>
        (category !== null && !critical) || broadcastId !== null,
    )
    .map(({ id }) => id);
  if (ids.length === 0) return [];
  const blocked = `exists (select from "app"."User" u where u."_id" = m.user_id and u."active" is false)`;
  const { rows } = await database.query<Overtaken>({
    text: `
      select * from (
        select m.id, m.user_id as "userId", b.module, b.subject as about, case
          when not m.critical and m.category is not null and not coalesce(
            (select p.enabled from penstock.message_preferences p where p.user_id = m.user_id and p.category = m.category and p.channel = m.channel),
            (select p.enabled from penstock.message_preferences p where p.user_id = m.user_id and p.category = '${allButCritical}' and p.channel = m.channel),
            true) then 'they chose so'
          when b.topic is not null and not exists (select from penstock.push_topics t where t.topic = b.topic and t.user_id = m.user_id)
            then 'they follow the topic no more'
          when b.audience in ('topic', 'users') and ${withUsers ? blocked : 'false'} then 'they are blocked' end as reason
        from penstock.messages m left join penstock.broadcasts b on b.id = m.broadcast_id
        where m.id = any($1::uuid[]) and m.user_id is not null) asked
      where reason is not null or about is not null`,
    values: [ids],
  });
  return rows;
};

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
  /** What went out, where hooks changed it. */
  readonly contentSealed?: string | undefined;
}

const finishText = `
  with given as (
    select * from jsonb_to_recordset($1::jsonb)
      as g(id uuid, status text, error text, provider text, "providerId" text, kind text, detail text, keep boolean, "contentSealed" text)),
  done as (
    update penstock.messages m set status = case when m.status = 'sending' then g.status else m.status end,
      error = case when m.status = 'sending' then g.error else coalesce(g.error, m.error) end,
      provider = coalesce(g.provider, m.provider), provider_id = coalesce(g."providerId", m.provider_id),
      finished_at = case when g.status = 'queued' then null else now() end,
      content_sealed = case when g.status <> 'sent' or coalesce(g.keep, false) then coalesce(g."contentSealed", m.content_sealed) end
    from given g where m.id = g.id
    returning m.id, m.channel, m.recipient, m.user_id, m.template, m.caused_by, g.provider, g.error, g.status as ended),
  told as (${announcing(
    `
    select case when provider = 'suppression' then 'suppressed' else ended end as kind, id, channel, recipient, user_id, template, provider, error,
      caused_by from done where ended <> 'queued'`,
    causedActor,
  )})
  insert into penstock.message_events (message_id, kind, provider, detail)
  select g.id, g.kind, g.provider, g.detail from given g join done on done.id = g.id`;

/**
 * Notes how attempts ended, with the events of those that need no further one. What the provider told by a webhook
 * meanwhile stays. What was sent loses its content; what was captured or failed keeps it for operators.
 */
export const finishMessages = (
  database: Queryable,
  endings: readonly (Ending & { readonly id: string })[],
): Promise<unknown> =>
  database.query({
    text: finishText,
    name: statementName(finishText),
    // One that the database does not take would keep all the others from being noted.
    values: [storableJson(endings)],
  });

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
    sql`update penstock.messages set settled = ${storableJson(devices)}::jsonb where id = ${id}::uuid`,
  );

export interface Slots {
  /** How many may go out within the horizon; the others come back later. */
  readonly granted: number;
  /** Until the first of them, and until there is room behind the last. Milliseconds. */
  readonly firstMs: number;
  readonly freeMs: number;
}

/** Takes up to `count` places in the time of a provider, over all nodes. They are `1 / perSecond` seconds apart. */
export const takeSlots = async (
  database: Queryable,
  provider: string,
  {
    count,
    perSecond,
    horizonMs,
  }: { readonly count: number; readonly perSecond: number; readonly horizonMs: number },
): Promise<Slots> => {
  const { rows } = await database.query<Slots>({
    text: `insert into penstock.provider_pace as p (provider, begins_at, granted, next_at)
      select $1, now(), room, now() + room * interval '1 second' / $4::double precision
        from (select least($2::integer, ceil($3::double precision / 1000 * $4::double precision)::integer) as room) r
      on conflict (provider) do update set begins_at = greatest(p.next_at, now()),
        granted = least($2::integer, greatest(0, ceil(($3::double precision / 1000 - extract(epoch from greatest(p.next_at, now()) - now())) * $4::double precision)::integer)),
        next_at = greatest(p.next_at, now()) + least($2::integer, greatest(0, ceil(($3::double precision / 1000
          - extract(epoch from greatest(p.next_at, now()) - now())) * $4::double precision)::integer)) * interval '1 second' / $4::double precision
      returning granted, (extract(epoch from begins_at - now()) * 1000)::double precision as "firstMs",
        (extract(epoch from next_at - now()) * 1000)::double precision as "freeMs"`,
    values: [provider, count, horizonMs, perSecond],
  });
  return rows[0] ?? { granted: 0, firstMs: 0, freeMs: horizonMs };
};
