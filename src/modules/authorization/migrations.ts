/**
 * Tables of the permission engine. Tuples and definitions are the only truth;
 * what is noted about them (change-tracking-tables.ts) only says what may still be kept.
 */
import type { Queryable } from '../../kernel/database/database.ts';
import type { Migration } from '../../kernel/database/migrate.ts';
import { createChanges, createRowTracking } from './change-tracking-tables.ts';
import { createFieldTracking } from './field-tracking-tables.ts';

/** Roles and rules of the 0.16 line. Who holds a role is a tuple: `User:u assignee Role:<id>`. */
async function createRoles(database: Queryable): Promise<void> {
  await database.query({
    text: `create table penstock.roles (
      id uuid primary key,
      name text collate "C" not null unique,
      description text not null default '',
      permissions text[] not null default '{}',
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now()
    )`,
  });
  await database.query({
    text: `create table penstock.role_rules (
      id uuid primary key,
      role_id uuid not null references penstock.roles (id) on delete cascade,
      resource text collate "C" not null,
      action text collate "C" not null,
      conditions jsonb not null default '{}',
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now()
    )`,
  });
  await database.query({
    text: 'create index role_rules_by_question on penstock.role_rules (resource, action, role_id)',
  });
  await database.query({
    text: 'create index role_rules_of_role on penstock.role_rules (role_id)',
  });
}

/** Runs of the check of all tuples against the definitions; the newest tell their progress. */
async function createVerifications(database: Queryable): Promise<void> {
  await database.query({
    text: `create table penstock.tuple_verifications (
      id uuid primary key,
      soft boolean not null,
      state text not null default 'waiting',
      total bigint not null default 0,
      checked bigint not null default 0,
      invalid bigint not null default 0,
      orphaned bigint not null default 0,
      last_id uuid,
      examples jsonb not null default '[]',
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now(),
      finished_at timestamptz(3)
    )`,
  });
}

export const migrations: readonly Migration[] = [
  {
    id: '0001-tuples',
    async run(database) {
      await database.query({
        text: `create table penstock.resource_definitions (
          id uuid primary key,
          name text collate "C" not null unique,
          relations jsonb not null,
          permissions jsonb not null,
          conditions jsonb not null default '{}',
          act_as text,
          version integer not null default 0,
          created_at timestamptz(3) not null default now(),
          updated_at timestamptz(3) not null default now()
        )`,
      });
      // Every definition as it was after each change, and the model revision that nodes compare with.
      await database.query({
        text: `create table penstock.resource_definition_versions (
          revision bigint generated always as identity primary key,
          name text collate "C" not null,
          definition jsonb,
          changed_at timestamptz(3) not null default now(),
          changed_by text not null
        )`,
      });
      await database.query({
        text: `create table penstock.tuples (
          id uuid primary key,
          subject_type text collate "C" not null,
          subject_id text collate "C" not null,
          subject_relation text collate "C" not null default '',
          relation text collate "C" not null,
          resource_type text collate "C" not null,
          resource_id text collate "C" not null,
          resource_uuid uuid generated always as (
            case when resource_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then resource_id::uuid end) stored,
          condition text collate "C",
          attributes jsonb,
          expires_at timestamptz(3),
          created_at timestamptz(3) not null default now(),
          updated_at timestamptz(3) not null default now()
        )`,
      });
      // The way down: who stands in a relation to a resource. Also what makes a tuple unique.
      await database.query({
        text: `create unique index tuples_by_resource on penstock.tuples
          (resource_type, resource_id, relation, subject_type, subject_id, subject_relation)`,
      });
      // The way up: what a subject stands in. What is included lets lists read the index alone.
      await database.query({
        text: `create index tuples_by_subject on penstock.tuples
          (subject_type, subject_id, subject_relation, resource_type, relation, resource_id) include (resource_uuid, condition, expires_at)`,
      });
      // Subject sets are few beside members: reading them must not pass over all members.
      await database.query({
        text: `create index tuples_sets on penstock.tuples (resource_type, resource_id, relation) where subject_relation <> ''`,
      });
      await database.query({
        text: `create index tuples_expiring on penstock.tuples (expires_at) where expires_at is not null`,
      });
    },
  },
  { id: '0002-roles', run: createRoles },
  { id: '0003-verifications', run: createVerifications },
  { id: '0004-changes', run: createChanges },
  { id: '0005-row-tracking', run: createRowTracking },
  {
    // What the fields are that relations are taken from: a model follows from its definitions alone.
    id: '0006-record-fields',
    async run(database) {
      await database.query({
        text: `alter table penstock.resource_definitions add column fields jsonb not null default '{}'`,
      });
    },
  },
  {
    // Tables whose records say who owns them; `moved` when no stored tuple says it any more that could be in its record.
    id: '0007-owner-columns',
    async run(database) {
      await database.query({
        text: `alter table penstock.tuple_tables add column owned boolean not null default false, add column moved boolean not null default false`,
      });
    },
  },
  {
    // Statistics follow writes late. From a time with few tuples they say that all are about one object, and then plans
    // that pass over the id of the object look cheap (decision 176). Shares stay right while the table grows.
    id: '0008-statistics',
    async run(database) {
      await database.query({
        text: `alter table penstock.tuples alter column resource_id set (n_distinct = -0.5), alter column subject_id set (n_distinct = -0.1)`,
      });
      await database.query({ text: 'analyze penstock.tuples' });
    },
  },
  // What records say about relations is noted as well, where others hang on it (decision 451).
  { id: '0009-field-tracking', run: createFieldTracking },
  {
    // Actions that were ever granted directly on some object of the type (decision 519).
    id: '0010-granted-actions',
    async run(database) {
      await database.query({
        text: `alter table penstock.resource_definitions add column granted text[] not null default '{}'`,
      });
      await database.query({
        text: `update penstock.resource_definitions d set granted = g.actions
          from (select resource_type, array_agg(distinct substr(relation, 5)) as actions
            from penstock.tuples where relation like 'can:%' group by resource_type) g
         where g.resource_type = d.name`,
      });
    },
  },
];
