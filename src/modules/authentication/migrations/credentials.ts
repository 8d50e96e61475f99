/** Tables of second factors, passkeys and device keys. */
import type { Migration } from '../../../kernel/database/migrate.ts';

/* Table of the accounts at other providers with which users sign in. */

/** `provider` and `subject` are the only key: an e-mail address changes hands, a subject does not. */
const identities = `
  create table penstock.identities (
    id uuid primary key,
    provider text not null,
    subject text not null,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    email text,
    email_verified boolean not null default false,
    data jsonb not null default '{}',
    linked_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3) not null default now(),
    unique (provider, subject)
  );
  create index identities_of_user on penstock.identities (user_id);
`;

export const externalMigrations: readonly Migration[] = [
  {
    id: 'external-0001-identities',
    run: async (database) => void (await database.query({ text: identities })),
  },
];

/**
 * `user_totp`: the secret of an authenticator app, sealed; `last_step` is the last code that was used.
 * `user_backup_codes`: keyed digests; a row that was used stays until the set is made anew.
 */
const secondFactor = `
  create table penstock.user_totp (
    user_id uuid primary key references "app"."User" ("_id") on delete cascade,
    secret text not null,
    confirmed boolean not null default false,
    last_step bigint,
    created_at timestamptz(3) not null default now()
  );
  create table penstock.user_backup_codes (
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    digest text not null,
    used_at timestamptz(3),
    primary key (user_id, digest)
  );
`;

/** `passkey_handles`: how authenticators know a user; random, so that it tells nothing (WebAuthn 3, 14.6.1). */
const passkeys = `
  create table penstock.passkey_handles (
    user_id uuid primary key references "app"."User" ("_id") on delete cascade,
    handle text not null unique
  );
  create table penstock.passkeys (
    id uuid primary key,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    credential_id text not null unique,
    public_key bytea not null,
    counter bigint not null,
    transports text[] not null,
    multi_device boolean not null,
    backed_up boolean not null,
    aaguid text not null,
    name text not null,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3)
  );
  create index passkeys_of_user on penstock.passkeys (user_id);
`;

/** `public_key`: DER (SPKI) in base64. */
const deviceKeys = `
  create table penstock.device_keys (
    id uuid primary key,
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    public_key text not null,
    user_agent text,
    created_at timestamptz(3) not null default now(),
    last_used_at timestamptz(3)
  );
  create index device_keys_of_user on penstock.device_keys (user_id);
`;

/** What the job that deletes them looks for; few rows of many. */
const anonymousUsers = `create index users_anonymous on "app"."User" ("createdAt") where "isAnonymous"`;

/** When codes were made and when a number became the user's: what somebody has added can then be taken back. */
const additions = `
  alter table penstock.user_backup_codes add column made_at timestamptz(3) not null default now();
  create table penstock.phone_changes (
    user_id uuid primary key references "app"."User" ("_id") on delete cascade,
    changed_at timestamptz(3) not null default now()
  );
`;

export const factorMigrations: readonly Migration[] = [
  {
    id: 'factors-0001-second-factor',
    run: async (database) => void (await database.query({ text: secondFactor })),
  },
  {
    id: 'factors-0002-passkeys',
    run: async (database) => void (await database.query({ text: passkeys })),
  },
  {
    id: 'factors-0003-device-keys',
    run: async (database) => void (await database.query({ text: deviceKeys })),
  },
  {
    id: 'factors-0004-anonymous-users',
    run: async (database) => void (await database.query({ text: anonymousUsers })),
  },
  {
    id: 'factors-0005-additions',
    run: async (database) => void (await database.query({ text: additions })),
  },
];
