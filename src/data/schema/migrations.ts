/** Tables of the schema registry, and the PostgreSQL schema that holds the tables of declared schemas. */
import type { Migration } from '../../kernel/database/migrate.ts';
import { countVersions } from '../../kernel/freshness/migrations.ts';

const registry = `
  create schema if not exists app;

  create table penstock.declared_schemas (
    id uuid primary key,
    name text not null,
    owner_module text not null,
    parent_schema text,
    fields json not null,
    extensions json not null,
    model_options json not null,
    layout json not null,
    dropped jsonb not null,
    checksum text not null,
    version integer not null,
    created_at timestamptz(3) not null,
    updated_at timestamptz(3) not null,
    removed_at timestamptz(3)
  );
  create unique index declared_schemas_name on penstock.declared_schemas (lower(name));
  create index declared_schemas_owner on penstock.declared_schemas (owner_module);

  create table penstock.schema_migrations (
    id bigint generated always as identity primary key,
    schema text not null,
    from_version integer,
    to_version integer,
    statements json not null,
    checksum text not null,
    actor text not null,
    finished_at timestamptz(3) not null default now()
  );
  create index schema_migrations_schema on penstock.schema_migrations (schema, id);
`;

/** Where earlier versions of records are kept. */
export const historyTable = 'penstock.record_history';

const history = `
  create table ${historyTable} (
    id bigint generated always as identity primary key,
    schema text not null,
    record_id text not null,
    version integer not null,
    operation text not null,
    actor text not null,
    at timestamptz(3) not null default now(),
    data jsonb not null
  );
  create index record_history_record on ${historyTable} (schema, record_id, version desc, id desc);
  create index record_history_age on ${historyTable} (schema, at);
`;

/** Indexes of large tables that are still to be made. */
export const indexBuildTable = 'penstock.schema_index_builds';

const changes = `
  create table ${indexBuildTable} (
    name text primary key,
    schema text not null,
    state text not null default 'building',
    reason text,
    created_at timestamptz(3) not null default now()
  );
  create index schema_index_builds_schema on ${indexBuildTable} (schema);

  alter table penstock.schema_migrations
    add column state text not null default 'applied',
    add column reason text,
    add column started_at timestamptz(3) not null default now();
  update penstock.schema_migrations set started_at = finished_at;

  update penstock.declared_schemas
    set dropped = coalesce(
      (select jsonb_object_agg(key, jsonb_build_object('type', value, 'at', updated_at)) from jsonb_each(dropped)),
      '{}'::jsonb);
`;

const dataChanges = `alter table penstock.declared_schemas add column changes json not null default '[]'`;

/** What waits on lists of GIN indexes goes into them, and nothing is put there again (plan/index-steps.ts). */
const wordsAtOnce = `
  do $$
  declare found record;
  begin
    for found in
      select c.oid, format('%I.%I', n.nspname, c.relname) as name, i.indisvalid as valid
      from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_index i on i.indexrelid = c.oid
        join pg_class t on t.oid = i.indrelid join pg_am a on a.oid = c.relam
        join penstock.declared_schemas s on s.name = t.relname and s.layout::jsonb -> 'indexes' ? c.relname
      where n.nspname = 'app' and a.amname = 'gin'
    loop
      execute 'alter index ' || found.name || ' set (fastupdate = off)';
      if found.valid then perform gin_clean_pending_list(found.oid); end if;
    end loop;
  end $$
`;

/**
 * `declared_schemas`: one row per declared schema; a removed one whose table was kept stays with
 * `removed_at`. Definitions are `json`, not `jsonb`: they keep the order in which they were
 * written; so are its `changes` (data-changes.ts). `schema_migrations`: what was done to each table, by whom.
 *
 * `record_history`: what a record was (`data`, by column, hidden ones included) at a `version`, and
 * what ended that version: operation, actor, time. A record that is imported again may have a
 * version twice; the younger row counts.
 *
 * `schema_index_builds`: `building`, or `failed` with a reason; a row goes when its index is there.
 */
export const migrations: readonly Migration[] = [
  { id: '0001-schemas', run: async (database) => void (await database.query({ text: registry })) },
  {
    id: '0002-record-history',
    run: async (database) => void (await database.query({ text: history })),
  },
  {
    id: '0003-schema-changes',
    run: async (database) => void (await database.query({ text: changes })),
  },
  countVersions('0004-version', 'penstock.declared_schemas', 'schemas'),
  {
    id: '0005-data-changes',
    run: async (database) => void (await database.query({ text: dataChanges })),
  },
  {
    id: '0006-words-at-once',
    run: async (database) => void (await database.query({ text: wordsAtOnce })),
  },
];
