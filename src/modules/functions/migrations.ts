/** Functions, their versions and secrets, and what became of their runs. */
import type { Migration } from '../../kernel/database/migrate.ts';
import { countVersions } from '../../kernel/freshness/migrations.ts';

/**
 * The text of a function is kept with its version, so that nobody reads it who lists functions. Records of runs outlive
 * their function and have its name and no foreign key.
 */
const functions = `
  create table penstock.functions (
    id uuid primary key,
    name text not null,
    kind text not null,
    definition json not null,
    enabled boolean not null,
    version integer not null,
    checksum text not null,
    created_at timestamptz(3) not null default now(),
    updated_at timestamptz(3) not null default now(),
    constraint functions_name unique (name)
  );
  create table penstock.function_versions (
    function_id uuid not null references penstock.functions (id) on delete cascade,
    version integer not null,
    code text not null,
    running text not null,
    packages json not null,
    definition json not null,
    created_at timestamptz(3) not null default now(),
    created_by text not null,
    primary key (function_id, version)
  );
  create table penstock.function_secrets (
    function_id uuid not null references penstock.functions (id) on delete cascade,
    key text not null,
    sealed text not null,
    updated_at timestamptz(3) not null default now(),
    primary key (function_id, key)
  );
  create table penstock.function_executions (
    id uuid primary key,
    function_id uuid not null,
    function_name text not null,
    version integer not null,
    trigger text not null,
    success boolean not null,
    outcome text not null,
    status_code integer not null,
    duration_ms real not null,
    cpu_ms real not null,
    memory_peak bigint not null,
    attempt integer not null,
    request_id text not null,
    user_id uuid,
    error jsonb,
    logs jsonb not null,
    input jsonb,
    created_at timestamptz(3) not null
  );
  create index function_executions_of_function on penstock.function_executions (function_id, created_at desc, id);
  create index function_executions_by_time on penstock.function_executions (created_at desc, id);
  create index function_executions_by_success on penstock.function_executions (success, created_at);
  create index function_executions_of_user on penstock.function_executions (user_id) where user_id is not null;
`;

/** Messages that webhooks have taken: the same one is not taken again while its signature counts. */
const receipts = `
  create table penstock.function_receipts (
    function_id uuid not null,
    message text not null,
    ends_at timestamptz(3) not null,
    primary key (function_id, message)
  );
  create index function_receipts_by_end on penstock.function_receipts (ends_at);
`;

/**
 * Steps of workflows, under the id of their run, and what each waits for; and when schedules are due. A schedule that is
 * changed has another `key`.
 */
const triggers = `
  create table penstock.function_steps (
    item uuid not null,
    name text not null,
    done boolean not null,
    value jsonb,
    until timestamptz(3),
    topic text,
    about text,
    primary key (item, name)
  );
  create index function_steps_waiting on penstock.function_steps (topic) where not done and topic is not null;
  create table penstock.function_schedules (
    function_id uuid primary key,
    key text not null,
    next_at timestamptz(3) not null
  );
`;

export const migrations: readonly Migration[] = [
  {
    id: '0001-functions',
    run: async (database) => void (await database.query({ text: functions })),
  },
  countVersions('0002-version', 'penstock.functions', 'functions'),
  {
    id: '0003-receipts',
    run: async (database) => void (await database.query({ text: receipts })),
  },
  {
    id: '0004-triggers',
    run: async (database) => void (await database.query({ text: triggers })),
  },
];
