import { io, type Socket } from 'socket.io-client';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

describe('realtime over two nodes on one database', () => {
  let a: TestPlatform;
  let b: TestPlatform;
  let reader: TestUser;
  const sockets: Socket[] = [];

  const connect = (node: TestPlatform, token: string): Socket => {
    const options = {
      path: '/realtime',
      transports: ['websocket'],
      reconnection: false,
      forceNew: true,
    };
    const socket = io(`${node.addresses.realtime}/database/`, {
      ...options,
      extraHeaders: { authorization: `Bearer ${token}` },
    });
    sockets.push(socket);
    return socket;
  };
  const listen = async (node: TestPlatform, input: object) => {
    const socket = connect(node, reader.accessToken);
    const changes: { operation: string; documentId: string; sequence: number }[] = [];
    socket.on('change', (change) => changes.push(change));
    await waitFor(() => socket.connected, { what: 'the connection' });
    expect(await socket.timeout(20_000).emitWithAck('subscribe', input)).toMatchObject({
      ok: true,
    });
    return { socket, changes };
  };

  beforeAll(async () => {
    a = await createTestPlatform();
    b = await createTestPlatform({ databaseUrl: a.databaseUrl ?? '' });
    await a.createSchema({ name: 'Post', fields: { title: { type: 'String', required: true } } });
    reader = await b.registerUser();
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.disconnect();
  });
  afterAll(async () => {
    await b?.close();
    await a?.close();
  });

  it('tells sockets of one node what happened on the other, and resumes there', async () => {
    const first = await listen(a, { schema: 'Post' });
    const made = await reader.api.post('/database/Post', { title: 'one' });
    expect(made.status).toBe(200);
    const id = made.body._id;
    await reader.api.patch(`/database/Post/${id}`, { title: 'two' });
    await waitFor(() => first.changes.length === 2);
    expect(first.changes.map(({ operation, documentId }) => [operation, documentId])).toEqual([
      ['insert', id],
      ['update', id],
    ]);
    first.socket.disconnect();
    await reader.api.delete(`/database/Post/${id}`);
    const again = await listen(b, { schema: 'Post', since: first.changes[1]!.sequence });
    await waitFor(() => again.changes.length === 1);
    expect(again.changes[0]).toMatchObject({
      operation: 'delete',
      documentId: id,
      sequence: first.changes[1]!.sequence + 1,
    });
  });

  it('ends the sockets of a session on both nodes when it is logged out on one', async () => {
    const [onA, onB] = [await listen(a, { schema: 'Post' }), await listen(b, { schema: 'Post' })];
    expect((await reader.api.post('/authentication/logout')).status).toBe(200);
    await waitFor(() => !onA.socket.connected && !onB.socket.connected);
    const late = connect(a, reader.accessToken);
    const refused = await new Promise<{ data?: unknown }>((resolve) =>
      late.on('connect_error', resolve as (error: Error) => void),
    );
    expect(refused.data).toMatchObject({ status: 401 });
  });
});
