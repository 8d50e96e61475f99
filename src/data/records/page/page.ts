/** The part of a list that is asked for: by `skip`, or by the cursor at which an earlier page ended. */

import { identifier } from '../../../kernel/database/sql.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Condition } from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { boundedPage, requireWhole, type TextsOfPage } from '../answer-bytes.ts';
import type { ListOptions } from '../store.ts';
import { type Cursors, following, orderOf, orderText, type SortTerm, sortTerms } from './keyset.ts';

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

export interface Among {
  readonly count: number;
  readonly fixed: boolean;
  /** Conditions on rows `t0`: the first of those are meant that fit one of them. */
  readonly stretches: readonly string[];
  /** Another order than that of the ids (SQL over rows of an alias). */
  readonly order: ((alias: string) => string) | undefined;
  /** In the order of the ids, the one behind which the page begins (SQL). */
  readonly after?: string | undefined;
  /** What of a row decides its place, the id among it. */
  readonly columns: readonly string[];
}

/** Parts of a statement that answers a page. */
interface PageText extends Pick<TextsOfPage, 'limit'> {
  /** Names for rows (`name as (...)`) that the statement begins with. */
  readonly named: readonly string[];
  /** A select of whole rows in order. */
  readonly rows: string;
  /** Behind the answer in the statement's own select list. */
  readonly after: string;
  /** Whether there were fewer rows than asked for; the records of the page are `j`, `n` of them. */
  readonly short: string;
}

export interface PageRow {
  /** `{"documents":[...], ...}`. */
  readonly json: string;
  /** Where the page ended, as JSON; null when nothing follows it. */
  readonly last?: string | null;
  /** False: what the predicate rests on does not hold any more. */
  readonly current?: boolean;
  /** There were fewer rows than asked for, where the way to them may have been too short (`FirstWay.otherwise`). */
  readonly short?: boolean;
}

interface PageAnswer extends Pick<TextsOfPage, 'related'> {
  /** What is selected of each row `t0`. */
  readonly columns: string;
  /** The row `x` of these columns as JSON. */
  readonly json: string;
  /** What follows the documents (count.ts). */
  readonly counted: string;
  /** Further columns, each behind a comma. */
  readonly also: string;
  readonly mayBeShort: boolean;
}

/** The statement that answers a page (`PageRow`). Its first word says that it reads. */
export function pageStatement(
  { named, rows, after, short, limit }: PageText,
  { columns, json, counted, also, mayBeShort, related }: PageAnswer,
): string {
  // The rows of the page are found first: what is skipped or sorted away is never rendered.
  const texts = `select ${json}::text as t from (select ${columns} from (${rows}) t0) x`;
  const joined = boundedPage(texts, { limit, related });
  const answer = `select '{"documents":[' || coalesce(j.page, '') || ']' || ${counted} || '}' as json${after}${mayBeShort ? `, ${short} as short` : ''}${also} from (${joined}) j`;
  return named.length === 0 ? answer : `select q.* from (with ${named.join(', ')} ${answer}) q`;
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
  const sort = options.sort ?? [];
  const order = orderOf(schema, sort);
  return {
    values: skip > 0 ? [skip] : [],
    shape: `${skip > 0}|${limit}|${order}`,
    among: {
      count: skip + limit,
      fixed: skip === 0,
      stretches: ['true'],
      order: order === 't0."_id"' ? undefined : (alias) => orderOf(schema, sort, alias),
      columns: sort.length === 0 ? idAlone : sortTerms(schema, sort).map(({ name }) => name),
    },
    sort,
    text: (where, source = schema.rows) => ({
      limit,
      named: [],
      rows: `select t0.* from ${source} t0 where ${where} order by ${order} ${rangeText(skip, limit)}`,
      after: '',
      short: `j.n < ${limit}`,
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

const idAlone: readonly string[] = ['_id'];

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
  const isById = terms.length === 1 && terms[0] !== undefined && termText(terms[0]) === '_id';
  return {
    values: [...rest.values],
    shape: `cursor|${rest.shape}|${limit}|${terms.map(termText).join()}`,
    among: {
      // One row more is read: it says that something follows.
      count: limit + 1,
      fixed: true,
      stretches: rest.stretches,
      order: isById ? undefined : (alias) => orderText(terms, alias),
      after: isById && last ? '$1' : undefined,
      columns: terms.map(({ name }) => name),
    },
    sort,
    text(where, source) {
      const keys = terms.map(({ name }) => `p.${identifier(name)}::text`).join(', ');
      const ended = `p.${ROW} = ${limit} and exists (select 1 from p where p.${ROW} > ${limit})`;
      return {
        limit,
        named: [
          `p as (select t0.*, row_number() over () as ${ROW} from (${rest.text(where, limit + 1, source)}) t0)`,
        ],
        rows: `select t0.* from p t0 where t0.${ROW} <= ${limit}`,
        after: `, (select json_build_array(${keys})::text from p where ${ended}) as last`,
        short: `(select count(*) from p) <= ${limit}`,
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
