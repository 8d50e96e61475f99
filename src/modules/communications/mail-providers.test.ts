/** Mail through HTTP providers, each against a server that speaks its wire form. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import {
  type FakeService,
  type ServiceAnswer,
  type ServiceRequest,
  startFakeService,
} from '../../../test/support/servers/fake-service.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
let fake: FakeService;
beforeAll(async () => {
  platform = await createTestPlatform();
  fake = await startFakeService();
});
afterEach(() => {
  fake.requests.length = 0;
});
afterAll(async () => {
  await platform.close();
  await fake.close();
});

/** A provider: how it is set, and how it says yes and no. */
interface Provider {
  readonly transport: string;
  readonly settings: () => object;
  readonly accepted: ServiceAnswer;
  readonly providerId: string | null;
  readonly refused: ServiceAnswer;
  readonly badKey: ServiceAnswer;
  readonly busy: ServiceAnswer;
  check(request: ServiceRequest, id: string): void | Promise<void>;
}

const pdf = Buffer.from('%PDF a file').toString('base64');

/** The parts of a multipart body by name. */
async function partsOf(request: ServiceRequest): Promise<FormData> {
  return new Response(new Uint8Array(request.bytes), {
    headers: { 'content-type': request.headers['content-type'] ?? '' },
  }).formData();
}

const providers: readonly Provider[] = [
  {
    transport: 'mailgun',
    settings: () => ({ apiKey: 'the-key', endpoint: fake.url }),
    accepted: { body: { id: '<20260101.1@example.com>', message: 'Queued. Thank you.' } },
    providerId: '20260101.1@example.com',
    refused: { status: 400, body: { message: "'to' parameter is not a valid address" } },
    badKey: { status: 401, body: 'Forbidden' },
    busy: { status: 429, body: { message: 'slow down' }, headers: { 'retry-after': '1' } },
    async check(request, id) {
      expect(request.path).toBe('/v3/example.com/messages');
      expect(request.headers.authorization).toBe(
        `Basic ${Buffer.from('api:the-key').toString('base64')}`,
      );
      const form = await partsOf(request);
      expect([form.get('from'), form.get('to'), form.get('subject')]).toEqual([
        'shop@example.com',
        'ada@example.org',
        'Hi Ada',
      ]);
      expect(form.get('html')).toBe('<p>Hello <b>Ada</b></p>');
      expect(form.get('text')).toBe('Hello Ada');
      expect([form.get('o:tracking-opens'), form.get('o:tracking-clicks')]).toEqual(['yes', 'no']);
      expect(form.getAll('cc')).toEqual(['cc@example.org']);
      expect(form.getAll('bcc')).toEqual(['bcc@example.org']);
      expect(form.get('h:Reply-To')).toBe('help@example.com');
      expect(form.get('h:Message-Id')).toBe(`<${id}@example.com>`);
      const file = form.get('attachment') as File;
      expect([file.name, file.type, await file.text()]).toEqual([
        'a.pdf',
        'application/pdf',
        '%PDF a file',
      ]);
    },
  },
  {
    transport: 'sendgrid',
    settings: () => ({ apiKey: 'the-key', endpoint: fake.url }),
    accepted: { status: 202, headers: { 'x-message-id': 'sg-1' } },
    providerId: 'sg-1',
    refused: {
      status: 400,
      body: {
        errors: [
          { message: 'Does not contain a valid address.', field: 'personalizations.0.to.0.email' },
        ],
      },
    },
    badKey: {
      status: 401,
      body: { errors: [{ message: 'The provided authorization grant is invalid' }] },
    },
    busy: {
      status: 429,
      body: { errors: [{ message: 'too many requests' }] },
      headers: { 'retry-after': '1' },
    },
    check(request, id) {
      expect(request.path).toBe('/v3/mail/send');
      expect(request.headers.authorization).toBe('Bearer the-key');
      expect(request.json()).toMatchObject({
        personalizations: [
          {
            to: [{ email: 'ada@example.org' }],
            cc: [{ email: 'cc@example.org' }],
            bcc: [{ email: 'bcc@example.org' }],
            custom_args: { penstock_id: id },
          },
        ],
        from: { email: 'shop@example.com' },
        reply_to: { email: 'help@example.com' },
        tracking_settings: { open_tracking: { enable: true }, click_tracking: { enable: false } },
        subject: 'Hi Ada',
        content: [
          { type: 'text/plain', value: 'Hello Ada' },
          { type: 'text/html', value: '<p>Hello <b>Ada</b></p>' },
        ],
        attachments: [
          { content: pdf, filename: 'a.pdf', type: 'application/pdf', disposition: 'attachment' },
        ],
      });
    },
  },
  {
    transport: 'amazonSes',
    settings: () => ({
      region: 'eu-west-1',
      accessKeyId: 'AKID',
      secretAccessKey: 'secret',
      endpoint: fake.url,
    }),
    accepted: { body: { MessageId: 'ses-1' } },
    providerId: 'ses-1',
    refused: {
      status: 400,
      headers: { 'x-amzn-errortype': 'MessageRejected' },
      body: { message: 'Email address is not verified.' },
    },
    badKey: {
      status: 403,
      headers: { 'x-amzn-errortype': 'SignatureDoesNotMatch' },
      body: { message: 'no' },
    },
    busy: {
      status: 429,
      headers: { 'x-amzn-errortype': 'TooManyRequestsException', 'retry-after': '1' },
      body: { message: 'Maximum sending rate exceeded.' },
    },
    check(request) {
      expect(request.path).toBe('/v2/email/outbound-emails');
      expect(request.headers.authorization).toMatch(
        /Credential=AKID\/\d{8}\/eu-west-1\/ses\/aws4_request/,
      );
      expect(request.json()).toMatchObject({
        FromEmailAddress: 'shop@example.com',
        Destination: {
          ToAddresses: ['ada@example.org'],
          CcAddresses: ['cc@example.org'],
          BccAddresses: ['bcc@example.org'],
        },
        ReplyToAddresses: ['help@example.com'],
        Content: {
          Simple: {
            Subject: { Data: 'Hi Ada' },
            Body: { Html: { Data: '<p>Hello <b>Ada</b></p>' }, Text: { Data: 'Hello Ada' } },
            Attachments: [{ RawContent: pdf, FileName: 'a.pdf' }],
          },
        },
      });
    },
  },
  {
    transport: 'mandrill',
    settings: () => ({ apiKey: 'the-key', endpoint: fake.url }),
    accepted: { body: [{ email: 'ada@example.org', status: 'sent', _id: 'md-1' }] },
    providerId: 'md-1',
    refused: {
      body: [
        { email: 'ada@example.org', status: 'rejected', reject_reason: 'hard-bounce', _id: 'md-2' },
      ],
    },
    badKey: {
      status: 500,
      body: { status: 'error', code: -1, name: 'Invalid_Key', message: 'Invalid API key' },
    },
    busy: {
      status: 500,
      body: { status: 'error', code: -99, name: 'GeneralError', message: 'try again' },
    },
    check(request) {
      expect(request.path).toBe('/api/1.0/messages/send.json');
      expect(request.json()).toMatchObject({
        key: 'the-key',
        message: {
          from_email: 'shop@example.com',
          to: [
            { email: 'ada@example.org', type: 'to' },
            { email: 'cc@example.org', type: 'cc' },
            { email: 'bcc@example.org', type: 'bcc' },
          ],
          headers: { 'Reply-To': 'help@example.com' },
          html: '<p>Hello <b>Ada</b></p>',
          attachments: [{ name: 'a.pdf', type: 'application/pdf', content: pdf }],
        },
      });
    },
  },
  {
    transport: 'mailersend',
    settings: () => ({ apiKey: 'the-key', endpoint: fake.url }),
    accepted: { status: 202, headers: { 'x-message-id': 'ms-1' } },
    providerId: 'ms-1',
    refused: {
      status: 422,
      body: {
        message: 'The given data was invalid.',
        errors: { 'to.0.email': ['must be a valid email address'] },
      },
    },
    badKey: { status: 401, body: { message: 'Unauthenticated.' } },
    busy: { status: 429, body: { message: 'Too Many Attempts.' }, headers: { 'retry-after': '1' } },
    check(request) {
      expect(request.path).toBe('/v1/email');
      expect(request.headers.authorization).toBe('Bearer the-key');
      expect(request.json()).toMatchObject({
        from: { email: 'shop@example.com' },
        to: [{ email: 'ada@example.org' }],
        cc: [{ email: 'cc@example.org' }],
        reply_to: { email: 'help@example.com' },
        subject: 'Hi Ada',
        html: '<p>Hello <b>Ada</b></p>',
        settings: { track_opens: true, track_clicks: false },
        attachments: [{ content: pdf, filename: 'a.pdf', disposition: 'attachment' }],
      });
    },
  },
];

const send = async (subject = 'Hi {{name}}'): Promise<string> => {
  const answer = await platform.admin.post('/email/send', {
    email: 'ada@example.org',
    subject,
    body: '<p>Hello <b>{{name}}</b></p>',
    sender: 'shop',
    variables: { name: 'Ada' },
    cc: ['cc@example.org'],
    bcc: ['bcc@example.org'],
    replyTo: 'help@example.com',
    tracking: { opens: true, clicks: false },
    attachments: [{ filename: 'a.pdf', contentType: 'application/pdf', content: pdf }],
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body.messageId;
};
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;
const until = (id: string, status: string) =>
  waitFor(async () => ((await message(id)).status === status ? message(id) : undefined), {
    what: `status ${status}`,
  });

describe.each(providers)(
  '$transport',
  ({ transport, settings, accepted, providerId, refused, badKey, busy, check }) => {
    beforeAll(async () => {
      const answer = await platform.admin.patch('/config/communications', {
        config: {
          email: {
            transport,
            sendingDomain: 'example.com',
            maxPerRecipient: 1000,
            transportSettings: { [transport]: settings() },
          },
          providers: { allowInternal: true },
        },
      });
      expect(answer.status, answer.text).toBe(200);
    });

    test('takes a mail with everything that it has', async () => {
      fake.answer = () => accepted;
      const id = await send();
      const sent = await until(id, 'sent');
      expect(sent).toMatchObject({ provider: transport, providerId, attempts: 1 });
      expect(fake.requests).toHaveLength(1);
      await check(fake.requests[0]!, id);
    });

    test('what it refuses for good fails at once, in its own words', async () => {
      fake.answer = () => refused;
      const failed = await until(await send(), 'failed');
      expect(failed).toMatchObject({ attempts: 1, provider: transport });
      expect(failed.timeline.map(({ kind }: { kind: string }) => kind)).toEqual([
        'queued',
        'refused',
      ]);
    });

    test('a busy provider is asked again, and one that failed', async () => {
      const failures = new Map<string, ServiceAnswer>([
        ['Busy', busy],
        ['Broken', { status: 503, body: '<html>away' }],
      ]);
      fake.answer = ({ text }) => {
        const [name, failure] = [...failures].find(([one]) => text.includes(one)) ?? [];
        if (name === undefined || failure === undefined) return accepted;
        failures.delete(name);
        return failure;
      };
      for (const id of await Promise.all([send('Busy'), send('Broken')])) {
        const sent = await until(id, 'sent');
        expect(sent.timeline.map(({ kind }: { kind: string }) => kind)).toEqual([
          'queued',
          'tried',
          'accepted',
        ]);
      }
      expect(fake.requests).toHaveLength(4);
    });

    test('an error page and a cut connection are tried again, and then told', async () => {
      await platform.admin.patch('/config/communications', {
        config: { orchestration: { retryAttempts: 0 } },
      });
      try {
        for (const answer of [{ status: 502, body: '<html>oops' }, { cut: true as const }]) {
          fake.answer = () => answer;
          const failed = await until(await send(), 'failed');
          expect(failed.timeline.at(-1).kind).toBe('failed');
          expect(JSON.stringify(failed)).not.toContain('the-key');
        }
      } finally {
        await platform.admin.patch('/config/communications', {
          config: { orchestration: { retryAttempts: 15 } },
        });
      }
    });

    test('a key that is refused is told at once and not tried again, until an operator sends it again', async () => {
      const health = async () =>
        (await platform.admin.get('/communications/health')).body.providers.find(
          ({ provider }: { provider: string }) => provider === transport,
        );
      fake.answer = () => badKey;
      const failed = await until(await send(), 'failed');
      expect(failed).toMatchObject({ attempts: 1, provider: transport });
      expect(failed.timeline.at(-1)).toMatchObject({
        kind: 'failed',
        detail: expect.stringContaining('our credentials'),
      });
      expect(JSON.stringify(failed)).not.toContain('the-key');
      expect(fake.requests).toHaveLength(1);
      expect(await health()).toMatchObject({ refusesKey: true });
      fake.answer = () => accepted;
      const again = await platform.admin.post(`/communications/messages/${failed._id}/retry`);
      expect(again.status).toBe(200);
      await until(failed._id, 'sent');
      expect(await health()).toMatchObject({ refusesKey: false, failures: 0 });
    });
  },
);
