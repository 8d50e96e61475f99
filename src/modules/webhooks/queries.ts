/** Endpoints as they are stored. */
import type { Queryable } from '../../kernel/database/database.ts';
import { shortSql, sql } from '../../kernel/database/sql.ts';

/** What a delivery says of a record: all that is visible of it, or its id. */
export const payloads = ['full', 'ids'] as const;

/** What operators decide about an endpoint. */
export interface EndpointSettings {
  readonly name: string;
  readonly url: string;
  readonly description: string;
  /** Types of events; a star at the end stands for anything. */
  readonly events: readonly string[];
  /** Records of these schemas only; empty: of all. */
  readonly schemas: readonly string[];
  /** In the language of filters. */
  readonly condition: Readonly<Record<string, unknown>> | null;
  readonly payload: (typeof payloads)[number];
  /** Deliveries about the same record keep their order. */
  readonly ordered: boolean;
}

export interface EndpointRow extends EndpointSettings {
  readonly id: string;
  readonly enabled: boolean;
  /** Why the platform switched it off; null when an operator did. */
  readonly disabledReason: string | null;
  readonly failingSince: Date | null;
  /** Why its condition could not be asked last time. */
  readonly problem: string | null;
  /** What happened before is not delivered. */
  readonly enabledAt: Date;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** With what only the sender needs. */
export interface EndpointSecrets {
  readonly secret: string;
  readonly previousSecret: string | null;
  readonly previousUntil: Date | null;
}

const columns = `id::text as id, name, url, description, events, schemas, condition, payload, ordered, enabled,
  disabled_reason as "disabledReason", failing_since as "failingSince", problem,
  enabled_at as "enabledAt",
  created_at as "createdAt", updated_at as "updatedAt"`;
const texts = (list: unknown): readonly (string | undefined)[] =>
  Array.isArray(list) ? list.map((one) => (typeof one === 'string' ? one : undefined)) : [];

/**
 * Elements that are no text, which only a hand in the database writes, name nothing: such an endpoint must not hold the
 * others up, nor hear of more than it was meant to.
 */
const readable = (row: EndpointRow): EndpointRow => ({
  ...row,
  events: texts(row.events).flatMap((one) => one ?? []),
  schemas: texts(row.schemas).map((one = '') => one),
});

const all = (rest: string) => `select ${columns} from penstock.webhook_endpoints ${rest}`;

export async function listEndpoints(
  database: Queryable,
  { skip, limit, search }: { skip: number; limit: number; search?: string | undefined },
): Promise<{ endpoints: EndpointRow[]; count: number }> {
  const where = `where $1::text is null or strpos(lower(name), lower($1)) > 0`;
  const { rows } = await database.query<EndpointRow>({
    text: all(`${where} order by name offset $2 limit $3`),
    values: [search ?? null, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::int as count from penstock.webhook_endpoints ${where}`,
    values: [search ?? null],
  });
  return { endpoints: rows.map(readable), count: counted.rows[0]?.count ?? 0 };
}

export async function allEndpoints(database: Queryable): Promise<EndpointRow[]> {
  return (await database.query<EndpointRow>({ text: all('order by name') })).rows.map(readable);
}

export async function enabledEndpoints(database: Queryable): Promise<EndpointRow[]> {
  const { rows } = await database.query<EndpointRow>({ text: all('where enabled order by id') });
  return rows.map(readable);
}

export async function endpointById(
  database: Queryable,
  id: string,
  lock = false,
): Promise<EndpointRow | undefined> {
  const text = all(`where id = $1::uuid${lock ? ' for update' : ''}`);
  const { rows } = await database.query<EndpointRow>({ text, values: [id] });
  return rows.map(readable)[0];
}

export async function endpointForDelivery(
  database: Queryable,
  id: string,
): Promise<(EndpointRow & EndpointSecrets) | undefined> {
  const more = `secret, previous_secret as "previousSecret", previous_until as "previousUntil"`;
  const { rows } = await database.query<EndpointRow & EndpointSecrets>({
    text: `select ${columns}, ${more} from penstock.webhook_endpoints where id = $1::uuid`,
    values: [id],
  });
  return rows[0];
}

export async function endpointIdOf(database: Queryable, name: string): Promise<string | undefined> {
  const { rows } = await database.query<{ id: string }>(
    sql`select id::text as id from penstock.webhook_endpoints where name = ${name}`,
  );
  return rows[0]?.id;
}

/** Nobody else creates or deletes one before this transaction ends; answers how many there are. */
export async function lockEndpoints(transaction: Queryable): Promise<number> {
  await transaction.query(
    sql`select pg_advisory_xact_lock(hashtextextended('penstock.webhook_endpoints', 0))`,
  );
  const { rows } = await transaction.query<{ count: number }>(
    sql`select count(*)::int as count from penstock.webhook_endpoints`,
  );
  return rows[0]?.count ?? 0;
}

export async function insertEndpoint(
  transaction: Queryable,
  given: EndpointSettings & { id: string; enabled: boolean; secret: string },
): Promise<void> {
  await transaction.query(sql`
    insert into penstock.webhook_endpoints
      (id, name, url, description, events, schemas, condition, payload, ordered, enabled, secret)
    values (${given.id}::uuid, ${given.name}, ${given.url}, ${given.description}, ${given.events}, ${given.schemas},
      ${given.condition && JSON.stringify(given.condition)}::jsonb, ${given.payload}, ${given.ordered},
      ${given.enabled}, ${given.secret})`);
}

export async function updateEndpoint(
  transaction: Queryable,
  id: string,
  given: EndpointSettings,
): Promise<void> {
  await transaction.query(sql`
    update penstock.webhook_endpoints set name = ${given.name}, url = ${given.url}, description = ${given.description},
      events = ${given.events}, schemas = ${given.schemas},
      condition = ${given.condition && JSON.stringify(given.condition)}::jsonb, payload = ${given.payload},
      ordered = ${given.ordered}, problem = null, updated_at = now() where id = ${id}::uuid`);
}

export async function switchEndpoint(
  transaction: Queryable,
  id: string,
  { enabled, reason }: { readonly enabled: boolean; readonly reason: string | null },
): Promise<void> {
  await transaction.query(sql`
    update penstock.webhook_endpoints set enabled = ${enabled}, disabled_reason = ${reason},
      failing_since = case when ${enabled} then null else failing_since end,
      enabled_at = case when ${enabled} then now() else enabled_at end, updated_at = now()
    where id = ${id}::uuid`);
}

/** As it stays until the transaction ends. */
export async function isSwitchedOff(transaction: Queryable, id: string): Promise<boolean> {
  const { rows } = await transaction.query<{ enabled: boolean }>(
    shortSql`select enabled from penstock.webhook_endpoints where id = ${id}::uuid for share`,
  );
  return rows[0]?.enabled === false;
}

export async function replaceSecret(
  transaction: Queryable,
  id: string,
  { secret, previousUntil }: { readonly secret: string; readonly previousUntil: Date | null },
): Promise<void> {
  await transaction.query(sql`
    update penstock.webhook_endpoints set secret = ${secret}, updated_at = now(), previous_until = ${previousUntil},
      previous_secret = case when ${previousUntil}::timestamptz is null then null else secret end
    where id = ${id}::uuid`);
}

export async function deleteEndpoint(transaction: Queryable, id: string): Promise<void> {
  await transaction.query(sql`delete from penstock.webhook_endpoints where id = ${id}::uuid`);
}

/** Remembers since when it fails, or that it does no more. Answers since when. */
export async function noteHealth(
  database: Queryable,
  id: string,
  works: boolean,
): Promise<Date | null> {
  if (works) {
    await database.query(
      shortSql`update penstock.webhook_endpoints set failing_since = null where id = ${id}::uuid and failing_since is not null`,
    );
    return null;
  }
  const { rows } = await database.query<{ since: Date }>(shortSql`
    update penstock.webhook_endpoints set failing_since = coalesce(failing_since, now())
    where id = ${id}::uuid returning failing_since as since`);
  return rows[0]?.since ?? null;
}

export async function noteProblem(
  database: Queryable,
  id: string,
  problem: string | null,
): Promise<void> {
  await database.query(sql`
    update penstock.webhook_endpoints set problem = ${problem}
    where id = ${id}::uuid and problem is distinct from ${problem}`);
}

export async function countEndpoints(
  database: Queryable,
): Promise<readonly { state: string; count: number }[]> {
  const { rows } = await database.query<{ state: string; count: number }>(sql`
    select case when not enabled then 'disabled' when failing_since is not null then 'failing' else 'working' end as state,
      count(*)::int as count from penstock.webhook_endpoints group by 1`);
  return rows;
}
