/** Pages of lists that are in memory. */
import Type, { type TSchema } from 'typebox';
import { MAX_CURSOR } from '../../../data/records/page/keyset.ts';
import { invalid } from '../../../kernel/errors.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { cutText } from '../../../kernel/text.ts';

/* What all lists of records that can be paged by cursor have in common. */

/** The query parameter. */
export const cursorQuery = Type.Optional(
  Type.String({
    maxLength: MAX_CURSOR,
    description:
      'Pages by place instead of by number: "start" first, then the `nextCursor` of the page before. Stays fast at any depth, and records that come or go move nothing. Not together with skip',
  }),
);

/** In the answer, only for those who sent a cursor. */
export const nextCursor = Type.Optional(
  Type.Union([Type.String(), Type.Null()], {
    description: 'Only with `cursor`: where the next page begins; null on the last one',
  }),
);

/** The query parameter that says how `count` is made. */
export const countQuery = Type.Optional(
  Type.Enum(['exact', 'estimated', 'none'], {
    default: 'exact',
    description:
      'How `count` is made. `estimated` is exact up to 10,000 and says so; `none` leaves it out. Both stay fast on large tables',
  }),
);

/** What beside the documents a list answers. */
export const listFacts = {
  count: Type.Optional(Type.Integer({ minimum: 0 })),
  estimated: Type.Optional(
    Type.Boolean({ description: 'Only with count=estimated: whether `count` is an estimate' }),
  ),
  nextCursor,
};

/** A list's answer. Published as its documents and what all lists have, which so stands once. */
export function listAnswer<T extends TSchema>(items: T) {
  const documents = Type.Array(items);
  const published = () => Type.Intersect([listPage, Type.Object({ documents })]);
  return Type.Object({ documents, ...listFacts }, { published });
}

const listPage = Type.Object(listFacts, { component: 'Page' });

/** Query of a list. */
export const listRange = {
  ...optionalPagingQuery(),
  sort: Type.Optional(
    Type.String({
      maxLength: 256,
      description: 'Field names with spaces between them; - in front: descending',
    }),
  ),
};

/** In the order of `sort`, then by name. Throws 400 for what is not among `keys`. */
export function sorted<
  K extends string,
  T extends Readonly<Record<K, string>> & { readonly name: string },
>(items: readonly T[], sort: string | undefined, keys: readonly K[]): readonly T[] {
  const terms = (sort ?? '').split(' ').filter((term) => term !== '');
  const order = terms.map((term) => {
    const name = term.replace(/^-/, '');
    const key = keys.find((known) => known === name);
    if (!key)
      throw invalid('sort', 'field', `"${cutText(name, 64)}" is not one of ${keys.join(', ')}`);
    return { key, direction: term.startsWith('-') ? -1 : 1 };
  });
  return [...items].sort((a, b) => {
    for (const { key, direction } of order)
      if (a[key] !== b[key]) return a[key] < b[key] ? -direction : direction;
    return a.name < b.name ? -1 : 1;
  });
}
