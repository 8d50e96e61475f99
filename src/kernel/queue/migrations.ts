/** The table of durable queues. */
import type { Migration } from '../database/migrate.ts';

/**
 * A try that runs moves `due_at` behind its lease and leaves its token, so that an item of a node that died becomes due
 * by itself. `seq` is the order within a lane (queue, target, order_key).
 */
const queue = `
  create table penstock.queue_items (
    id uuid primary key,
    queue text not null,
    target text not null,
    dedupe text not null,
    order_key text,
    seq bigint generated always as identity,
    data jsonb not null,
    state text not null default 'waiting',
    attempts integer not null default 0,
    tries jsonb not null default '[]',
    due_at timestamptz(3) not null default now(),
    lease uuid,
    leased_at timestamptz(3),
    created_at timestamptz(3) not null default now(),
    finished_at timestamptz(3),
    constraint queue_items_once unique (queue, target, dedupe)
  ) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
  create index queue_items_due on penstock.queue_items (queue, target, due_at, seq) where state = 'waiting';
  create index queue_items_lane on penstock.queue_items (queue, target, order_key, seq)
    where state = 'waiting' and order_key is not null;
  create index queue_items_list on penstock.queue_items (queue, target, seq desc);
  create index queue_items_ended on penstock.queue_items (queue, state, finished_at) where finished_at is not null;
`;

export const migrations: readonly Migration[] = [
  { id: '0001-queue', run: async (database) => void (await database.query({ text: queue })) },
];
