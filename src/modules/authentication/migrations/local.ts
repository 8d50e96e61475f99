/** Tables of sign-in with e-mail and of everything that proves something once. */
import type { Migration } from '../../../kernel/database/migration.ts';

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
  { id: 'local-0001-one-time-tokens', run: async (database) => void (await database.query({ text: oneTimeTokens })) },
  { id: 'local-0002-session-claims', run: async (database) => void (await database.query({ text: sessionClaims })) },
];
