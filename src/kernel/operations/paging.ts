/** `skip` and `limit` of lists: pagination by offset, the same for every module. */
import Type from 'typebox';

export interface PagingBounds {
  /** Largest `skip`. */
  readonly maxSkip?: number;
  /** Largest `limit`. */
  readonly maxLimit?: number;
  /** `limit` where the call names none. */
  readonly defaultLimit?: number;
}

/** Properties of a query; both are there after decoding. */
export const pagingQuery = ({
  maxSkip = 1_000_000_000,
  maxLimit = 1_000,
  defaultLimit = 25,
}: PagingBounds = {}) => ({
  skip: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: maxSkip,
    description: 'How many to pass over',
  }),
  limit: Type.Integer({
    default: defaultLimit,
    minimum: 1,
    maximum: maxLimit,
    description: 'How many at most',
  }),
});

/** The same for operations that other modules call without decoding: both may be left out. */
export const optionalPagingQuery = (bounds: PagingBounds = {}) => {
  const { skip, limit } = pagingQuery(bounds);
  return { skip: Type.Optional(skip), limit: Type.Optional(limit) };
};
