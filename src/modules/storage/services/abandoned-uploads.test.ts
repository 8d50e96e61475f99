import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import { createAbandonUpload } from './abandoned-uploads.ts';

afterEach(() => vi.useRealTimers());

/** A database that fails while `down`, and holds the rows of these uploads. */
function fixture(ids: readonly string[]) {
  const rows = new Set(ids);
  const removed: unknown[] = [];
  const state = { down: false, tries: 0 };
  const query = async ({ values }: { readonly values: readonly unknown[] }) => {
    const found = rows.delete(String(values[0]));
    return { rows: found ? [{ id: values[0] }] : [], count: found ? 1 : 0 };
  };
  const database = {
    outside: <T>(work: () => T): T => work(),
    async transaction(work: (transaction: unknown) => Promise<unknown>) {
      state.tries += 1;
      if (state.down) throw new Error('no space left on device');
      return work({ query });
    },
  };
  const jobs = { enqueue: async (_name: string, data: unknown) => void removed.push(data) };
  const giveUp = createAbandonUpload({ database, jobs, log: silentLog } as unknown as Parameters<
    typeof createAbandonUpload
  >[0]);
  return { rows, removed, state, giveUp: (id: string) => giveUp(uploadOf(id)) };
}

const uploadOf = (id: string) => ({ id, bucket: 'b', objectKey: `key of ${id}` });
const removalOf = (id: string) => ({ objects: [{ bucket: 'b', key: `key of ${id}` }] });

it('tries again until what kept it from going is over', async () => {
  vi.useFakeTimers();
  const { rows, removed, state, giveUp } = fixture(['a', 'b', 'c']);
  state.down = true;
  await Promise.all(['a', 'b', 'c'].map(giveUp));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(rows.size).toBe(3);
  state.down = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect([...rows]).toEqual([]);
  expect(removed).toEqual(['a', 'b', 'c'].map(removalOf));
  const { tries } = state;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(state.tries).toBe(tries);
});

it('goes on after it has rested, and leaves alone what somebody else has taken', async () => {
  vi.useFakeTimers();
  const { rows, removed, state, giveUp } = fixture(['a']);
  await giveUp('a');
  await giveUp('gone');
  expect(removed).toEqual([removalOf('a')]);
  rows.add('b');
  state.down = true;
  await giveUp('b');
  state.down = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(removed).toEqual([removalOf('a'), removalOf('b')]);
});
