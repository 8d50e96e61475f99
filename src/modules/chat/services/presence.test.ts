/** Who is told that somebody came or went, and for how long. */
import { expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Hub } from './hub.ts';
import { createPresence } from './presence.ts';

const watched = 'watched';

/** A database in which everybody shares a room; `reading` holds back who asks. */
function openPresence(reading: Promise<void>) {
  let written = 0;
  const answer = async ({ text }: Statement) => {
    if (text.includes('insert into penstock.chat_presence')) written += 1;
    if (text.includes('select distinct')) await reading;
    const rows = text.includes('p.watcher')
      ? [{ watcher: 'me', watched }]
      : text.includes('distinct')
        ? [{ user: watched }]
        : [{ userId: watched, status: 'away', lastSeen: null }];
    return { rows, count: rows.length };
  };
  const presence = createPresence({
    database: { query: answer } as unknown as Database,
    bus: {
      nodeId: 'n',
      subscribe: () => undefined,
      publish: async () => undefined,
    } as unknown as Bus,
    hub: { onUser: () => undefined, users: () => [], hasUser: () => true } as unknown as Hub,
    log: silentLog,
  });
  return { presence, written: () => written };
}

function connect() {
  const told: unknown[] = [];
  const emit = (_event: string, data: unknown): void => void told.push(data);
  let open = true;
  const connection = { id: 's', userId: 'me', emit, isOpen: () => open };
  const close = (): void => {
    open = false;
  };
  return { told, close, connection: connection as unknown as SocketConnection };
}

const caller = { kind: 'user', userId: watched } as never;

it('a change is told to who watches, and one that is none to nobody', async () => {
  const { presence, written } = openPresence(Promise.resolve());
  const { told, connection } = connect();
  await presence.watch(connection, [watched]);
  for (const status of ['online', 'away', 'away', 'away'] as const)
    await presence.set(caller, status);
  expect(told).toEqual([{ userId: watched, status: 'away', lastSeen: null }]);
  expect(written()).toBe(1);
});

it('whoever goes while their question is answered is kept nowhere (CWE-401)', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { presence } = openPresence(promise);
  const { told, connection, close } = connect();
  const asked = presence.watch(connection, [watched]);
  close();
  presence.forget(connection);
  resolve();
  await asked;
  await presence.set(caller, 'busy');
  expect(told).toEqual([]);
});
