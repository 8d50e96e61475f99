/** The order of a list: checked names, and the id that decides between equals, so that pages do not overlap. */
import { identifier } from '../../database/sql.ts';
import { invalid } from '../../errors.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import { identityColumns } from '../../schema/mapping/mapping.ts';
import { shown } from '../../schema/names.ts';

const MAX_SORT = 8;

export interface SortTerm {
  readonly name: string;
  readonly descending: boolean;
}

const byId: SortTerm = { name: '_id', descending: false };

/** Where ids are made from keys, the order is that of the keys, so that their index serves. Without a key every field decides. */
function idTerms({ mapping, key, sortable }: CompiledSchema, descending: boolean): readonly SortTerm[] {
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
    if (!schema.sortable.has(name)) throw invalid('sort', 'field', `"${shown(name)}" is not a field to sort by`);
    if (!terms.has(name) && !terms.has(byId.name)) terms.set(name, { name, descending });
  }
  if (!terms.has(byId.name)) terms.set(byId.name, byId);
  if (!schema.mapping) return [...terms.values()];
  const expanded = [...terms.values()].flatMap((term) => (term.name === byId.name ? idTerms(schema, term.descending) : term));
  return expanded.filter(({ name }, i) => expanded.findIndex((other) => other.name === name) === i);
}

/** What stands behind `order by`. */
export const orderText = (terms: readonly SortTerm[]): string =>
  terms.map(({ name, descending }) => `t0.${identifier(name)}${descending ? ' desc' : ''}`).join(', ');

/** `order by` of what a caller asked for. */
export const orderOf = (schema: CompiledSchema, sort: readonly string[]): string =>
  sort.length === 0 && !schema.mapping ? 't0."_id"' : orderText(sortTerms(schema, sort));
