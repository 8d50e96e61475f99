/** Tables of sessions, refresh tokens and signing keys. They run after the schema `User` has its table. */
import type { Migration } from '../../kernel/database/migrate.ts';
import { countVersions } from '../../kernel/freshness/migrations.ts';
import {
  adminMigrations,
  localMigrations,
  protectionMigrations,
  userDataMigrations,
} from './migrations/accounts.ts';
import { externalMigrations, factorMigrations } from './migrations/credentials.ts';
import { openidMigrations } from './migrations/openid.ts';
import { shareMigrations, teamMigrations } from './migrations/teams.ts';

const sessions = `
  create table penstock.sessions (
    id uuid primary key,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    client_id text not null,
    complete boolean not null,
    created_at timestamptz(3) not null default now(),
    authenticated_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    ends_at timestamptz(3) not null,
    revoked_at timestamptz(3),
    revoked_reason text,
    ip text,
    user_agent text
  );
  create index sessions_of_user on penstock.sessions (user_id) where revoked_at is null;
  create index sessions_by_end on penstock.sessions (ends_at);

  create table penstock.refresh_tokens (
    id uuid primary key,
    hash text not null unique,
    session_id uuid not null references penstock.sessions (id) on delete cascade,
    generation integer not null,
    issued_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    used_at timestamptz(3)
  );
  create index refresh_tokens_of_session on penstock.refresh_tokens (session_id);
  create index refresh_tokens_by_end on penstock.refresh_tokens (expires_at);
`;

const signingKeys = `
  create table penstock.signing_keys (
    kid text primary key,
    algorithm text not null,
    public_jwk jsonb not null,
    private_key_sealed text not null,
    created_at timestamptz(3) not null default now(),
    verifies_until timestamptz(3)
  );
  create unique index signing_keys_active on penstock.signing_keys ((true)) where verifies_until is null;
`;

/** A key belongs to one issuer, and is published before it signs. */
const signingTerms = `
  alter table penstock.signing_keys
    add column issuer text not null default 'penstock',
    add column signs_from timestamptz(3) not null default now();
  update penstock.signing_keys set signs_from = created_at;
`;

/** Of all sessions, not only of those that go on: whoever deletes a user deletes the ended ones too. */
const sessionsOfUser = `
  drop index penstock.sessions_of_user;
  create index sessions_of_user on penstock.sessions (user_id);
`;

/** A change of an admin looks for them. */
const impersonations = `
  create index sessions_of_operator on penstock.sessions (impersonated_by) where impersonated_by is not null;
`;

/**
 * `sessions`: `expires_at` is the absolute end, `ends_at` moves with each renewal up to it; `complete`
 * is false while a second factor is pending. `refresh_tokens`: one family per session, SHA-256 only.
 * `signing_keys`: the one without `verifies_until` signs; the others verify until then.
 */
export const migrations: readonly Migration[] = [
  { id: '0001-sessions', run: async (database) => void (await database.query({ text: sessions })) },
  {
    id: '0002-signing-keys',
    run: async (database) => void (await database.query({ text: signingKeys })),
  },
  ...localMigrations,
  ...externalMigrations,
  ...teamMigrations,
  ...shareMigrations,
  ...adminMigrations,
  ...factorMigrations,
  ...protectionMigrations,
  ...userDataMigrations,
  countVersions('0100-signing-key-version', 'penstock.signing_keys', 'signing-keys'),
  {
    id: '0101-signing-terms',
    run: async (database) => void (await database.query({ text: signingTerms })),
  },
  {
    id: '0102-sessions-of-user',
    run: async (database) => void (await database.query({ text: sessionsOfUser })),
  },
  ...openidMigrations,
  {
    id: '0103-impersonations',
    run: async (database) => void (await database.query({ text: impersonations })),
  },
];
