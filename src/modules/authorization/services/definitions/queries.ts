/** SQL over resource definitions, and over the tuples that a change of one concerns. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { TupleShape } from '../../queries.ts';
import type { DefinitionContent, StoredDefinition } from './stored-definition.ts';

/** Inserts or replaces by name, and keeps the version. */
export async function saveDefinition(
  database: Queryable,
  definition: Omit<StoredDefinition, 'createdAt' | 'updatedAt'>,
  actor: string,
): Promise<void> {
  const { id, name, relations, fields = {}, permissions, conditions, actAs, version } = definition;
  const [relationText, fieldText, permissionText, conditionText] = [
    relations,
    fields,
    permissions,
    conditions,
  ].map((part) => JSON.stringify(part));
  await database.query(sql`
    insert into penstock.resource_definitions (id, name, relations, fields, permissions, conditions, act_as, version)
    values (${id}, ${name}, ${relationText}::jsonb, ${fieldText}::jsonb, ${permissionText}::jsonb, ${conditionText}::jsonb, ${actAs}, ${version})
    on conflict (name) do update set relations = excluded.relations, fields = excluded.fields, permissions = excluded.permissions,
      conditions = excluded.conditions, act_as = excluded.act_as, version = excluded.version, updated_at = now()`);
  const content: DefinitionContent & { version: number } = {
    name,
    relations,
    permissions,
    conditions,
    actAs,
    version,
  };
  await keepVersion(database, name, JSON.stringify(content), actor);
}

export async function dropDefinition(
  database: Queryable,
  name: string,
  actor: string,
): Promise<void> {
  await database.query(sql`delete from penstock.resource_definitions where name = ${name}`);
  await keepVersion(database, name, null, actor);
}

async function keepVersion(
  database: Queryable,
  name: string,
  content: string | null,
  actor: string,
): Promise<void> {
  await database.query(sql`
    insert into penstock.resource_definition_versions (name, definition, changed_by) values (${name}, ${content}::jsonb, ${actor})`);
}

/** One change of a definition; `definition` is null for its deletion. */
export interface DefinitionVersion {
  readonly revision: number;
  readonly definition: Record<string, unknown> | null;
  readonly changedAt: Date;
  readonly changedBy: string;
}

/** Newest first. */
export async function listVersions(
  database: Queryable,
  name: string,
  limit: number,
): Promise<readonly DefinitionVersion[]> {
  const { rows } = await database.query<DefinitionVersion & { revision: string }>(sql`
    select revision, definition, changed_at as "changedAt", changed_by as "changedBy"
    from penstock.resource_definition_versions where name = ${name} order by revision desc limit ${limit}`);
  return rows.map((row) => ({ ...row, revision: Number(row.revision) }));
}

/** Shapes of the tuples whose fate a definition can decide, with their number: those on its type, and those of its subjects. */
export async function tupleShapes(
  database: Queryable,
  type: string,
): Promise<readonly (TupleShape & { readonly count: number })[]> {
  const { rows } = await database.query<TupleShape & { readonly count: number }>(sql`
    select subject_type as "subjectType", subject_relation as "subjectRelation", subject_id = '*' as wildcard, relation,
      resource_type as "resourceType", condition, count(*)::int as count
    from penstock.tuples
    where resource_type = ${type} or subject_type = ${type}
    group by 1, 2, 3, 4, 5, 6`);
  return rows;
}
