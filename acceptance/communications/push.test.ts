/** Devices, topics, the inbox and notifying, as users and operators of both lines use them. */
import { randomUUID } from 'node:crypto';
import { io, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

const notify = (userId: string, more: object = {}) =>
  platform.admin.post('/push/send', { userId, title: 'Hello', body: 'World', ...more });
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;

test('a device is registered, moves with its token to another user, and is forgotten', async () => {
  const [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
  const token = `token-${randomUUID()}`;
  const made = await ada.api.post('/token', { token, platform: 'android' });
  expect(made).toMatchObject({
    status: 200,
    body: { newTokenDocument: { userId: ada.userId, token, platform: 'ANDROID' } },
  });
  await ada.api.post('/token', { token: `${token}-2`, platform: 'ANDROID' });
  const devicesOf = async (userId: string) =>
    (await platform.admin.get('/push/tokens', { query: { search: userId } })).body;
  expect((await devicesOf(ada.userId)).count).toBe(2);
  await bob.api.post('/pushNotifications/token', { token, platform: 'Android' });
  expect(
    (await devicesOf(ada.userId)).tokens.map(({ token: one }: { token: string }) => one),
  ).toEqual([`${token}-2`]);
  expect((await devicesOf(bob.userId)).count).toBe(1);
  expect((await ada.api.delete('/token', { query: { platform: 'ios' } })).status).toBe(200);
  expect((await devicesOf(ada.userId)).count).toBe(1);
  expect(await ada.api.delete('/token')).toMatchObject({ status: 200, body: { result: 'OK' } });
  expect((await devicesOf(ada.userId)).count).toBe(0);
  const [{ _id }] = (await devicesOf(bob.userId)).tokens;
  expect((await platform.admin.get(`/push/tokens/${_id}`)).body.tokenDocuments.token).toBe(token);
  expect((await bob.api.delete('/pushNotifications/token')).status).toBe(200);
  expect((await platform.admin.get(`/push/tokens/${_id}`)).status).toBe(404);
});

test('the same device under a new token is one device', async () => {
  const ada = await platform.registerUser();
  for (const token of ['one', 'two'])
    await ada.api.post('/token', {
      token: `${token}-${ada.userId}`,
      platform: 'IOS',
      deviceId: 'phone',
    });
  const { body } = await platform.admin.get(`/push/tokens/user/${ada.userId}`);
  expect(body.tokenDocuments).toHaveLength(1);
  expect(body.tokenDocuments[0].token).toBe(`two-${ada.userId}`);
});

test.each([
  [{ platform: 'IOS' }, 'token'],
  [{ token: 'x' }, 'platform'],
  [{ token: 'x', platform: 'TOASTER' }, 'platform'],
  [{ token: '', platform: 'IOS' }, 'token'],
  [
    { platform: 'WEB', subscription: { endpoint: 'ftp://x', keys: { p256dh: 'x', auth: 'y' } } },
    'subscription.endpoint',
  ],
  [
    {
      platform: 'WEB',
      subscription: { endpoint: 'https://push.example/x', keys: { p256dh: 'x', auth: 'y' } },
    },
    'subscription.keys',
  ],
])('%j is no device: %s', async (body, path) => {
  const ada = await platform.registerUser();
  expect(await ada.api.post('/token', body)).toMatchObject({
    status: 400,
    body: { errors: [{ path }] },
  });
});

test('the inbox counts exactly, filters, and is marked one by one, by time and as a whole', async () => {
  const ada = await platform.registerUser();
  for (const category of ['news', 'news', 'bills'])
    expect((await notify(ada.userId, { category })).body).toMatchObject({
      result: 'Ok',
      devices: 0,
    });
  const list = async (query: object = {}) =>
    (await ada.api.get('/notifications', { query: query as never })).body;
  const all = await list();
  expect(all).toMatchObject({ count: 3, unreadCount: 3 });
  expect(all.notifications[0]).toMatchObject({
    title: 'Hello',
    body: 'World',
    category: 'bills',
    read: false,
    user: ada.userId,
  });
  expect(await list({ category: 'news' })).toMatchObject({ count: 2, unreadCount: 2 });
  expect((await list({ after: all.notifications[0]._id, limit: 1 })).notifications[0]._id).toBe(
    all.notifications[1]._id,
  );
  const [newest] = all.notifications;
  expect(await ada.api.patch('/notifications', { id: newest._id })).toMatchObject({
    status: 200,
    body: { result: 'OK', updated: 1 },
  });
  expect(await list({ read: false })).toMatchObject({ count: 2, unreadCount: 2 });
  expect((await list({ read: true })).notifications).toMatchObject([
    { _id: newest._id, read: true, readAt: expect.any(String) },
  ]);
  expect(
    (await ada.api.patch('/notifications', { before: '2000-01-01T00:00:00Z' })).body.updated,
  ).toBe(0);
  expect(
    (await ada.api.patch('/pushNotifications/notifications', { all: true })).body.updated,
  ).toBe(2);
  expect((await ada.api.get('/notifications/unread-count')).body).toEqual({ unreadCount: 0 });
  expect(
    (await ada.api.patch('/notifications', { ids: [newest._id], read: false })).body.updated,
  ).toBe(1);
  expect((await ada.api.delete(`/notifications/${newest._id}`)).status).toBe(200);
  expect(await list()).toMatchObject({ count: 2, unreadCount: 0 });
  expect(
    (await list({ read: 'maybe' })).status ??
      (await ada.api.get('/notifications', { query: { read: 'maybe' } })).status,
  ).toBe(400);
});

test("nobody reads or marks another's entries", async () => {
  const [ada, eve] = [await platform.registerUser(), await platform.registerUser()];
  await notify(ada.userId);
  const [{ _id }] = (await ada.api.get('/notifications')).body.notifications;
  expect((await eve.api.get('/notifications')).body.notifications).toEqual([]);
  expect((await eve.api.patch('/notifications', { id: _id })).status).toBe(404);
  expect((await eve.api.delete(`/notifications/${_id}`)).status).toBe(404);
  expect((await platform.client.get('/notifications')).status).toBe(401);
  expect((await ada.api.patch('/notifications', {})).status).toBe(400);
  expect((await ada.api.get('/notifications')).body.unreadCount).toBe(1);
});

test('counts stay exact when many write at once', async () => {
  const ada = await platform.registerUser();
  const sent = await Promise.all(
    Array.from({ length: 30 }, () => notify(ada.userId, { data: { n: 1 } })),
  );
  for (const answer of sent) expectStatus(answer, 200, 'a notification');
  const { notifications } = (await ada.api.get('/notifications', { query: { limit: 100 } })).body;
  const read = await Promise.all(
    notifications
      .slice(0, 20)
      .map(({ _id }: { _id: string }) => ada.api.patch('/notifications', { id: _id })),
  );
  for (const answer of read) expectStatus(answer, 200, 'a notification that is read');
  expect((await ada.api.get('/notifications')).body).toMatchObject({ count: 30, unreadCount: 10 });
});

test('an open socket hears of the inbox', async () => {
  const ada = await platform.registerUser();
  const socket: Socket = io(`${platform.addresses.realtime}/communications/`, {
    path: '/realtime',
    extraHeaders: { authorization: `Bearer ${ada.accessToken}` },
    forceNew: true,
  });
  const heard: unknown[] = [];
  socket.onAny((event, data) => heard.push([event, data]));
  try {
    await waitFor(async () => (socket.connected ? true : undefined));
    await notify(ada.userId, { category: 'news' });
    await waitFor(async () => (heard.length > 0 ? true : undefined));
    expect(heard[0]).toMatchObject([
      'notification',
      { title: 'Hello', category: 'news', _id: expect.any(String) },
    ]);
    await ada.api.patch('/notifications', { all: true });
    await waitFor(async () => (heard.length > 2 ? true : undefined));
    expect(heard.slice(1)).toEqual([
      ['notification:read', { read: true, all: true }],
      ['unread-count', { unreadCount: 0 }],
    ]);
  } finally {
    socket.disconnect();
  }
});

test('without a provider a push message is captured, and its timeline says so', async () => {
  const ada = await platform.registerUser();
  const { body } = await platform.admin.post('/admin/pushNotifications/send', {
    userId: ada.userId,
    title: 'Hello',
    body: 'World',
    data: { a: 'b', n: 1 },
  });
  expect(body).toMatchObject({ message: 'Notification queued', messageId: expect.any(String) });
  const stored = await waitFor(async () => {
    const found = await message(body.messageId);
    return found.status === 'captured' ? found : undefined;
  });
  expect(stored.content.push).toEqual({
    title: 'Hello',
    body: 'World',
    data: { a: 'b', n: '1' },
    silent: false,
  });
  expect(stored.timeline.map(({ kind }: { kind: string }) => kind)).toEqual(['queued', 'captured']);
});

test.each([
  [{ isSilent: true, title: 'x', data: { a: 'b' } }, 400, 'title'],
  [{ isSilent: true, title: undefined, body: undefined }, 400, 'data'],
  [{ title: undefined }, 400, 'title'],
  [{ data: { a: { b: 1 } } }, 400, 'data.a'],
  [{ data: { a: 'x'.repeat(4000) } }, 400, 'data'],
  [{ platform: 'TOASTER' }, 400, 'platform'],
  [{ collapseKey: 'a b' }, 400, 'collapseKey'],
])('%j is %i and names %s', async (more, status, path) => {
  const ada = await platform.registerUser();
  expect(await notify(ada.userId, more)).toMatchObject({ status, body: { errors: [{ path }] } });
});

test('nobody to tell: an unknown user, and a user without a device when nothing is stored', async () => {
  expect((await notify(randomUUID())).status).toBe(404);
  const ada = await platform.registerUser();
  expect((await notify(ada.userId, { doNotStore: true })).status).toBe(404);
  expect((await ada.api.get('/notifications')).body.count).toBe(0);
});

test('a topic reaches those who follow it, once each, and nobody who left or is blocked', async () => {
  const users = await Promise.all([1, 2, 3, 4].map(() => platform.registerUser()));
  const topic = `topic-${randomUUID()}`;
  for (const { api } of users) {
    expect((await api.post('/pushNotifications/subscribe', { topic })).body).toMatchObject({
      topic,
    });
    await api.post('/pushNotifications/subscribe', { topic });
  }
  await users[2]?.api.post('/pushNotifications/unsubscribe', { topic });
  const blocked = users.at(-1)?.userId;
  await platform.admin.post(`/authentication/users/${blocked}/block`);
  const { body } = await platform.admin.post('/admin/pushNotifications/sendToTopic', {
    topic,
    title: 'T',
    body: 'B',
  });
  expect(body).toMatchObject({ recipients: 3, successCount: 3, failureCount: 0 });
  await waitFor(async () =>
    (await platform.admin.get(`/push/broadcasts/${body.messageId}`)).body.status === 'done'
      ? true
      : undefined,
  );
  await platform.admin.post(`/authentication/users/${blocked}/unblock`);
  const { email, password } = users[3] as TestUser;
  users[3] = await platform.login(email, password);
  const counts = await Promise.all(
    users.map(async ({ api }) => (await api.get('/notifications')).body.count),
  );
  expect(counts).toEqual([1, 1, 0, 0]);
  const nobody = await platform.admin.post('/admin/pushNotifications/sendToTopic', {
    topic: 'nobody',
    title: 'T',
    body: 'B',
  });
  expect(nobody).toMatchObject({ status: 200, body: { recipients: 0 } });
});

test('many users at once, in both forms; ids that are nobody are counted', async () => {
  const users = await Promise.all([1, 2].map(() => platform.registerUser()));
  const ids = users.map(({ userId }) => userId);
  const first = await platform.admin.post('/admin/pushNotifications/sendMany', {
    userIds: [...ids, randomUUID()],
    title: 'A',
    body: 'B',
  });
  expect(first).toMatchObject({
    status: 200,
    body: { successCount: 2, skippedCount: 1, requestedCount: 3 },
  });
  const second = await platform.admin.post('/pushNotifications/sendMany', {
    notifications: ids.map((sendTo, index) => ({ sendTo, title: `own ${index}` })),
  });
  expect(second).toMatchObject({ status: 200, body: { successCount: 2 } });
  for (const { api } of users)
    await waitFor(async () =>
      (await api.get('/notifications')).body.count === 2 ? true : undefined,
    );
  expect(
    (await platform.admin.post('/admin/pushNotifications/sendMany', { userIds: [], title: 'A' }))
      .status,
  ).toBe(400);
  expect(
    (await platform.admin.post('/admin/pushNotifications/sendMany', { title: 'A' })).status,
  ).toBe(400);
});

test('what was stored for a user goes with the user', async () => {
  const ada = await platform.registerUser();
  await ada.api.post('/token', { token: `t-${ada.userId}`, platform: 'WEB' });
  await notify(ada.userId);
  expect((await platform.admin.delete(`/authentication/users/${ada.userId}`)).status).toBe(200);
  expect(
    (await platform.admin.get('/push/tokens', { query: { search: ada.userId } })).body.count,
  ).toBe(0);
});

test('the routes of 0.16 are on their own surface and need a credential', async () => {
  for (const path of ['send', 'sendToTopic', 'sendMany']) {
    expect(
      (
        await platform.client.post(
          `/admin/pushNotifications/${path}`,
          {},
          { headers: { masterkey: platform.masterKey } },
        )
      ).status,
    ).toBe(404);
    expect(
      (await platform.adminAnonymous.post(`/admin/pushNotifications/${path}`, {})).status,
    ).toBe(401);
  }
  for (const path of ['token', 'subscribe', 'unsubscribe'])
    expect((await platform.client.post(`/pushNotifications/${path}`, {})).status).toBe(401);
});

test('the configuration of push in the form of 0.16: set, masked, kept by what was read', async () => {
  const account = { project_id: 'p', private_key: 'a secret key', client_email: 'x@p.example' };
  const put = await platform.admin.put('/admin/pushNotifications/config', {
    provider: 'firebase',
    firebase: account,
  });
  expect(put).toMatchObject({
    status: 200,
    body: {
      provider: 'firebase',
      active: true,
      firebase: { projectId: 'p', privateKey: '********' },
    },
  });
  const read = (await platform.admin.get('/admin/pushNotifications/config')).body;
  expect(JSON.stringify(read)).not.toContain('a secret key');
  expect((await platform.admin.put('/admin/pushNotifications/config', read)).status).toBe(200);
  const revealed = await platform.admin.get('/config/communications', { query: { reveal: true } });
  expect(revealed.body.config.pushNotifications.firebase.privateKey).toBe('a secret key');
  expect(
    (await platform.admin.patch('/config/pushNotifications', { config: { providerName: 'basic' } }))
      .body.config.provider,
  ).toBe('basic');
  expect(
    await platform.admin.put('/admin/pushNotifications/config', { provider: 'pigeon' }),
  ).toMatchObject({ status: 400, body: { errors: [{ path: 'provider' }] } });
  const names = (await platform.admin.get('/config/modules')).body.modules.map(
    ({ moduleName }: { moduleName: string }) => moduleName,
  );
  expect(names).toEqual(
    expect.arrayContaining(['email', 'sms', 'pushNotifications', 'communications']),
  );
});

describe('devices end with the session that registered them', () => {
  const tokensOf = async (userId: string): Promise<string[]> =>
    (await platform.admin.get(`/push/tokens/user/${userId}`)).body.tokenDocuments
      .map(({ token }: { token: string }) => token.replace(/-.*/, ''))
      .sort();
  const withSessions = async (several: boolean): Promise<void> => {
    const clients = { multipleUserSessions: several };
    const config = { clients };
    expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'sessions');
  };
  const register = async ({ api, userId }: TestUser, name: string): Promise<void> => {
    const body = { token: `${name}-${userId}`, platform: 'IOS' };
    expectStatus(await api.post('/token', body), 200, `device ${name}`);
  };
  let sql: TestConnection;
  beforeAll(async () => {
    sql = await openTestConnection(platform.databaseUrl ?? '');
    await withSessions(true);
  });
  afterAll(async () => {
    await withSessions(false);
    await sql?.close();
  });

  /** With a telephone whose session has ended by its time, and one from before sessions were noted. */
  const withDevices = async () => {
    const phone = await platform.registerUser();
    const desk = await platform.login(phone.email, phone.password);
    const idle = await platform.login(phone.email, phone.password);
    const old = await platform.login(phone.email, phone.password);
    for (const [name, user] of Object.entries({ phone, desk, idle, old }))
      await register(user, name);
    const token = (name: string) => `${name}-${phone.userId}`;
    await sql.query(
      `update penstock.sessions set ends_at = now() - interval '1 minute'
        where id = (select session_id from penstock.push_devices where token = $1)`,
      [token('idle')],
    );
    await sql.query('update penstock.push_devices set session_id = null where token = $1', [
      token('old'),
    ]);
    return { phone, desk };
  };
  type Ending = (users: { readonly phone: TestUser; readonly desk: TestUser }) => Promise<unknown>;

  test.each<[string, Ending, string[]]>([
    ['a logout', ({ phone }) => phone.api.post('/authentication/logout'), ['desk', 'idle', 'old']],
    [
      'its end in the list of sessions',
      async ({ phone, desk }) => {
        const { body } = await phone.api.get('/authentication/sessions');
        const own = body.sessions.find(({ current }: { current: boolean }) => current);
        return desk.api.delete(`/authentication/sessions/${own._id}`);
      },
      ['desk', 'idle', 'old'],
    ],
    [
      'the end of all others',
      ({ desk }) => desk.api.delete('/authentication/sessions'),
      ['desk', 'old'],
    ],
    [
      'a new password',
      ({ desk }) =>
        desk.api.post('/authentication/local/change-password', {
          oldPassword: desk.password,
          newPassword: `New-${desk.password}`,
        }),
      ['desk', 'old'],
    ],
    [
      'a block',
      ({ desk }) => platform.admin.post(`/authentication/users/${desk.userId}/block`),
      ['old'],
    ],
  ])('%s', async (_how, end, left) => {
    const users = await withDevices();
    expect(await end(users)).toMatchObject({ status: 200 });
    expect(await tokensOf(users.phone.userId)).toEqual(left);
  });

  test('a renewal, and a login that takes its place, keep them', async () => {
    await withSessions(false);
    const phone = await platform.registerUser();
    await register(phone, 'phone');
    const renewing = platform.client.with({ authorization: `Bearer ${phone.refreshToken}` });
    expectStatus(await renewing.post('/authentication/renew'), 200, 'renewal');
    const next = await platform.login(phone.email, phone.password);
    expect(await tokensOf(phone.userId)).toEqual(['phone']);
    await register(next, 'phone');
    await next.api.post('/authentication/logout');
    expect(await tokensOf(phone.userId)).toEqual([]);
    await withSessions(true);
  });

  test('a device that comes in while its session ends is not left behind', async () => {
    const phone = await platform.registerUser();
    const coming = ['a', 'b', 'c', 'd'].map((name) =>
      phone.api.post('/token', { token: `${name}-${phone.userId}`, platform: 'IOS' }),
    );
    await phone.api.post('/authentication/logout');
    await Promise.all(coming);
    expect(await tokensOf(phone.userId)).toEqual([]);
  });

  test('an operator who acts as a user registers none', async () => {
    const { userId } = await platform.registerUser();
    const path = `/authentication/users/${userId}/impersonate`;
    const { body } = await platform.admin.post(path, { reason: 'ticket' });
    const acting = platform.client.with({ authorization: `Bearer ${body.accessToken}` });
    expect((await acting.post('/token', { token: 'x', platform: 'IOS' })).status).toBe(403);
  });
});

test('a channel that is switched off says so', async () => {
  const ada = await platform.registerUser();
  await platform.admin.patch('/config/pushNotifications', { config: { active: false } });
  expect((await ada.api.post('/token', { token: 'x', platform: 'WEB' })).status).toBe(503);
  expect((await notify(ada.userId)).status).toBe(503);
  await platform.admin.patch('/config/pushNotifications', { config: { active: true } });
});
