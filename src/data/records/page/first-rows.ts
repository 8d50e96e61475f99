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
  const order = among.order || filtered ? indexed : 'ids';
  const way = predicate.first.way(among.count, order);
  if (!way?.otherwise) return way;
  // Of two stretches the second might fill up what the first one left out.
  const isKnown = predicate.identity && inVain.get(predicate.identity)?.has(placeOf(page));
  return among.stretches.length > 1 || (isKnown && !filtered) ? way.otherwise : way;
}

const placeOf = ({ shape, among }: FirstRowsRequest['page']): string => `${shape}|${among.count}`;

/** Reads a page by the faster way, and once more by another one where that was too short. */
export function readByFirstRows<R extends PageRow>(
  request: FirstRowsRequest,
  read: (first: FirstWay | undefined) => Promise<R | undefined>,
): Promise<R | undefined> {
  const first = firstWay(request);
  return first?.otherwise ? readTwice(request, first, read) : read(first);
}

async function readTwice<R extends PageRow>(
  request: FirstRowsRequest,
  first: FirstWay,
  read: (first: FirstWay | undefined) => Promise<R | undefined>,
): Promise<R | undefined> {
  const row = await read(first);
  if (!row?.short || row.current === false) return row;
  const { identity } = request.predicate ?? {};
  if (identity) {
    const places = inVain.get(identity) ?? new Set();
    if (places.size >= MAX_REMEMBERED) places.clear();
    inVain.set(identity, places.add(placeOf(request.page)));
  }
  return read(first.otherwise);
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
