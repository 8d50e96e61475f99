/** How gaps of a room are filled, where listeners come and go and the database is away meanwhile. */
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { createRoomFeeds } from './room-feeds.ts';

const room = 'room';

const row = (seq: number, change = seq) => ({
  ...{ id: `m${seq}`, room, sender: 'ann', type: 'text', content: `${seq}`, files: [] },
  ...{ mentions: [], seq, change, nonce: null, threadRoot: null },
  changeKind: change === seq ? 'sent' : 'reacted',
  ...{ deleted: false, createdAt: new Date(0), reactions: [] },
});

/** Feeds of a database that holds messages 1 to `last`, the first of them last changed as `changed` says; `reading` is asked before each answer. */
function openFeeds(last: number, reading: () => Promise<void>, changed: readonly number[] = []) {
  const told: (number | string)[] = [];
  const all = Array.from({ length: last }, (_, n) => row(n + 1, changed[n])).sort(
    (a, b) => a.change - b.change,
  );
  const query = async ({ values }: { readonly values: readonly unknown[] }) => {
    await reading();
    const [, after, limit] = values.map(Number);
    const rows = all.filter(({ change }) => change > (after ?? 0)).slice(0, limit);
    return { rows, count: rows.length };
  };
  const database = { query, outside: (work: () => unknown) => work() } as unknown as Database;
  const emit = (_room: string, event: string, data: unknown): void =>
    void told.push(event === 'message' ? (data as { readonly seq: number }).seq : event);
  return { told, feeds: createRoomFeeds({ database, emit, log: silentLog }) };
}

const place = (number: number) => ({ seq: number, change: number });

afterEach(() => vi.useRealTimers());

it('fills a gap for those who still hear the room, not for who came after it', async () => {
  const { promise: reading, resolve: read } = Promise.withResolvers<void>();
  const { told, feeds } = openFeeds(3, () => reading);
  feeds.open(room, place(1), 0);
  feeds.reached(room, 3);
  // All leave, and somebody else comes, who has read the room up to its end.
  feeds.close(room);
  feeds.open(room, place(3), 0);
  read();
  await new Promise(setImmediate);
  expect(told).toEqual([]);
});

it('tries again until it is filled, though nothing else happens in the room', async () => {
  vi.useFakeTimers();
  let failures = 2;
  const { told, feeds } = openFeeds(3, async () => {
    if (failures-- > 0) throw new Error('The database is away');
  });
  feeds.open(room, place(1), 0);
  feeds.reached(room, 3);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(told).toEqual([2, 3]);
});

it('tells messages as new and in their order, also those that were changed after hundreds of others came', async () => {
  const { told, feeds } = openFeeds(700, async () => undefined, [701, 702]);
  feeds.open(room, place(1), 0);
  feeds.reached(room, 702);
  await vi.waitFor(() => expect(told).toHaveLength(700));
  const others = Array.from({ length: 699 }, (_, n) => n + 2);
  expect(told).toEqual([...others, 'message-reaction']);
});
