import { expect, it } from 'vitest';
import { createVectorTable } from './table.ts';

/** Numbers that are the same in every run. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

it.each(['cosine', 'euclidean', 'dotProduct'] as const)(
  '%s: is what a search by hand finds, while records come, change and go',
  (similarity) => {
    const random = seeded(similarity.length);
    const dimensions = 5;
    const table = createVectorTable(dimensions, similarity);
    const world = new Map<string, number[][]>();
    const vector = () => Array.from({ length: dimensions }, () => Math.fround(random() - 0.5));
    const distance = (a: readonly number[], b: readonly number[]): number => {
      const dot = a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);
      if (similarity === 'cosine') return 1 - dot;
      if (similarity === 'dotProduct') return -dot;
      return Math.hypot(...a.map((x, i) => x - (b[i] ?? 0)));
    };
    for (let round = 0; round < 300; round++) {
      const id = `r${Math.floor(random() * 60)}`;
      const passages = Array.from({ length: Math.floor(random() * 4) }, vector);
      if (passages.length === 0) world.delete(id);
      else world.set(id, passages);
      const ordinals = passages.length === 0 ? [-1] : passages.map((_, i) => i);
      const vectors = Float32Array.from(passages.flat());
      table.apply({ ids: ordinals.map(() => id), ordinals, vectors });
      if (round % 10 !== 0) continue;
      const query = vector();
      const within = round % 20 === 0 ? undefined : ['r1', 'r2', 'r3', 'r4', 'r5', 'nobody', 'r1'];
      const expected = [...world]
        .filter(([one]) => within === undefined || within.includes(one))
        .map(([one, own]) => ({ one, d: Math.min(...own.map((v) => distance(v, query))) }))
        .sort((a, b) => a.d - b.d)
        .slice(0, 7);
      const found = table.nearest(Float32Array.from(query), 7, within);
      expect(found.ids).toEqual(expected.map(({ one }) => one));
      found.distances.forEach((d, i) => {
        const { one = '', d: right = 0 } = expected[i] ?? {};
        expect(d).toBeCloseTo(right, 6);
        const passage = world.get(one)?.[found.ordinals[i] ?? -1] ?? [];
        expect(distance(passage, query)).toBeCloseTo(right, 6);
      });
      const passagesOfAll = [...world.values()].reduce((sum, own) => sum + own.length, 0);
      expect(table.passages).toBe(passagesOfAll);
    }
  },
);
