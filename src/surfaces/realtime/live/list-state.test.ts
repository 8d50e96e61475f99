/** Lists that are kept current without being read: what is told must make the list that a reading would answer. */
import { expect, it } from 'vitest';
import type { LiveTerm } from '../../../kernel/operations/live-read.ts';
import { type ListChange, ListState } from './list-state.ts';

const terms: readonly LiveTerm[] = [
  { field: 'rank', kind: 'number', descending: true },
  { field: 'at', kind: 'text', descending: false },
  { field: '_id', kind: 'text', descending: false },
];
const LIMIT = 5;

interface Stored {
  readonly _id: string;
  readonly rank: number | null;
  readonly at: string;
  readonly text: number;
}

const rowOf = (one: Stored) => ({ id: one._id, json: JSON.stringify(one) });
const orderOf = ({ rank, at, _id }: Stored): string => `${9 - (rank ?? 9)} ${at} ${_id}`;
const inOrder = (records: Iterable<Stored>): readonly Stored[] =>
  [...records].sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));

/** As clients do it. */
function apply(shown: Stored[], changes: readonly ListChange[]): void {
  for (const change of changes) {
    const at = shown.findIndex(({ _id }) => _id === change.id);
    if (change.kind === 'added') expect(at).toBe(-1);
    else expect(at).toBeGreaterThanOrEqual(0);
    if (at >= 0) shown.splice(at, 1);
    if (change.kind !== 'removed') shown.splice(change.index, 0, JSON.parse(change.json));
  }
}

/** Numbers that are the same in every run. */
function numbers(seed: number) {
  let state = seed;
  return (max: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * max);
  };
}

const fittingOf = (ids: Iterable<string>, stored: ReadonlyMap<string, Stored>) =>
  new Map(
    [...ids].flatMap((id) => {
      const record = stored.get(id);
      return record ? [[id, rowOf(record).json] as const] : [];
    }),
  );

it.each([1, 2, 3, 4, 5])('shows what a reading would show, whatever happens (seed %i)', (seed) => {
  const next = numbers(seed);
  const stored = new Map<string, Stored>();
  const shown: Stored[] = [];
  let list = new ListState(terms);
  let [told, read] = [0, 0];
  for (let step = 0; step < 2_000; step += 1) {
    const ids = new Set(Array.from({ length: 1 + next(3) }, () => `id${next(12)}`));
    for (const _id of ids) {
      const at = new Date(1_700_000_000_000 + next(3)).toISOString();
      if (next(4) === 0) stored.delete(_id);
      else stored.set(_id, { _id, rank: next(20) === 0 ? null : next(4), at, text: next(3) });
    }
    const first = inOrder(stored.values()).slice(0, LIMIT);
    const offered = list.with({ ids: [...ids], fitting: fittingOf(ids, stored) }, LIMIT);
    if (offered) {
      told += 1;
      list = offered.list;
      apply(shown, offered.changes);
    } else {
      read += 1;
      apply(shown, list.replace(first.map(rowOf)));
    }
    expect(shown).toEqual(first);
  }
  expect(Math.min(told, read)).toBeGreaterThan(100);
});

it('asks to be read where records came without what they say', () => {
  const list = new ListState(terms);
  expect(list.with({ ids: ['a'], fitting: new Map([['a', undefined]]) }, LIMIT)).toBeUndefined();
});
