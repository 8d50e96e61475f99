/**
 * The rows that follow a given one in an order. Ascending, null comes last, and
 * descending first: it counts as greater than everything. Each condition begins
 * with a bound on the first field, so that an index on it leads straight to the
 * place; where the rows that follow are two stretches of it, they are two
 * selects, each with its own bound.
 */
import { identifier } from '../../database/sql.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import { automaticFields } from '../../schema/names.ts';
import { orderText, type SortTerm } from './order.ts';

/** One term, and where the last row stands by it. */
interface Place {
  readonly column: string;
  readonly descending: boolean;
  readonly nullable: boolean;
  /** Placeholder of its value; `undefined`: it is null. */
  readonly value: string | undefined;
}

export interface Following {
  /** Values of the first placeholders. */
  readonly values: readonly string[];
  /** What of it decides the text. */
  readonly shape: string;
  /** A select of whole rows that fit `where`, in order, at most `limit`. */
  text(where: string, limit: number): string;
}

/** `last`: the place of the last row by each term; `undefined`: from the beginning. */
export function following(schema: CompiledSchema, terms: readonly SortTerm[], last: readonly (string | null)[] | undefined): Following {
  const order = orderText(terms);
  const values = (last ?? []).filter((value) => value !== null);
  const stretches = last ? stretchesAfter(placesOf(schema, terms, last)) : ['true'];
  const shape = last ? last.map((value) => (value === null ? 'n' : 'v')).join('') : 'start';
  const select = (stretch: string, where: string, limit: number): string =>
    `select t0.* from ${schema.rows} t0 where ${stretch === 'true' ? '' : `${stretch} and `}${where} order by ${order} limit ${limit}`;
  return {
    values,
    shape,
    text(where, limit) {
      const [first = 'false', ...others] = stretches.map((stretch) => select(stretch, where, limit));
      if (others.length === 0) return first;
      const together = [first, ...others].map((one) => `(${one})`).join(' union all ');
      return `select t0.* from (${together}) t0 order by ${order} limit ${limit}`;
    },
  };
}

function placesOf(schema: CompiledSchema, terms: readonly SortTerm[], last: readonly (string | null)[]): readonly Place[] {
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
