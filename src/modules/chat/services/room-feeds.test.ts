/** How gaps of a room are filled, where listeners come and go and the database is away meanwhile. */
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { createRoomFeeds } from './room-feeds.ts';

const room = 'room';

const row = (seq: number) => ({
  ...{ id: `m${seq}`, room, sender: 'ann', type: 'text', content: `${seq}`, files: [] },
  ...{ mentions: [], seq, change: seq, changeKind: 'sent', nonce: null, threadRoot: null },
  ...{ deleted: false, createdAt: new Date(0), reactions: [] },
});

/** Feeds of a database that holds messages 1 to `last`; `reading` is asked before each answer. */
function openFeeds(last: number, reading: () => Promise<void>) {
  const told: number[] = [];
  const query = async ({ values }: { readonly values: readonly unknown[] }) => {
    await reading();
    const after = Number(values[1]);
    const rows = Array.from({ length: last - after }, (_, n) => row(after + n + 1));
    return { rows, count: rows.length };
  };
  const database = { query, outside: (work: () => unknown) => work() } as unknown as Database;
  const emit = (_room: string, _event: string, data: unknown): void =>
    void told.push((data as { readonly seq: number }).seq);
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
