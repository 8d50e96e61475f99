/** The part of a list that is asked for: by `skip`, or by the cursor at which an earlier page ended. */
import { identifier } from '../../database/sql.ts';
import { invalid } from '../../errors.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import type { Condition } from '../filter/condition.ts';
import type { ListOptions } from '../store.ts';
import { requireWhole } from './bytes.ts';
import type { Cursors } from './cursor.ts';
import { following } from './keyset.ts';
import { orderOf, type SortTerm, sortTerms } from './order.ts';

const DEFAULT_LIMIT = 25;
/** Records of one list. */
export const MAX_LIMIT = 1_000;

export interface Page {
  /** Values of the first placeholders. */
  readonly values: unknown[];
  /** What of it decides the text. */
  readonly shape: string;
  /** Set for a page in the order of the ids: it is among so many first rows. `fixed`: the number is part of the shape. */
  readonly among?: { readonly count: number; readonly fixed: boolean };
  /** `source` stands in the place of the schema's rows; only for a page that is `among` the first. */
  text(where: string, source?: string): PageText;
  /** The answer to a list, from the row that the statement answered. */
  answer(row: PageRow | undefined): string;
}

/** Parts of a statement that answers a page. */
export interface PageText {
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

export interface PageRequest {
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
    ...(order === 't0."_id"' && { among: { count: skip + limit, fixed: skip === 0 } }),
    text: (where, source = schema.rows) => ({
      before: '',
      rows: `select t0.* from ${source} t0 where ${where} order by ${order} ${rangeText(skip, limit)}`,
      after: '',
    }),
    answer: (row) => answered(row),
  };
}

/** The part of a list that is asked for. Throws 400. */
export function listRange({ skip = 0, limit = DEFAULT_LIMIT }: ListOptions): { readonly skip: number; readonly limit: number } {
  if (!Number.isSafeInteger(skip) || skip < 0) throw invalid('skip', 'minimum', 'must be a whole number, 0 or more');
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
  if (skip > 0) throw invalid('skip', 'cursor', 'cannot be combined with cursor, which says itself where the page begins');
  if (schema.mapping && schema.key.length === 0)
    throw invalid('cursor', 'key', 'needs a key, which this table does not have: its rows cannot be told apart. Page with skip');
  const terms = sortTerms(schema, sort);
  // With the types: a field can go, and another one come in its place.
  const typed = terms.map((term) => [termText(term), schema.layout.columns[term.name]?.type]);
  const asked = JSON.stringify([schema._id, typed, filter]);
  const last = isStart(cursor) ? undefined : cursors.read(asked, cursor);
  const rest = following(schema, terms, last);
  return {
    values: [...rest.values],
    shape: `cursor|${rest.shape}|${limit}|${terms.map(termText).join()}`,
    text(where) {
      const keys = terms.map(({ name }) => `p.${identifier(name)}::text`).join(', ');
      const ended = `p.${ROW} = ${limit} and exists (select 1 from p where p.${ROW} > ${limit})`;
      return {
        before: `with p as (select t0.*, row_number() over () as ${ROW} from (${rest.text(where, limit + 1)}) t0) `,
        rows: `select t0.* from p t0 where t0.${ROW} <= ${limit}`,
        after: `, (select json_build_array(${keys})::text from p where ${ended}) as last`,
      };
    },
    answer(row) {
      const json = answered(row);
      const next = typeof row?.last === 'string' ? cursors.write(asked, JSON.parse(row.last) as (string | null)[]) : null;
      return `${json.slice(0, -1)},"nextCursor":${JSON.stringify(next)}}`;
    },
  };
}

/** Throws 400 when the records are too large together. */
const answered = (row: PageRow | undefined): string => requireWhole(row?.json ?? '{"documents":[]}');

const isStart = (cursor: string): boolean => cursor === '' || cursor === 'start';

const termText = ({ name, descending }: SortTerm): string => (descending ? `-${name}` : name);
