/** Several providers of one channel, their limits, and files that mails carry, against servers that speak their wire form. */
import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createApi } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { type FakeService, startFakeService } from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let metricsPort: number;
let first: FakeService;
let second: FakeService;
let server: SMTPServer;
const arrived: string[] = [];

beforeAll(async () => {
  metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  first = await startFakeService();
  second = await startFakeService();
  server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    onData(stream, _session, done) {
      let text = '';
      stream.on('data', (chunk: Buffer) => {
        text += chunk.toString('latin1');
      });
      stream.on('end', () => {
        arrived.push(text);
        done();
      });
    },
  });
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
beforeEach(() => {
  for (const { requests } of [first, second]) requests.length = 0;
  arrived.length = 0;
});
afterAll(async () => {
  await platform.close();
  await Promise.all([first.close(), second.close()]);
  await new Promise<void>((resolve) => server.close(() => resolve()));
});

const configure = (config: object) => platform.admin.patch('/config/communications', { config });
const configured = async (config: object) => {
  const answer = await configure(config);
  expect(answer.status, answer.text).toBe(200);
};
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;
const ended = (id: string, ...statuses: string[]) =>
  waitFor(
    async () => {
      const found = await message(id);
      return statuses.includes(found.status) ? found : undefined;
    },
    { what: statuses.join(' or ') },
  );
const send = async (body: object): Promise<string> => {
  const answer = await platform.admin.post('/email/send', { subject: 'x', body: 'y', ...body });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.messageId;
};
const useMail = (more: object = {}) =>
  configured({
    email: {
      sendingDomain: 'example.com',
      transport: 'sendgrid',
      failover: ['mailersend', 'smtp'],
      transportSettings: {
        sendgrid: { apiKey: 'one', endpoint: first.url },
        mailersend: { apiKey: 'two', endpoint: second.url },
        smtp: {
          host: '127.0.0.1',
          port: (server.server.address() as AddressInfo).port,
          ignoreTls: true,
        },
      },
      ...more,
    },
    providers: { allowInternal: true },
    orchestration: { retryAttempts: 0 },
  });

describe('several providers', () => {
  test('the next is asked where one cannot, and the timeline says what each said', async () => {
    await useMail();
    first.answer = () => ({ status: 503, body: 'away' });
    second.answer = () => ({ status: 401, body: { message: 'Unauthenticated.' } });
    const done = await ended(await send({ email: 'ada@example.org' }), 'sent');
    expect(done).toMatchObject({ provider: 'smtp', attempts: 1 });
    expect(done.timeline).toMatchObject([
      { kind: 'queued' },
      { kind: 'tried', provider: 'sendgrid', detail: expect.stringContaining('503') },
      { kind: 'tried', provider: 'mailersend', detail: expect.stringContaining('401') },
      { kind: 'accepted', provider: 'smtp' },
    ]);
    expect(arrived).toHaveLength(1);
    const { body } = await platform.admin.get('/communications/health');
    expect(
      body.providers.filter(({ channel }: { channel: string }) => channel === 'email'),
    ).toMatchObject([
      {
        provider: 'sendgrid',
        failures: 1,
        lastError: expect.stringContaining('503'),
        lastSuccessAt: null,
      },
      { provider: 'mailersend', failures: 1 },
      { provider: 'smtp', failures: 0, lastSuccessAt: expect.any(String) },
    ]);
    const metrics = (await createApi(`http://127.0.0.1:${metricsPort}`).get('/metrics')).text;
    expect(metrics).toMatch(/communications_failure_total\{[^}]*provider="sendgrid"[^}]*\} 1/);
    expect(metrics).toMatch(/communications_success_total\{[^}]*provider="smtp"[^}]*\} 1/);
  });

  test('nobody else is asked after a refusal for good, nor while it is unknown whether one took it', async () => {
    await useMail();
    first.answer = () => ({
      status: 400,
      body: { errors: [{ message: 'Bad content', field: 'x' }] },
    });
    const refused = await ended(await send({ email: 'ada@example.org' }), 'failed');
    expect(refused).toMatchObject({ provider: 'sendgrid' });
    // It says yes, and nothing by which the message could be known.
    await useMail({
      transport: 'mailgun',
      failover: ['mailersend'],
      transportSettings: { mailgun: { apiKey: 'k', endpoint: first.url } },
    });
    first.answer = () => ({ status: 200, body: '<html>welcome</html>' });
    const unknown = await ended(await send({ email: 'ada@example.org' }), 'failed');
    expect(unknown.timeline.at(-1).detail).toContain('may have been taken');
    expect(second.requests).toHaveLength(0);
  });

  test('text messages too', async () => {
    await configured({
      sms: {
        providerName: 'twilio',
        failover: ['messageBird'],
        twilio: {
          accountSID: 'AC1',
          authToken: 't',
          phoneNumber: '+15005550006',
          endpoint: first.url,
        },
        messageBird: { accessKeyId: 'k', originatorName: 'Shop', endpoint: second.url },
      },
    });
    first.answer = () => ({ status: 500, body: 'rubbish <' });
    second.answer = () => ({
      status: 201,
      body: { id: 'mb1', recipients: { items: [{ status: 'sent' }] } },
    });
    const { body } = await platform.admin.post('/sms/send', { to: '+306900000000', message: 'Hi' });
    expect(await ended(body.messageId, 'sent')).toMatchObject({
      provider: 'messageBird',
      providerId: 'mb1',
    });
  });

  test('one that lacks its key is refused when it is named', async () => {
    expect(await configure({ email: { failover: ['mandrill'] } })).toMatchObject({
      status: 400,
      body: { errors: [{ path: expect.stringContaining('transportSettings.mandrill.apiKey') }] },
    });
    expect(await configure({ email: { failover: ['mock'] } })).toMatchObject({ status: 400 });
  });

  test('a provider gets no more in a second than it may, and nothing is lost', async () => {
    await useMail({ transport: 'smtp', failover: [] });
    await configured({ providers: { perSecond: { smtp: 10 } }, email: { maxPerRecipient: 1000 } });
    const times: number[] = [];
    const began = Date.now();
    const ids = await Promise.all(
      Array.from({ length: 25 }, (_, n) => send({ email: `paced${n}@example.org` })),
    );
    for (const id of ids) {
      const { timeline } = await ended(id, 'sent');
      times.push(Date.parse(timeline.at(-1).at) - began);
    }
    expect(arrived).toHaveLength(25);
    // Twenty-four places behind the first one, a tenth of a second each.
    expect(Math.max(...times) - Math.min(...times)).toBeGreaterThan(2000);
    await configured({ providers: { perSecond: { smtp: 0 } } });
  });
});

describe('files of storage', () => {
  const content = 'line of text\n'.repeat(20_000);
  let owner: TestUser;
  let files = 0;
  beforeAll(async () => {
    owner = await platform.registerUser();
  });
  const upload = async () => {
    const data = Buffer.from(content).toString('base64');
    files += 1;
    const answer = await owner.api.post('/storage/file', {
      name: `report${files}.txt`,
      data,
      mimeType: 'text/plain',
    });
    expect(answer.status, answer.text).toBe(200);
    return (answer.body._id ?? answer.body.file?._id) as string;
  };

  test('go out with a mail through a mail server and through a provider', async () => {
    await useMail({ transport: 'smtp', failover: [] });
    const fileId = await upload();
    await ended(await send({ email: 'ada@example.org', attachments: [{ fileId }] }), 'sent');
    const [mail = ''] = arrived;
    expect(mail).toContain('filename=report1.txt');
    const [, encoded = ''] =
      /filename=report1\.txt[\s\S]*?\r\n\r\n([A-Za-z0-9+/=\r\n]+)/.exec(mail) ?? [];
    expect(Buffer.from(encoded, 'base64').toString()).toBe(content);
    await useMail({ transport: 'mailersend', failover: [] });
    second.answer = () => ({ status: 202, headers: { 'x-message-id': 'm1' } });
    await ended(
      await send({ email: 'ada@example.org', attachments: [{ fileId, filename: 'a.txt' }] }),
      'sent',
    );
    const [attached] = second.requests[0]?.json().attachments ?? [];
    expect(attached.filename).toBe('a.txt');
    expect(Buffer.from(attached.content, 'base64').toString()).toBe(content);
  });

  test('that are gone when the mail goes out fail it with the reason', async () => {
    await useMail({ transport: 'smtp', failover: [] });
    const fileId = await upload();
    const sendAt = new Date(Date.now() + 5_000).toISOString();
    const id = await send({ email: 'ada@example.org', attachments: [{ fileId }], sendAt });
    expect((await owner.api.delete(`/storage/file/${fileId}`)).status).toBe(200);
    expect(await ended(id, 'failed')).toMatchObject({
      error: expect.stringContaining('no longer there'),
    });
    expect(arrived).toEqual([]);
  });

  test('that the scanner has found something in go out with no mail', async () => {
    const scanner = await startFakeService(() => ({ status: 200, body: { result: 'infected' } }));
    const scan = (url: string) => platform.admin.patch('/config/storage', { scan: { url } });
    expect((await scan(`${scanner.url}/scan`)).status).toBe(200);
    const fileId = await upload();
    await waitFor(
      async () =>
        (await owner.api.get(`/storage/getFileUrl/${fileId}`)).body.code === 'FILE_INFECTED',
    );
    expect((await scan('')).status).toBe(200);
    await scanner.close();
    for (const transport of ['smtp', 'mailersend']) {
      await useMail({ transport, failover: [] });
      const id = await send({ email: 'ada@example.org', attachments: [{ fileId }] });
      expect(await ended(id, 'sent', 'failed')).toMatchObject({
        status: 'failed',
        error: expect.stringContaining('the scanner'),
      });
    }
    expect(arrived).toEqual([]);
    expect(second.requests).toEqual([]);
  });

  test('that nobody knows, or with content beside them, are refused', async () => {
    const at = (attachments: object[]) =>
      platform.admin.post('/email/send', {
        email: 'a@example.org',
        subject: 'x',
        body: 'y',
        attachments,
      });
    const fileId = '00000000-0000-4000-8000-000000000000';
    expect(await at([{ fileId }])).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'attachments.0.fileId' }] },
    });
    expect(await at([{ filename: 'x' }])).toMatchObject({ status: 400 });
    expect(await at([{ fileId: await upload(), content: 'aGk=' }])).toMatchObject({ status: 400 });
  });
});
