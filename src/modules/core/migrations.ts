/** Tables of the admins and of what proves who they are. */
import type { Migration } from '../../kernel/database/migrate.ts';

const statements = [
  `create table penstock.admins (
    id uuid primary key,
    username text not null,
    username_key text not null unique,
    password_hash text not null,
    is_super_admin boolean not null default false,
    has_two_fa boolean not null default false,
    active boolean not null default true,
    session_version integer not null default 1,
    must_change_password boolean not null default false,
    last_login_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  )`,
  `create table penstock.admin_api_tokens (
    id uuid primary key,
    name text not null,
    admin_id uuid references penstock.admins (id) on delete cascade,
    token_digest text not null,
    token_prefix text not null unique,
    expires_at timestamptz(3),
    last_used_at timestamptz(3),
    created_at timestamptz(3) not null default now()
  )`,
  'create index admin_api_tokens_owner on penstock.admin_api_tokens (admin_id, created_at desc)',
  'create index admin_api_tokens_expiry on penstock.admin_api_tokens (expires_at) where expires_at is not null',
  `create table penstock.admin_two_factor (
    admin_id uuid primary key references penstock.admins (id) on delete cascade,
    secret text not null,
    confirmed boolean not null default false,
    last_step bigint,
    created_at timestamptz(3) not null default now()
  )`,
  `create table penstock.admin_backup_codes (
    admin_id uuid not null references penstock.admin_two_factor (admin_id) on delete cascade,
    digest text not null,
    used_at timestamptz(3),
    primary key (admin_id, digest)
  )`,
];

/**
 * `username_key` is the form in which names are compared. `session_version` is in every token of a
 * login: raising it ends them all. `last_step` is the newest one-time code that was used.
 */
export const migrations: readonly Migration[] = [
  {
    id: '0001-admins',
    async run(database) {
      for (const text of statements) await database.query({ text });
    },
  },
  {
    id: '0002-api-token-scopes',
    async run(database) {
      await database.query({
        text: 'alter table penstock.admin_api_tokens add column scopes text[]',
      });
    },
  },
];
