/** Endpoints of webhooks. Their deliveries are items of the durable queue `webhooks`. */
import type { Migration } from '../../kernel/database/migrate.ts';

/** Secrets are sealed under the data key. `failing_since`: since when nothing has arrived. */
const endpoints = `
  create table penstock.webhook_endpoints (
    id uuid primary key,
    name text not null,
    url text not null,
    description text not null default '',
    events text[] not null,
    schemas text[] not null default '{}',
    condition jsonb,
    payload text not null,
    ordered boolean not null,
    enabled boolean not null,
    disabled_reason text,
    failing_since timestamptz(3),
    problem text,
    secret text not null,
    previous_secret text,
    previous_until timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    constraint webhook_endpoints_name unique (name)
  );
`;

export const migrations: readonly Migration[] = [
  {
    id: '0001-endpoints',
    run: async (database) => void (await database.query({ text: endpoints })),
  },
  {
    id: '0002-enabled-at',
    run: async (database) =>
      void (await database.query({
        text: 'alter table penstock.webhook_endpoints add column enabled_at timestamptz(3) not null default now()',
      })),
  },
];
