/** What sockets of a room are told where members hear only of what was written since they joined. */
import { expect, it } from 'vitest';
import { noMetrics, silentLog } from '../../../../test/support/quiet.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import { createHub } from './hub.ts';

const room = 'room';

/** Sockets of a room of four messages, for users who joined it after message `joined`. */
async function openRoom(users: Readonly<Record<string, number>>) {
  const sockets = new Map<string, { told: unknown[]; connection: SocketConnection }>();
  const query = async ({ values = [] }: Statement) => {
    const joinedSeq = users[String(values[0])] ?? 0;
    return { rows: [{ room, joinedSeq, lastSeq: 4, lastChange: 4 }], count: 1 };
  };
  const hub = createHub({
    database: { query } as unknown as Database,
    bus: { subscribe: () => undefined, publish: async () => undefined } as never,
    events: { subscribe: () => () => undefined } as never,
    sockets: {
      broadcast(_namespace: string, channel: string, event: string, data: unknown) {
        for (const { connection } of sockets.values())
          if (connection.hears(channel)) connection.emit(event, data);
      },
    } as never,
    metrics: noMetrics,
    log: silentLog,
    joinedOnly: () => true,
  });
  for (const userId of Object.keys(users)) {
    const told: unknown[] = [];
    const channels = new Set<string>();
    const connection: Partial<SocketConnection> = {
      ...{ id: userId, userId, emit: (_event: string, data: unknown) => void told.push(data) },
      join: (channel: string) => void channels.add(channel),
      leave: (channel: string) => void channels.delete(channel),
      hears: (channel: string) => channels.has(channel),
    };
    sockets.set(userId, { told, connection: connection as SocketConnection });
    (await hub.admit(connection as SocketConnection)).connected();
  }
  const of = (user: string) =>
    sockets.get(user) as { told: unknown[]; connection: SocketConnection };
  return { hub, of };
}

it('who joined after a message does not hear of it, though it is told later', async () => {
  const { hub, of } = await openRoom({ ann: 0, bob: 5 });
  const message = (seq: number) => ({ change: seq, seq, event: 'message', data: seq });
  // Bob was added between the commit of message 5 and this node hearing of it.
  hub.stored(room, [message(5), message(6)]);
  expect([of('ann').told, of('bob').told]).toEqual([[5, 6], [6]]);
});

it('who has left the room on a socket hears of no change on it', async () => {
  const { hub, of } = await openRoom({ ann: 0, bob: 4 });
  of('ann').connection.leave(room);
  hub.stored(room, [{ change: 5, of: 2, event: 'message-edited', data: 'edited' }]);
  expect([of('ann').told, of('bob').told]).toEqual([[], []]);
});
