import { expect, it } from 'vitest';
import { alteredAt } from './altered.ts';

it('is never the text itself', () => {
  for (const text of ['AAAA', 'BBBB', 'zz_A']) {
    for (const index of [0, 1, 2, 3, -1, -4]) {
      const altered = alteredAt(text, index);
      expect(altered).not.toBe(text);
      expect(altered).toHaveLength(text.length);
    }
  }
});
