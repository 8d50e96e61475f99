/**
 * Functions of triggers that note what records say about relations (fields, and columns of owners) where that changes,
 * beside the changes of stored tuples (change-tracking-tables.ts). Tables get the triggers from
 * `services/field-tracking.ts`.
 */
import { tableName } from '../../data/schema/compile/layout.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { literalOf } from '../../kernel/database/literal.ts';
import { identifier } from '../../kernel/database/sql.ts';
import { NOTED, triggerFunction } from './change-tracking-tables.ts';
import { fieldKey, ownerColumn, type RecordField } from './model/grammar.ts';

/** What rows `r` (one column `said`, a row as JSON) say about the type (first argument) by its fields (second): notes. */
const notesOf = (rows: string): string => `
    insert into penstock.tuple_changes (resource_type, subject_type, subject_id)
      select distinct tg_argv[0], coalesce(r.said ->> f.type_column, f.type), s.id
        from ${rows} r(said)
        cross join jsonb_to_recordset(tg_argv[1]::jsonb) f(field text, type text, type_column text)
        cross join lateral (select r.said -> f.field as held offset 0) h
        cross join lateral jsonb_array_elements_text(
          case jsonb_typeof(h.held) when 'array' then h.held when 'string' then jsonb_build_array(h.held) else '[]' end) s(id);`;

const everything = `insert into penstock.tuple_changes (resource_type, subject_type, subject_id) values ('*', '*', '*');`;

/** Rows of one transaction whose fields changed, counted where a savepoint that is undone undoes the count as well. */
const counted = 'penstock.noted_rows';

export async function createFieldTracking(database: Queryable): Promise<void> {
  const texts = [
    `alter table penstock.tuple_tables add column followed text[] not null default '{}'`,
    triggerFunction(
      'note_rows',
      `if (select count(*) from (select 1 from changed limit ${NOTED + 1}) few) > ${NOTED} then ${everything}
    else ${notesOf('(select to_jsonb(c) from changed c)')}
    end if;`,
    ),
    triggerFunction(
      'note_changed_row',
      `perform set_config('${counted}', (coalesce(nullif(current_setting('${counted}', true), ''), '0')::bigint + 1)::text, true);
    if current_setting('${counted}')::bigint <= ${NOTED} then ${notesOf('(values (to_jsonb(old)), (to_jsonb(new)))')}
    elsif current_setting('${counted}')::bigint = ${NOTED + 1} then ${everything}
    end if;`,
    ),
  ];
  for (const text of texts) await database.query({ text });
}

/* The triggers of a table. Changes of other fields cost nothing: the condition is part of the trigger. */

const triggers = {
  added: 'penstock_fields_added',
  gone: 'penstock_fields_gone',
  changed: 'penstock_fields_changed',
  emptied: 'penstock_all_fields_gone',
};

interface FollowedTable {
  readonly type: string;
  /** A quoted name. */
  readonly table: string;
}

const columnsOf = (fields: readonly RecordField[]): readonly string[] => [
  ...new Set(
    fields.flatMap(({ field, typeColumn }) => (typeColumn ? [field, typeColumn] : [field])),
  ),
];

/**
 * Gives a tracked table the triggers for these fields, in place of others, and notes that it has them. False where the
 * table is not the tracked one.
 */
export async function followFields(
  transaction: Queryable,
  { type, table }: FollowedTable,
  fields: readonly RecordField[],
): Promise<boolean> {
  const { rows } = await transaction.query({
    text: `update penstock.tuple_tables set followed = $2::text[] where type = $1 and table_oid = ${literalOf(table, 'regclass')}::oid returning type`,
    values: [type, fields.map(fieldKey)],
  });
  if (rows.length === 0) return false;
  for (const text of triggerTexts({ type, table }, fields)) await transaction.query({ text });
  return true;
}

function triggerTexts(
  { type, table }: FollowedTable,
  fields: readonly RecordField[],
): readonly string[] {
  const columns = columnsOf(fields).map(identifier);
  const said = fields.map((one) => ({
    field: one.field,
    type: one.type,
    type_column: one.typeColumn ?? null,
  }));
  // Arguments of triggers are bare literals.
  const bare = (text: string): string => literalOf(text, 'text').replace(/::text$/, '');
  const args = `${bare(type)}, ${bare(JSON.stringify(said))}`;
  const differs = columns.map((column) => `old.${column} is distinct from new.${column}`);
  return [
    `create or replace trigger ${triggers.added} after insert on ${table} referencing new table as changed
      for each statement execute function penstock.note_rows(${args})`,
    `create or replace trigger ${triggers.gone} after delete on ${table} referencing old table as changed
      for each statement execute function penstock.note_rows(${args})`,
    `create or replace trigger ${triggers.changed} after update of ${columns.join(', ')} on ${table}
      for each row when (${differs.join(' or ')}) execute function penstock.note_changed_row(${args})`,
    `create or replace trigger ${triggers.emptied} after truncate on ${table}
      for each statement execute function penstock.note_all_tuples()`,
  ];
}

/**
 * Takes the triggers from tables that follow fields which their definition has let go, in the transaction that changes
 * it: a column that a trigger names could not be dropped.
 */
export async function releaseFields(transaction: Queryable): Promise<void> {
  const { rows } = await transaction.query<{
    type: string;
    followed: readonly string[];
    fields: Readonly<Record<string, RecordField>> | null;
  }>({
    text: `select c.type, c.followed, d.fields from penstock.tuple_tables c
      left join penstock.resource_definitions d on d.name = c.type where c.followed <> '{}'`,
  });
  for (const { type, followed, fields } of rows) {
    const kept = fields ? [...Object.values(fields), ownerColumn].map(fieldKey) : [];
    if (followed.every((key) => kept.includes(key))) continue;
    for (const name of Object.values(triggers))
      await transaction.query({ text: `drop trigger if exists ${name} on ${tableName(type)}` });
    await transaction.query({
      text: `update penstock.tuple_tables set followed = '{}' where type = $1`,
      values: [type],
    });
  }
}
