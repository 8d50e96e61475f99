/** The text of statements that take records away: into the trash, or for good, with what hangs on them. */
import { literalOf } from '../../../kernel/database/literal.ts';
import type { RecordTuples, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { deletedColumn } from '../../schema/compile/layout.ts';
import { historyTable } from '../../schema/migrations.ts';
import { changedRows, destroyedRows, touched } from '../sql/changed-rows.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { idTest, live } from '../sql/row-id.ts';
import { eventRow, eventRows, guardOf } from './statements.ts';

/** One record. Values: actor, id, the version when `versioned`. */
export function deleteText(
  schema: CompiledSchema,
  shape: {
    readonly versioned: boolean;
    readonly predicate: RowPredicate | undefined;
    readonly guardText?: (() => string) | undefined;
    readonly tuples: RecordTuples | undefined;
  },
  parameters: Parameters,
): string {
  const version = shape.versioned ? ' and t0."__v" = $3::integer' : '';
  const where = `${idTest(schema, 't0', '$2')}${version}${live(schema, 't0')}${restriction(shape.predicate, 't0', parameters, 'row')}${guardOf(shape)}`;
  const { rows, forgotten } = removedRows(schema, where, { tuples: shape.tuples, many: false });
  return `with ${rows}, e as (${eventRow(schema, 'delete')})${forgotten} select r."_id" as id from r`;
}

/** The head of a `with` that deletes rows: they go into the trash, where they keep their tuples, or for good. */
export function removedRows(
  schema: CompiledSchema,
  where: string,
  { tuples, many }: Removal,
): RemovedRows {
  if (!schema.softDelete)
    return {
      rows: destroyedRows(schema, where, many),
      forgotten: forgetTuples(tuples, schema, 'r'),
    };
  const set = `"${deletedColumn}" = now(), ${touched}`;
  return {
    rows: changedRows(schema, {
      set,
      where,
      operation: 'delete',
      many: true,
      returning: 't0."_id"',
    }),
    forgotten: '',
  };
}

interface Removal {
  readonly tuples: RecordTuples | undefined;
  readonly many: boolean;
}

export interface RemovedRows {
  /** `r`: the ids of the rows that go. */
  readonly rows: string;
  /** Further parts. */
  readonly forgotten: string;
}

/** What takes the tuples of deleted rows away, as further parts of a `with`. */
export const forgetTuples = (
  tuples: RecordTuples | undefined,
  { name, table, mapping }: CompiledSchema,
  rows: string,
): string =>
  (
    tuples?.forget({
      rows,
      schema: name,
      table: mapping === undefined ? table : undefined,
      actor: '$1',
    }) ?? []
  )
    .map((part) => `, ${part}`)
    .join('');

/**
 * Records that leave the trash for good, with their history and their tuples: they were told as deleted when they went
 * there. Values: actor, ids.
 */
export function purgeText(schema: CompiledSchema, tuples: RecordTuples | undefined): string {
  const gone = `delete from ${schema.table} t0 where t0."_id" = any($2::uuid[]) returning t0."_id"`;
  const name = literalOf(schema.name, 'text');
  const history = `delete from ${historyTable} d using r where d.schema = ${name} and d.record_id = r."_id"::text`;
  return `with r as (${gone}), h as (${history}), e as (${eventRows(schema, 'purge')})${forgetTuples(tuples, schema, 'r')} select count(*) from r`;
}
