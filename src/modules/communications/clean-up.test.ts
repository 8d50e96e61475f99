/** What the clean-up of messages deletes by age, and what it leaves: nothing that is still to be sent. What waits is asked again. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../../../test/support/connection.ts';
import type { TestDatabase } from '../../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../../test/support/platform.ts';
import { startFakeService } from '../../../test/support/servers/fake-service.ts';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { readSettings } from '../../kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../platform.ts';
import { migrations } from './migrations.ts';

let database: TestDatabase;
let platform: Platform;
let node: TestNode;
let sql: TestConnection;
let dataDir: string;
beforeAll(async () => {
  database = await platformDatabase('embedded');
  dataDir = await temporaryFolder('data');
  platform = await startPlatform({
    settings: readSettings(testEnvironment(dataDir, database.url)),
  });
  node = createTestNode(platform.addresses, {
    masterKey: testMasterKey,
    adminPassword: testAdminPassword,
  });
  sql = await openTestConnection(database.url);
});
afterAll(async () => {
  await sql.close();
  await platform.close();
  await database.drop();
  await removeFolder(dataDir);
});

const day = 24 * 60 * 60_000;
const configure = async (config: object) => {
  const answer = await node.admin.patch('/config/communications', { config });
  expect(answer.status, answer.text).toBe(200);
};
const run = async (job: string) => {
  const id = await platform.kernel.jobs.enqueue(job, {});
  await waitFor(
    async () => (await platform.kernel.jobs.status(id ?? ''))?.state === 'completed' || undefined,
  );
};
const cleanUp = () => run('communications.purge-messages');
const send = async (more: object = {}) => {
  const mail = { email: 'ada@example.org', subject: 'x', body: 'y', ...more };
  const answer = await node.admin.post('/email/send', mail);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.messageId as string;
};
const isThere = async (id: string) =>
  (await node.admin.get(`/communications/messages/${id}`)).status === 200;
const captured = (id: string) =>
  waitFor(
    async () =>
      (await node.admin.get(`/communications/messages/${id}`)).body.status === 'captured' ||
      undefined,
  );
const age = (id: string, column: 'created_at' | 'finished_at', days: number) =>
  sql.query(
    `update penstock.messages set ${column} = now() - make_interval(days => $2) where id = $1`,
    [id, days],
  );

it('keeps messages for as long as the configuration says, counted from their end', async () => {
  await configure({ messages: { retention: 10 * day } });
  const [old, late, fresh] = [await send(), await send(), await send()];
  for (const id of [old, late, fresh]) await captured(id);
  for (const id of [old, late]) await age(id, 'created_at', 11);
  await age(old, 'finished_at', 11);
  await cleanUp();
  expect(await Promise.all([old, late, fresh].map(isThere))).toEqual([false, true, true]);
});

it('leaves what is still to be sent, however long ago it was written', async () => {
  const sendAt = new Date(Date.now() + 300 * day).toISOString();
  const waiting = await send({ sendAt });
  await age(waiting, 'created_at', 60);
  await cleanUp();
  expect((await node.admin.get(`/communications/messages/${waiting}`)).body).toMatchObject({
    status: 'queued',
  });
});

it('keeps a broadcast as long as its messages, so that what waits for its time can be taken back', async () => {
  const sendAt = new Date(Date.now() + 300 * day).toISOString();
  const { broadcastId } = (
    await node.admin.post('/communications/broadcasts', {
      ...{ channel: 'email', subject: 's', body: 'b', sendAt },
      to: { addresses: ['much-later@example.org'] },
    })
  ).body;
  const path = `/communications/broadcasts/${broadcastId}`;
  const state = async () => (await node.admin.get(path)).body;
  await waitFor(async () => (await state()).status === 'done' || undefined);
  await sql.query(`update penstock.broadcasts set created_at = now() - interval '60 days'`);
  await cleanUp();
  expect((await node.admin.post(`${path}/stop`)).status).toBe(200);
  await waitFor(async () => (await state()).cancelled === 1 || undefined);
  await sql.query(
    `update penstock.messages set created_at = now() - interval '60 days', finished_at = now() - interval '60 days' where broadcast_id = $1`,
    [broadcastId],
  );
  await cleanUp();
  expect((await node.admin.get(path)).status).toBe(404);
});

it('takes up what the queue has given up: broadcasts, chains and digests whose time was over long ago', async () => {
  const { userId } = await node.registerUser();
  const post = async (path: string, body: object) => {
    const answer = await node.admin.post(path, { subject: 's', body: '{{count}}', ...body });
    expect(answer.status, answer.text).toBe(200);
    return answer.body;
  };
  const many = { channel: 'email', to: { userIds: [userId] } };
  const { broadcastId } = await post('/communications/broadcasts', many);
  const { chainId } = await post('/send/fallback', {
    recipient: userId,
    fallbackChain: [
      { channel: 'email', until: 'read', timeout: 7 * day },
      { channel: 'email', until: 'read', timeout: 7 * day },
    ],
  });
  const digest = { key: 'k', windowSeconds: 2_592_000 };
  const recipient = 'collected@example.org';
  await post('/communications/send', { channel: 'email', recipient, digest });
  const broadcast = async () =>
    (await node.admin.get(`/communications/broadcasts/${broadcastId}`)).body.status;
  await waitFor(async () => (await broadcast()) === 'done' || undefined);
  const long = `now() - interval '13 hours'`;
  await sql.query(`update penstock.broadcasts set status = 'running', created_at = ${long}`);
  await sql.query(`update penstock.message_chains set step_until = ${long}`);
  await sql.query(`update penstock.message_digests set due_at = ${long}`);
  await run('communications.take-up');
  await waitFor(async () => (await broadcast()) === 'done' || undefined);
  await waitFor(async () => {
    const { body } = await node.admin.get('/communications/messages', { query: { recipient } });
    return body.count === 1 || undefined;
  });
  await waitFor(
    async () =>
      (await node.admin.get(`/communications/chains/${chainId}`)).body.position === 1 || undefined,
  );
});

it('passes over nobody while a part of the template of a broadcast is gone', async () => {
  await node.registerUser();
  const part = '/communications/partials/closing';
  await node.admin.put(part, { body: 'Yours' });
  const { broadcastId } = (
    await node.admin.post('/communications/broadcasts', {
      ...{ channel: 'email', subject: 's', body: 'b {{> closing}}', to: { everybody: true } },
    })
  ).body;
  const state = async () =>
    (await node.admin.get(`/communications/broadcasts/${broadcastId}`)).body;
  const { queued } = await waitFor(async () => {
    const now = await state();
    return now.status === 'done' ? now : undefined;
  });
  // The same once more, as it is in the middle.
  await sql.query(`update penstock.broadcasts set status = 'running', position = null, queued = 0`);
  await node.admin.delete(part);
  await platform.kernel.jobs.enqueue('communications.broadcast', { id: broadcastId });
  await waitFor(
    async () =>
      (
        await sql.query(
          `select from penstock_jobs.job where name = 'communications.broadcast' and state = 'retry'`,
        )
      ).length > 0 || undefined,
  );
  expect(await state()).toMatchObject({ status: 'running', queued: 0, skipped: 0 });
  await node.admin.put(part, { body: 'Yours' });
  await waitFor(async () => (await state()).status === 'done' || undefined);
  expect(await state()).toMatchObject({ queued, skipped: 0 });
});

it('keeps entries of the inbox for as long as the configuration says, and counts what is left', async () => {
  const ada = await node.registerUser();
  const { _id: userId } = (await ada.api.get('/authentication/user')).body;
  await configure({ pushNotifications: { inbox: { retention: 30 * day } } });
  for (const title of ['old', 'new'])
    expect((await node.admin.post('/push/send', { userId, title, body: 'b' })).status).toBe(200);
  await sql.query(
    `update penstock.notifications set created_at = now() - interval '31 days' where title = 'old'`,
  );
  await cleanUp();
  expect((await ada.api.get('/notifications')).body).toMatchObject({
    count: 1,
    unreadCount: 1,
    notifications: [{ title: 'new' }],
  });
});

it('writes a body without tags in the lines in which it was written', async () => {
  const body = 'Dear {{name}},\n\n1 < 2 & more:\nyours';
  const id = await send({ body, variables: { name: 'Ada <b>' } });
  await captured(id);
  const { content } = (await node.admin.get(`/communications/messages/${id}`)).body;
  expect(content.html).toBe('Dear Ada &lt;b&gt;,<br>\n<br>\n1 < 2 & more:<br>\nyours');
  expect(content.text).toBe('Dear Ada <b>,\n\n1 < 2 & more:\nyours');
  const tags = await send({ body: '<p>one\ntwo</p>' });
  await captured(tags);
  const kept = (await node.admin.get(`/communications/messages/${tags}`)).body.content;
  expect(kept.html).toBe('<p>one\ntwo</p>');
});

it('lists devices by their platform, and refuses a search that is no id', async () => {
  const ada = await node.registerUser();
  for (const platformName of ['IOS', 'ANDROID', 'ANDROID'])
    await ada.api.post('/token', { token: `${Math.random()}`, platform: platformName });
  const list = async (query: object) =>
    (await node.admin.get('/push/tokens', { query: query as never })).body;
  expect((await list({ platform: 'ANDROID' })).count).toBe(2);
  expect((await list({ platform: 'IOS' })).tokens).toMatchObject([{ platform: 'IOS' }]);
  expect(await list({ search: 'not an id' })).toMatchObject({ errors: [{ path: 'search' }] });
});

it('asks Mailgun what became of mails whose reports do not come, ever less often', async () => {
  const events: Record<string, object[]> = {};
  const asked: string[] = [];
  const mailgun = await startFakeService(({ method, path }) => {
    if (method !== 'GET') return { body: { id: `<${randomUUID()}@example.com>` } };
    const id = new URL(path, 'http://x').searchParams.get('message-id') ?? '';
    asked.push(id);
    return { body: { items: events[id] ?? [] } };
  });
  await configure({
    email: {
      transport: 'mailgun',
      sendingDomain: 'example.com',
      transportSettings: { mailgun: { apiKey: 'k', endpoint: mailgun.url } },
    },
    providers: { allowInternal: true },
  });
  const sent = async (minutesAgo: number) => {
    const id = await send({ email: `${minutesAgo}@example.org` });
    const { providerId } = await waitFor(async () => {
      const { body } = await node.admin.get(`/communications/messages/${id}`);
      return body.status === 'sent' && body;
    });
    await sql.query(
      `update penstock.messages set finished_at = now() - make_interval(mins => $2) where id = $1`,
      [id, minutesAgo],
    );
    return { id, providerId } as { id: string; providerId: string };
  };
  const [fresh, first, between, late] = [
    await sent(2),
    await sent(11),
    await sent(31),
    await sent(85),
  ];
  const item = (event: string, more: object) => ({ id: randomUUID(), event, ...more });
  events[first.providerId] = [
    item('accepted', {}),
    item('delivered', { recipient: '11@example.org' }),
  ];
  events[late.providerId] = [
    item('failed', { severity: 'permanent', 'delivery-status': { code: 550, message: 'gone' } }),
  ];
  for (let times = 0; times < 2; times += 1) await run('communications.ask-mailgun');
  expect(asked.toSorted()).toEqual([first.providerId, late.providerId].toSorted());
  const states = await Promise.all(
    [fresh, first, between, late].map(
      async ({ id }) => (await node.admin.get(`/communications/messages/${id}`)).body.status,
    ),
  );
  expect(states).toEqual(['sent', 'delivered', 'sent', 'bounced']);
  expect(
    await node.admin.post('/email/send', { email: '85@example.org', subject: 'x', body: 'y' }),
  ).toMatchObject({ status: 422 });
  await configure({ email: { transport: 'mock' } });
  await mailgun.close();
});

it('keeps how often delivery is tried again, as it was set under its former name', async () => {
  await configure({ messages: { retention: 9 * day } });
  await sql.query(
    `update penstock.config set config = jsonb_set(config, '{messages,retries}', '4') where name = 'communications'`,
  );
  const renaming = migrations.find(({ id }) => id === '0009-retry-keys');
  await renaming?.run(platform.kernel.database);
  const [{ config }] = (await sql.query(
    `select config from penstock.config where name = 'communications'`,
  )) as unknown as [{ config: object }];
  expect(config).toMatchObject({ orchestration: { retryAttempts: 4 } });
  expect(config).toMatchObject({ messages: { retention: 9 * day } });
  expect(JSON.stringify(config)).not.toContain('"retries"');
});

it('a link to leave that is followed when the account has gone stores nothing of the account', async () => {
  const { userId } = await node.registerUser();
  const { body } = await node.admin.post('/communications/send', {
    ...{ channel: 'email', recipient: userId, category: 'news', subject: 's', body: 'b' },
  });
  const { content } = await waitFor(async () => {
    const found = (await node.admin.get(`/communications/messages/${body.messageId}`)).body;
    return found.status === 'captured' ? found : undefined;
  });
  const link = String(content.mail.headers['List-Unsubscribe']).slice(1, -1);
  expect((await node.admin.delete(`/authentication/users/${userId}`)).status).toBe(200);
  expect((await fetch(link, { method: 'POST' })).status).toBe(200);
  const kept = 'select from penstock.message_preferences where user_id = $1';
  expect(await sql.query(kept, [userId])).toEqual([]);
});

it('follows no more than a thousand topics, however many calls come at once', async () => {
  const { userId, api } = await node.registerUser();
  await sql.query(
    `insert into penstock.push_topics (topic, user_id) select 't' || n, $1 from generate_series(1, 998) n`,
    [userId],
  );
  const follow = async (topic: string) =>
    (await api.post('/pushNotifications/subscribe', { topic })).status;
  const all = await Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map(follow));
  expect(all.filter((status) => status === 200)).toHaveLength(2);
  expect(await follow('t1')).toBe(200);
  expect(await follow('g')).toBe(400);
});

it('asks again about what waits: choices, topics and blocks since then', async () => {
  const users = await Promise.all([1, 2, 3, 4].map(() => node.registerUser()));
  const hour = (hours: number) =>
    new Date(Date.now() + hours * 3_600_000).toISOString().slice(11, 13);
  const quietHours = { start: `${hour(-1)}:00`, end: `${hour(3)}:00` };
  const topic = `topic-${randomUUID()}`;
  for (const { api, userId } of users) {
    await api.post('/token', { token: `phone-${userId}`, platform: 'IOS' });
    await api.post('/notifications/topics/subscribe', { topic });
    const settings = { quietHours, timezone: 'UTC' };
    expect((await api.patch('/notifications/preferences', settings)).status).toBe(200);
  }
  const told = { topic, title: 'T', body: 'B', category: 'news' };
  expect((await node.admin.post('/push/sendToTopic', told)).status).toBe(200);
  const waiting = () =>
    sql.query('select id, user_id from penstock.messages where user_id = any($1::uuid[])', [
      users.map(({ userId }) => userId),
    ]);
  await waitFor(async () => (await waiting()).length === users.length || undefined);
  const [left, chose, blocked] = users as [TestUser, TestUser, TestUser];
  await left.api.post('/notifications/topics/unsubscribe', { topic });
  const preferences = [{ category: 'news', channel: 'push', enabled: false }];
  await chose.api.patch('/notifications/preferences', { preferences });
  await node.admin.post(`/authentication/users/${blocked.userId}/block`);
  const rows = await waiting();
  const ended = await Promise.all(
    users.map(async ({ userId }) => {
      const id = rows.find((row) => row.user_id === userId)?.id as string;
      const read = async () => (await node.admin.get(`/communications/messages/${id}`)).body;
      expect((await read()).status).toBe('queued');
      await platform.kernel.jobs.enqueue('communications.deliver', { id });
      return waitFor(async () => {
        const { status, error } = await read();
        return status === 'queued' || status === 'sending' ? undefined : [status, error];
      });
    }),
  );
  const stopped = (why: string) => ['failed', `the recipient gets no messages: they ${why}`];
  expect(ended).toEqual([
    stopped('follow the topic no more'),
    stopped('chose so'),
    stopped('are blocked'),
    ['captured', null],
  ]);
});
