/** The SQL of sharing: who stands in the relations of an object that users give each other. */
import { idsTest, idTest } from '../../data/records/sql/row-id.ts';
import type { CompiledSchema } from '../../data/schema/compile/compiled.ts';
import { isRecordId } from '../../data/schema/language/record-key.ts';
import type { Kernel } from '../../host/kernel.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { formatObject, type ObjectRef, type SubjectRef } from './model/grammar.ts';
import type { Tuple } from './model/tuple.ts';
import type { TimedTuple } from './queries.ts';

export interface ShareRow {
  readonly subject: SubjectRef;
  readonly relation: string;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
}

interface FoundRow {
  readonly subject_type: string;
  readonly subject_id: string;
  readonly subject_relation: string;
  readonly relation: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly count: number;
}

/** Shares that count now, by relation and subject; relations with conditions are operators'. */
export async function sharesOf(
  database: Queryable,
  { type, id }: ObjectRef,
  relations: readonly string[],
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly shares: readonly ShareRow[]; readonly count: number }> {
  const { rows } = await database.query<
    FoundRow | { readonly relation: null; readonly count: number }
  >(sql`
    with found as materialized (
      select subject_type, subject_id, subject_relation, relation, created_at, expires_at from penstock.tuples
      where resource_type = ${type} and resource_id = ${id} and relation = any(${relations}::text[])
        and condition is null and (expires_at is null or expires_at > now()))
    select f.*, c.count from (select count(*)::integer as count from found) c left join lateral (
      select * from found order by relation, subject_type, subject_id, subject_relation offset ${skip} limit ${limit}) f on true
    order by f.relation, f.subject_type, f.subject_id, f.subject_relation`);
  const shares = rows.flatMap((row) =>
    row.relation === null
      ? []
      : [
          {
            subject: {
              type: row.subject_type,
              id: row.subject_id,
              relation: row.subject_relation,
            },
            relation: row.relation,
            createdAt: row.created_at,
            expiresAt: row.expires_at,
          },
        ],
  );
  return { shares, count: rows[0]?.count ?? 0 };
}

/** One after the other for each object, until the transaction ends: what is counted then stays so. */
export function lockShares(database: Queryable, objects: readonly ObjectRef[]): Promise<unknown> {
  const names = [...new Set(objects.map(formatObject))].sort();
  return database.query(sql`
    select pg_advisory_xact_lock(hashtextextended('penstock.shares ' || o.name, 0))
    from unnest(${names}::text[]) with ordinality o(name, n) order by o.n`);
}

/** How many shares count now beside this one; counting stops at `max`. */
export async function countOtherShares(
  database: Queryable,
  { subject, relation, resource: { type, id } }: Tuple,
  relations: readonly string[],
  max: number,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`
    select count(*)::integer as count from (
      select 1 from penstock.tuples where resource_type = ${type} and resource_id = ${id} and relation = any(${relations}::text[])
        and condition is null and (expires_at is null or expires_at > now())
        and (relation, subject_type, subject_id, subject_relation) <> (${relation}::text, ${subject.type}::text, ${subject.id}::text, ${subject.relation}::text)
      limit ${max}::integer) few`);
  return rows[0]?.count ?? 0;
}

/** Whether a relation is there already that counts without a condition, and for as long as this one or longer. */
export async function lastsAsLong(
  database: Queryable,
  { subject, relation, resource: { type, id }, expiresAt }: TimedTuple,
): Promise<boolean> {
  const { count } = await database.query(sql`
    select 1 from penstock.tuples where resource_type = ${type} and resource_id = ${id} and relation = ${relation}
      and subject_type = ${subject.type} and subject_id = ${subject.id} and subject_relation = ${subject.relation}
      and condition is null and (expires_at is null or expires_at >= ${expiresAt ?? 'infinity'}::timestamptz)`);
  return count > 0;
}

/** Whether the relation is there under a condition: such ones are operators'. */
export async function isConditional(
  database: Queryable,
  { subject, relation, resource: { type, id } }: Tuple,
): Promise<boolean> {
  const { count } = await database.query(sql`
    select 1 from penstock.tuples where resource_type = ${type} and resource_id = ${id} and relation = ${relation}
      and subject_type = ${subject.type} and subject_id = ${subject.id} and subject_relation = ${subject.relation}
      and condition is not null`);
  return count > 0;
}

/** Whether there is such a record; a shared lock keeps it until the transaction ends, except in tables of others. */
export async function objectExists(
  database: Queryable,
  schema: CompiledSchema,
  id: string,
): Promise<boolean> {
  if (!isRecordId(schema.key, id)) return false;
  const lock = schema.mapping ? '' : ' for key share of r';
  const text = `select 1 from ${schema.rows} r where ${idTest(schema, 'r', '$1')}${lock}`;
  return (await database.query({ text, values: [id] })).count > 0;
}

/** Those of the objects that are there, as `<Type>:<id>`; one statement for each schema. Types without one always are. */
export async function existingObjects(
  database: Queryable,
  schemas: Pick<Kernel['schemas'], 'get'>,
  objects: readonly ObjectRef[],
): Promise<ReadonlySet<string>> {
  const there = new Set<string>();
  for (const [type, all] of Map.groupBy(objects, (object) => object.type)) {
    const schema = schemas.get(type);
    const ids = all.map(({ id }) => id);
    const found = schema ? await existingIds(database, schema, ids) : ids;
    for (const id of found) there.add(formatObject({ type, id }));
  }
  return there;
}

async function existingIds(
  database: Queryable,
  schema: CompiledSchema,
  ids: readonly string[],
): Promise<readonly string[]> {
  const possible = ids.filter((id) => isRecordId(schema.key, id));
  const text = `select r."_id"::text as id from ${schema.rows} r where ${idsTest(schema, 'r', '$1')}`;
  const { rows } = await database.query<{ readonly id: string }>({ text, values: [possible] });
  return rows.map(({ id }) => id);
}
