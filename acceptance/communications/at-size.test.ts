/**
 * What is large costs what small costs: a message to many is written in pages of a few statements, an inbox of 100,000
 * entries is read like a short one, and fifty devices are one message. `MESSAGE_RECIPIENTS` for long runs.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { StatementSender } from '../../src/kernel/database/statement-sender.ts';
import type { TestUser } from '../../test/support/node.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { openBench, type WeakSpotBench } from '../weak-spots/bench.ts';

const recipients = Number(process.env.MESSAGE_RECIPIENTS ?? 6000);
/** Recipients of one page. */
const pageSize = 200;

let bench: WeakSpotBench;
let push: FakeService;
/** Of a test that writes to all of them. Milliseconds. */
const longest = Math.max(60_000, recipients * 3);
const sent = vi.spyOn(pg.Client.prototype, 'query');
/** Statements that share connections. */
const shared = vi.spyOn(StatementSender.prototype, 'send');

beforeAll(async () => {
  bench = await openBench();
  push = await startFakeService(() => ({ status: 200, body: { id: 'accepted' } }));
  const onesignal = { appId: 'app', apiKey: 'key', endpoint: push.url };
  await configure({
    email: { sendingDomain: 'example.com' },
    pushNotifications: { providerName: 'onesignal', onesignal },
    providers: { allowInternal: true },
  });
});
afterAll(async () => {
  sent.mockRestore();
  shared.mockRestore();
  await bench.close();
  await push.close();
});

const configure = async (config: object) => {
  const answer = await bench.platform.admin.patch('/config/communications', { config });
  expect(answer.status, answer.text).toBe(200);
};
const later = () => new Date(Date.now() + 3600_000).toISOString();
const addresses = (count: number) =>
  Array.from({ length: count }, (_, n) => `reader${n}@example.org`);
const broadcast = async (body: object) => {
  const answer = await bench.platform.admin.post('/communications/broadcasts', {
    channel: 'email',
    subject: 'News',
    body: '<p>News</p>',
    ...body,
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.broadcastId as string;
};
const stateOf = async (id: string) =>
  (await bench.platform.admin.get(`/communications/broadcasts/${id}`)).body;
const done = (id: string) =>
  waitFor(
    async () => {
      const state = await stateOf(id);
      return state.status === 'running' ? undefined : state;
    },
    { timeoutMs: 300_000, what: 'the broadcast to be written' },
  );
const messagesOf = (id: string) =>
  bench.rows(
    'select recipient, status, due_at from penstock.messages where broadcast_id = $1 order by recipient',
    [id],
  );
const idOf = async ({ api }: TestUser): Promise<string> =>
  (await api.get('/authentication/user')).body._id;
const textOf = ([query]: readonly unknown[]): string => {
  return typeof query === 'string' ? query : String(Reflect.get(query as object, 'text'));
};

describe('a message to many', () => {
  test(
    'is written in pages of a few statements, and tells how far it is',
    async () => {
      const before = sent.mock.calls.length;
      const id = await broadcast({
        to: { addresses: addresses(recipients) },
        category: 'news',
        sendAt: later(),
      });
      expect(await done(id)).toMatchObject({
        status: 'done',
        recipients,
        queued: recipients,
        skipped: 0,
      });
      const written = sent.mock.calls
        .slice(before)
        .map(textOf)
        .filter((text) =>
          /penstock\.(messages|limits|take_limits|suppressions|broadcast)/.test(text),
        );
      // Not one statement more for each of them; this test's own questions are among these.
      expect(written.length).toBeLessThan((recipients / pageSize) * 12 + 200);
      const [{ count }] = await bench.rows(
        'select count(distinct recipient)::integer as count from penstock.messages where broadcast_id = $1',
        [id],
      );
      expect(count).toBe(recipients);
      // Whom it went to is forgotten with the last page.
      expect(await bench.rows('select 1 from penstock.broadcast_recipients limit 1')).toEqual([]);
    },
    longest,
  );

  test('stops: nothing more is written, and what waits is taken back', async () => {
    const id = await broadcast({ to: { addresses: addresses(recipients) }, sendAt: later() });
    await waitFor(async () => (await stateOf(id)).queued > 0, { what: 'the first page' });
    await bench.platform.admin.post(`/communications/broadcasts/${id}/stop`);
    const stopped = await waitFor(async () => {
      const state = await stateOf(id);
      return state.cancelled === state.queued ? state : undefined;
    });
    expect(stopped.status).toBe('stopped');
    expect(stopped.queued).toBeLessThan(recipients);
    const states = new Set((await messagesOf(id)).map(({ status }) => status));
    expect([...states]).toEqual(['cancelled']);
  });

  test('goes to as many as a request may list', async () => {
    const all = addresses(100_000);
    const half = all.slice(0, 50_000);
    // One mailbox in small and in capital letters is one.
    const capitals = half.map((one) => one.toUpperCase());
    const to = { addresses: [...half, ...capitals], userIds: all.map(() => randomUUID()) };
    const answer = await bench.platform.admin.post('/communications/broadcasts', {
      ...{ channel: 'email', subject: 's', body: 'b', sendAt: later() },
      to,
    });
    expect(answer, answer.text).toMatchObject({
      status: 200,
      body: { recipients: 50_000, skipped: 100_000 },
    });
    await bench.platform.admin.post(`/communications/broadcasts/${answer.body.broadcastId}/stop`);
  });

  test('has no more of long messages in memory than some megabytes', async () => {
    const before = sent.mock.calls.length;
    const body = '<p>Some words of a long letter</p>'.repeat(5800);
    const id = await broadcast({ to: { addresses: addresses(40) }, body, sendAt: later() });
    expect(await done(id)).toMatchObject({ queued: 40, skipped: 0 });
    const stored = sent.mock.calls
      .slice(before)
      .filter((call) => textOf(call).includes('insert into penstock.messages'))
      .map(([query]) => JSON.stringify(Reflect.get(query as unknown as object, 'values')).length);
    expect(Math.max(...stored)).toBeLessThan(8_000_000);
    expect(stored.length).toBeGreaterThan(1);
  });

  test('respects what its readers chose, their quiet hours, and who gets nothing', async () => {
    const [asked, optedOut, quiet, gone] = [
      await bench.platform.registerUser(),
      await bench.platform.registerUser(),
      await bench.platform.registerUser(),
      await bench.platform.registerUser(),
    ] as const;
    const choose = (user: TestUser, body: object) =>
      user.api.patch('/notifications/preferences', body);
    const no = { category: 'offers', channel: 'email', enabled: false };
    expect((await choose(optedOut, { preferences: [no] })).status).toBe(200);
    const hour = new Date().getUTCHours();
    const at = (hours: number) => `${String((hour + hours + 24) % 24).padStart(2, '0')}:00`;
    const quietHours = { start: at(-1), end: at(3) };
    expect((await choose(quiet, { quietHours, timezone: 'UTC' })).status).toBe(200);
    await bench.platform.admin.post('/communications/suppressions', {
      channel: 'email',
      address: gone.email,
    });
    const userIds = await Promise.all([asked, optedOut, quiet, gone].map(idOf));
    const id = await broadcast({ to: { userIds }, category: 'offers' });
    expect(await done(id)).toMatchObject({ recipients: 4, queued: 2, skipped: 2 });
    const rows = await messagesOf(id);
    expect(rows.map(({ recipient }) => recipient).sort()).toEqual(
      [asked.email, quiet.email].sort(),
    );
    expect(rows.find(({ recipient }) => recipient === quiet.email)?.due_at).not.toBeNull();
    expect(rows.find(({ recipient }) => recipient === asked.email)?.due_at).toBeNull();
    // Who is listed by id and by address gets one message, and what they chose counts.
    const twice = await broadcast({
      to: {
        userIds: await Promise.all([asked, optedOut].map(idOf)),
        addresses: [asked.email.toUpperCase(), optedOut.email, 'other@example.com'],
      },
      category: 'offers',
      sendAt: later(),
    });
    expect(await done(twice)).toMatchObject({ recipients: 3, queued: 2, skipped: 1 });
    const blocked = await bench.platform.registerUser();
    const block = `/authentication/users/${await idOf(blocked)}/block`;
    expect((await bench.platform.admin.post(block)).status).toBe(200);
    const all = await broadcast({ to: { everybody: true }, category: 'offers', sendAt: later() });
    expect(await done(all)).toMatchObject({ audience: 'users', skipped: 2 });
    const everybody = (await messagesOf(all)).map(({ recipient }) => recipient);
    expect(everybody).toContain(asked.email);
    expect(everybody).not.toContain(blocked.email);
  });

  test('says at once what cannot be sent', async () => {
    const answer = (body: object) =>
      bench.platform.admin.post('/communications/broadcasts', {
        channel: 'email',
        subject: 'x',
        body: 'y',
        ...body,
      });
    const path = (place: string) => ({ status: 400, body: { errors: [{ path: place }] } });
    expect(await answer({ to: {} })).toMatchObject(path('to'));
    expect(await answer({ to: { topic: 'a', everybody: true } })).toMatchObject(path('to'));
    expect(await answer({ to: { addresses: ['a@example.org', 'nobody'] } })).toMatchObject({
      status: 400,
    });
    expect(await answer({ to: { everybody: true }, subject: undefined })).toMatchObject(
      path('subject'),
    );
    expect(await answer({ to: { everybody: true }, templateName: 'None' })).toMatchObject({
      status: 404,
    });
    expect(await answer({ channel: 'push', to: { addresses: ['a@b.example'] } })).toMatchObject(
      path('to.addresses'),
    );
  });
});

describe('an inbox of 100,000 entries', () => {
  const entries = 100_000;
  let large: TestUser;
  let small: TestUser;

  beforeAll(async () => {
    large = await bench.platform.registerUser();
    small = await bench.platform.registerUser();
    for (const [user, count] of [
      [large, entries],
      [small, 20],
    ] as const)
      await bench.rows(
        `insert into penstock.notifications (id, user_id, title, category, platform, read_at, created_at)
         select gen_random_uuid(), $1, 'entry ' || n, 'kind' || n % 5, case when n % 3 = 0 then 'WEB' end,
           case when n % 2 = 0 then now() end, now() - n * interval '1 second'
         from generate_series(1, $2::integer) n`,
        [await idOf(user), count],
      );
    await bench.rows('analyze penstock.notifications');
  }, 120_000);

  /** Blocks of the database that the statements of a request read, and how many they are. */
  const costOf = async (user: TestUser, path: string) => {
    const [before, sharedBefore] = [sent.mock.calls.length, shared.mock.calls.length];
    const answer = await user.api.get(path);
    expect(answer.status, answer.text).toBe(200);
    const calls: unknown[][] = sent.mock.calls.slice(before);
    const together = shared.mock.calls.slice(sharedBefore).map(([query]) => [query]);
    const asked = [...calls, ...together].filter((call) =>
      /penstock\.(notifications|inbox_counts)/.test(textOf(call)),
    );
    let blocks = 0;
    for (const [query, given] of asked) {
      const values = (given ??
        Reflect.get(query as unknown as object, 'values') ??
        []) as unknown[];
      const [row] = await bench.rows(
        `explain (analyze, buffers, format json) ${textOf([query])}`,
        values,
      );
      const { Plan: plan } = row['QUERY PLAN'][0];
      blocks += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    }
    return { statements: asked.length, blocks, body: answer.body };
  };

  test.each([
    '/notifications?limit=20',
    '/notifications?limit=20&read=false',
    '/notifications?limit=20&read=true',
    '/notifications?limit=20&category=kind3',
    '/notifications?limit=20&platform=WEB',
    '/notifications/unread-count',
  ])('%s costs as in a short one', async (path) => {
    const [many, few] = [await costOf(large, path), await costOf(small, path)];
    expect(many.statements).toBe(few.statements);
    expect(many.statements).toBeLessThanOrEqual(2);
    // A page of entries, in as many places of the table at most; no walk through all of them.
    expect(many.blocks).toBeLessThan(few.blocks + 80);
  });

  test('counts exactly, also when all of it is marked', async () => {
    expect((await large.api.get('/notifications?limit=1')).body).toMatchObject({
      count: entries,
      unreadCount: entries / 2,
    });
    const marked = await large.api.patch('/notifications', { all: true });
    expect(marked.body).toMatchObject({ updated: entries / 2 });
    expect((await large.api.get('/notifications/unread-count')).body).toMatchObject({
      unreadCount: 0,
    });
  });

  test('is read and marked over GraphQL, with what its user chose', async () => {
    const ask = async (query: string) => {
      const { body } = await small.api.post('/graphql', { query });
      expect(body.errors, JSON.stringify(body)).toBeUndefined();
      return body.data;
    };
    const list = await ask(
      '{ getNotifications(limit: 2, read: false) { notifications { _id title read } unreadCount } }',
    );
    expect(list.getNotifications).toMatchObject({
      unreadCount: 10,
      notifications: [{ read: false }, { read: false }],
    });
    const [{ _id: id }] = list.getNotifications.notifications;
    await ask(`mutation { patchNotifications(params: { id: "${id}" }) { result } }`);
    expect(
      (await ask('{ getNotificationsUnreadcount { unreadCount } }')).getNotificationsUnreadcount,
    ).toEqual({ unreadCount: 9 });
    const no = '{ category: "offers", channel: "push", enabled: false }';
    await ask(
      `mutation { patchNotificationsPreferences(params: { preferences: [${no}] }) { preferences { category } } }`,
    );
    const chosen = await ask(
      '{ getNotificationsPreferences { preferences { category channel enabled } } }',
    );
    expect(chosen.getNotificationsPreferences.preferences).toEqual([
      { category: 'offers', channel: 'push', enabled: false },
    ]);
  });
});

test('a message to a user with fifty devices costs as one to a user with one', async () => {
  const costOf = async (devices: number): Promise<number> => {
    const user = await bench.platform.registerUser();
    for (let n = 0; n < devices; n += 1)
      await user.api.post('/token', { token: `token-${devices}-${n}`, platform: 'ANDROID' });
    const userId = await idOf(user);
    const before = sent.mock.calls.length;
    const { body } = await bench.platform.admin.post('/push/send', { userId, title: 'Hello' });
    expect(body.devices).toBe(devices);
    await waitFor(
      async () =>
        (await bench.platform.admin.get(`/communications/messages/${body.messageId}`)).body
          .status === 'sent',
    );
    return sent.mock.calls
      .slice(before)
      .map(textOf)
      .filter((text) => text.includes('penstock.push_devices')).length;
  };
  const [one, fifty] = [await costOf(1), await costOf(50)];
  expect(fifty).toBe(one);
  const requests = push.requests.map((request) => request.json().include_subscription_ids.length);
  expect(requests).toEqual([1, 50]);
});

test('10,000 devices, three in a hundred of them dead: those are forgotten, the others told', async () => {
  const users = await Promise.all(Array.from({ length: 10 }, () => bench.platform.registerUser()));
  const userIds = await Promise.all(users.map(idOf));
  await bench.rows(
    `insert into penstock.push_devices (id, user_id, token, token_hash, platform)
     select gen_random_uuid(), u, t, sha256(convert_to(t, 'UTF8')), 'ANDROID'
     from unnest($1::uuid[]) u, generate_series(1, 1000) n,
       lateral (select case when n <= 30 then 'dead-' else 'alive-' end || u || '-' || n as t) token`,
    [userIds],
  );
  const told = new Set<string>();
  push.answer = (request) => {
    const tokens: string[] = request.json().include_subscription_ids;
    for (const token of tokens) told.add(token);
    const dead = tokens.filter((token) => token.startsWith('dead-'));
    return { status: 200, body: { id: 'accepted', errors: { invalid_player_ids: dead } } };
  };
  const { body } = await bench.platform.admin.post('/push/sendToManyDevices', {
    userIds,
    title: 'Hello',
    doNotStore: true,
  });
  expect(body.requestedCount).toBe(10);
  const left = async () =>
    (
      await bench.rows(
        'select count(*)::integer as count from penstock.push_devices where user_id = any($1::uuid[])',
        [userIds],
      )
    )[0].count;
  await waitFor(async () => (await left()) === 9700, { timeoutMs: 60_000, what: 'the dead to go' });
  expect(told.size).toBe(10_000);
});

test('texts of 1 MB: a template is refused by name, a mail that becomes nearly as long comes whole', async () => {
  const { admin } = bench.platform;
  const template = (body: string) =>
    admin.post('/email/templates', { name: 'Long', subject: 'Long', body });
  const mail = (recipient: string, more: object) =>
    admin.post('/email/send', { email: recipient, ...more });
  const tooLong = 'x'.repeat(1_000_000);
  const refused = { status: 400, body: { errors: [{ path: 'body' }] } };
  expect(await template(tooLong)).toMatchObject(refused);
  expect(await mail('long@example.org', { subject: 's', body: tooLong })).toMatchObject(refused);
  // Above what a request may hold nobody looks inside.
  expect((await template('x'.repeat(1_048_576))).status).toBe(413);

  const tag = '{{{more}}}';
  const fullest = `<p>${'y'.repeat(200_000 - tag.length - 7)}${tag}</p>`;
  expect(fullest).toHaveLength(200_000);
  expect((await template(fullest)).status).toBe(200);
  const more = 'some words '.repeat(70_000);
  const sending = { templateName: 'Long', variables: { more } };
  const { body } = await mail('long@example.org', sending);
  const captured = await waitFor(
    async () => {
      const read = await admin.get(`/communications/messages/${body.messageId}`);
      return read.body.status === 'captured' && read.body;
    },
    { timeoutMs: 60_000, what: 'the long mail' },
  );
  expect(captured.content.html === fullest.replace(tag, more)).toBe(true);
  // What would become longer still is not stored.
  const twice = { subject: 'Long', body: `${tag}${tag}`, variables: { more } };
  expect(await mail('longer@example.org', twice)).toMatchObject({
    status: 400,
    body: { code: 'TEMPLATE_INVALID', message: expect.stringContaining('too long') },
  });
  const query = { recipient: 'longer@example.org' };
  expect((await admin.get('/communications/messages', { query })).body.count).toBe(0);
});
