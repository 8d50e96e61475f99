/**
 * Providers that take a message and never answer, break the connection, answer rubbish or an error page: one request,
 * nobody else is asked where it is not known whether they took it, and the timeline says so.
 */
import { createECDH, generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttp2Server, type Http2Server } from 'node:http2';
import {
  type AddressInfo,
  createServer as createTcpServer,
  type Server,
  type Socket,
} from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

/** What a provider does with a request once it has read it. */
const manners = ['silent', 'cut', 'rubbish', 'broken'] as const;
let manner: (typeof manners)[number] = 'silent';
const page = '<html>Please log in to this network</html>';

let platform: TestPlatform;
let web: HttpServer;
let apple: Http2Server;
let mail: Server;
const asked: string[] = [];
const open = new Set<{ destroy(): void }>();

interface Answering {
  answer(status: number, text: string): void;
  cut(): void;
}

function behave(path: string, { answer, cut }: Answering): void {
  asked.push(path);
  if (manner === 'cut') cut();
  if (manner === 'rubbish') answer(200, page);
  if (manner === 'broken') answer(502, page);
}

const keep = (socket: Socket): void => {
  open.add(socket);
  socket.on('error', () => undefined).on('close', () => open.delete(socket));
};
const addressOf = (server: HttpServer | Http2Server | Server): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

beforeAll(async () => {
  platform = await createTestPlatform();
  web = createServer((request, response) => {
    const path = request.url ?? '';
    request.resume().on('end', () => {
      // The sign-in of Firebase works; the message is what this is about.
      if (path === '/token') response.end(JSON.stringify({ access_token: 'a', expires_in: 3600 }));
      else
        behave(path, {
          answer: (status, text) => response.writeHead(status).end(text),
          cut: () => response.destroy(),
        });
    });
  });
  apple = createHttp2Server((request, response) => {
    request.resume().on('end', () =>
      behave(request.url, {
        answer: (status, text) => response.writeHead(status).end(text),
        cut: () => response.stream.session?.destroy(),
      }),
    );
  });
  apple.on('session', (session) => open.add(session));
  mail = createTcpServer((socket) => {
    asked.push('mail');
    keep(socket);
    if (manner !== 'silent') socket.end('554 No service\r\n');
  });
  web.on('connection', keep);
  const servers = [web, apple, mail];
  await Promise.all(
    servers.map((server) => new Promise<void>((done) => server.listen(0, '127.0.0.1', done))),
  );
  await configure({
    email: { maxPerRecipient: 1000 },
    providers: { allowInternal: true },
  });
});
afterAll(async () => {
  await platform.close();
  for (const socket of open) socket.destroy();
  const servers = [web, apple, mail];
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
});

const configure = async (config: object) => {
  const answer = await platform.admin.patch('/config/communications', { config });
  expect(answer.status, answer.text).toBe(200);
};
/** The message, once its only attempt has ended. */
const ended = (id: string): Promise<Json> =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get(`/communications/messages/${id}`);
      return ['failed', 'sent'].includes(body.status) && body;
    },
    { what: 'the end of a message' },
  );
const doubt = 'it may have been taken';
/** Only who says nothing is waited for: on a full machine the others may take long to say what they say. */
const begin = async (kind: typeof manner): Promise<void> => {
  manner = kind;
  asked.length = 0;
  const timeout = kind === 'silent' ? 300 : 10_000;
  await configure({ orchestration: { timeout, retryAttempts: 0 } });
};

describe.each([
  ['mailgun', { apiKey: 'key' }],
  ['sendgrid', { apiKey: 'key' }],
  ['mandrill', { apiKey: 'key' }],
  ['mailersend', { apiKey: 'key' }],
  ['amazonSes', { region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' }],
])('a mail by %s', (transport, settings) => {
  test('may have been taken, unless the provider says that it failed: only then the next is asked', async () => {
    await configure({
      email: {
        transport,
        sendingDomain: 'example.com',
        failover: ['smtp'],
        transportSettings: {
          [transport]: { ...settings, endpoint: addressOf(web) },
          smtp: { host: '127.0.0.1', port: (mail.address() as AddressInfo).port },
        },
      },
    });
    for (const kind of manners) {
      await begin(kind);
      const sent = await platform.admin.post('/email/send', {
        ...{ email: 'ada@example.org', subject: 'x', body: 'y' },
      });
      const { status, timeline } = await ended(sent.body.messageId);
      expect(status, kind).toBe('failed');
      if (kind === 'broken') {
        expect(asked).toEqual([expect.stringMatching('/'), 'mail']);
        expect(timeline.map((event: Json) => event.kind)).toEqual(['queued', 'tried', 'failed']);
        expect(timeline[1]).toMatchObject({
          provider: transport,
          detail: expect.stringContaining('502'),
        });
        expect(JSON.stringify(timeline)).not.toContain(doubt);
      } else {
        expect(asked, kind).toHaveLength(1);
        expect(timeline.at(-1)).toMatchObject({ kind: 'failed', provider: transport });
        expect(timeline.at(-1).detail, kind).toContain(doubt);
      }
    }
  });
});

test('a mail server that says nothing has taken nothing', async () => {
  await begin('silent');
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
  const { status, timeline } = await ended(sent.body.messageId);
  expect(status).toBe('failed');
  expect(timeline.at(-1)).toMatchObject({ kind: 'failed', provider: 'smtp' });
  expect(timeline.at(-1).detail).not.toContain(doubt);
  expect(asked).toEqual(['mail']);
});

test.each([
  ['twilio', { accountSID: 'AC1', authToken: 'key', phoneNumber: '+15005550006' }],
  ['messageBird', { accessKeyId: 'key', originatorName: 'Shop' }],
  ['clickSend', { username: 'me', clicksendApiKey: 'key', sender: 'Shop' }],
  ['awsSns', { region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' }],
])(
  'a text message by %s may have been taken, unless the provider says that it failed',
  async (providerName, settings) => {
    await configure({
      sms: {
        providerName,
        maxPerRecipient: 1000,
        [providerName]: { ...settings, endpoint: addressOf(web) },
      },
    });
    for (const kind of manners) {
      await begin(kind);
      const sent = await platform.admin.post('/sms/send', { to: '+306900000000', message: 'Hi' });
      expect(sent.status, kind).toBe(200);
      const { status, timeline } = await ended(sent.body.messageId);
      expect(status, kind).toBe('failed');
      expect(asked, kind).toHaveLength(1);
      expect(timeline.at(-1)).toMatchObject({ kind: 'failed', provider: providerName });
      expect(timeline.at(-1).detail.includes(doubt), kind).toBe(kind !== 'broken');
    }
  },
);

const rsa = () =>
  generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
    format: 'pem',
    type: 'pkcs8',
  });
const ec = () =>
  generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    format: 'pem',
    type: 'pkcs8',
  });
const vapid = createECDH('prime256v1');
const vapidKey = vapid.generateKeys('base64url');
const browser = () => ({
  platform: 'WEB',
  subscription: {
    endpoint: `${addressOf(web)}/push/${randomBytes(8).toString('hex')}`,
    keys: {
      p256dh: createECDH('prime256v1').generateKeys('base64url'),
      auth: randomBytes(16).toString('base64url'),
    },
  },
});
const device = (platformName: string) => ({
  token: `t-${randomBytes(6).toString('hex')}`,
  platform: platformName,
});
const ids = { region: 'eu-central-1', accessKeyId: 'id', secretAccessKey: 'key' };

/** `doubted`: where it is not known whether it was taken. `taken`: where the status alone says that it was. */
const pushProviders: readonly {
  readonly provider: string;
  readonly settings: () => object;
  readonly device: () => object;
  readonly doubted: readonly string[];
  readonly taken: readonly string[];
}[] = [
  {
    provider: 'firebase',
    settings: () => ({
      providerName: 'firebase',
      firebase: {
        ...{ projectId: 'p', clientEmail: 'push@p.example', privateKey: rsa() },
        ...{ endpoint: addressOf(web), tokenEndpoint: `${addressOf(web)}/token` },
      },
    }),
    device: () => device('ANDROID'),
    doubted: ['silent', 'cut', 'rubbish'],
    taken: [],
  },
  {
    provider: 'apns',
    settings: () => ({
      providerName: 'basic',
      apns: {
        ...{ keyId: 'K', teamId: 'T', bundleId: 'org.example.app' },
        ...{ privateKey: ec(), endpoint: addressOf(apple) },
      },
    }),
    device: () => device('IOS'),
    doubted: ['silent', 'cut'],
    // Its status says it all.
    taken: ['rubbish'],
  },
  {
    provider: 'webpush',
    settings: () => ({
      providerName: 'basic',
      webpush: {
        ...{ publicKey: vapidKey, privateKey: vapid.getPrivateKey('base64url') },
        ...{ subject: 'mailto:ops@example.com', allowInternal: true },
      },
    }),
    device: browser,
    doubted: ['silent', 'cut'],
    taken: ['rubbish'],
  },
  {
    // A key keeps further attempts from doubling it.
    provider: 'onesignal',
    settings: () => ({
      providerName: 'onesignal',
      onesignal: { appId: 'app', apiKey: 'key', endpoint: addressOf(web) },
    }),
    device: () => device('ANDROID'),
    doubted: [],
    taken: [],
  },
  {
    provider: 'sns',
    settings: () => ({
      providerName: 'sns',
      sns: {
        ...{ ...ids, endpoint: addressOf(web) },
        gcmApplicationArn: 'arn:aws:sns:eu-central-1:1:app/GCM/x',
      },
    }),
    device: () => device('ANDROID'),
    doubted: ['silent', 'cut', 'rubbish'],
    taken: [],
  },
];

test.each(pushProviders)(
  'a push message by $provider is asked for once, its device is kept, and doubt is told',
  async (one) => {
    await configure({ pushNotifications: one.settings() });
    const user = await platform.registerUser();
    expect((await user.api.post('/token', one.device())).status).toBe(200);
    for (const kind of manners) {
      await begin(kind);
      const sent = await platform.admin.post('/push/send', { userId: user.userId, title: 'Hello' });
      expect(sent.status, sent.text).toBe(200);
      const { status, timeline } = await ended(sent.body.messageId);
      expect(asked, kind).toHaveLength(1);
      expect(status, kind).toBe(one.taken.includes(kind) ? 'sent' : 'failed');
      expect(timeline.at(-1).detail.includes(doubt), kind).toBe(one.doubted.includes(kind));
      const { body } = await platform.admin.get('/push/tokens', { query: { search: user.userId } });
      expect(body.count, kind).toBe(1);
    }
  },
);
