/** Text messages through providers, each against a server that speaks its wire form. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceAnswer,
  type ServiceRequest,
  startFakeService,
} from '../../../test/support/servers/fake-service.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { smsSegments } from './services/sms/providers.ts';

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
});
afterEach(async () => {
  fake.requests.length = 0;
  // A number that opted out would get nothing of what follows.
  await platform.admin.delete('/communications/suppressions', {
    query: { channel: 'sms', address: '+306900000000' },
  });
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

interface Provider {
  readonly providerName: string;
  readonly settings: object;
  readonly accepted: ServiceAnswer;
  readonly id: string;
  readonly refused: ServiceAnswer;
  /** A word of the refusal. */
  readonly word: string;
  readonly busy: ServiceAnswer;
  check(request: ServiceRequest, id: string): void;
}

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
const snsError = (status: number, code: string, text: string): ServiceAnswer => ({
  status,
  body: `<ErrorResponse><Error><Code>${code}</Code><Message>${text}</Message></Error></ErrorResponse>`,
});

const providers: readonly Provider[] = [
  {
    providerName: 'twilio',
    settings: { accountSID: 'AC1', authToken: 'the-key', phoneNumber: '+15005550006' },
    accepted: {
      status: 201,
      body: { sid: 'SM1', status: 'queued', error_code: null, num_segments: '1' },
    },
    id: 'SM1',
    refused: {
      status: 400,
      body: { code: 21610, message: 'Attempt to send to unsubscribed recipient', status: 400 },
    },
    word: '21610',
    busy: {
      status: 429,
      headers: { 'retry-after': '1' },
      body: { code: 20429, message: 'Too Many Requests', status: 429 },
    },
    check(request) {
      expect(request.path).toBe('/2010-04-01/Accounts/AC1/Messages.json');
      expect(request.headers.authorization).toBe(basic('AC1:the-key'));
      expect(request.form()).toEqual({
        To: '+306900000000',
        From: '+15005550006',
        Body: 'Hello & bye',
      });
    },
  },
  {
    providerName: 'messageBird',
    settings: { accessKeyId: 'the-key', originatorName: 'Shop' },
    accepted: { status: 201, body: { id: 'mb-1', recipients: { totalSentCount: 1, items: [] } } },
    id: 'mb-1',
    refused: {
      status: 422,
      body: {
        errors: [{ code: 10, description: 'recipients is not valid', parameter: 'recipients' }],
      },
    },
    word: 'recipients is not valid',
    busy: {
      status: 500,
      body: { errors: [{ code: 99, description: 'Internal error', parameter: null }] },
    },
    check(request, id) {
      expect(request.path).toBe('/messages');
      expect(request.headers.authorization).toBe('AccessKey the-key');
      expect(request.json()).toMatchObject({
        originator: 'Shop',
        recipients: ['306900000000'],
        body: 'Hello & bye',
        reference: id,
      });
    },
  },
  {
    providerName: 'clickSend',
    settings: { username: 'me', clicksendApiKey: 'the-key', sender: 'Shop' },
    accepted: {
      body: {
        response_code: 'SUCCESS',
        data: { messages: [{ message_id: 'cs-1', status: 'SUCCESS' }] },
      },
    },
    id: 'cs-1',
    refused: {
      body: { response_code: 'SUCCESS', data: { messages: [{ status: 'INVALID_RECIPIENT' }] } },
    },
    word: 'INVALID_RECIPIENT',
    busy: { status: 503, body: 'away' },
    check(request, id) {
      expect(request.path).toBe('/v3/sms/send');
      expect(request.headers.authorization).toBe(basic('me:the-key'));
      expect(request.json()).toEqual({
        messages: [
          {
            to: '+306900000000',
            body: 'Hello & bye',
            source: 'penstock',
            custom_string: id,
            from: 'Shop',
          },
        ],
      });
    },
  },
  {
    providerName: 'awsSns',
    settings: {
      region: 'eu-west-1',
      accessKeyId: 'AKID',
      secretAccessKey: 'the-key',
      senderId: 'Shop',
    },
    accepted: {
      body: '<PublishResponse><PublishResult><MessageId>sns-1</MessageId></PublishResult></PublishResponse>',
    },
    id: 'sns-1',
    refused: snsError(400, 'InvalidParameter', 'Invalid parameter: PhoneNumber'),
    word: 'PhoneNumber',
    busy: snsError(429, 'Throttled', 'Rate exceeded'),
    check(request) {
      expect(request.form()).toMatchObject({
        Action: 'Publish',
        PhoneNumber: '+306900000000',
        Message: 'Hello & bye',
        'MessageAttributes.entry.1.Value.StringValue': 'Transactional',
        'MessageAttributes.entry.2.Value.StringValue': 'Shop',
      });
      expect(request.headers.authorization).toMatch(/Credential=AKID\/\d{8}\/eu-west-1\/sns\//);
    },
  },
];

const send = () =>
  platform.admin.post('/sms/send', { to: '+306900000000', message: 'Hello & bye' });
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;
const until = (id: string, status: string) =>
  waitFor(async () => ((await message(id)).status === status ? message(id) : undefined), {
    what: `status ${status}`,
  });
const kinds = ({ timeline }: { timeline: readonly { kind: string }[] }) =>
  timeline.map(({ kind }) => kind);

describe.each(providers)(
  '$providerName',
  ({ providerName, settings, accepted, id, refused, word, busy, check }) => {
    beforeAll(async () => {
      const answer = await platform.admin.patch('/config/communications', {
        config: {
          sms: {
            providerName,
            maxPerRecipient: 1000,
            [providerName]: { ...settings, endpoint: fake.url },
          },
          providers: { allowInternal: true },
        },
      });
      expect(answer.status, answer.text).toBe(200);
    });

    test('takes a message in its own form', async () => {
      fake.answer = () => accepted;
      const sent = await send();
      expect(sent).toMatchObject({
        status: 200,
        body: { message: 'SMS sent successfully', messageId: expect.any(String) },
      });
      expect(await until(sent.body.messageId, 'sent')).toMatchObject({
        provider: providerName,
        providerId: id,
      });
      check(fake.requests[0]!, sent.body.messageId);
      expect(fake.requests).toHaveLength(1);
    });

    test('a refusal is 500 in its own words, once, and never names the key', async () => {
      fake.answer = () => refused;
      const answer = await send();
      expect(answer).toMatchObject({
        status: 500,
        body: { code: 'PROVIDER_REFUSED', message: expect.stringContaining(word) },
      });
      expect(answer.text).not.toContain('the-key');
      expect(fake.requests).toHaveLength(1);
      const [listed] = (
        await platform.admin.get('/communications/messages', {
          query: { status: 'failed', limit: 1 },
        })
      ).body.messages;
      expect(kinds(await message(listed._id))).toEqual(['queued', 'refused']);
    });

    test('a key that is refused is 500, and nothing is tried again', async () => {
      fake.answer = () =>
        providerName === 'awsSns'
          ? snsError(403, 'InvalidClientTokenId', 'The security token is not valid')
          : { status: 401, body: {} };
      const answer = await send();
      expect(answer).toMatchObject({ status: 500, body: { code: 'PROVIDER_AUTH' } });
      expect(answer.text).not.toContain('the-key');
      const [listed] = (
        await platform.admin.get('/communications/messages', { query: { limit: 1 } })
      ).body.messages;
      expect(listed).toMatchObject({ status: 'failed', attempts: 1, provider: providerName });
      expect(kinds(await message(listed._id))).toEqual(['queued', 'failed']);
      expect(fake.requests).toHaveLength(1);
    });

    test('a busy provider gets it later', async () => {
      let asked = 0;
      fake.answer = () => {
        asked += 1;
        return asked === 1 ? busy : accepted;
      };
      const { body, status } = await send();
      expect(status).toBe(200);
      const sent = await until(body.messageId, 'sent');
      expect(kinds(sent)).toEqual(['queued', 'tried', 'accepted']);
      expect(asked).toBe(2);
    });
  },
);

test('several numbers: none is sent while one is no number', async () => {
  fake.answer = () => providers[3]!.accepted;
  const bad = await platform.admin.post('/sms/sendMany', {
    to: ['+306900000000', '0690', 'x'],
    message: 'Hi',
  });
  expect(bad).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'to.1' }, { path: 'to.2' }] },
  });
  expect(fake.requests).toEqual([]);
  const { status, body } = await platform.admin.post('/sms/sendMany', {
    to: ['+306900000001', '+306900000002'],
    message: 'Hi',
  });
  expect(status).toBe(200);
  expect(body).toMatchObject({ successCount: 2, failureCount: 0 });
  expect(body.results).toMatchObject([
    { to: '+306900000001', success: true, messageId: expect.any(String) },
    { to: '+306900000002', success: true, messageId: expect.any(String) },
  ]);
  for (const { messageId } of body.results) await until(messageId, 'sent');
});

test('names and words that the database does not take are noted all the same', async () => {
  const { providerName, settings } = providers[1]!;
  await platform.admin.patch('/config/communications', {
    config: {
      sms: { providerName, [providerName]: { ...settings, endpoint: fake.url } },
      providers: { allowInternal: true },
    },
  });
  const odd = `a\0b\ud83d${'x'.repeat(5_000)}`;
  fake.answer = () => ({ status: 201, body: { id: odd } });
  const { body } = await send();
  expect((await until(body.messageId, 'sent')).providerId).toMatch(/^ab\ufffdx{290,300}$/);
  fake.answer = () => ({ status: 422, body: { errors: [{ code: 10, description: odd }] } });
  expect(await send()).toMatchObject({ status: 500, body: { code: 'PROVIDER_REFUSED' } });
});

test.each([
  ['Hello', 1],
  ['x'.repeat(160), 1],
  ['x'.repeat(161), 2],
  ['€'.repeat(81), 2],
  ['ж'.repeat(70), 1],
  ['ж'.repeat(71), 2],
  ['😀'.repeat(36), 2],
])('%s has %i parts', (text, parts) => expect(smsSegments(text)).toBe(parts));
