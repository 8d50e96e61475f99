/** What happens to messages, as webhooks hear of it, and how the platform says that a provider keeps failing. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createEndpoint, type Receiver, startReceiver } from '../webhooks/receiver.ts';

let platform: TestPlatform;
let provider: FakeService;
let receiver: Receiver;
/** Whether the provider fails for some. */
let failing = true;

beforeAll(async () => {
  platform = await createTestPlatform();
  receiver = await startReceiver();
  provider = await startFakeService(({ text }) => {
    if (text.includes('refused@')) return { status: 400, body: { errors: [{ message: 'no' }] } };
    return failing && text.includes('away@') ? { status: 503 } : {};
  });
  const config = { allowInternal: true };
  expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'webhooks');
  await configure({
    email: {
      sendingDomain: 'example.com',
      transport: 'sendgrid',
      transportSettings: { sendgrid: { apiKey: 'key', endpoint: provider.url } },
    },
    orchestration: { retryAttempts: 3 },
    providers: { allowInternal: true },
  });
  await createEndpoint(platform.admin, { url: receiver.url, events: ['communications.*'] });
}, 60_000);
afterAll(async () => {
  await platform.close();
  await Promise.all([provider.close(), receiver.close()]);
});

const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/communications', { config }), 200, 'config');
const send = async (email: string, more: object = {}): Promise<string> =>
  expectStatus(
    await platform.admin.post('/email/send', { email, subject: 'x', body: 'y', ...more }),
    200,
    'mail',
  ).body.messageId;
const heard = (id: string): Json[] =>
  receiver.arrivals.map(({ body }) => body).filter(({ data }) => data.ids?.includes(id));
/** The events of a message, once so many are there. */
const eventsOf = (id: string, count: number): Promise<Json[]> =>
  waitFor(() => (heard(id).length >= count ? heard(id) : undefined), {
    what: `${count} events of ${id}`,
  });
const hashOf = (address: string): string => createHash('sha256').update(address).digest('hex');

test('a message that goes out is told when it is stored and when a provider has it', async () => {
  const id = await send('Ada@Example.org');
  const events = await eventsOf(id, 2);
  expect(events.map(({ type }) => type).sort()).toEqual([
    'communications.queued.email',
    'communications.sent.email',
  ]);
  for (const { data } of events)
    expect(data).toMatchObject({ messageId: id, recipientHash: hashOf('ada@example.org') });
  expect(events.find(({ type }) => type.includes('sent'))?.data.provider).toBe('sendgrid');
  expect(JSON.stringify(events).toLowerCase()).not.toContain('ada@');
});

test('each of many is told by itself', async () => {
  const ids = await Promise.all(
    Array.from({ length: 30 }, (_, place) => send(`many${place}@example.org`)),
  );
  for (const id of ids) expect(await eventsOf(id, 2)).toHaveLength(2);
});

test('what a provider refuses has failed, and says why', async () => {
  const id = await send('refused@example.org');
  const failed = (await eventsOf(id, 2)).find(({ type }) => type === 'communications.failed.email');
  expect(failed?.data).toMatchObject({
    provider: 'sendgrid',
    error: expect.stringContaining('no'),
  });
});

test('whoever opts out while a message waits gets none, and that is told', async () => {
  const address = 'gone@example.org';
  const id = await send(address, { sendAt: new Date(Date.now() + 4_000).toISOString() });
  const suppressed = await platform.admin.post('/communications/suppressions', {
    channel: 'email',
    address,
  });
  expectStatus(suppressed, 200, 'suppression');
  const events = await eventsOf(id, 2);
  expect(events.map(({ type }) => type)).toContain('communications.suppressed.email');
  const before = receiver.arrivals.length;
  const refused = await platform.admin.post('/email/send', {
    ...{ email: address, subject: 'x', body: 'y' },
  });
  expect(refused.status).toBe(422);
  await eventsOf(await send('after@example.org'), 2);
  expect(receiver.arrivals.slice(before).map(({ body }) => body.data.recipientHash)).not.toContain(
    hashOf(address),
  );
});

test('all are read, also where the clock of the node is behind that of the database', async () => {
  const user = await platform.registerUser();
  const push = { userId: user.userId, title: 'one' };
  expectStatus(await platform.admin.post('/push/send', push), 200, 'push');
  const now = Date.now.bind(Date);
  const clock = vi.spyOn(Date, 'now').mockImplementation(() => now() - 3_000);
  try {
    expect((await user.api.patch('/notifications', { all: true })).body.updated).toBe(1);
  } finally {
    clock.mockRestore();
  }
});

test('entries of the inbox that are read together are one event; unread ones are none', async () => {
  const user = await platform.registerUser();
  for (const title of ['one', 'two'])
    expectStatus(
      await platform.admin.post('/push/send', { userId: user.userId, title }),
      200,
      'push',
    );
  const { notifications } = (await user.api.get('/notifications')).body;
  const ids: string[] = notifications.map(({ _id }: Json) => _id);
  expect(ids).toHaveLength(2);
  expect((await user.api.patch('/notifications', { ids })).body.updated).toBe(2);
  expect((await user.api.patch('/notifications', { ids, read: false })).body.updated).toBe(2);
  expect((await user.api.patch('/notifications', { all: true })).body.updated).toBe(2);
  const events = await eventsOf(ids[0] ?? '', 2);
  expect(events.map(({ type }) => type)).toEqual(Array(2).fill('communications.read.Notification'));
  for (const { data } of events) {
    expect(data.userId).toBe(user.userId);
    expect([...data.ids].sort()).toEqual([...ids].sort());
  }
});

test('mails of one call end each by itself, and none is stored while one recipient gets none', async () => {
  const to = ['one', 'refused', 'away', 'two'].map((name) => `${name}@together.example`);
  const sent = await platform.admin.post('/email/send', { to, subject: 'x', body: 'y' });
  const [one, refused, away, two] = sent.body.messageIds;
  const read = async (id: string) =>
    (await platform.admin.get(`/communications/messages/${id}`)).body;
  const triedAgain = async () =>
    (await read(away)).timeline.some(({ kind }: Json) => kind === 'tried');
  await waitFor(triedAgain);
  failing = false;
  for (const [id, status] of [
    [one, 'sent'],
    [two, 'sent'],
    [refused, 'failed'],
    [away, 'sent'],
  ])
    await waitFor(async () => (await read(id)).status === status, {
      what: `${id} as ${status}`,
    });
  failing = true;
  const count = async () => (await platform.admin.get('/communications/messages')).body.count;
  const before = await count();
  expectStatus(
    await platform.admin.post('/communications/suppressions', {
      channel: 'email',
      address: 'gone@together.example',
    }),
    200,
    'suppression',
  );
  const recipients = ['first@together.example', 'gone@together.example'];
  const none = await platform.admin.post('/email/send', {
    to: recipients,
    subject: 'x',
    body: 'y',
  });
  expect(none).toMatchObject({ status: 422, body: { code: 'RECIPIENT_SUPPRESSED' } });
  expect(await count()).toBe(before);
});

test('a provider that keeps failing is a warning, and the platform stays ready', async () => {
  const ready = async () =>
    expectStatus(
      await platform.admin.get('/ready', { headers: { accept: 'application/json' } }),
      200,
      'ready',
    ).body.checks.find(({ name }: Json) => name === 'communications.providers');
  expect(await ready()).toMatchObject({ status: 'pass' });
  await Promise.all([1, 2, 3].map((place) => send(`away@example${place}.org`)));
  const warned = await waitFor(async () => {
    const check = await ready();
    return check.status === 'warn' && check;
  });
  expect(warned.message).toMatch(/email by sendgrid/);
  expect(warned.message).not.toContain('away@');
  failing = false;
  await send('works@example.org');
  await waitFor(async () => (await ready()).status === 'pass');
  await configure({ email: { active: false } });
  expect(await ready()).toMatchObject({ status: 'pass' });
});
