/**
 * The rows that follow a given one in an order. Ascending, null comes last, and
 * descending first: it counts as greater than everything. Each condition begins
 * with a bound on the first field, so that an index on it leads straight to the
 * place; where the rows that follow are two stretches of it, they are two
 * selects, each with its own bound.
 */
import { identifier } from '../../../kernel/database/sql.ts';
import { invalid, type PenstockError } from '../../../kernel/errors.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { automaticFields, shortName } from '../../schema/language/names.ts';
import { identityColumns } from '../../schema/mapping/table-mapping.ts';

/* The order of a list: checked names, and the id that decides between equals, so that pages do not overlap. */

const MAX_SORT = 8;

export interface SortTerm {
  readonly name: string;
  readonly descending: boolean;
}

const byId: SortTerm = { name: '_id', descending: false };

/** Where ids are made from keys, the order is that of the keys, so that their index serves. Without a key every field decides. */
function idTerms(
  { mapping, key, sortable }: CompiledSchema,
  descending: boolean,
): readonly SortTerm[] {
  const names = !mapping ? ['_id'] : key.length > 0 ? identityColumns(key) : [...sortable];
  // Of records that have nothing but lists and JSON the digest of the row is left.
  return (names.length > 0 ? names : ['__v']).map((name) => ({ name, descending }));
}

/** Throws 400 for a name that is no field to sort by. What follows the id changes nothing and is left out. */
export function sortTerms(schema: CompiledSchema, sort: readonly string[]): readonly SortTerm[] {
  if (sort.length > MAX_SORT) throw invalid('sort', 'maxItems', `at most ${MAX_SORT} fields`);
  const terms = new Map<string, SortTerm>();
  for (const item of sort) {
    const descending = item.startsWith('-');
    const name = descending || item.startsWith('+') ? item.slice(1) : item;
    if (!schema.sortable.has(name))
      throw invalid('sort', 'field', `"${shortName(name)}" is not a field to sort by`);
    if (!terms.has(name) && !terms.has(byId.name)) terms.set(name, { name, descending });
  }
  if (!terms.has(byId.name)) terms.set(byId.name, byId);
  if (!schema.mapping) return [...terms.values()];
  const expanded = [...terms.values()].flatMap((term) =>
    term.name === byId.name ? idTerms(schema, term.descending) : term,
  );
  return expanded.filter(({ name }, i) => expanded.findIndex((other) => other.name === name) === i);
}

/** What stands behind `order by`. */
export const orderText = (terms: readonly SortTerm[], alias = 't0'): string =>
  terms
    .map(({ name, descending }) => `${alias}.${identifier(name)}${descending ? ' desc' : ''}`)
    .join(', ');

/** `order by` of what a caller asked for. */
export const orderOf = (schema: CompiledSchema, sort: readonly string[], alias = 't0'): string =>
  sort.length === 0 && !schema.mapping
    ? `${alias}."_id"`
    : orderText(sortTerms(schema, sort), alias);

/*
 * Cursors of lists: the values by which the last record of a page stands in the
 * order, sealed by a keyed digest together with the question. So a cursor fits
 * the list that it came from and no other, on every node, and nobody can make
 * one up. It holds nothing that its reader has not been shown.
 */

/** One value for each term of the order, as text of the database. */
type CursorValues = readonly (string | null)[];

export interface Cursors {
  /** Throws 400 when the values are too long to travel. */
  write(question: string, values: CursorValues): string;
  /** Throws 400 for a cursor that is not of this question. */
  read(question: string, cursor: string): CursorValues;
}

/** Characters of a cursor: it must fit into an address. */
export const MAX_CURSOR = 8_192;

const MARK_LENGTH = 32;

export function createCursors(secrets: Pick<SecretBox, 'digest'>): Cursors {
  const markOf = (question: string, text: string): string =>
    secrets.digest(`${question}\0${text}`, 'cursor').slice(0, MARK_LENGTH);
  return {
    write(question, values) {
      const text = JSON.stringify(values);
      const cursor = Buffer.from(markOf(question, text) + text).toString('base64url');
      if (cursor.length <= MAX_CURSOR) return cursor;
      throw invalid(
        'sort',
        'cursor',
        'the values of these fields are too long for a cursor: sort by shorter ones, or page with skip',
      );
    },
    read(question, cursor) {
      const decoded =
        cursor.length <= MAX_CURSOR ? Buffer.from(cursor, 'base64url').toString() : '';
      const text = decoded.slice(MARK_LENGTH);
      if (decoded.slice(0, MARK_LENGTH) !== markOf(question, text)) throw wrongCursor();
      return JSON.parse(text) as CursorValues;
    },
  };
}

const wrongCursor = (): PenstockError =>
  invalid(
    'cursor',
    'cursor',
    'is not a cursor of this list: begin with "start", and keep the sort and the filter that it came from',
  );

/** One term, and where the last row stands by it. */
interface Place {
  readonly column: string;
  readonly descending: boolean;
  readonly nullable: boolean;
  /** Placeholder of its value; `undefined`: it is null. */
  readonly value: string | undefined;
}

interface Following {
  /** Values of the first placeholders. */
  readonly values: readonly string[];
  /** What of it decides the text. */
  readonly shape: string;
  /** Conditions of which one holds for each row `t0` that follows. */
  readonly stretches: readonly string[];
  /** A select of whole rows that fit `where`, in order, at most `limit`. `source`: all that follow, in the place of the rows. */
  text(where: string, limit: number, source?: string): string;
}

/** `last`: the place of the last row by each term; `undefined`: from the beginning. */
export function following(
  schema: CompiledSchema,
  terms: readonly SortTerm[],
  last: readonly (string | null)[] | undefined,
): Following {
  const order = orderText(terms);
  const values = (last ?? []).filter((value) => value !== null);
  const stretches = last ? stretchesAfter(placesOf(schema, terms, last)) : ['true'];
  const shape = last ? last.map((value) => (value === null ? 'n' : 'v')).join('') : 'start';
  const select = (stretch: string, where: string, limit: number): string =>
    `select t0.* from ${schema.rows} t0 where ${stretch === 'true' ? '' : `${stretch} and `}${where} order by ${order} limit ${limit}`;
  return {
    values,
    shape,
    stretches,
    text(where, limit, source) {
      if (source !== undefined)
        return `select t0.* from ${source} t0 where ${where} order by ${order} limit ${limit}`;
      const [first = 'false', ...others] = stretches.map((stretch) =>
        select(stretch, where, limit),
      );
      if (others.length === 0) return first;
      const together = [first, ...others].map((one) => `(${one})`).join(' union all ');
      return `select t0.* from (${together}) t0 order by ${order} limit ${limit}`;
    },
  };
}

function placesOf(
  schema: CompiledSchema,
  terms: readonly SortTerm[],
  last: readonly (string | null)[],
): readonly Place[] {
  let count = 0;
  return terms.map(({ name, descending }, i) => ({
    column: `t0.${identifier(name)}`,
    descending,
    nullable: !automaticFields.has(name) && !schema.layout.columns[name]?.notNull,
    // Without a type of its own it takes that of the column.
    value: typeof last[i] === 'string' ? `$${++count}` : undefined,
  }));
}

/** Conditions that exclude each other and together hold for every row that follows. */
function stretchesAfter([first, ...others]: readonly Place[]): readonly string[] {
  if (!first) return [];
  const { column, descending, nullable, value } = first;
  const later = after(others);
  if (value === undefined) {
    const amongNulls = `(${column} is null and ${later})`;
    return descending ? [amongNulls, `${column} is not null`] : [amongNulls];
  }
  const [beyond, from] = descending ? ['<', '<='] : ['>', '>='];
  const amongValues =
    others.length === 0
      ? `${column} ${beyond} ${value}`
      : `${column} ${from} ${value} and (${column} ${beyond} ${value} or (${column} = ${value} and ${later}))`;
  return nullable && !descending ? [amongValues, `${column} is null`] : [amongValues];
}

/** True for rows that follow by these terms. */
function after([first, ...others]: readonly Place[]): string {
  if (!first) return 'false';
  const { column, descending, nullable, value } = first;
  const later = after(others);
  const equal = value === undefined ? `${column} is null` : `${column} = ${value}`;
  const tied = later === 'false' ? [] : [`(${equal} and ${later})`];
  const greater = greaterText({ column, descending, nullable, value });
  return `(${[...greater, ...tied].join(' or ') || 'false'})`;
}

function greaterText({ column, descending, nullable, value }: Place): readonly string[] {
  if (value === undefined) return descending ? [`${column} is not null`] : [];
  if (descending) return [`${column} < ${value}`];
  return nullable ? [`${column} > ${value}`, `${column} is null`] : [`${column} > ${value}`];
}

/** Whether an index gives the order, as far as its first field decides. Of tables of others nothing is known. */
export function isIndexed(
  { layout, mapping }: CompiledSchema,
  sort: readonly string[] = [],
): boolean {
  const first = sort[0]?.replace(/^[+-]/, '') ?? '_id';
  return (
    first === '_id' ||
    mapping !== undefined ||
    Object.values(layout.indexes).some(
      (index) => index.method === 'btree' && index.columns[0] === first,
    )
  );
}
