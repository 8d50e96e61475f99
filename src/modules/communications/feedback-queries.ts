/** The SQL of what providers report, and of who gets no messages any more. Values are always parameters. */
import { system } from '../../kernel/caller.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { actorOf, actorSql } from '../../kernel/hooks/hooks.ts';
import { storableJson } from '../../kernel/text.ts';
import { announcing, type Channel, messageStatuses } from './queries.ts';

/* What providers report. */

/** One report, in the form that all providers' are brought into. */
export interface ReportRow {
  /** The provider's own name for the report: a second one of that name says nothing new. */
  readonly eventId: string;
  readonly kind: string;
  /** What the message is now, where that follows. */
  readonly status: string | null;
  /** Our id, where the provider hands it back. */
  readonly messageId: string | null;
  readonly providerId: string | null;
  readonly recipient: string | null;
  readonly detail: string | null;
  /** Why the recipient gets nothing any more, and of what. */
  readonly suppress: string | null;
  readonly scope: string;
  /** Not told yet where its message is not known: it comes again when the answer to the send has been noted. */
  readonly waits: boolean;
}

export interface AppliedReport {
  readonly eventId: string;
  readonly messageId: string | null;
  readonly kind: string;
  readonly chainId: string | null;
}

/**
 * Later in the list goes over earlier: a report that comes late changes nothing. What became of a copy is told, and
 * changes nothing either: whom the message is for decides.
 */
const rank = (column: string): string =>
  `array_position(array[${messageStatuses.map((status) => `'${status}'`).join(', ')}], ${column})`;

const applyText = `
  with given as (
    select * from jsonb_to_recordset($1::jsonb) as g("eventId" text, kind text, status text, "messageId" uuid, "providerId" text,
      recipient text, detail text, suppress text, scope text, waits boolean)),
  fresh as (
    insert into penstock.provider_events (provider, event_id) select distinct $2, "eventId" from given
    on conflict do nothing returning event_id),
  news as (
    select distinct on (g."eventId") g.* from given g join fresh on fresh.event_id = g."eventId"),
  found as (
    select n.*, m.id, m.recipient as own_recipient, m.user_id, m.template, m.chain_id, m.caused_by,
      coalesce(lower(n.recipient) <> lower(m.recipient) and lower(n.recipient) = any(lower(m.copies::text)::text[]), false) as is_copy
    from news n
    left join lateral (
      select id, recipient, copies, user_id, template, chain_id, caused_by from penstock.messages where id = n."messageId" and channel = $3
      union all
      (select id, recipient, copies, user_id, template, chain_id, caused_by from penstock.messages
        where n."messageId" is null and provider_id = n."providerId" and channel = $3 limit 1)) m on true),
  moved as (
    update penstock.messages m set status = latest.status,
      error = case when latest.status in ('bounced', 'failed') then coalesce(latest.detail, m.error) else m.error end
    from (select distinct on (id) id, status, detail from found where id is not null and status is not null and not is_copy
      order by id, ${rank('status')} desc) latest
    where m.id = latest.id and ${rank('latest.status')} > ${rank('m.status')} returning m.id),
  noted as (
    insert into penstock.message_events (message_id, kind, provider, detail)
    select id, kind, $2, case when is_copy then concat_ws(': ', recipient, detail) else detail end from found where id is not null),
  told as (${announcing(
    `
    select kind, id, $3::text as channel, coalesce(recipient, own_recipient) as recipient, user_id, template, $2::text as provider,
      case when kind in ('deferred', 'bounced', 'complained', 'failed') then detail end as error, caused_by from found
    where id is not null or not waits`,
    actorSql('$4::text', 'caused_by'),
  )}),
  refused as (
    insert into penstock.suppressions (channel, address, reason, detail, scope)
    select distinct on (address, scope) $3, address, suppress, detail, scope from (
      select lower(coalesce(recipient, own_recipient)) as address, suppress, detail, scope from found where suppress is not null) s
    where address is not null
    on conflict do nothing)
  select "eventId", id as "messageId", kind, case when not is_copy then chain_id end as "chainId" from found`;

/** Applies the reports that are new, with their events; answers those, with the message each is about. One statement, all or nothing. */
export const applyReports = async (
  database: Queryable,
  { provider, channel }: { readonly provider: string; readonly channel: Channel },
  reports: readonly ReportRow[],
): Promise<readonly AppliedReport[]> =>
  (
    await database.query<AppliedReport>({
      text: applyText,
      values: [storableJson(reports), provider, channel, actorOf(system(`webhook of ${provider}`))],
    })
  ).rows;

/**
 * Mails of the last three days of which their provider has said nothing more, at ten minutes after they went out, twenty,
 * forty and so on: with one look every ten minutes none is asked for more than nine times.
 */
export const unreportedMails = async (
  database: Queryable,
  provider: string,
  max: number,
): Promise<readonly { readonly id: string; readonly providerId: string }[]> =>
  (
    await database.query<{ id: string; providerId: string }>(sql`
      select id, provider_id as "providerId" from (
        select id, provider_id, floor(extract(epoch from now() - finished_at) / 600)::integer as looks
        from penstock.messages
        where channel = 'email' and status = 'sent' and provider = ${provider} and provider_id is not null
          and finished_at > now() - interval '3 days') waiting
      where looks > 0 and looks & (looks - 1) = 0 order by looks limit ${max}`)
  ).rows;

/** Notes a token that is good once; false when it was seen before. */
export const takeNonce = async (
  database: Queryable,
  provider: string,
  nonce: string,
): Promise<boolean> =>
  (
    await database.query(sql`
      insert into penstock.provider_events (provider, event_id) values (${provider}, ${`once:${nonce}`}) on conflict do nothing`)
  ).count > 0;

/** What could be told twice by then is long told. */
export const purgeReports = (database: Queryable): Promise<unknown> =>
  database.query(
    sql`delete from penstock.provider_events where created_at < now() - interval '30 days'`,
  );

/* Who gets no messages of a channel any more. */

export interface SuppressionRow {
  readonly channel: Channel;
  readonly address: string;
  readonly scope: string;
  readonly reason: string;
  readonly detail: string | null;
  readonly createdAt: Date;
}

/** Everything that is not critical. */
export const allButCritical = '*';

interface Kind {
  readonly category: string | null;
  readonly critical: boolean;
}

/** Why this address gets no such message, if so. Critical ones stop only at what stops everything. */
export const suppressionOf = async (
  database: Queryable,
  channel: Channel,
  address: string,
  { category, critical }: Kind,
): Promise<{ readonly reason: string } | undefined> =>
  (
    await database.query<{ reason: string }>(sql`
      select reason from penstock.suppressions where channel = ${channel} and address = ${address.toLowerCase()}
        and (scope = '' or (not ${critical}::boolean and (scope = ${allButCritical} or scope = ${category})))
      order by scope limit 1`)
  ).rows[0];

export interface SuppressionFilter {
  readonly skip: number;
  readonly limit: number;
  readonly channel?: string | undefined;
  readonly reason?: string | undefined;
  /** A part of the address. */
  readonly search?: string | undefined;
}

export async function listSuppressions(
  database: Queryable,
  { channel, reason, search, skip, limit }: SuppressionFilter,
): Promise<{ readonly rows: readonly SuppressionRow[]; readonly count: number }> {
  const where = `($1::text is null or channel = $1) and ($2::text is null or reason = $2)
    and ($3::text is null or position(lower($3) in address) > 0)`;
  const values = [channel ?? null, reason ?? null, search ?? null];
  const { rows } = await database.query<SuppressionRow>({
    text: `select channel, address, scope, reason, detail, created_at as "createdAt" from penstock.suppressions where ${where}
      order by created_at desc, channel, address, scope offset $4 limit $5`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.suppressions where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

type NewSuppression = Omit<SuppressionRow, 'createdAt'>;

/** False when it was there. */
export const insertSuppression = async (
  database: Queryable,
  { channel, address, scope, reason, detail }: NewSuppression,
): Promise<boolean> =>
  (
    await database.query(sql`
      insert into penstock.suppressions (channel, address, scope, reason, detail)
      values (${channel}, ${address.toLowerCase()}, ${scope}, ${reason}, ${detail}) on conflict do nothing`)
  ).count > 0;

/** Of one scope, or of all; answers how many there were. */
export const deleteSuppressions = async (
  database: Queryable,
  { channel, address, scope }: { channel: string; address: string; scope: string | undefined },
): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.suppressions where channel = ${channel} and address = ${address.toLowerCase()}
        and (${scope ?? null}::text is null or scope = ${scope ?? null})`)
  ).count;
