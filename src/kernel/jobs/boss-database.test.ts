import { expect, it, vi } from 'vitest';
import type { Database } from '../database/database.ts';
import { unavailable } from '../database/failures.ts';
import { createBossLink } from './boss-database.ts';

it('listens as soon as the database lets it, and says that something may have been missed', async () => {
  let heard: ((payload: string) => void) | undefined;
  const listen = vi
    .fn<Database['listen']>()
    .mockRejectedValueOnce(unavailable())
    .mockImplementation(async (_channel, onMessage) => {
      heard = onMessage;
    });
  const database = { listen, onListening: () => undefined } as unknown as Database;
  const missed = Promise.withResolvers<void>();
  const notified: string[] = [];
  const handle = await createBossLink(database).db.listen?.(
    'jobs',
    (payload) => notified.push(payload),
    missed.resolve,
  );
  await missed.promise;
  heard?.('a queue');
  await handle?.close();
  heard?.('another');
  expect(notified).toEqual(['a queue']);
});
