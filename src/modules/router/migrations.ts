/** The table of apps. Secrets are random, so that their SHA-256 is enough. */
import type { Migration } from '../../kernel/database/migrate.ts';

const clients = `
  create table penstock.security_clients (
    id uuid primary key,
    client_id text not null unique,
    secret_hash text not null,
    previous_hash text,
    previous_until timestamptz(3),
    platform text not null,
    domain text,
    alias text not null unique,
    notes text,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3)
  );
`;

/** `previous_hash`: the secret before the last rotation, good until `previous_until`. */
export const migrations: readonly Migration[] = [
  {
    id: '0001-security-clients',
    run: async (database) => void (await database.query({ text: clients })),
  },
];
