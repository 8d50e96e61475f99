/** Tables of the outbox, of the node registry, and the installation's own id. */
import type { Queryable } from '../database/database.ts';
import type { Migration } from '../database/migrate.ts';
import { createVersionTable } from '../freshness/migrations.ts';
import { orderPages, partitionOutbox } from './outbox-partitions.ts';

const outbox = [
  `create table penstock.outbox (
    seq bigint generated always as identity,
    topic text not null,
    schema text,
    ids text[],
    operation text,
    payload jsonb,
    actor text not null,
    occurred_at timestamptz(3) not null default now(),
    position bigint
  ) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000)`,
  'create unique index outbox_unpublished on penstock.outbox (seq) where position is null',
  'create unique index outbox_position on penstock.outbox (position) where position is not null',
  `create table penstock.outbox_state (
    only_row boolean primary key default true check (only_row),
    last_position bigint not null default 0,
    purged_position bigint not null default 0
  )`,
  'insert into penstock.outbox_state default values',
];

const nodes = [
  `create table penstock.nodes (
    node_id text primary key,
    listening boolean not null default true,
    missed boolean not null default false,
    started_at timestamptz(3) not null default now(),
    seen_at timestamptz(3) not null default now()
  )`,
];

const installation = [
  `create table penstock.installation (
    only_row boolean primary key default true check (only_row),
    id uuid not null default gen_random_uuid()
  )`,
  'insert into penstock.installation default values',
];

const runAll = (statements: readonly string[]) => async (database: Queryable) => {
  for (const text of statements) await database.query({ text });
};

const consumers = [
  `create table penstock.event_consumers (
    name text primary key,
    position bigint not null,
    seen_at timestamptz(3) not null default now()
  )`,
];

/**
 * The outbox as 0001 made it, with a position in each row, is the one of old installations; 0005 takes its rows over
 * (outbox-partitions.ts). `outbox_state` holds the highest position given and the highest one that is no longer kept.
 * `nodes`: who listens to the bus, by heartbeat; `missed` tells a node that a message did not reach
 * it. `event_consumers`: how far those have come that handle every event once. `installation` names this installation on a shared Redis.
 */
export const migrations: readonly Migration[] = [
  { id: '0001-outbox', run: runAll(outbox) },
  { id: '0002-nodes', run: runAll(nodes) },
  { id: '0003-installation', run: runAll(installation) },
  { id: '0004-versions', run: createVersionTable },
  { id: '0005-outbox-partitions', run: partitionOutbox },
  { id: '0006-consumers', run: runAll(consumers) },
  { id: '0007-page-order', run: runAll(orderPages) },
];
