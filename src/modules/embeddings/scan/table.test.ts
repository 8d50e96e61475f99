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
      const spans = { starts: ordinals, ends: ordinals.map((at) => at + 1) };
      table.apply({ ids: ordinals.map(() => id), ordinals, ...spans, vectors });
      if (round % 10 !== 0) continue;
      const query = vector();
      const within = round % 20 === 0 ? undefined : ['r1', 'r2', 'r3', 'r4', 'r5', 'nobody', 'r1'];
      const expected = [...world]
        .filter(([one]) => within === undefined || within.includes(one))
        .map(([one, own]) => ({ one, d: Math.min(...own.map((v) => distance(v, query))) }))
        .sort((a, b) => a.d - b.d)
        .slice(0, 7);
      const found = table.nearest(Float32Array.from(query), { k: 7, ...(within && { within }) });
      expect(found.ids).toEqual(expected.map(({ one }) => one));
      found.distances.forEach((d, i) => {
        const { one = '', d: right = 0 } = expected[i] ?? {};
        expect(d).toBeCloseTo(right, 6);
        const passage = world.get(one)?.[found.starts[i] ?? -1] ?? [];
        expect(found.ends[i]).toBe((found.starts[i] ?? 0) + 1);
        expect(distance(passage, query)).toBeCloseTo(right, 6);
      });
      const passagesOfAll = [...world.values()].reduce((sum, own) => sum + own.length, 0);
      expect(table.facts().passages).toBe(passagesOfAll);
    }
  },
);

it.each(['cosine', 'euclidean', 'dotProduct'] as const)(
  '%s: with an index it finds nearly all of what is nearest, and changes at once',
  async (similarity) => {
    const random = seeded(similarity.length);
    const dimensions = 24;
    const table = createVectorTable(dimensions, similarity);
    const unit = (values: readonly number[]): number[] => {
      const length = similarity === 'dotProduct' ? 1 : Math.hypot(...values);
      return values.map((x) => Math.fround(x / length));
    };
    const vector = () => unit(Array.from({ length: dimensions }, () => random() - 0.5));
    const put = (id: string, values: readonly number[]) =>
      table.apply({
        ...{ ids: [id], ordinals: [0], starts: [0], ends: [1] },
        vectors: Float32Array.from(values),
      });
    const remove = (id: string) =>
      table.apply({
        ...{ ids: [id], ordinals: [-1], starts: [0], ends: [0] },
        vectors: new Float32Array(),
      });
    for (let i = 0; i < 5_000; i++) put(`r${i}`, vector());
    while ((await table.grow(50)).indexed < 5_000);
    const recall = (): number => {
      let [right, all] = [0, 0];
      for (let i = 0; i < 40; i++) {
        const query = Float32Array.from(vector());
        const exact = table.nearest(query, { k: 10, exact: true });
        const found = new Set(table.nearest(query, { k: 10 }).ids);
        right += exact.ids.filter((id) => found.has(id)).length;
        all += exact.ids.length;
      }
      return right / all;
    };
    expect(recall()).toBeGreaterThan(0.95);
    // What has no place in the index yet is found, what is gone is not, before and after the index has followed.
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 1_500; i++) put(`r${Math.floor(random() * 6_000)}`, vector());
      const target = vector().map((x) => x * 10);
      put('new', similarity === 'dotProduct' ? target : unit(target));
      const query = Float32Array.from(similarity === 'dotProduct' ? target : unit(target));
      expect(table.nearest(query, { k: 10 }).ids[0]).toBe('new');
      while ((await table.grow(50)).indexed < table.facts().passages);
      expect(table.nearest(query, { k: 10 }).ids[0]).toBe('new');
      remove('new');
      expect(table.nearest(query, { k: 10 }).ids).not.toContain('new');
      expect(recall()).toBeGreaterThan(0.95);
    }
    expect(table.recall(0.5)).toBeGreaterThan(0.8);
  },
);
