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

/** Those of a node that dies renew nothing. What is broadcast is kept where a channel says so, for a day. */
const channels = `
  create table penstock.channel_members (
    id uuid primary key,
    channel text not null,
    node_id text not null,
    user_id uuid not null,
    state text not null,
    joined_at timestamptz(3) not null default now(),
    expires_at timestamptz(3) not null
  );
  create index channel_members_of_channel on penstock.channel_members (channel, joined_at, id);
  create index channel_members_by_end on penstock.channel_members (expires_at);
  create table penstock.channel_messages (
    seq bigint generated always as identity primary key,
    channel text not null,
    member_id uuid not null,
    user_id uuid not null,
    event text not null,
    data text not null,
    sent_at timestamptz(3) not null default now()
  );
  create index channel_messages_of_channel on penstock.channel_messages (channel, seq);
  create index channel_messages_by_time on penstock.channel_messages (sent_at);
  create index channel_messages_of_user on penstock.channel_messages (user_id);
`;

/** What operators pass on of the platform's events to sockets of users. */
const relays = `
  create table penstock.event_relays (
    id uuid primary key,
    name text not null unique,
    notes text,
    active boolean not null,
    bus_event text not null,
    socket_event text not null,
    resource_type text,
    resource_id_path text,
    permission text,
    message_template jsonb,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now()
  );
`;

/** `previous_hash`: the secret before the last rotation, good until `previous_until`. */
export const migrations: readonly Migration[] = [
  {
    id: '0001-security-clients',
    run: async (database) => void (await database.query({ text: clients })),
  },
  {
    id: '0002-channels',
    run: async (database) => void (await database.query({ text: channels })),
  },
  {
    id: '0003-event-relays',
    run: async (database) => void (await database.query({ text: relays })),
  },
];
