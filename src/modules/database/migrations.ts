/** Tables of the database module beyond schemas and records. */
import type { Migration } from '../../kernel/database/migrate.ts';
import { countVersions } from '../../kernel/freshness/migrations.ts';

const customEndpoints = `
  create table penstock.custom_endpoints (
    id uuid primary key,
    name text not null,
    schema_name text not null,
    definition json not null,
    version integer not null,
    created_at timestamptz(3) not null,
    updated_at timestamptz(3) not null
  );
  create unique index custom_endpoints_name on penstock.custom_endpoints (lower(replace(replace(name, '_', ''), '-', '')));
  create index custom_endpoints_schema on penstock.custom_endpoints (schema_name);
`;

const pendingSchemas = `
  create table penstock.pending_schemas (
    id uuid primary key,
    source_schema text not null,
    source_table text not null,
    name text not null,
    inferred json not null,
    edits json not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    unique (source_schema, source_table)
  );
  create index pending_schemas_name on penstock.pending_schemas (name);
`;

/** Views that modules could make until 0.1; nothing ever did. */
const dropViews = `
  drop table if exists penstock.views;
  drop schema if exists penstock_views;
`;

/**
 * `custom_endpoints`: names differ by more than case and punctuation, because the names of
 * generated clients do. Definitions are `json`, not `jsonb`: they keep their order. `pending_schemas`: what
 * introspection found, and beside it what an admin made of it, so that neither is lost when the other is renewed. `0003-views`
 * was a table that nothing filled.
 */
export const migrations: readonly Migration[] = [
  {
    id: '0001-custom-endpoints',
    run: async (database) => void (await database.query({ text: customEndpoints })),
  },
  {
    id: '0002-pending-schemas',
    run: async (database) => void (await database.query({ text: pendingSchemas })),
  },
  { id: '0003-views', run: async () => {} },
  {
    id: '0004-drop-views',
    run: async (database) => void (await database.query({ text: dropViews })),
  },
  countVersions('0005-version', 'penstock.custom_endpoints', 'endpoints'),
];
