/** The `count` of a list answer, as SQL text (modes: store.ts). */
import type { RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { literalOf } from '../schema/literal.ts';
import { type Parameters, restriction } from './parameters.ts';
import type { CountMode } from './store.ts';

/** Up to here an estimate is exact: counting so few costs less than a millisecond. */
export const exactUpTo = 10_000;

/** What follows the documents: `,"count":n`, or nothing. A text expression of SQL. */
export function countText(schema: CompiledSchema, mode: CountMode, predicate: RowPredicate | undefined, parameters: Parameters): string {
  if (mode === 'none') return `''`;
  if (mode === 'exact') return `',"count":' || ${exactCount(schema, predicate, parameters)}`;
  // One more than counts as few: reaching it says that there are more.
  const some = `select count(*) as n from (select 1 from ${schema.rows} t0 where true${restriction(predicate, 't0', parameters)} limit ${exactUpTo + 1}) few`;
  // The planner's figure is of the whole table, the trash included.
  const many =
    predicate || schema.softDelete
      ? 'c.n'
      : `greatest(c.n, (select reltuples from pg_class where oid = ${literalOf(schema.table, 'regclass')})::bigint)`;
  return `(select ',"count":' || case when c.n > ${exactUpTo} then ${many} else c.n end || ',"estimated":' || (c.n > ${exactUpTo}) from (${some}) c)`;
}

function exactCount(schema: CompiledSchema, predicate: RowPredicate | undefined, parameters: Parameters): string {
  // What permissions count are the rows of the table itself.
  const isWhole = schema.rows === schema.table && schema.mapping === undefined;
  if (predicate?.number && isWhole) return predicate.number(schema.table, parameters.next);
  return `(select count(*) from ${schema.rows} t0 where true${restriction(predicate, 't0', parameters, 'count')})`;
}

/** The same for the rows that fit `where`: of them the planner knows no figure, so an estimate ends with "more than that". */
export function filteredCountText(schema: CompiledSchema, mode: CountMode, where: string): string {
  if (mode === 'none') return `''`;
  const fitting = `from ${schema.rows} t0 where ${where}`;
  if (mode === 'exact') return `',"count":' || (select count(*) ${fitting})`;
  const some = `select count(*) as n from (select 1 ${fitting} limit ${exactUpTo + 1}) few`;
  return `(select ',"count":' || c.n || ',"estimated":' || (c.n > ${exactUpTo}) from (${some}) c)`;
}
