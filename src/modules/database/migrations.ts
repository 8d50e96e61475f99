/** Tables of the database module beyond schemas and records. */
import type { Migration } from '../../kernel/database/migration.ts';

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

/**
 * `custom_endpoints`: names differ by more than case and punctuation, because the names of
 * generated clients do. Definitions are `json`, not `jsonb`: they keep their order.
 */
export const migrations: readonly Migration[] = [
  { id: '0001-custom-endpoints', run: async (database) => void (await database.query({ text: customEndpoints })) },
];
