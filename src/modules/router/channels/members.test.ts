/** Who is in channels, where their socket goes while what it asked for waits. */
import { expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import { createMembers, type MembersParts } from './members.ts';

it('who has gone is in no channel, whatever they asked for before (CWE-401)', async () => {
  const written: string[] = [];
  const members = createMembers({
    database: {
      query: async ({ text }: Statement) => {
        written.push(text);
        return { rows: [], count: 0 };
      },
    } as unknown as Database,
    bus: { nodeId: 'n' },
    events: { subscribe: () => () => undefined },
    schemas: { onChange: () => undefined },
    log: silentLog,
    definitions: () => [{ pattern: 'lobby', join: 'users', send: 'users', presence: true }],
    maxOfSocket: () => 10,
    tell: () => undefined,
  } as unknown as MembersParts);
  let open = true;
  const connection = {
    ...{ id: 's', userId: 'me', isOpen: () => open, join: () => undefined },
    leave: () => undefined,
    caller: async () => ({ kind: 'user', userId: 'me' }),
  } as unknown as SocketConnection;
  open = false;
  members.closed(connection);
  // It waited behind another question of the same socket.
  await expect(members.enter(connection, members.find('lobby'), undefined)).rejects.toMatchObject({
    code: 'CHANNEL_MEMBERSHIP_REQUIRED',
  });
  expect(members.count()).toBe(0);
  expect(written).toEqual([]);
});
