/**
 * What providers report about messages: believed only with their signatures, and only once.
 * CWE-345 (https://cwe.mitre.org/data/definitions/345.html), CWE-294 (https://cwe.mitre.org/data/definitions/294.html).
 */
import { createHmac, generateKeyPairSync, randomUUID, sign, X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestConnection } from '../../../test/support/connection.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../../test/support/servers/fake-service.ts';
import { certificate, certificateKey } from '../../../test/support/servers/sns-certificate.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { finishMessages } from './delivery-queries.ts';

let platform: TestPlatform;
let fake: FakeService;
const sendgridKeys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const topicArn = 'arn:aws:sns:eu-central-1:1:feedback';

beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService(({ path }) =>
    path.endsWith('.pem')
      ? { body: certificate }
      : path.includes('/Messages.json')
        ? { status: 201, body: { sid: `SM${randomUUID()}`, status: 'queued' } }
        : { body: { id: `<${randomUUID()}@example.com>` } },
  );
  const set = await platform.admin.patch('/config/communications', {
    config: {
      email: {
        transport: 'mailgun',
        sendingDomain: 'example.com',
        transportSettings: { mailgun: { apiKey: 'k', endpoint: fake.url } },
        webhooks: {
          mailgun: { signingKey: 'mailgun-key' },
          sendgrid: {
            publicKey: sendgridKeys.publicKey
              .export({ format: 'der', type: 'spki' })
              .toString('base64'),
          },
          amazonSes: { topicArn, endpoint: fake.url },
          mandrill: { key: 'mandrill-key' },
          mailersend: { signingSecret: 'mailersend-key' },
        },
      },
      sms: {
        providerName: 'twilio',
        statusCallbacks: true,
        maxPerRecipient: 1000,
        twilio: { accountSID: 'AC1', authToken: 'token', phoneNumber: '+1', endpoint: fake.url },
      },
      providers: { allowInternal: true },
    },
  });
  expect(set.status).toBe(200);
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

const post = (
  provider: string,
  body: string,
  headers: Readonly<Record<string, string>> = {},
  query = '',
) =>
  fetch(`${platform.addresses.client}/hook/communications/${provider}${query}`, {
    method: 'POST',
    headers,
    body,
  });
const read = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;

/** A mail that was taken by the provider. */
async function sentTo(email: string, more: object = {}): Promise<string> {
  const sent = await platform.admin.post('/email/send', {
    email,
    subject: 'Hi',
    body: 'there',
    ...more,
  });
  expect(sent.status).toBe(200);
  await waitFor(async () => (await read(sent.body.messageId)).status === 'sent');
  return sent.body.messageId;
}

/** How a provider says that something happened to a message. */
interface Reporter {
  readonly provider: string;
  report(event: string, messageId: string, recipient: string): Promise<Response>;
  forged(messageId: string, recipient: string): Promise<Response>;
  readonly delivered: string;
  readonly bounced: string;
  readonly complained: string;
}

const hmac = (algorithm: string, key: string, text: string, encoding: 'hex' | 'base64') =>
  createHmac(algorithm, key).update(text).digest(encoding);

function mailgun(key: string) {
  return (event: string, messageId: string, recipient: string): Promise<Response> => {
    const [timestamp, token] = [String(Math.floor(Date.now() / 1000)), randomUUID()];
    const [name, severity] = event.split('/');
    return post(
      'mailgun',
      JSON.stringify({
        signature: { timestamp, token, signature: hmac('sha256', key, timestamp + token, 'hex') },
        'event-data': {
          id: randomUUID(),
          event: name,
          severity,
          recipient,
          'user-variables': { 'penstock-id': messageId },
          'delivery-status': { code: 550, message: 'no such user' },
        },
      }),
    );
  };
}

function sendgrid(key: typeof sendgridKeys.privateKey) {
  return (event: string, messageId: string, recipient: string): Promise<Response> => {
    const timestamp = String(Math.floor(Date.now() / 1000));
    const body = JSON.stringify([
      { event, email: recipient, sg_event_id: randomUUID(), penstock_id: messageId, reason: 'no' },
    ]);
    return post('sendgrid', body, {
      'x-twilio-email-event-webhook-timestamp': timestamp,
      'x-twilio-email-event-webhook-signature': sign(
        'sha256',
        Buffer.from(timestamp + body),
        key,
      ).toString('base64'),
    });
  };
}

function ses(key: string) {
  return (event: string, messageId: string, recipient: string): Promise<Response> => {
    const envelope: Record<string, string> = {
      Message: JSON.stringify({
        eventType: event,
        mail: { messageId: 'ses-1', tags: { 'penstock-id': [messageId] } },
        bounce: { bounceType: 'Permanent', bouncedRecipients: [{ emailAddress: recipient }] },
        complaint: { complainedRecipients: [{ emailAddress: recipient }] },
      }),
      MessageId: randomUUID(),
      Timestamp: new Date().toISOString(),
      TopicArn: topicArn,
      Type: 'Notification',
    };
    const text = Object.keys(envelope)
      .sort()
      .map((name) => `${name}\n${envelope[name]}\n`)
      .join('');
    return post(
      'amazonSes',
      JSON.stringify({
        ...envelope,
        SignatureVersion: '2',
        Signature: sign('sha256', Buffer.from(text), key).toString('base64'),
        SigningCertURL: `${fake.url}/SimpleNotificationService-1.pem`,
      }),
      { 'content-type': 'text/plain; charset=UTF-8' },
    );
  };
}

function mandrill(key: string) {
  return (event: string, messageId: string, recipient: string): Promise<Response> => {
    const events = JSON.stringify([
      {
        event,
        _id: randomUUID(),
        ts: 1,
        msg: { email: recipient, metadata: { penstock_id: messageId }, diag: 'no' },
      },
    ]);
    const url = `${platform.addresses.client}/hook/communications/mandrill`;
    return post('mandrill', new URLSearchParams({ mandrill_events: events }).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
      'x-mandrill-signature': hmac('sha1', key, `${url}mandrill_events${events}`, 'base64'),
    });
  };
}

const reporters: readonly Reporter[] = [
  {
    provider: 'mailgun',
    report: mailgun('mailgun-key'),
    forged: (...about) => mailgun('another key')('complained', ...about),
    delivered: 'delivered',
    bounced: 'failed/permanent',
    complained: 'complained',
  },
  {
    provider: 'sendgrid',
    report: sendgrid(sendgridKeys.privateKey),
    forged: (...about) =>
      sendgrid(generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey)('bounce', ...about),
    delivered: 'delivered',
    bounced: 'bounce',
    complained: 'spamreport',
  },
  {
    provider: 'amazonSes',
    report: ses(certificateKey),
    forged: (...about) =>
      ses(
        generateKeyPairSync('rsa', { modulusLength: 2048 })
          .privateKey.export({ format: 'pem', type: 'pkcs8' })
          .toString(),
      )('Bounce', ...about),
    delivered: 'Delivery',
    bounced: 'Bounce',
    complained: 'Complaint',
  },
  {
    provider: 'mandrill',
    report: mandrill('mandrill-key'),
    forged: (...about) => mandrill('another key')('spam', ...about),
    delivered: 'delivered',
    bounced: 'hard_bounce',
    complained: 'spam',
  },
];

test('the certificate of the tests counts', () => {
  expect(Date.parse(new X509Certificate(certificate).validTo)).toBeGreaterThan(Date.now());
});

describe.each(reporters)('$provider', ({ provider, report, forged, ...events }) => {
  test('deliveries and complaints are told in the timeline, and whoever complains gets nothing more', async () => {
    const email = `complains@${provider.toLowerCase()}.example`;
    const id = await sentTo(email);
    expect((await report(events.delivered, id, email)).status).toBe(200);
    expect(await read(id)).toMatchObject({ status: 'delivered' });
    expect((await report(events.complained, id, email)).status).toBe(200);
    // What comes late changes nothing.
    expect((await report(events.delivered, id, email)).status).toBe(200);
    const { status, timeline } = await read(id);
    expect(status).toBe('complained');
    expect(timeline.map(({ kind }: { kind: string }) => kind)).toEqual([
      'queued',
      'accepted',
      'delivered',
      'complained',
      'delivered',
    ]);
    expect(
      await platform.admin.post('/email/send', { email, subject: 'x', body: 'y' }),
    ).toMatchObject({ status: 422, body: { code: 'RECIPIENT_SUPPRESSED' } });
  });

  test('an address that bounces for good gets nothing more, until an operator takes it off the list', async () => {
    const email = `bounces@${provider.toLowerCase()}.example`;
    const id = await sentTo(email);
    expect((await report(events.bounced, id, email)).status).toBe(200);
    expect(await read(id)).toMatchObject({ status: 'bounced', error: expect.any(String) });
    const query = { channel: 'email', search: email };
    expect((await platform.admin.get('/communications/suppressions', { query })).body).toEqual({
      suppressions: [expect.objectContaining({ address: email, reason: 'bounce', scope: 'all' })],
      count: 1,
    });
    const removal = { query: { channel: 'email', address: email } };
    const remove = () => platform.admin.delete('/communications/suppressions', removal);
    expect([(await remove()).status, (await remove()).status]).toEqual([200, 404]);
    await sentTo(email);
  });

  test('a forged report is refused and changes nothing', async () => {
    const email = `forged@${provider.toLowerCase()}.example`;
    const id = await sentTo(email);
    const answer = await forged(id, email);
    expect(answer.status).toBe(403);
    expect(await answer.json()).toMatchObject({ code: 'WEBHOOK_REFUSED' });
    // Mandrill sends no events at all before it knows a key; that says nothing, and changes nothing.
    const silent = provider === 'mandrill' ? 200 : 403;
    expect((await post(provider, '{}')).status).toBe(silent);
    expect((await post(provider, 'no json at all')).status).toBe(silent);
    expect(await read(id)).toMatchObject({ status: 'sent' });
    await sentTo(email);
  });
});

test('a report counts once, also with its signature under another content', async () => {
  const email = 'replayed@example.org';
  const id = await sentTo(email);
  const [timestamp, token] = [String(Math.floor(Date.now() / 1000)), randomUUID()];
  const signature = hmac('sha256', 'mailgun-key', timestamp + token, 'hex');
  const send = (event: string) =>
    post(
      'mailgun',
      JSON.stringify({
        signature: { timestamp, token, signature },
        'event-data': {
          id: randomUUID(),
          event,
          recipient: email,
          'user-variables': { 'penstock-id': id },
        },
      }),
    );
  const statuses = await Promise.all(
    Array.from({ length: 50 }, async () => (await send('delivered')).status),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect((await send('complained')).status).toBe(200);
  const { status, timeline } = await read(id);
  expect(status).toBe('delivered');
  expect(timeline.filter(({ kind }: { kind: string }) => kind === 'delivered')).toHaveLength(1);
});

test('what became of a copy is told, and is not what became of the message', async () => {
  const sent = await platform.admin.post('/email/send', {
    ...{ email: 'to@example.org', cc: ['Copy@example.org'], subject: 'x', body: 'y' },
  });
  const id = sent.body.messageId;
  await waitFor(async () => (await read(id)).status === 'sent');
  const report = mailgun('mailgun-key');
  await report('failed/permanent', id, 'copy@example.org');
  const told = await read(id);
  expect(told).toMatchObject({ status: 'sent', error: null });
  expect(told.timeline.at(-1)).toMatchObject({
    kind: 'bounced',
    detail: 'copy@example.org: 550 no such user',
  });
  await report('failed/permanent', id, 'TO@example.org');
  expect(await read(id)).toMatchObject({ status: 'bounced', error: '550 no such user' });
});

test('who leaves a list at the provider still gets what belongs to the account', async () => {
  const email = 'leaves@example.org';
  await mailgun('mailgun-key')('unsubscribed', await sentTo(email), email);
  const send = (more: object) =>
    platform.admin.post('/email/send', { email, subject: 'x', body: 'y', ...more });
  expect((await send({ category: 'news' })).status).toBe(422);
  expect((await send({ category: 'news', critical: true })).status).toBe(200);
  expect((await send({})).status).toBe(200);
});

test('a chain ends where a provider reports a delivery, and goes on where it reports a bounce', async () => {
  const begin = async (email: string) => {
    const fallbackChain = [
      { channel: 'email', until: 'delivered', timeout: 600_000 },
      { channel: 'email' },
    ];
    const message = { recipient: { email }, subject: 'x', body: 'y' };
    const { body } = await platform.admin.post('/send/fallback', { fallbackChain, ...message });
    expect(body).toMatchObject({ status: 'running', attempts: [] });
    const query = { recipient: email };
    const id = await waitFor(async () => {
      const [first] = (await platform.admin.get('/communications/messages', { query })).body
        .messages;
      return first?.status === 'sent' && first._id;
    });
    return { chainId: body.chainId, id };
  };
  const ended = (chainId: string) =>
    waitFor(async () => {
      const { body } = await platform.admin.get(`/communications/chains/${chainId}`);
      return body.status !== 'running' && body;
    });
  const report = mailgun('mailgun-key');
  const delivered = await begin('chain-delivered@example.org');
  await report('delivered', delivered.id, 'chain-delivered@example.org');
  expect(await ended(delivered.chainId)).toMatchObject({
    status: 'done',
    attempts: [{ channel: 'email', success: true, messageId: delivered.id }],
  });
  // The next step finds that the address gets nothing more.
  const bounced = await begin('chain-bounced@example.org');
  await report('failed/permanent', bounced.id, 'chain-bounced@example.org');
  expect(await ended(bounced.chainId)).toMatchObject({
    status: 'failed',
    attempts: [
      { channel: 'email', success: false, messageId: bounced.id },
      { channel: 'email', success: false, error: expect.stringContaining('gets no messages') },
    ],
  });
});

test('mailersend names the message by its own id', async () => {
  const body = JSON.stringify({
    type: 'activity.hard_bounced',
    data: {
      id: 'e1',
      email: { message: { id: 'unknown' }, recipient: { email: 'gone@ms.example' } },
    },
  });
  const signature = hmac('sha256', 'mailersend-key', body, 'hex');
  expect((await post('mailersend', body, { signature })).status).toBe(200);
  expect((await post('mailersend', `${body} `, { signature })).status).toBe(403);
  const gone = { email: 'gone@ms.example', subject: 'x', body: 'y' };
  expect((await platform.admin.post('/email/send', gone)).status).toBe(422);
});

test('a report that comes before the answer to the send is noted finds its message later', async () => {
  const id = await sentTo('early@ms.example');
  const body = JSON.stringify({
    type: 'activity.delivered',
    data: { id: 'early', email: { message: { id: 'ms-1' } } },
  });
  const signature = hmac('sha256', 'mailersend-key', body, 'hex');
  const report = async () => (await post('mailersend', body, { signature })).status;
  expect([await report(), await report()]).toEqual([200, 200]);
  const sql = await openTestConnection(platform.databaseUrl ?? '');
  await sql.query('update penstock.messages set provider_id = $1 where id = $2', ['ms-1', id]);
  await sql.query(
    `update penstock_jobs.job set start_after = now() where name = 'communications.late-reports'`,
  );
  await waitFor(async () => (await read(id)).status === 'delivered');
  await sql.close();
  const { timeline } = await read(id);
  expect(timeline.filter(({ kind }: { kind: string }) => kind === 'delivered')).toHaveLength(1);
});

test('why a message bounced stays, also when that is known before the answer to the send is noted', async () => {
  const id = await sentTo('quick@example.org');
  await mailgun('mailgun-key')('failed/permanent', id, 'quick@example.org');
  const sql = await openTestConnection(platform.databaseUrl ?? '');
  const database = {
    query: async ({ text, values }: { text: string; values: unknown[] }) => sql.query(text, values),
  } as unknown as Queryable;
  await finishMessages(database, [{ id, status: 'sent', kind: 'accepted', provider: 'mailgun' }]);
  await sql.close();
  expect(await read(id)).toMatchObject({ status: 'bounced', error: '550 no such user' });
});

test('a report with characters that the database does not take keeps nothing from being noted', async () => {
  const odd = `a\0${'😀'.repeat(200)}\ud83d`;
  const body = JSON.stringify({
    type: 'activity.hard_bounced',
    data: {
      id: odd,
      email: { message: { id: odd }, recipient: { email: `\0${odd}` } },
      morph: { reason: odd },
    },
  });
  const answer = await post('mailersend', body, {
    signature: hmac('sha256', 'mailersend-key', body, 'hex'),
  });
  expect(answer.status, await answer.text()).toBe(200);
});

test('without a key no report is believed, and other names are not there', async () => {
  const none = { config: { email: { webhooks: { mandrill: { key: '' } } } } };
  await platform.admin.patch('/config/communications', none);
  expect((await mandrill('')('spam', randomUUID(), 'x@example.org')).status).toBe(403);
  expect((await post('postmark', '{}')).status).toBe(400);
});

test('Twilio reports about the text message that it was given', async () => {
  const to = '+306911111111';
  const sent = await platform.admin.post('/sms/send', { to, message: 'Hi' });
  expect(sent.status).toBe(200);
  const id: string = sent.body.messageId;
  const { StatusCallback: url = '' } = fake.requests.at(-1)?.form() ?? {};
  expect(new URL(url).searchParams.get('message')).toBe(id);
  const report = (MessageStatus: string, ErrorCode: string, key = 'token') => {
    const fields = { ErrorCode, MessageSid: 'SM1', MessageStatus, To: to };
    const signed = url + Object.entries(fields).flat().join('');
    return post(
      'twilio',
      new URLSearchParams(fields).toString(),
      { 'x-twilio-signature': hmac('sha1', key, signed, 'base64') },
      new URL(url).search,
    );
  };
  expect((await report('delivered', '', 'another token')).status).toBe(403);
  expect((await report('delivered', '')).status).toBe(200);
  expect((await platform.admin.get(`/sms/messages/${id}`)).body.smsRecord).toMatchObject({
    status: 'delivered',
    recipient: to,
  });
  expect((await report('undelivered', '21610')).status).toBe(200);
  expect(await platform.admin.post('/sms/send', { to, message: 'Hi' })).toMatchObject({
    status: 422,
  });
});

test('MessageBird reports only with the token of the message', async () => {
  const query = { reference: randomUUID(), status: 'delivered', token: 'x'.repeat(40) };
  const answer = await platform.client.get('/hook/communications/messageBird', { query });
  expect(answer.status).toBe(403);
});
