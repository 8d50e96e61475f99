/** Tables of the schema registry, and the PostgreSQL schema that holds the tables of declared schemas. */
import type { Migration } from '../database/migration.ts';

const registry = `
  create schema if not exists app;

  create table penstock.declared_schemas (
    id uuid primary key,
    name text not null,
    owner_module text not null,
    parent_schema text,
    fields json not null,
    extensions json not null,
    model_options json not null,
    layout json not null,
    dropped jsonb not null,
    checksum text not null,
    version integer not null,
    created_at timestamptz(3) not null,
    updated_at timestamptz(3) not null,
    removed_at timestamptz(3)
  );
  create unique index declared_schemas_name on penstock.declared_schemas (lower(name));
  create index declared_schemas_owner on penstock.declared_schemas (owner_module);

  create table penstock.schema_migrations (
    id bigint generated always as identity primary key,
    schema text not null,
    from_version integer,
    to_version integer,
    statements json not null,
    checksum text not null,
    actor text not null,
    finished_at timestamptz(3) not null default now()
  );
  create index schema_migrations_schema on penstock.schema_migrations (schema, id);
`;

/**
 * `declared_schemas`: one row per declared schema; a removed one whose table was kept stays with
 * `removed_at`. Definitions are `json`, not `jsonb`: they keep the order in which they were
 * written. `schema_migrations`: what was done to each table, by whom.
 */
export const migrations: readonly Migration[] = [
  { id: '0001-schemas', run: async (database) => void (await database.query({ text: registry })) },
];
