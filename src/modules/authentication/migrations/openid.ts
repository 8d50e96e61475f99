/** Tables of the platform as an OpenID provider. */
import type { Migration } from '../../../kernel/database/migrate.ts';

/** Apps that users sign in to. Secrets are random, so their SHA-256 tells nothing; several may be good at once. */
const clients = `
  create table penstock.openid_clients (
    client_id text primary key,
    name text not null,
    kind text not null,
    redirect_uris text[] not null,
    post_logout_redirect_uris text[] not null,
    scopes text[] not null,
    consent text not null,
    refresh_tokens boolean not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
  create table penstock.openid_client_secrets (
    id uuid primary key,
    client_id text not null references penstock.openid_clients (client_id) on delete cascade,
    hash text not null,
    created_at timestamptz(3) not null default now(),
    expires_at timestamptz(3)
  );
  create index openid_secrets_of_client on penstock.openid_client_secrets (client_id);
`;

/**
 * What the protocol keeps: codes, tokens, grants, sessions of browsers, sign-ins that go on. `key` is a hash of what
 * the client holds, and `payload` is sealed: nothing in here opens anything.
 */
const items = `
  create table penstock.openid_items (
    key text primary key,
    kind text not null,
    payload text not null,
    uid text,
    grant_key text,
    user_id uuid references "app"."User" ("_id") on delete cascade,
    client_id text references penstock.openid_clients (client_id) on delete cascade,
    consumed_at timestamptz(3),
    expires_at timestamptz(3) not null
  );
  create index openid_items_of_grant on penstock.openid_items (grant_key) where grant_key is not null;
  create index openid_items_by_uid on penstock.openid_items (uid) where uid is not null;
  create index openid_items_of_user on penstock.openid_items (user_id) where user_id is not null;
  create index openid_items_of_client on penstock.openid_items (client_id) where client_id is not null;
  create index openid_items_by_end on penstock.openid_items (expires_at);
  create table penstock.openid_sessions (
    uid text primary key,
    session_id uuid not null references penstock.sessions (id) on delete cascade
  );
  create index openid_sessions_of_session on penstock.openid_sessions (session_id);
  create table penstock.openid_consents (
    user_id uuid not null references "app"."User" ("_id") on delete cascade,
    client_id text not null references penstock.openid_clients (client_id) on delete cascade,
    scopes text[] not null,
    given_at timestamptz(3) not null default now(),
    primary key (user_id, client_id)
  );
  create index openid_consents_of_client on penstock.openid_consents (client_id);
`;

export const openidMigrations: readonly Migration[] = [
  {
    id: 'openid-0001-clients',
    run: async (database) => void (await database.query({ text: clients })),
  },
  {
    id: 'openid-0002-items',
    run: async (database) => void (await database.query({ text: items })),
  },
];
