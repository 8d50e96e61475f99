/** Providers that take a message and never answer: one request, nobody else is asked, and the timeline says what is not known. */
import { createServer, type Server as HttpServer } from 'node:http';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
let web: HttpServer;
let mail: Server;
let address: string;
const asked: string[] = [];
const open = new Set<Socket>();

beforeAll(async () => {
  platform = await createTestPlatform();
  web = createServer((request) => void asked.push(request.url ?? ''));
  mail = createTcpServer((socket) => {
    asked.push('mail');
    open.add(socket);
    socket.on('error', () => undefined).on('close', () => open.delete(socket));
  });
  await Promise.all(
    [web, mail].map(
      (server) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)),
    ),
  );
  address = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;
  await configure({
    messages: { retries: 0 },
    orchestration: { timeout: 300 },
    providers: { allowInternal: true },
  });
});
beforeEach(() => {
  asked.length = 0;
});
afterAll(async () => {
  await platform.close();
  for (const socket of open) socket.destroy();
  web.closeAllConnections();
  await Promise.all([web, mail].map((server) => new Promise((resolve) => server.close(resolve))));
});

const configure = async (config: object) => {
  const answer = await platform.admin.patch('/config/communications', { config });
  expect(answer.status, answer.text).toBe(200);
};
/** The message, once it has failed. */
const failed = (id: string) =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get(`/communications/messages/${id}`);
      return body.status === 'failed' && body;
    },
    { timeoutMs: 20_000, what: 'a message that failed' },
  );

describe.each([
  ['mailgun', { apiKey: 'key' }],
  ['sendgrid', { apiKey: 'key' }],
  ['mandrill', { apiKey: 'key' }],
  ['mailersend', { apiKey: 'key' }],
  ['amazonSes', { region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' }],
])('mail by %s', (transport, settings) => {
  test('may have been taken', async () => {
    await configure({
      email: {
        transport,
        sendingDomain: 'example.com',
        failover: ['smtp'],
        transportSettings: {
          [transport]: { ...settings, endpoint: address },
          smtp: { host: '127.0.0.1', port: (mail.address() as AddressInfo).port },
        },
      },
    });
    const sent = await platform.admin.post('/email/send', {
      ...{ email: 'ada@example.org', subject: 'x', body: 'y' },
    });
    const { error, timeline } = await failed(sent.body.messageId);
    expect(error).toContain('no answer in time');
    expect(timeline.at(-1)).toMatchObject({
      kind: 'failed',
      provider: transport,
      detail: expect.stringContaining('it may have been taken'),
    });
    expect(asked).toHaveLength(1);
  });
});

test('a mail server that says nothing has taken nothing', async () => {
  await configure({
    email: {
      transport: 'smtp',
      failover: [],
      transportSettings: {
        smtp: { host: '127.0.0.1', port: (mail.address() as AddressInfo).port },
      },
    },
  });
  const sent = await platform.admin.post('/email/send', {
    ...{ email: 'ada@example.org', subject: 'x', body: 'y' },
  });
  const { timeline } = await failed(sent.body.messageId);
  expect(timeline.at(-1)).toMatchObject({ kind: 'failed', provider: 'smtp' });
  expect(timeline.at(-1).detail).not.toContain('may have been taken');
  expect(asked).toEqual(['mail']);
});

test.each([
  ['twilio', { accountSID: 'AC1', authToken: 'key', phoneNumber: '+15005550006' }],
  ['messageBird', { accessKeyId: 'key', originatorName: 'Shop' }],
  ['clickSend', { username: 'me', clicksendApiKey: 'key', sender: 'Shop' }],
  ['awsSns', { region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' }],
])('a text message by %s may have been taken', async (providerName, settings) => {
  await configure({ sms: { providerName, [providerName]: { ...settings, endpoint: address } } });
  const sent = await platform.admin.post('/sms/send', { to: '+306900000000', message: 'Hi' });
  const { body } = await platform.admin.get('/sms/messages', { query: { limit: 1 } });
  const { timeline } = await failed(body.smsDocuments[0]._id);
  expect(sent.status).toBeLessThan(500);
  expect(timeline.at(-1)).toMatchObject({
    provider: providerName,
    detail: expect.stringContaining('it may have been taken'),
  });
  expect(asked).toHaveLength(1);
});

test.each([
  ['onesignal', { appId: 'app', apiKey: 'key' }],
  [
    'sns',
    {
      ...{ region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' },
      gcmApplicationArn: 'arn:aws:sns:eu-central-1:1:app/GCM/x',
    },
  ],
])('a push message by %s waits, and its device is kept', async (providerName, settings) => {
  await configure({
    pushNotifications: { providerName, [providerName]: { ...settings, endpoint: address } },
  });
  const user = await platform.registerUser();
  await user.api.post('/token', { token: `t-${user.userId}`, platform: 'ANDROID' });
  const sent = await platform.admin.post('/push/send', { userId: user.userId, title: 'Hello' });
  const { timeline } = await failed(sent.body.messageId);
  expect(timeline.at(-1).detail).toContain('no answer in time');
  expect(asked).toHaveLength(1);
  const { body } = await platform.admin.get('/push/tokens', { query: { search: user.userId } });
  expect(body.count).toBe(1);
});
