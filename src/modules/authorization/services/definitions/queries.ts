/** SQL over resource definitions, and over the tuples that a change of one concerns. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
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

/** Notes actions of the type as granted directly: from now on its definition does not say all that gives them. */
export async function addGranted(
  database: Queryable,
  name: string,
  actions: readonly string[],
): Promise<void> {
  await database.query(sql`
    update penstock.resource_definitions
    set granted = array(select distinct a from unnest(granted || ${actions}::text[]) a order by a) where name = ${name}`);
}

/** Counts as a change of the definition, if there is one, which says the same as before: what it means is another thing now. */
export async function repeatVersion(
  database: Queryable,
  name: string,
  actor: string,
): Promise<void> {
  await database.query(sql`
    insert into penstock.resource_definition_versions (name, definition, changed_by)
    select v.name, v.definition, ${actor} from penstock.resource_definition_versions v
    where v.name = ${name} and exists (select 1 from penstock.resource_definitions d where d.name = v.name)
    order by v.revision desc limit 1`);
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
