/** The `count` of a list answer, as SQL text (modes: store.ts). */

import { codeOf } from '../../../kernel/database/failures.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import type { RowPredicate, RowUse } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { recordErrors } from '../errors.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import type { CountMode, ListOptions } from '../store.ts';

/** Milliseconds within which a page is there that nothing stands in the way of. */
const PAGE_MS = 1_000;

/**
 * Answers for `catch`: the time that a client's list may take was over while all that fits was to be counted. Whether it
 * was the count is found out: where the page alone (`readPage`) is there at once, whoever asked can ask without it, and
 * the error says so. A table that somebody has locked, or a server that has too much to do, stays 504. Anything else is
 * thrown as it is.
 */
export const orCountTimeout =
  (
    { count = 'exact' }: Pick<ListOptions, 'count'>,
    limitMs: number | undefined,
    readPage: (limitMs: number) => Promise<unknown>,
  ) =>
  async (error: unknown): Promise<never> => {
    const isTooLong = count === 'exact' && limitMs !== undefined && codeOf(error) === 'TIMEOUT';
    if (!isTooLong) throw error;
    await readPage(Math.min(limitMs, PAGE_MS)).catch((reason: unknown) => {
      throw codeOf(reason) === 'TIMEOUT' ? error : reason;
    });
    const message = `no exact count within ${limitMs} ms: ask with count=estimated, or count=none`;
    throw recordErrors.COUNT_TIMEOUT({
      cause: error,
      message: `count: ${message}`,
      errors: [{ path: 'count', rule: 'time', message }],
    });
  };

/** Up to here an estimate is exact: counting so few costs less than a millisecond. */
const exactUpTo = 10_000;

/** What follows the documents: `,"count":n`, or nothing. A text expression of SQL. */
export function countText(
  schema: CompiledSchema,
  mode: CountMode,
  predicate: RowPredicate | undefined,
  parameters: Parameters,
): string {
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

function exactCount(
  schema: CompiledSchema,
  predicate: RowPredicate | undefined,
  parameters: Parameters,
): string {
  // What permissions count are the rows of the table itself.
  const isWhole = schema.rows === schema.table && schema.mapping === undefined;
  if (predicate?.number && isWhole) return predicate.number(schema.table, parameters.next);
  return `(select count(*) from ${schema.rows} t0 where true${restriction(predicate, 't0', parameters, 'count')})`;
}

/** Up to so many rows are asked one by one whether somebody may see them. */
const ASKED = 1_000;

/** Rows that are counted (SQL of what stands behind `where`). */
export interface Counted {
  readonly fitting: () => string;
  /** The same with what permissions say, for rows that are come by in such a way. */
  readonly visible: (use?: RowUse) => string;
  readonly predicate: RowPredicate | undefined;
}

/**
 * The same for rows that fit a filter: of them the planner knows no figure, so an estimate ends with "more than that".
 * Where the caller sees many rows, few that fit are asked one by one; for many, those that the caller sees are found once.
 */
export function filteredCountText(
  schema: CompiledSchema,
  mode: CountMode,
  { fitting, visible, predicate }: Counted,
): string {
  if (mode === 'none') return `''`;
  const from = `from ${schema.rows} t0 where`;
  if (mode === 'estimated') {
    const some = `select count(*) as n from (select 1 ${from} ${visible()} limit ${exactUpTo + 1}) few`;
    return `(select ',"count":' || c.n || ',"estimated":' || (c.n > ${exactUpTo}) from (${some}) c)`;
  }
  const number = (use?: RowUse): string => `(select count(*) ${from} ${visible(use)})`;
  if (!predicate?.many) return `',"count":' || ${number('count')}`;
  const few = `(select count(*) from (select 1 ${from} ${fitting()} limit ${ASKED + 1}) few) <= ${ASKED}`;
  return `',"count":' || case when ${few} then ${number('row')} else ${number('count')} end`;
}
