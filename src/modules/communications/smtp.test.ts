/** Delivery through a real mail server: once, also when it was down; given up when it refuses for good. */
import type { AddressInfo } from 'node:net';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { freePort } from '../../../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
let server: SMTPServer | undefined;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());
afterEach(async () => {
  await new Promise<void>((resolve) => (server ? server.close(resolve) : resolve()));
  server = undefined;
});

interface Received {
  readonly recipients: readonly string[];
  readonly mail: Email;
}

/** A mail server on this port (a free one unless given) that takes everything, and what it took. */
async function startServer(
  options: SMTPServerOptions = {},
  port = 0,
): Promise<{ port: number; received: Received[] }> {
  const received: Received[] = [];
  server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    // Our side keeps a connection for the next mail.
    closeTimeout: 50,
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        void PostalMime.parse(Buffer.concat(chunks)).then((mail) => {
          received.push({
            recipients: session.envelope.rcptTo.map(({ address }) => address),
            mail,
          });
          done();
        });
      });
    },
    ...options,
  });
  // A client that goes away in the middle is part of these tests.
  server.on('error', () => undefined);
  await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve));
  return { port: (server.server.address() as AddressInfo).port, received };
}

const use = async (port: number, more: object = {}) => {
  const smtp = {
    host: '127.0.0.1',
    port,
    secure: false,
    ignoreTls: true,
    auth: { username: '', password: '' },
    ...more,
  };
  const answer = await platform.admin.patch('/config/communications', {
    config: { email: { sendingDomain: 'example.com', transportSettings: { smtp } } },
  });
  expect(answer.status, answer.text).toBe(200);
};
const send = async (body: object): Promise<string> =>
  (await platform.admin.post('/email/send', body)).body.messageId;
const message = async (id: string) =>
  (await platform.admin.get(`/communications/messages/${id}`)).body;
const until = (id: string, status: string) =>
  waitFor(async () => ((await message(id)).status === status ? message(id) : undefined), {
    timeoutMs: 20_000,
    what: `status ${status}`,
  });

test('a mail arrives as it was written, and is kept without its content', async () => {
  const { port, received } = await startServer();
  await use(port);
  const id = await send({
    email: 'ada@example.org',
    subject: 'Grüße {{name}}',
    body: '<p>Hello {{name}}</p>',
    variables: { name: 'Ada' },
    sender: 'shop',
  });
  const stored = await until(id, 'sent');
  expect(stored).not.toHaveProperty('content');
  const { recipients, mail } = received[0]!;
  expect(recipients).toEqual(['ada@example.org']);
  expect(mail).toMatchObject({
    subject: 'Grüße Ada',
    from: { address: 'shop@example.com' },
    to: [{ address: 'ada@example.org' }],
    messageId: `<${id}@example.com>`,
  });
  expect(mail.html).toContain('<p>Hello Ada</p>');
  expect(mail.text).toContain('Hello Ada');
  expect(received).toHaveLength(1);
});

test('no input becomes a header or a recipient (CWE-93, https://cwe.mitre.org/data/definitions/93.html)', async () => {
  const { port, received } = await startServer();
  await use(port);
  const evil = 'x\r\nBcc: eve@evil.example\r\nX-Evil: yes\r\n\r\nbody';
  await until(
    await send({
      email: 'ada@example.org',
      subject: `{{a}}${evil}`,
      body: '<p>{{a}}</p>',
      variables: { a: evil },
    }),
    'sent',
  );
  const { recipients, mail } = received[0]!;
  expect(recipients).toEqual(['ada@example.org']);
  expect(mail.bcc ?? []).toEqual([]);
  expect(mail.headers.map(({ key }) => key)).not.toContain('x-evil');
});

test('while the server is down nothing is lost; when it is back the mail arrives once', async () => {
  const port = await freePort();
  await use(port);
  const id = await send({ email: 'late@example.org', subject: 'x', body: 'y' });
  await waitFor(async () => (await message(id)).error !== null, { what: 'a failed attempt' });
  expect(await message(id)).toMatchObject({ status: 'queued' });
  const { received } = await startServer({}, port);
  const stored = await until(id, 'sent');
  expect(stored.attempts).toBeGreaterThan(1);
  expect(received).toHaveLength(1);
});

test('a recipient that the server refuses is given up at once; an operator may try again', async () => {
  let refuse = true;
  const { port, received } = await startServer({
    onRcptTo: (_address, _session, done) =>
      done(refuse ? Object.assign(new Error('no such user'), { responseCode: 550 }) : null),
  });
  await use(port);
  const id = await send({ email: 'gone@example.org', subject: 'x', body: 'y' });
  expect(await until(id, 'failed')).toMatchObject({
    attempts: 1,
    error: expect.stringContaining('550'),
  });
  refuse = false;
  expect((await platform.admin.post(`/communications/messages/${id}/retry`)).status).toBe(200);
  await until(id, 'sent');
  expect(received).toHaveLength(1);
});

test('after the last attempt a message has failed', async () => {
  await use(await freePort());
  await platform.admin.patch('/config/communications', { config: { messages: { retries: 0 } } });
  const id = await send({ email: 'never@example.org', subject: 'x', body: 'y' });
  expect(await until(id, 'failed')).toMatchObject({ attempts: 1, error: 'ESOCKET' });
  await platform.admin.patch('/config/communications', { config: { messages: { retries: 15 } } });
});

test('a password never goes over an open connection unless an operator wants that', async () => {
  const logins: string[] = [];
  const { port } = await startServer({
    authMethods: ['PLAIN'],
    allowInsecureAuth: true,
    onAuth({ username = '' }, _session, done) {
      logins.push(username);
      done(null, { user: username });
    },
  });
  const auth = { username: 'penstock', password: 'a password', method: 'PLAIN' };
  await use(port, { ignoreTls: false, auth });
  const id = await send({ email: 'safe@example.org', subject: 'x', body: 'y' });
  await waitFor(async () => (await message(id)).error !== null, { what: 'a failed attempt' });
  expect(logins).toEqual([]);
  await use(port, { ignoreTls: true, auth });
  await until(id, 'sent');
  expect(logins).toContain('penstock');
  const { body } = await platform.admin.get('/config/communications');
  expect(JSON.stringify(body)).not.toContain('a password');
});
