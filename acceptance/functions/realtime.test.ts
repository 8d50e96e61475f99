/** `ctx.realtime`: what functions say to channels and to the sockets of users, and with whose rights. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect } from '../realtime/clients.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const channels = [
    { pattern: 'lobby', join: 'users', send: 'users', history: 5 },
    { pattern: 'own:{id}', join: 'self', send: 'self' },
    { pattern: 'news', join: 'users', send: 'none', payloadBytes: 64 },
  ];
  expectStatus(
    await platform.admin.patch('/config/router', { config: { channels } }),
    200,
    'channels',
  );
  [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  for (const rights of ['caller', 'system'] as const)
    await upload(platform.admin, {
      name: `say_as_${rights}`,
      inputs: { method: 'POST', rights, bodyParams: { call: 'JSON' } },
      functionCode: `const { part, args } = req.params.call;
        const from = ${rights === 'system' ? 'ctx.system' : 'ctx'}.realtime;
        return (await from[part](...args)) ?? null;`,
    });
});
afterEach(closeClients);
afterAll(() => platform.close());

const say = (rights: 'caller' | 'system', part: string, args: readonly unknown[], by?: TestUser) =>
  platform.client.post(
    `/functions/say_as_${rights}`,
    { call: { part, args } },
    by ? { token: by.accessToken } : {},
  );

async function listener(user: TestUser, channel?: string) {
  const { heard, ask } = await connect(platform, user, { namespace: '/channels/' });
  if (channel !== undefined) expect(await ask('join', { channel })).toMatchObject({ ok: true });
  const of = (name: string): Json[] =>
    heard.filter(({ event }) => event === name).map(({ data }) => data);
  return { of, ask };
}

it('publishes to a channel as whoever calls, and keeps what the channel keeps', async () => {
  const { of, ask } = await listener(bob, 'lobby');
  const said = await say('caller', 'publish', ['lobby', 'move', { to: 'e4' }], ann);
  expect(expectStatus(said, 200, 'publish').body).toEqual({ result: { seq: expect.any(Number) } });
  const [message] = await waitFor(async () =>
    of('message').length > 0 ? of('message') : undefined,
  );
  expect(message).toMatchObject({
    ...{ channel: 'lobby', event: 'move', data: { to: 'e4' }, userId: ann.userId },
    member: '00000000-0000-0000-0000-000000000000',
  });
  const { history } = await ask('history', { channel: 'lobby' });
  expect(history).toMatchObject([{ event: 'move', userId: ann.userId }]);
  await say('caller', 'publish', ['lobby', 'hello'], ann);
  await waitFor(async () =>
    of('message').some(({ event, data }) => event + data === 'messagehello'),
  );
});

it('refuses what the caller could not send, and lets the system', async () => {
  const to = `own:${ann.userId}`;
  expect((await say('caller', 'publish', [to, 'x', 1])).status).toBe(401);
  expect(await say('caller', 'publish', [to, 'x', 1], bob)).toMatchObject({
    status: 403,
    body: { code: 'CHANNEL_SEND_FORBIDDEN' },
  });
  expect((await say('caller', 'publish', ['news', 'x', 1], ann)).status).toBe(403);
  const mine = await listener(ann, to);
  const news = await listener(bob, 'news');
  expectStatus(await say('caller', 'publish', [to, 'mine', 1], ann), 200, 'own');
  expectStatus(await say('system', 'publish', [to, 'theirs', 2]), 200, 'system');
  expectStatus(await say('system', 'publish', ['news', 'late', 3]), 200, 'system');
  await waitFor(async () => mine.of('message').length === 2 && news.of('message').length === 1);
  expect(mine.of('message').map(({ event }) => event)).toEqual(['mine', 'theirs']);
});

it('reaches the sockets of a user: their own, or any for the system', async () => {
  const heard = await listener(ann);
  const other = await listener(bob);
  expect((await say('caller', 'toUser', [ann.userId, 'ping', 1])).status).toBe(401);
  expect((await say('caller', 'toUser', [ann.userId, 'ping', 1], bob)).status).toBe(403);
  expectStatus(await say('caller', 'toUser', [ann.userId, 'ping', 1], ann), 200, 'own');
  expectStatus(await say('system', 'toUser', [ann.userId, 'pong', { n: 2 }]), 200, 'system');
  await waitFor(async () => heard.of('notice').length === 2);
  expect(heard.of('notice')).toMatchObject([
    { event: 'ping', data: 1 },
    { event: 'pong', data: { n: 2 } },
  ]);
  expect(other.of('notice')).toEqual([]);
});

it('says what is wrong with what cannot be sent', async () => {
  const problems: readonly (readonly [string, readonly unknown[], string])[] = [
    ['publish', ['no such channel', 'x', 1], 'channel'],
    ['publish', ['missing', 'x', 1], 'channel'],
    ['publish', ['news', 'x'.repeat(100), 1], 'event'],
    ['publish', ['news', 'x', 'y'.repeat(100)], 'more than 64 bytes'],
    ['toUser', ['somebody', 'x', 1], 'userId'],
  ];
  const { functions } = (await platform.admin.get('/functions', { query: { limit: 100 } })).body;
  const { _id } = functions.find(({ name }: Json) => name === 'say_as_system');
  for (const [part, args, told] of problems) {
    const params = { call: { part, args } };
    const { body } = await platform.admin.post(`/functions/${_id}/invoke`, { params });
    expect(body.error?.message, JSON.stringify(args)).toMatch(new RegExp(told, 'i'));
  }
});

it('needs the capability where capabilities are listed', async () => {
  await upload(platform.admin, {
    name: 'narrow',
    inputs: { method: 'POST', rights: 'system', capabilities: ['realtime:publish:lobby'] },
    functionCode: `await ctx.system.realtime.publish('lobby', 'x', 1);
      return ctx.system.realtime.toUser('${ann.userId}', 'x', 1).catch((error) => error.message);`,
  });
  expect((await platform.client.post('/functions/narrow')).body.result).toContain(
    'realtime:toUser',
  );
});
