/** The first rows of a page by the faster way that permissions know to them. */

import type { FirstWay, RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import { isIndexed } from './keyset.ts';
import type { Page, PageRow } from './page.ts';

/** Orders in which the first rows along an index were not enough, by the identity of the predicate. */
const inVain = new WeakMap<object, Set<string>>();
/** Of one predicate. */
const MAX_REMEMBERED = 100;

export interface FirstRowsRequest {
  readonly schema: CompiledSchema;
  readonly page: Pick<Page, 'among' | 'sort' | 'shape'>;
  readonly predicate: RowPredicate | undefined;
  /** Only some of the rows are meant. */
  readonly filtered: boolean;
}

/** The faster way to the first rows of a page, where there is one. */
function firstWay({ schema, page, predicate, filtered }: FirstRowsRequest): FirstWay | undefined {
  if (!predicate?.first || schema.mapping) return undefined;
  const { among, sort } = page;
  const indexed = isIndexed(schema, sort) ? 'indexed' : 'sorted';
  return predicate.first.way(among.count, isByIds({ page, filtered }) ? 'ids' : indexed);
}

const isByIds = ({ page, filtered }: Pick<FirstRowsRequest, 'page' | 'filtered'>): boolean =>
  page.among.order === undefined && !filtered;

const placeOf = ({ shape, among }: FirstRowsRequest['page']): string => `${shape}|${among.count}`;

/** Reads a page by the faster way, and once more by another one where that was too short. */
export async function readByFirstRows<R extends PageRow>(
  request: FirstRowsRequest,
  read: (first: FirstWay | undefined) => Promise<R | undefined>,
): Promise<R | undefined> {
  const first = firstWay(request);
  if (!first?.otherwise) return read(first);
  if (!isInVain(request)) {
    const row = await read(first);
    if (!row?.short || row.current === false) return row;
    noteInVain(request);
  }
  const row = await read(first.otherwise);
  if (isByIds(request)) await request.predicate?.rememberStart?.();
  return row;
}

/** It is known that rows along the order are not enough. */
function isInVain({ page, predicate, filtered }: FirstRowsRequest): boolean {
  // Of two stretches the second might fill up what the first one left out.
  if (page.among.stretches.length > 1) return true;
  const known = predicate?.identity && inVain.get(predicate.identity)?.has(placeOf(page));
  return known === true && !filtered;
}

function noteInVain({ page, predicate }: FirstRowsRequest): void {
  const { identity } = predicate ?? {};
  if (!identity) return;
  const places = inVain.get(identity) ?? new Set();
  if (places.size >= MAX_REMEMBERED) places.clear();
  inVain.set(identity, places.add(placeOf(page)));
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
        after: among.after,
      },
      next,
    ),
  );
  return `(${texts.length === 1 ? texts[0] : texts.map((text) => `(${text})`).join(' union all ')})`;
}
