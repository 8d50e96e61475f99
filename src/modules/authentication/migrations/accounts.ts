/** Tables of sign-in with e-mail and of everything that proves something once. */
import type { Migration } from '../../../kernel/database/migrate.ts';

/* What sessions and their protection remember. */

/** How the user calls the device of a session. */
const sessionNames = 'alter table penstock.sessions add column name text';

/**
 * Where users have signed in before: the browser or app (`device`), the part of the net (`network`), and the exact
 * address last seen there. Decides whether a sign-in is news, and whose attempts are not held back by those of strangers.
 */
const knownDevices = `
  create table penstock.known_devices (
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    device text not null,
    network text not null,
    address text not null,
    seen_at timestamptz(3) not null default now(),
    primary key (user_id, device, network)
  );
  create index known_devices_by_age on penstock.known_devices (seen_at);
`;

export const protectionMigrations: readonly Migration[] = [
  {
    id: 'protection-0001-session-names',
    run: async (database) => void (await database.query({ text: sessionNames })),
  },
  {
    id: 'protection-0002-known-devices',
    run: async (database) => void (await database.query({ text: knownDevices })),
  },
];

/*
 * Fields that extend `User` belong to the server unless they are declared open. Those that were there before users
 * could write: they stay open, by the configuration, where an operator sees it.
 */

const openFields = `
  create table penstock.open_user_fields (field text primary key);
  insert into penstock.open_user_fields
    select distinct field from penstock.declared_schemas,
      json_array_elements(extensions) extension, json_object_keys(extension -> 'fields') field
    where name = 'User' and owner_module = 'authentication'
    on conflict do nothing;
`;

/** `open_user_fields`: waits for the configuration to take it over (services/open-fields.ts); empty from then on. */
export const userDataMigrations: readonly Migration[] = [
  {
    id: 'user-data-0001-open-fields',
    run: async (database) => void (await database.query({ text: openFields })),
  },
];

/* What the routes of operators need. */

/** `impersonated_by`: the admin who acts as the user in this session. */
export const adminMigrations: readonly Migration[] = [
  {
    id: 'admin-0001-impersonation',
    run: async (database) =>
      void (await database.query({
        text: 'alter table penstock.sessions add column impersonated_by text',
      })),
  },
];

/**
 * One row per secret that works once. Only hashes are kept: `hash` of the token that links carry,
 * `code_hash` (keyed) of the short code that people type. `slot` is set where only one may be
 * outstanding: a later one takes the place of the earlier one.
 */
const oneTimeTokens = `
  create table penstock.one_time_tokens (
    id uuid primary key,
    purpose text not null,
    hash text not null unique,
    subject_hash text,
    slot text unique,
    code_hash text,
    attempts integer not null default 0,
    max_attempts integer not null default 1,
    user_id uuid references "app"."User" ("_id") on delete cascade,
    data jsonb not null default '{}',
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null,
    used_at timestamptz(3)
  );
  create index one_time_tokens_of_user on penstock.one_time_tokens (user_id, purpose);
  create index one_time_tokens_of_subject on penstock.one_time_tokens (purpose, subject_hash) where subject_hash is not null;
  create index one_time_tokens_by_end on penstock.one_time_tokens (expires_at);
`;

/** What hooks said when the session was opened; its access tokens repeat it. */
const sessionClaims = 'alter table penstock.sessions add column claims jsonb';

export const localMigrations: readonly Migration[] = [
  {
    id: 'local-0001-one-time-tokens',
    run: async (database) => void (await database.query({ text: oneTimeTokens })),
  },
  {
    id: 'local-0002-session-claims',
    run: async (database) => void (await database.query({ text: sessionClaims })),
  },
];
