/** What the tests of scalar values look like in SQL, wherever the value stands. */
import { wordsOf } from '../../schema/words.ts';
import type { Parameters } from '../parameters.ts';
import type { BoundTest } from './bind.ts';
import type { Comparison } from './condition.ts';

export const symbolOf: Readonly<Record<Comparison, string>> = {
  equal: '=',
  greater: '>',
  greaterOrEqual: '>=',
  less: '<',
  lessOrEqual: '<=',
};

export type TextTest = Extract<BoundTest, { readonly kind: 'like' | 'matches' | 'search' }>;

/** A test of an SQL value of type text. */
export function textTest(value: string, test: TextTest, { next }: Parameters): string {
  switch (test.kind) {
    case 'like':
      return `${value} ${test.ignoreCase ? 'ilike' : 'like'} ${next(likePattern(test.pieces))}::text`;
    case 'matches':
      return `${value} ${test.ignoreCase ? '~*' : '~'} ${next(test.pattern)}::text`;
    case 'search':
      return `${wordsOf(value)} @@ websearch_to_tsquery('simple', ${next(test.words)}::text)`;
  }
}

/** Only the gaps between the pieces are wildcards. */
const likePattern = (pieces: readonly string[]): string => pieces.map((piece) => piece.replace(/[\\%_]/g, '\\$&')).join('%');
