/** SQL of custom endpoints. */
import type { Queryable, Statement } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { EndpointDefinition, StoredEndpoint } from './definition.ts';

interface EndpointRow {
  readonly id: string;
  readonly definition: EndpointDefinition;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** All of them, by name. */
export async function loadEndpoints(database: Queryable): Promise<readonly StoredEndpoint[]> {
  const { rows } = await database.query<EndpointRow>(sql`
    select id, definition, version, created_at as "createdAt", updated_at as "updatedAt"
    from penstock.custom_endpoints order by name collate "C"`);
  return rows.map(({ id, definition, version, createdAt, updatedAt }) => ({
    // Those that were stored before there were such.
    ...{ ...definition, requires: definition.requires ?? null },
    _id: id,
    __v: version,
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  }));
}

export const insertEndpoint = (id: string, definition: EndpointDefinition): Statement => sql`
  insert into penstock.custom_endpoints (id, name, schema_name, definition, version, created_at, updated_at)
  values (${id}, ${definition.name}, ${definition.selectedSchemaName}, ${JSON.stringify(definition)}, 0, now(), now())`;

/** Answers a row when the endpoint was there. */
export const updateEndpoint = (id: string, definition: EndpointDefinition): Statement => sql`
  update penstock.custom_endpoints
  set schema_name = ${definition.selectedSchemaName}, definition = ${JSON.stringify(definition)}, version = version + 1, updated_at = now()
  where id = ${id} returning id`;

/** Answers a row when the endpoint was there. */
export const deleteEndpoint = (id: string): Statement =>
  sql`delete from penstock.custom_endpoints where id = ${id} returning id`;

/** Imports go one after the other, so that two of the same endpoints do not meet. */
export const lockEndpointImport: Statement = {
  text: `select pg_advisory_xact_lock(hashtextextended('penstock.custom_endpoints', 0))`,
};

/** Makes the endpoint, or changes the one of that name; one that is the same already stays untouched. */
export const putEndpoint = (id: string, definition: EndpointDefinition): Statement => sql`
  with changed as (
    update penstock.custom_endpoints
    set schema_name = ${definition.selectedSchemaName}, definition = ${JSON.stringify(definition)}, version = version + 1, updated_at = now()
    where name = ${definition.name} and definition::text <> ${JSON.stringify(definition)}
  )
  insert into penstock.custom_endpoints (id, name, schema_name, definition, version, created_at, updated_at)
  select ${id}, ${definition.name}, ${definition.selectedSchemaName}, ${JSON.stringify(definition)}, 0, now(), now()
  where not exists (select 1 from penstock.custom_endpoints where name = ${definition.name})`;
