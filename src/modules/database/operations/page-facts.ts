/** What all lists of records that can be paged by cursor have in common. */
import Type from 'typebox';
import { MAX_CURSOR } from '../../../data/records/page/keyset.ts';

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
  Type.Union([Type.String(), Type.Null()], { description: 'Only with `cursor`: where the next page begins; null on the last one' }),
);

/** The query parameter that says how `count` is made. */
export const countQuery = Type.Optional(
  Type.Enum(['exact', 'estimated', 'none'], {
    default: 'exact',
    description: 'How `count` is made. `estimated` is exact up to 10,000 and says so; `none` leaves it out. Both stay fast on large tables',
  }),
);

/** What beside the documents a list answers. */
export const listFacts = {
  count: Type.Optional(Type.Integer({ minimum: 0 })),
  estimated: Type.Optional(Type.Boolean({ description: 'Only with count=estimated: whether `count` is an estimate' })),
  nextCursor,
};
