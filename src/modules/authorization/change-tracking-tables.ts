/**
 * Tables that say what changed about tuples, and which tuples are known to lead
 * to a row: what lets nodes keep answers for as long as they are true, and
 * PostgreSQL count records without visiting them. Triggers keep all of it, so
 * that it holds whoever writes.
 */
import type { Queryable } from '../../kernel/database/database.ts';

/** Of more changes than this in one statement only the fact is written down. */
export const NOTED = 1_000;

export const triggerFunction = (name: string, body: string): string =>
  `create function penstock.${name}() returns trigger language plpgsql as $$ begin ${body} return null; end $$`;

/** Writes down what `rows` (a relation, or a select in brackets) are about. */
const noted = (rows: string): string => `
  if (select count(*) from (select 1 from ${rows} c limit ${NOTED + 1}) few) > ${NOTED} then
    insert into penstock.tuple_changes (resource_type, subject_type, subject_id) values ('*', '*', '*');
  else
    insert into penstock.tuple_changes (resource_type, subject_type, subject_id)
      select distinct c.resource_type, c.subject_type, c.subject_id from ${rows} c;
  end if;`;

/** What a tuple says; its times and what is known about its row are not part of it. */
const said =
  'subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at';
const differing = `(
  (select ${said} from new_rows except select ${said} from old_rows) union all
  (select ${said} from old_rows except select ${said} from new_rows))`;

/**
 * `tuple_changes`: which subjects' tuples changed, about which type, by the transaction that did it: a snapshot tells by
 * `xid` what it has not seen, in whatever order transactions commit. Changes since a snapshot are complete when it began
 * at or after `kept_from`. `*` stands for everything.
 */
const changes = [
  `create table penstock.tuple_changes (
    xid xid8 not null default pg_current_xact_id(),
    resource_type text collate "C" not null,
    subject_type text collate "C" not null,
    subject_id text collate "C" not null
  )`,
  'create index tuple_changes_by_type on penstock.tuple_changes (resource_type, xid)',
  `create table penstock.tuple_change_state (
    only_row boolean primary key default true check (only_row),
    kept_from xid8 not null default pg_current_xact_id(),
    next_kept_from xid8 not null default pg_current_xact_id(),
    moved_at timestamptz not null default now()
  )`,
  'insert into penstock.tuple_change_state default values',
  triggerFunction('note_tuples', noted('changed')),
  triggerFunction('note_changed_tuples', noted(differing)),
  triggerFunction(
    'note_all_tuples',
    `insert into penstock.tuple_changes (resource_type, subject_type, subject_id) values ('*', '*', '*');`,
  ),
  'create trigger note_insert after insert on penstock.tuples referencing new table as changed for each statement execute function penstock.note_tuples()',
  'create trigger note_delete after delete on penstock.tuples referencing old table as changed for each statement execute function penstock.note_tuples()',
  `create trigger note_update after update on penstock.tuples referencing old table as old_rows new table as new_rows
    for each statement execute function penstock.note_changed_tuples()`,
  'create trigger note_truncate after truncate on penstock.tuples for each statement execute function penstock.note_all_tuples()',
];

/**
 * `tuples.row_of`: the table (its oid) in which the resource is known to be a row; null when that is not known. A write
 * sets it under a lock on the row, and the trigger of the table (`row-tracking.ts`) takes it back from what a deletion
 * left. `tuple_tables`: the tables that have the trigger; `noted` when the tuples of before it have been looked through.
 */
const rows = [
  'alter table penstock.tuples add column row_of oid',
  `create index tuples_counted on penstock.tuples
    (subject_type, subject_id, subject_relation, resource_type, relation, row_of, resource_uuid) include (expires_at) where condition is null`,
  `create table penstock.tuple_tables (
    type text collate "C" primary key,
    table_oid oid not null,
    noted boolean not null default false
  )`,
  triggerFunction(
    'forget_rows',
    `if exists (select 1 from gone g join penstock.tuples t on t.resource_type = tg_argv[0] and t.resource_id = g."_id"::text where t.row_of is not null) then
      update penstock.tuples set row_of = null
       where resource_type = tg_argv[0] and resource_id = any(array(select g."_id"::text from gone g)) and row_of is not null;
    end if;`,
  ),
  triggerFunction(
    'forget_all_rows',
    'update penstock.tuples set row_of = null where resource_type = tg_argv[0] and row_of is not null;',
  ),
];

const runAll = async (database: Queryable, texts: readonly string[]): Promise<void> => {
  for (const text of texts) await database.query({ text });
};

export const createChanges = (database: Queryable): Promise<void> => runAll(database, changes);
export const createRowTracking = (database: Queryable): Promise<void> => runAll(database, rows);
