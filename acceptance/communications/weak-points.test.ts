/**
 * Where the former platform was weak (spec/communications.md section 8), and what callers do wrong: files that are too
 * large, requests that come twice, providers that nobody knows, steps of chains that reach nobody or take long.
 */
import { createCipheriv, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { invoke, upload } from '../functions/requests.ts';
import { sendForm } from '../storage/requests.ts';

let platform: TestPlatform;
let mail: FakeService;
let text: FakeService;
const accepted = { status: 202, headers: { 'x-message-id': 'accepted' } };

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  [mail, text] = await Promise.all([startFakeService(), startFakeService()]);
  await configure({ email: { maxPerRecipient: 1000 }, sms: { maxPerRecipient: 1000 } });
});
beforeEach(async () => {
  // What an earlier test wrote would go to the providers of the next one.
  for (const status of ['queued', 'sending'])
    await waitFor(async () => (await messages({ status })) === 0);
  for (const { requests } of [mail, text]) requests.length = 0;
  mail.answer = () => accepted;
  text.answer = () => ({ status: 201, body: { sid: 'SM1', status: 'queued' } });
});
afterAll(async () => {
  await platform.close();
  await Promise.all([mail.close(), text.close()]);
});

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  platform.admin.post(path, body, { headers });
const patchConfig = (config: object) => platform.admin.patch('/config/communications', { config });
const configure = async (config: object) => expectStatus(await patchConfig(config), 200, 'config');
const useMail = (more: object = {}, apiKey = 'first-key', endpoint = mail.url) =>
  configure({
    email: {
      transport: 'sendgrid',
      sendingDomain: 'example.com',
      transportSettings: { sendgrid: { apiKey, endpoint } },
      ...more,
    },
    providers: { allowInternal: true },
  });
const useText = () =>
  configure({
    sms: {
      providerName: 'twilio',
      twilio: {
        ...{ accountSID: 'AC1', authToken: 'key', phoneNumber: '+15005550006' },
        endpoint: text.url,
      },
    },
    providers: { allowInternal: true },
  });
const ended = (id: string, status = 'sent'): Promise<Json> =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get(`/communications/messages/${id}`);
      return body.status === status && body;
    },
    { what: `a message as ${status}` },
  );
const messages = async (query = {}): Promise<number> =>
  (await platform.admin.get('/communications/messages', { query })).body.count;
const simple = { subject: 'x', body: 'y' };

test('files that are too large are refused by name, each alone and all together, and nothing is stored', async () => {
  const before = await messages();
  const attach = (...attachments: object[]) =>
    post('/email/send', { email: 'large@example.org', ...simple, attachments });
  const content = (characters: number) => ({
    filename: 'a.bin',
    content: 'A'.repeat(characters),
  });
  const tooLarge = {
    status: 413,
    body: { code: 'PAYLOAD_TOO_LARGE', errors: [{ path: 'attachments' }] },
  };
  expect(await attach(content(14_000_004))).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'attachments.0.content' }] },
  });
  expect(await attach(content(8_000_000), content(7_000_000))).toMatchObject(tooLarge);
  // Above what a request may hold nobody looks inside.
  expect((await attach(content(9_000_000), content(9_000_000))).status).toBe(413);

  const owner = await platform.registerUser();
  const upload = async (bytes: number) => {
    const file = [`${bytes}.bin`, Buffer.alloc(bytes)] as const;
    const { status, body } = await sendForm(platform, owner, file, {
      type: 'application/octet-stream',
    });
    expect(status).toBe(200);
    return { fileId: body.id as string };
  };
  const [part, whole] = [await upload(12_000_000), await upload(20_000_001)];
  expect(await attach(whole)).toMatchObject(tooLarge);
  expect(await attach(part, part)).toMatchObject(tooLarge);
  expect(await attach(part, content(12_000_000))).toMatchObject(tooLarge);
  expect(await messages()).toBe(before);
  expect((await attach(part, content(8))).status).toBe(200);
});

test('large files are sealed beside other requests, and reach every recipient whole', async () => {
  await useMail();
  const content = Buffer.from(`{"a":"é"}`.repeat(60_000)).toString('base64');
  const cipher = createCipheriv('aes-256-gcm', Buffer.alloc(32), Buffer.alloc(12));
  const seals = vi.spyOn(Object.getPrototypeOf(cipher) as typeof cipher, 'update');
  const to = ['large-a@example.org', 'large-b@example.org'];
  const attachments = [
    { filename: 'a b.json', content },
    { filename: 'small.txt', content: 'YQ==' },
  ];
  const { status, body } = await post('/email/send', { to, ...simple, attachments });
  const steps = seals.mock.calls.map(([text]) => (text as string | Buffer).length);
  seals.mockRestore();
  expect(status).toBe(200);
  expect(Math.max(...steps)).toBeLessThan(300_000);
  for (const id of body.messageIds) await ended(id);
  expect(mail.requests).toHaveLength(2);
  for (const request of mail.requests)
    expect(request.json().attachments).toMatchObject([{ content }, { content: 'YQ==' }]);
});

test('a mail has as many values as a template may look at', async () => {
  const variables = { list: Array.from({ length: 60_000 }, () => 1), text: 'x'.repeat(300_000) };
  const { status, body } = await post('/email/send', {
    ...{ email: 'values@example.org', ...simple },
    variables,
  });
  expect([status, body.message]).toEqual([413, expect.stringContaining('50000 values')]);
});

test('numbers in no valid form are 400 and name the field', async () => {
  const before = await messages();
  for (const to of [
    '',
    '0690',
    '306900000000',
    '+0123456789',
    '+30 690000000',
    'call me now',
    '+1',
  ])
    expect(await post('/sms/send', { to, message: 'Hi' }), to).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'to' }] },
    });
  expect(await messages()).toBe(before);
});

test('an inbox is never asked for as a whole', async () => {
  const { api } = await platform.registerUser();
  expect(await api.get('/notifications?limit=1001')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'limit' }] },
  });
});

test('a key of the caller makes one mail of many requests', async () => {
  const send = (more: object = {}) =>
    post('/email/send', {
      email: 'once@example.org',
      ...simple,
      idempotencyKey: 'order-7',
      ...more,
    });
  const before = await messages();
  const answers = await Promise.all(Array.from({ length: 20 }, () => send()));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  expect(new Set(answers.map(({ body }) => body.messageId)).size).toBe(1);
  expect(await messages()).toBe(before + 1);
  expect(await send({ subject: 'another' })).toMatchObject({
    status: 409,
    body: { code: 'IDEMPOTENCY_KEY_REUSED' },
  });
  expect((await send({ email: 'other@example.org' })).status).toBe(200);
  expect(await messages()).toBe(before + 2);
});

test('with an Idempotency-Key what is sent while the caller waits goes out once, after it is stored', async () => {
  await useMail();
  await useText();
  const key = { 'idempotency-key': randomUUID() };
  const twice = async (path: string, body: object, other: object) => {
    const [first, second] = [await post(path, body, key), await post(path, body, key)];
    expect(first.status, first.text).toBe(200);
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(second.body).toEqual(first.body);
    expect((await post(path, { ...body, ...other }, key)).status, path).toBe(409);
    return first.body;
  };
  const sms = { to: '+306900000001', message: 'Hi' };
  const sent = await twice('/sms/send', sms, { message: 'Bye' });
  expect(await ended(sent.messageId)).toMatchObject({ provider: 'twilio', attempts: 1 });
  expect(text.requests).toHaveLength(1);

  const tested = { email: 'tested@example.org', ...simple };
  const { messageId } = await twice('/email/test', tested, { subject: 'other' });
  expect(await ended(messageId)).toMatchObject({ provider: 'sendgrid', attempts: 1 });
  const chain = {
    recipient: { email: 'chain@example.org' },
    ...simple,
    fallbackChain: [{ channel: 'email', timeout: 60_000 }],
  };
  const { chainId } = await twice('/send/fallback', chain, { subject: 'other' });
  await waitFor(
    async () =>
      (await platform.admin.get(`/communications/chains/${chainId}`)).body.status === 'done',
    { timeoutMs: 30_000, what: 'the chain to end' },
  );
  expect(mail.requests.map((request) => request.json().personalizations[0].to[0].email)).toEqual([
    'tested@example.org',
    'chain@example.org',
  ]);
});

test('a mail of a template is sent once more as it was, and not where nobody kept it', async () => {
  await useMail({ storeEmails: { enabled: true } });
  const made = await post('/email/templates', {
    ...{ name: 'Receipt', subject: 'Receipt {{n}}', body: '<p>{{n}} euros</p>' },
  });
  const send = async () => {
    const of = { email: 'kept@example.org', templateName: 'Receipt', variables: { n: 7 } };
    const { messageId } = (await post('/email/send', of)).body;
    await ended(messageId);
    return messageId as string;
  };
  const kept = await send();
  const path = `/email/templates/${made.body.template._id}`;
  await platform.admin.patch(path, { subject: 'Changed', body: 'Changed' });
  const again = await post('/email/resend', { id: kept });
  await ended(again.body.messageId);
  const [first, second] = mail.requests.map((request) => request.json());
  expect(second).toMatchObject({ subject: 'Receipt 7', content: first.content });
  await configure({ email: { storeEmails: { enabled: false } } });
  expect(await post('/email/resend', { id: await send() })).toMatchObject({
    status: 409,
    body: { code: 'MESSAGE_CONTENT_MISSING' },
  });
});

test('programs inside the platform learn the id of what they send, and find it by that', async () => {
  await configure({ email: { transport: 'mock' }, sms: { providerName: 'mock' } });
  const { _id } = await upload(platform.admin, {
    name: 'writes_messages',
    inputs: { method: 'GET', rights: 'system' },
    functionCode: `const { messages } = ctx.system;
      return [
        await messages.email({ email: 'inside@example.org', subject: 'x', body: 'y' }),
        await messages.sms({ to: '+306912345699', message: 'x' }),
      ];`,
  });
  const { result, error } = await invoke(platform.admin, _id, {});
  expect(error).toBeNull();
  const [email, sms] = result as readonly Json[];
  expect(await ended(email?.messageId, 'captured')).toMatchObject({
    channel: 'email',
    recipient: 'inside@example.org',
  });
  expect(await ended(sms?.messageId, 'captured')).toMatchObject({
    channel: 'sms',
    recipient: '+306912345699',
  });
});

test('a provider that nobody knows is refused by name and changes nothing; another takes over whole', async () => {
  await useMail();
  for (const [config, path] of [
    [{ email: { transport: 'pigeon' } }, 'email.transport'],
    [{ email: { sendingDomain: 'other.example', failover: ['pigeon'] } }, 'email.failover'],
    [{ email: { transport: 'mandrill' } }, 'email.transportSettings.mandrill.apiKey'],
    [{ sms: { providerName: 'pigeon' } }, 'sms.providerName'],
    [{ pushNotifications: { providerName: 'pigeon' } }, 'pushNotifications.providerName'],
  ] as const) {
    const { status, body } = await patchConfig(config);
    expect(status, path).toBe(400);
    expect(body.errors.map((problem: Json) => problem.path).join(' ')).toContain(path);
  }
  const send = async () =>
    ended((await post('/email/send', { email: 'swap@example.org', ...simple })).body.messageId);
  await send();
  expect(mail.requests).toMatchObject([{ headers: { authorization: 'Bearer first-key' } }]);
  expect(mail.requests[0]?.json().from.email).toContain('@example.com');
  text.answer = () => accepted;
  await useMail({}, 'second-key', text.url);
  await send();
  expect(mail.requests).toHaveLength(1);
  expect(text.requests).toMatchObject([{ headers: { authorization: 'Bearer second-key' } }]);
});

const newFirebase = () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return {
    ...{ projectId: 'p', clientEmail: 'push@p.example' },
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }),
    ...{ endpoint: text.url, tokenEndpoint: `${text.url}/token` },
  };
};

test('no device that took nothing makes a success of another, and an operator asks all of them anew', async () => {
  const pushNotifications = { providerName: 'firebase', firebase: newFirebase() };
  await configure({ pushNotifications, providers: { allowInternal: true } });
  const says = (status: number, errorCode: string) => ({
    status,
    body: { error: { code: status, details: [{ errorCode }] } },
  });
  const token = { body: { access_token: 'a', expires_in: 3600 } };
  const asked: string[] = [];
  text.answer = ({ path, text: said }) => {
    if (path === '/token') return token;
    asked.push(said.includes('busy') ? 'busy' : 'odd');
    const isFirst = asked.at(-1) === 'busy' && asked.filter((one) => one === 'busy').length === 1;
    if (isFirst) return { ...says(503, 'UNAVAILABLE'), headers: { 'retry-after': '1' } };
    return says(400, 'INVALID_ARGUMENT');
  };
  const { api, userId } = await platform.registerUser();
  for (const name of ['busy', 'odd'])
    await api.post('/token', { token: `${name}-${userId}`, platform: 'ANDROID' });
  const id = (await post('/push/send', { userId, title: 'x' })).body.messageId;
  await ended(id, 'failed');
  expect(asked.toSorted()).toEqual(['busy', 'busy', 'odd']);
  asked.length = 0;
  text.answer = ({ path, text: said }) => {
    if (path !== '/token') asked.push(said.includes('busy') ? 'busy' : 'odd');
    return path === '/token' ? token : { body: { name: 'x' } };
  };
  await expectStatus(await post(`/communications/messages/${id}/retry`, {}), 200, 'retry');
  await ended(id);
  expect(asked.toSorted()).toEqual(['busy', 'odd']);
  await configure({ pushNotifications: { providerName: 'basic' } });
});

test('a push message that no device took is no success: the chain goes on', async () => {
  await useMail();
  const firebase = newFirebase();
  // A panel saves it again without a change; it goes on working.
  for (let times = 0; times < 2; times += 1)
    await configure({ pushNotifications: { providerName: 'firebase', firebase } });
  const gone = { error: { code: 404, details: [{ errorCode: 'UNREGISTERED' }] } };
  text.answer = ({ path, text: said }) => {
    if (path === '/token') return { body: { access_token: 'a', expires_in: 3600 } };
    return said.includes('alive') ? { body: { name: 'x' } } : { status: 404, body: gone };
  };
  const begin = async (...tokens: readonly string[]) => {
    const { api, userId } = await platform.registerUser();
    for (const token of tokens)
      await api.post('/token', { token: `${token}-${userId}`, platform: 'ANDROID' });
    const fallbackChain = [
      { channel: 'push', timeout: 60_000 },
      { channel: 'email', timeout: 60_000 },
    ];
    return (await post('/send/fallback', { recipient: userId, ...simple, fallbackChain })).body;
  };
  const [dead, none, alive] = await Promise.all([
    begin('dead', 'dead-too'),
    begin(),
    begin('dead', 'alive'),
  ]);
  const byMail = (error: string) => ({
    status: 'done',
    successfulChannel: 'email',
    attempts: [
      { channel: 'push', success: false, error: expect.stringContaining(error) },
      { channel: 'email', success: true },
    ],
  });
  expect(dead).toMatchObject(byMail('UNREGISTERED'));
  expect(none).toMatchObject(byMail('no device'));
  expect(alive).toMatchObject({ successfulChannel: 'push', attempts: [{ success: true }] });
  await configure({ pushNotifications: { providerName: 'basic' } });
});

test('a step that takes longer than its time is not doubled over the next channel, unless that is requested', async () => {
  const held: ServerResponse[] = [];
  const take = (response: ServerResponse) => response.writeHead(202, accepted.headers).end();
  const slow: Server = createServer((request, response) => {
    let said = '';
    request.setEncoding('utf8').on('data', (chunk) => (said += chunk));
    request.on('end', () =>
      said.includes('held@') ? held.push(response) : setTimeout(() => take(response), 4000),
    );
  });
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = slow.address() as AddressInfo;
    await useMail({}, 'key', `http://127.0.0.1:${port}`);
    await useText();
    const begin = (email: string, phone: string, more: object = {}) =>
      post('/send/fallback', {
        recipient: { email, phone },
        ...simple,
        fallbackChain: [
          { channel: 'email', timeout: 2500 },
          { channel: 'sms', timeout: 60_000 },
        ],
        ...more,
      });
    const [patient, doubled] = await Promise.all([
      begin('slow@example.org', '+306912345670'),
      begin('held@example.org', '+306912345671', { allowDuplicate: true }),
    ]);
    expect(patient.body).toMatchObject({
      successfulChannel: 'email',
      attempts: [{ channel: 'email', success: true }],
    });
    expect(doubled.body).toMatchObject({
      successfulChannel: 'sms',
      attempts: [
        { channel: 'email', success: false, error: expect.stringContaining('may arrive too') },
        { channel: 'sms', success: true },
      ],
    });
    expect(text.requests.map((request) => request.form().To)).toEqual(['+306912345671']);
  } finally {
    for (const response of held) take(response);
    slow.closeAllConnections();
    await new Promise((resolve) => slow.close(resolve));
  }
});

test('a sender of a foreign domain is refused by the name of its field, unless the configuration allows it', async () => {
  const to = { email: 'reader@example.org', ...simple };
  const foreign = 'boss@bank.example';
  const message = { recipient: 'reader@example.org', ...simple };
  await configure({
    email: { transport: 'mock', sendingDomain: 'example.com', allowForeignSenders: true },
  });
  // Written while the domain was one's own.
  const old = { name: 'Old sender', ...simple, sender: foreign };
  expect((await post('/email/templates', old)).status).toBe(200);
  await configure({ email: { allowForeignSenders: false } });
  const before = await messages();
  const named = { name: 'Foreign', channels: ['email'] };
  const cases: readonly (readonly [path: string, body: object, field: string])[] = [
    ['/email/send', { ...to, sender: foreign }, 'sender'],
    ['/email/send', { ...to, from: foreign }, 'from'],
    ['/email/send', { to: ['a@example.org', 'b@example.org'], ...simple, from: foreign }, 'from'],
    ['/email/send', { ...to, from: 'a@example.com.bank.example' }, 'from'],
    ['/email/test', { ...to, sender: foreign }, 'sender'],
    ['/email/templates', { name: 'Foreign', ...simple, sender: foreign }, 'sender'],
    [
      '/communications/templates',
      { ...named, email: { ...simple, sender: foreign } },
      'email.sender',
    ],
    ['/communications/send', { channel: 'email', ...message, sender: foreign }, 'sender'],
    ['/send/multiple', { channels: ['email'], ...message, sender: foreign }, 'sender'],
    [
      '/send/fallback',
      { fallbackChain: [{ channel: 'email' }], ...message, sender: foreign },
      'sender',
    ],
  ];
  for (const [path, body, field] of cases)
    expect(await post(path, body), `${path} ${field}`).toMatchObject({
      status: 400,
      body: { code: 'SENDER_NOT_ALLOWED', errors: [{ path: field, rule: 'domain' }] },
    });
  expect(await messages()).toBe(before);

  const from = async (body: object): Promise<string> => {
    const { body: answer } = await post('/email/send', { email: 'reader@example.org', ...body });
    return (await ended(answer.messageId, 'captured')).content.from;
  };
  expect(await from({ ...simple, from: 'shop@mail.example.com' })).toBe('shop@mail.example.com');
  expect(await from({ ...simple, sender: 'shop' })).toBe('shop@example.com');
  // A template's own sender counts (it was ignored on this route once); a foreign one keeps no mail back.
  await post('/email/templates', { name: 'Own sender', ...simple, sender: 'help' });
  expect(await from({ templateName: 'Own sender' })).toBe('help@example.com');
  expect(await from({ templateName: 'Old sender' })).toBe('no-reply@example.com');
  await configure({ email: { sender: 'info@bank.example' } });
  expect(await from({ ...simple, from: foreign })).toBe(foreign);
  await configure({ email: { sender: 'no-reply', allowForeignSenders: true } });
  expect(await from({ ...simple, from: foreign })).toBe(foreign);
  expect(await from({ templateName: 'Old sender' })).toBe(foreign);
  await configure({ email: { allowForeignSenders: false } });
});
