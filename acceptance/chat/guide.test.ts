/** The code of the guide is run as it stands there. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { projectRoot } from '../routes.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(async () => {
  closeClients();
  await platform?.close();
});

it('connects, sends, catches up after a loss and renews its token', async () => {
  await configure(platform, { rateLimit: { messagesPer10s: 1_000 } });
  const guide = await readFile(join(projectRoot, 'docs/guides/chat.md'), 'utf8');
  const code = /```js\nimport [^\n]+\n([\s\S]*?)```/.exec(guide)?.[1] ?? '';
  const [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  const room = await makeRoom(ann, [bob]);
  const received: Json[] = [];
  const names = ['io', 'realtimeUrl', 'accessToken', 'show'];
  const run = new Function(...names, `${code}; return { socket, send, renewed };`);
  const app = run(io, platform.addresses.realtime, ann.accessToken, (message: Json) =>
    received.push(message),
  );
  try {
    await waitFor(() => app.socket.connected);
    expect(await app.send(room, 'hello')).toMatchObject({ ok: true, seq: 1 });
    const again = await platform.login(ann.email, ann.password);
    expect(await app.renewed(again.accessToken)).toEqual({ ok: true });
    app.socket.disconnect();
    const b = await connectChat(platform, bob);
    for (const text of ['one', 'two']) await b.ask('message', room, text);
    app.socket.connect();
    await waitFor(() => received.length === 3);
    expect(received.map(({ content }) => content)).toEqual(['hello', 'one', 'two']);
    // What is said while it catches up is shown once and in its place.
    for (let round = 0; round < 3; round += 1) {
      app.socket.disconnect();
      const said = Array.from({ length: 12 }, (_, n) => b.ask('message', room, `${round}-${n}`));
      app.socket.connect();
      await Promise.all(said);
    }
    await waitFor(() => received.length >= 39);
    expect(received.map(({ seq }) => seq)).toEqual(Array.from({ length: 39 }, (_, n) => n + 1));
    await ann.api.put(`/chat/leave/${room}`);
    app.socket.disconnect();
    app.socket.connect();
    await waitFor(() => app.socket.connected);
    expect(received).toHaveLength(39);
  } finally {
    app.socket.disconnect();
  }
});
