/**
 * What was written to whom is for those who may read messages alone: not for the log, whatever goes wrong, and not in
 * clear where it is stored (spec/communications.md section 8, no. 21; https://cwe.mitre.org/data/definitions/532.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLogger } from '../../src/kernel/telemetry/create-logger.ts';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceAnswer,
  startFakeService,
} from '../../test/support/servers/fake-service.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const lines: string[] = [];
const log = createLogger({ logLevel: 'debug' }, { write: (line) => void lines.push(line) });

let platform: TestPlatform;
let provider: FakeService;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform({ log });
  await liftLimits(platform.admin);
  provider = await startFakeService();
  sql = await openTestConnection(platform.databaseUrl ?? '');
});
afterAll(async () => {
  await sql?.close();
  await platform?.close();
  await provider?.close();
});

const configure = async (config: object): Promise<void> => {
  const { status, text } = await platform.admin.patch('/config/communications', { config });
  expect(status, text).toBe(200);
};
const ended = new Set(['captured', 'sent', 'failed']);
const end = (id: string): Promise<string> =>
  waitFor(
    async () => {
      const { status } = (await platform.admin.get(`/communications/messages/${id}`)).body;
      return ended.has(status) ? (status as string) : undefined;
    },
    { what: 'the end of a message' },
  );

const address = 'zerlina.quartz@private.example';
const number = '+306900112233';
const [title, words] = ['Vermilion heading', 'the albatross flies at dawn'];
const said = [address, 'zerlina', 'private.example', number, number.slice(1), title, words];
const inText = (text: string): string[] => said.filter((one) => text.includes(one));

const device = 'device-token-of-zerlina';
let userId: string;
const sendAll = async (): Promise<string[]> => {
  const mail = { email: address, subject: title, body: words };
  const sent = [
    await platform.admin.post('/email/send', mail),
    await platform.admin.post('/email/test', mail),
    await platform.admin.post('/sms/send', { to: number, message: words }),
    await platform.admin.post('/push/send', { userId, title, body: words }),
  ];
  const { messages } = (
    await platform.admin.get('/communications/messages', { query: { limit: 4 } })
  ).body;
  expect(sent.every(({ status }) => status === 200 || status === 500)).toBe(true);
  return Promise.all(messages.map(({ _id }: { _id: string }) => end(_id)));
};

test('the log names nobody who gets a message and nothing that it says, whatever a provider does', async () => {
  const user = await platform.registerUser();
  userId = user.userId;
  await user.api.post('/token', { token: device, platform: 'ANDROID' });
  expect(await sendAll()).toEqual(Array(4).fill('captured'));

  await configure({
    email: {
      ...{ transport: 'sendgrid', sendingDomain: 'example.com', maxPerRecipient: 100 },
      transportSettings: { sendgrid: { apiKey: 'key', endpoint: provider.url } },
    },
    sms: {
      ...{ providerName: 'twilio', maxPerRecipient: 100 },
      twilio: {
        accountSID: 'AC1',
        authToken: 'key',
        phoneNumber: '+15005550006',
        endpoint: provider.url,
      },
    },
    pushNotifications: {
      providerName: 'onesignal',
      onesignal: { appId: 'app', apiKey: 'key', endpoint: provider.url },
    },
    providers: { allowInternal: true },
    orchestration: { retryAttempts: 0 },
  });
  // Providers say back what they were given.
  const echo = `no: ${address} ${number} ${title} ${words} ${device}`;
  const answers: readonly ServiceAnswer[] = [
    { status: 400, body: { errors: [{ message: echo }], message: echo, code: 21211 } },
    { status: 401, body: { errors: [{ message: echo }], message: echo } },
    { status: 503, body: echo },
    { cut: true },
  ];
  for (const answer of answers) {
    provider.answer = () => answer;
    expect(await sendAll(), JSON.stringify(answer)).toEqual(Array(4).fill('failed'));
  }
  // One who gets too many.
  await configure({ email: { maxPerRecipient: 1 }, sms: { maxPerRecipient: 1 } });
  expect(
    (await platform.admin.post('/email/send', { email: address, subject: title, body: words }))
      .status,
  ).toBe(429);
  expect((await platform.admin.post('/sms/send', { to: number, message: words })).status).toBe(429);

  const text = lines.join('');
  expect(text).toContain('A provider of messages refuses our credentials');
  expect(text).toContain('A message was dropped');
  expect(lines.filter((line) => inText(line).length > 0 || line.includes(device))).toEqual([]);
});

// `error` is what the provider said.
test('what is stored says nothing of a message in clear, and jobs and events not to whom it goes', async () => {
  const rows = async (table: string): Promise<string> =>
    JSON.stringify(
      await sql.query(
        `select ((to_jsonb(t) - 'error') #- '{payload,error}')::text as text from ${table} t`,
      ),
    );
  const messages = await rows('penstock.messages');
  expect(messages).toContain(address);
  const content = (text: string) => [title, words].filter((one) => text.includes(one));
  expect(content(messages)).toEqual([]);
  expect(content(await rows('penstock.audit_log'))).toEqual([]);
  for (const table of ['penstock.outbox', 'penstock.queue_items'])
    expect(inText(await rows(table)), table).toEqual([]);
});
