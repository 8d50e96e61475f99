/** The part of a list that is asked for: by `skip`, or by the cursor at which an earlier page ended. */

import { codeOf } from '../../../kernel/database/failures.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { FirstWay, RowPredicate, RowUse } from '../../../kernel/permissions.ts';
import type { Condition } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { recordErrors } from '../errors.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import type { CountMode, ListOptions } from '../store.ts';
import {
  type Cursors,
  following,
  isIndexed,
  orderOf,
  orderText,
  type SortTerm,
  sortTerms,
} from './keyset.ts';

/*
 * How large the answer to a list may become. The number of records is bounded, their size is up to whoever stored
 * them: without a second bound one list could take all the memory of this process (CWE-770, API4:2023).
 */

/**
 * Bytes of the records of one answer, and the most that the account of a request may be set to: such a text stands several
 * times in memory on its way out.
 */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MEGABYTES = MAX_ANSWER_BYTES / 1024 / 1024;

/** Stands in the place of records that are too large together. No JSON begins so. */
const tooLarge = '!';

/** The text `page` of a sub-select, or the mark. The sub-select keeps it from being made twice. */
export const boundedText = (page: string): string =>
  `case when octet_length(${page}) > ${MAX_ANSWER_BYTES} then '${tooLarge}' else ${page} end`;

/** Throws 400 for a list whose records were left out because they are too large together. */
export function requireWhole(json: string): string {
  if (json.startsWith(tooLarge, json.indexOf('[') + 1)) throw tooMany();
  return json;
}

/** The same for a record with what its relations lead to. Throws 400. */
export function requireWholeRecord<R extends { readonly json: string }>(row: R): R {
  if (row.json === tooLarge)
    throw invalid(
      'populate',
      'bytes',
      `the record is larger than ${MEGABYTES} MB with all of these relations`,
    );
  return row;
}

export const tooMany = (): PenstockError =>
  invalid(
    'limit',
    'bytes',
    `the records are larger than ${MEGABYTES} MB together: ask for fewer of them`,
  );

/* The `count` of a list answer, as SQL text (modes: store.ts). */

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

const DEFAULT_LIMIT = 25;
/** Records of one list. */
export const MAX_LIMIT = 1_000;

export interface Page {
  /** Values of the first placeholders. */
  readonly values: unknown[];
  /** What of it decides the text. */
  readonly shape: string;
  /** The page is among so many first rows. `fixed`: the number is part of the shape. */
  readonly among: Among;
  /** As it was asked for. */
  readonly sort: readonly string[];
  /** `source` stands in the place of the schema's rows: the first of them are in it. */
  text(where: string, source?: string): PageText;
  /** The answer to a list, from the row that the statement answered. */
  answer(row: PageRow | undefined): string;
}

interface Among {
  readonly count: number;
  readonly fixed: boolean;
  /** Conditions on rows `t0`: the first of those are meant that fit one of them. */
  readonly stretches: readonly string[];
  /** Another order than that of the ids (SQL over rows of an alias). */
  readonly order: ((alias: string) => string) | undefined;
}

/** Parts of a statement that answers a page. */
interface PageText {
  /** In front of the statement. */
  readonly before: string;
  /** A select of whole rows in order. */
  readonly rows: string;
  /** Behind the answer in the statement's own select list. */
  readonly after: string;
}

export interface PageRow {
  /** `{"documents":[...], ...}`. */
  readonly json: string;
  /** Where the page ended, as JSON; null when nothing follows it. */
  readonly last?: string | null;
}

interface PageRequest {
  readonly schema: CompiledSchema;
  readonly options: ListOptions;
  readonly cursors: Cursors;
  /** What else the list depends on: a cursor fits no list with another filter. */
  readonly filter?: Condition;
}

/** Throws 400. */
export function pageOf(request: PageRequest): Page {
  const { schema, options } = request;
  const { skip, limit } = listRange(options);
  if (options.cursor !== undefined) return cursorPage(request, limit);
  const order = orderOf(schema, options.sort ?? []);
  return {
    values: skip > 0 ? [skip] : [],
    shape: `${skip > 0}|${limit}|${order}`,
    among: {
      count: skip + limit,
      fixed: skip === 0,
      stretches: ['true'],
      order:
        order === 't0."_id"' ? undefined : (alias) => orderOf(schema, options.sort ?? [], alias),
    },
    sort: options.sort ?? [],
    text: (where, source = schema.rows) => ({
      before: '',
      rows: `select t0.* from ${source} t0 where ${where} order by ${order} ${rangeText(skip, limit)}`,
      after: '',
    }),
    answer: (row) => answered(row),
  };
}

/** The part of a list that is asked for. Throws 400. */
export function listRange({ skip = 0, limit = DEFAULT_LIMIT }: ListOptions): {
  readonly skip: number;
  readonly limit: number;
} {
  if (!Number.isSafeInteger(skip) || skip < 0)
    throw invalid('skip', 'minimum', 'must be a whole number, 0 or more');
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw invalid('limit', 'range', `must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  return { skip, limit };
}

/**
 * With the limit as a number, and the offset where the planner cannot look at it, PostgreSQL finds that
 * a plan for all values is as good as one for these, and plans once instead of for each page.
 */
export const rangeText = (skip: number, limit: number): string =>
  skip > 0 ? `offset (select $1::bigint) limit ${limit}` : `limit ${limit}`;

/** Number of a row within the page. No field can have this name. */
const ROW = '"#row"';

/** One row more than the page is read: it says that something follows. */
function cursorPage({ schema, options, cursors, filter }: PageRequest, limit: number): Page {
  const { skip = 0, sort = [], cursor = '' } = options;
  if (skip > 0)
    throw invalid(
      'skip',
      'cursor',
      'cannot be combined with cursor, which says itself where the page begins',
    );
  if (schema.mapping && schema.key.length === 0)
    throw invalid(
      'cursor',
      'key',
      'needs a key, which this table does not have: its rows cannot be told apart. Page with skip',
    );
  const terms = sortTerms(schema, sort);
  // With the types: a field can go, and another one come in its place.
  const typed = terms.map((term) => [termText(term), schema.layout.columns[term.name]?.type]);
  const asked = JSON.stringify([schema._id, typed, filter]);
  const last = isStart(cursor) ? undefined : cursors.read(asked, cursor);
  const rest = following(schema, terms, last);
  return {
    values: [...rest.values],
    shape: `cursor|${rest.shape}|${limit}|${terms.map(termText).join()}`,
    among: {
      // One row more is read: it says that something follows.
      count: limit + 1,
      fixed: true,
      stretches: rest.stretches,
      order:
        terms.length === 1 && terms[0] && termText(terms[0]) === '_id'
          ? undefined
          : (alias) => orderText(terms, alias),
    },
    sort,
    text(where, source) {
      const keys = terms.map(({ name }) => `p.${identifier(name)}::text`).join(', ');
      const ended = `p.${ROW} = ${limit} and exists (select 1 from p where p.${ROW} > ${limit})`;
      return {
        before: `with p as (select t0.*, row_number() over () as ${ROW} from (${rest.text(where, limit + 1, source)}) t0) `,
        rows: `select t0.* from p t0 where t0.${ROW} <= ${limit}`,
        after: `, (select json_build_array(${keys})::text from p where ${ended}) as last`,
      };
    },
    answer(row) {
      const json = answered(row);
      const next =
        typeof row?.last === 'string'
          ? cursors.write(asked, JSON.parse(row.last) as (string | null)[])
          : null;
      return `${json.slice(0, -1)},"nextCursor":${JSON.stringify(next)}}`;
    },
  };
}

/** Throws 400 when the records are too large together. */
const answered = (row: PageRow | undefined): string =>
  requireWhole(row?.json ?? '{"documents":[]}');

const isStart = (cursor: string): boolean => cursor === '' || cursor === 'start';

const termText = ({ name, descending }: SortTerm): string => (descending ? `-${name}` : name);

/** The faster way to the first rows of a page, where there is one. `filtered`: only some of the rows are meant. */
export function firstWay(
  schema: CompiledSchema,
  { among, sort }: Pick<Page, 'among' | 'sort'>,
  predicate: RowPredicate | undefined,
  filtered = false,
): FirstWay | undefined {
  if (!predicate?.first || schema.mapping) return undefined;
  const indexed = isIndexed(schema, sort) ? 'indexed' : 'sorted';
  const order = among.order || filtered ? indexed : 'ids';
  return predicate.first.way(among.count, order);
}

/** What stands behind `from` for a way. `rows`: the schema's own, or those of them that fit a filter. */
export function firstRowsText(
  first: FirstWay,
  { rows, among }: Pick<Page, 'among'> & { readonly rows: string },
  { next }: Parameters,
): string {
  const count = among.fixed ? String(among.count) : `(select ${next(among.count)}::bigint)`;
  const order = among.order?.('d');
  const texts = among.stretches.map((stretch) =>
    first.compile(
      {
        rows: stretch === 'true' ? rows : `(select t0.* from ${rows} t0 where ${stretch})`,
        count,
        order,
      },
      next,
    ),
  );
  return `(${texts.length === 1 ? texts[0] : texts.map((text) => `(${text})`).join(' union all ')})`;
}
