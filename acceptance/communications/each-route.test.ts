/**
 * Rows of the interface (4.5 to 4.7) and of the former line's routes as clients of both lines call them: what they answer,
 * under which names, and what they refuse. What providers do is tested beside them.
 */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let metricsPort: number;
let ada: Awaited<ReturnType<TestPlatform['registerUser']>>;
beforeAll(async () => {
  metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  await liftLimits(platform.admin);
  await configure({ email: { maxPerRecipient: 1000 }, sms: { maxPerRecipient: 3 } });
  ada = await platform.registerUser();
});
afterAll(() => platform.close());

const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/communications', { config }), 200, 'config');
const post = (path: string, body: object) => platform.admin.post(path, body);
const get = (path: string, query = {}) => platform.admin.get(path, { query });
const captured = (id: string): Promise<Json> =>
  waitFor(async () => {
    const { body } = await get(`/communications/messages/${id}`);
    return body.status === 'captured' && body;
  });

describe('push notifications of the 0.16 line', () => {
  it('tokens and topics are answered with a message, and asked for twice change nothing', async () => {
    const token = { token: 'former-1', platform: 'android' };
    expect(await ada.api.post('/pushNotifications/token', token)).toMatchObject({
      status: 200,
      body: {
        message: expect.any(String),
        newTokenDocument: { userId: ada.userId, token: 'former-1', platform: 'ANDROID' },
      },
    });
    for (const bad of [{ token: 'x' }, { platform: 'IOS' }, { token: 'x', platform: 'toaster' }])
      expect((await ada.api.post('/pushNotifications/token', bad)).status).toBe(400);
    for (const way of ['subscribe', 'subscribe', 'unsubscribe', 'unsubscribe'])
      expect(
        await ada.api.post(`/pushNotifications/${way}`, { topic: 'a-b_c.d~e%f' }),
      ).toMatchObject({ status: 200, body: { message: expect.any(String), topic: 'a-b_c.d~e%f' } });
    for (const topic of ['with space', 'x'.repeat(101)])
      expect(await ada.api.post('/pushNotifications/subscribe', { topic })).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'topic' }] },
      });
    const { _id } = (await get('/push/tokens', { search: ada.userId })).body.tokens[0];
    expect((await get('/pushNotifications/token')).status).toBe(200);
    expect((await get(`/pushNotifications/token/${_id}`)).body).toMatchObject({
      tokenDocuments: { _id },
    });
    expect((await get(`/pushNotifications/token/user/${ada.userId}`)).body).toMatchObject({
      tokenDocuments: [{ _id }],
    });
    expect(
      await ada.api.delete('/pushNotifications/token', { query: { platform: 'Android' } }),
    ).toMatchObject({ status: 200, body: { result: 'OK', message: expect.any(String) } });
    expect((await get('/push/tokens', { search: ada.userId })).body.count).toBe(0);
  });

  it('one user: values become texts, nobody and nested values are refused, no device is told', async () => {
    const send = (body: object) => post('/admin/pushNotifications/send', body);
    const note = { userId: ada.userId, title: 'Hi', body: 'Ada' };
    expect(await send({ ...note, data: { n: 7, yes: true } })).toMatchObject({
      status: 200,
      body: { message: expect.any(String), messageId: expect.any(String), devices: 0 },
    });
    const inbox = await ada.api.get('/pushNotifications/notifications');
    expect(inbox.body.notifications[0]).toMatchObject({
      title: 'Hi',
      data: { n: '7', yes: 'true' },
    });
    expect(await send({ ...note, data: { deep: { er: 1 } } })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'data.deep' }] },
    });
    expect((await send({ ...note, userId: randomUUID() })).status).toBe(404);
    expect((await send({ userId: ada.userId, body: 'no title' })).status).toBe(400);
    expect((await send({ ...note, isSilent: true, data: { a: 1 } })).status).toBe(400);
    expect(await ada.api.patch('/pushNotifications/notifications', { all: true })).toMatchObject({
      status: 200,
      body: { result: 'OK' },
    });
  });

  it('many users and topics are counted', async () => {
    const note = { title: 'Hi', body: 'all' };
    expect(
      (await post('/admin/pushNotifications/sendToTopic', { topic: 'nobody', ...note })).body,
    ).toMatchObject({
      ...{ message: expect.any(String), messageId: expect.any(String) },
      ...{ recipients: 0, successCount: 0, failureCount: 0 },
    });
    const userIds = [ada.userId, randomUUID()];
    for (const path of [
      '/admin/pushNotifications/sendMany',
      '/pushNotifications/sendToManyDevices',
    ])
      expect((await post(path, { userIds, ...note })).body, path).toMatchObject({
        ...{ message: expect.any(String), successCount: 1, skippedCount: 1, failureCount: 0 },
      });
    const notifications = [{ sendTo: ada.userId, ...note }];
    expect((await post('/pushNotifications/sendMany', { notifications })).body).toMatchObject({
      successCount: 1,
    });
    expect((await post('/admin/pushNotifications/sendMany', { userIds: [], ...note })).status).toBe(
      400,
    );
  });
});

describe('mail and text messages of both lines', () => {
  it('a mail takes its names of each line, with a template and without', async () => {
    await post('/admin/email/templates', {
      ...{ name: 'Row', subject: 'Hi {{name}}', body: '<p>{{name}}</p>', variables: ['name'] },
    });
    const raw = { subject: 'x', body: '<b>y</b>' };
    for (const body of [
      { to: 'a@example.org', ...raw, from: 'shop' },
      { email: 'a@example.org', ...raw, sender: 'shop' },
      { to: 'a@example.org', templateName: 'Row', variables: { name: 'Ada' } },
    ])
      expect(await post('/email/send', body)).toMatchObject({
        status: 200,
        body: { message: expect.any(String), messageId: expect.any(String) },
      });
    for (const [body, path] of [
      [{ to: 'a@example.org', email: 'b@example.org', ...raw }, 'to'],
      [{ to: 'a@example.org', ...raw, from: 'one', sender: 'two' }, 'from'],
    ] as const)
      expect(await post('/email/send', body)).toMatchObject({
        status: 400,
        body: { errors: [{ path }] },
      });
    expect((await platform.adminAnonymous.post('/email/send', {})).status).toBe(401);
    expect((await post('/email/send', { to: 'a@example.org', templateName: 'None' })).status).toBe(
      404,
    );
  });

  it('a text message answers what the interface says; a number that is none is 400 by its field', async () => {
    const to = '+306900000010';
    const sent = await post('/sms/send', { to, message: 'Hello' });
    expect(sent).toMatchObject({
      status: 200,
      body: {
        message: 'SMS captured: no provider is set',
        ...{ messageId: expect.any(String), segments: 1 },
      },
    });
    expect((await get(`/sms/messages/${sent.body.messageId}`)).body.smsRecord.recipient).toBe(to);
    for (const bad of ['0690', '306900000000', '+30 690', 'x'])
      expect(await post('/sms/send', { to: bad, message: 'x' })).toMatchObject({
        status: 400,
        body: { code: 'INVALID_RECIPIENT', errors: [{ path: 'to' }] },
      });
    expect((await platform.adminAnonymous.post('/sms/send', {})).status).toBe(401);
  });

  it('many numbers: all that are none are named; those who get none do not hold up others', async () => {
    const [first, second] = ['+306900000020', '+306900000021'];
    const many = (...to: string[]) => post('/sms/sendMany', { to, message: 'Hello' });
    expect(await many(first, 'one', '+30', second)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'to.1' }, { path: 'to.2' }] },
    });
    expect((await many()).status).toBe(400);
    await post('/communications/suppressions', { channel: 'sms', address: second });
    expect((await many(first, second)).body).toMatchObject({
      message: expect.any(String),
      results: [
        { to: first, success: true, messageId: expect.any(String) },
        { to: second, success: false, error: expect.any(String) },
      ],
      ...{ successCount: 1, failureCount: 1 },
    });
    expect(await many(second)).toMatchObject({
      status: 422,
      body: { code: 'RECIPIENT_SUPPRESSED' },
    });
  });

  it('templates are found by a part of the name and by their id, and deleted together', async () => {
    const made = [];
    for (const name of ['Together one', 'Together two'])
      made.push((await post('/email/templates', { name, subject: 's', body: 'b' })).body._id);
    expect((await get('/email/templates', { search: 'TOGETHER' })).body.count).toBe(2);
    expect((await get('/email/templates', { search: made[1] })).body).toMatchObject({
      count: 1,
      templateDocuments: [{ name: 'Together two' }],
    });
    const query = { ids: made.join(',') };
    expect((await platform.admin.delete('/email/templates', { query })).body).toMatchObject({
      deletedDocuments: 2,
    });
    expect((await platform.admin.delete('/email/templates', { query })).status).toBe(404);
    expect((await platform.admin.delete('/email/templates')).status).toBe(400);
  });
});

describe('one message over channels', () => {
  const texts = {
    email: { subject: 'Your {{thing}}', body: '<p>{{thing}}</p>' },
    push: { title: '{{thing}}', body: 'on its way' },
    sms: { message: '{{thing}}' },
  };
  beforeAll(async () => {
    const channels = ['email', 'push', 'sms'];
    await post('/communications/templates', { name: 'Rows', channels, ...texts });
  });
  const message = () => ({
    recipient: ada.userId,
    templateName: 'Rows',
    variables: { thing: 'B' },
  });

  it('results come in the order that was asked for, those that are left out too', async () => {
    const channels = ['sms', 'email', 'push'];
    const { body } = await post('/send/multiple', { channels, ...message() });
    expect(body).toMatchObject({
      ...{ successCount: 2, failureCount: 1 },
      results: [
        { channel: 'sms', success: false, skipped: true },
        { channel: 'email', success: true },
        { channel: 'push', success: true },
      ],
    });
    // What was sent says by which template, whatever the channel.
    for (const { messageId } of body.results.slice(1))
      expect((await captured(messageId)).template).toBe('Rows');
  });

  it('all or nothing names the channel that keeps back all', async () => {
    const before = (await get('/communications/messages')).body.count;
    const strategy = 'ALL_OR_NOTHING';
    const answer = await post('/send/multiple', {
      ...{ channels: ['email', 'sms'], strategy },
      ...message(),
    });
    expect(answer).toMatchObject({
      status: 400,
      body: {
        message: expect.stringContaining('sms'),
        errors: [{ path: 'recipient.phone' }, { path: 'channels.1' }],
      },
    });
    expect((await get('/communications/messages')).body.count).toBe(before);
  });

  it('a variable that is not there is an error where that is asked for, on every channel', async () => {
    const bare = { ...message(), variables: {}, strict: true };
    const phone = { ...bare, recipient: { userId: ada.userId, phone: '+306900000030' } };
    for (const [path, body] of [
      ['/communications/send', { channel: 'email', ...bare }],
      ['/communications/send', { channel: 'push', ...bare }],
      ['/communications/send', { channel: 'sms', ...phone }],
      ['/email/send', { to: 'a@example.org', subject: '{{x}}', body: 'y', strict: true }],
      ['/email/send', { to: 'a@example.org', templateName: 'Row', strict: true }],
    ] as const)
      expect(await post(path, body), JSON.stringify(body)).toMatchObject({
        status: 400,
        body: { code: 'TEMPLATE_INVALID' },
      });
    expect((await post('/email/send', { to: 'a@example.org', templateName: 'Row' })).status).toBe(
      200,
    );
  });

  it('who has said no language gets the usual one', async () => {
    const translations = {
      de: {
        email: { subject: 'Dein {{thing}}', body: 'x' },
        push: { title: 'Da: {{thing}}', body: 'x' },
      },
    };
    const channels = ['email', 'push', 'sms'];
    await post('/communications/templates', { name: 'Usual', channels, ...texts, translations });
    await post('/email/templates', {
      ...{ name: 'Usual mail', subject: 'Hello', body: 'x' },
      translations: { de: { subject: 'Hallo', body: 'x' } },
    });
    const subjectOf = async (path: string, body: object) =>
      (await captured((await post(path, body)).body.messageId)).content;
    const usual = { ...message(), templateName: 'Usual' };
    const mail = { to: 'reader@example.org', templateName: 'Usual mail' };
    expect((await subjectOf('/email/send', mail)).subject).toBe('Hello');
    await configure({ defaultLocale: 'de' });
    expect((await subjectOf('/email/send', mail)).subject).toBe('Hallo');
    expect((await subjectOf('/communications/send', { channel: 'email', ...usual })).subject).toBe(
      'Dein B',
    );
    expect(
      (await subjectOf('/communications/send', { channel: 'push', ...usual })).push.title,
    ).toBe('Da: B');
    await ada.api.patch('/notifications/preferences', { locale: 'en' });
    expect((await subjectOf('/communications/send', { channel: 'email', ...usual })).subject).toBe(
      'Your B',
    );
    await configure({ defaultLocale: '' });
  });
});

it('figures for monitoring stand under the names that panels ask for', async () => {
  await post('/send/fallback', {
    fallbackChain: [{ channel: 'email' }],
    ...{ recipient: 'figures@example.org', subject: 'x', body: 'y' },
  });
  const { text } = await createApi(`http://127.0.0.1:${metricsPort}`).get('/metrics');
  for (const name of [
    ...['email_templates_total', 'communication_templates_total', 'emails_sent_total'],
    ...['push_notifications_sent_total', 'sms_sent_total', 'communications_sent_total'],
    ...['communications_success_total', 'communications_failure_total'],
    ...['fallback_chain_used_total', 'communications_provider_latency_seconds'],
    ...['communications_queue_depth', 'communications_retry_total'],
    'communications_suppressed_total',
  ])
    expect(text).toMatch(new RegExp(`^# TYPE \\w*${name} `, 'm'));
});
