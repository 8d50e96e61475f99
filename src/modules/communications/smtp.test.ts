/** Delivery through a real mail server: once, also when it was down; given up when it refuses for good. */
import { createHash, generateKeyPairSync, type KeyObject, verify } from 'node:crypto';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openTestConnection } from '../../../test/support/connection.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { pauseBefore } from './services/attempts.ts';
import type { OutgoingMail } from './services/email/mail.ts';
import { createSmtp, type SmtpSettings } from './services/email/smtp.ts';
import { DeliveryError } from './services/providers/outcome.ts';

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
  readonly raw: string;
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
            raw: Buffer.concat(chunks).toString('latin1'),
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

test('a mail that is taken for its copies alone has not reached its recipient', async () => {
  const { port, received } = await startServer({
    onRcptTo({ address }, _session, done) {
      const responseCode = address.startsWith('nobody') ? 550 : 450;
      const isTaken = address.startsWith('ada');
      done(isTaken ? null : Object.assign(new Error('5.1.1 not here'), { responseCode }));
    },
  });
  await use(port);
  const to = (email: string, cc: string) =>
    send({ email, cc: [cc], subject: 'Hi', body: 'x', sender: 'shop' });
  const failed = await until(await to('nobody@example.org', 'ada@example.org'), 'failed');
  expect(failed.error).toContain('550');
  const { body } = await platform.admin.get(
    '/communications/suppressions?search=nobody@example.org',
  );
  expect(body.suppressions).toMatchObject([{ reason: 'bounce' }]);
  const busy = await until(await to('busy@example.org', 'ada@example.org'), 'failed');
  expect(busy.error).toMatch(/for the copies alone.*450/);
  const sent = await until(await to('ada@example.org', 'nobody@example.org'), 'sent');
  expect(sent.timeline.at(-1).detail).toMatch(/not for nobody@example.org: 550/);
  expect(received.map(({ recipients }) => recipients)).toEqual([
    ['ada@example.org'],
    ['ada@example.org'],
    ['ada@example.org'],
  ]);
});

const noFiles = { readable: async () => undefined, read: async () => undefined };
const settingsFor = (port: number, timeoutMs = 10_000) =>
  ({
    server: {
      ...{ host: '127.0.0.1', port, secure: false, ignoreTls: true },
      ...{ allowInvalidCertificates: false, auth: { username: '', password: '', method: 'PLAIN' } },
    },
    dkim: { selector: '', privateKey: '' },
    domain: 'example.com',
    timeoutMs,
  }) as SmtpSettings;
const mailTo = (n: number): OutgoingMail => ({
  ...{
    id: String(n),
    to: `a${n}@example.org`,
    from: 'shop@example.com',
    subject: 'Hi',
    text: 'x',
  },
  ...{ html: undefined, cc: [], bcc: [], replyTo: undefined, headers: {}, attachments: [] },
  ...{ tracking: {}, messageId: `<${n}@example.com>` },
});

test('mails that wait for a connection when the settings change go out all the same', async () => {
  const arrived = Promise.withResolvers<void>();
  const open = Promise.withResolvers<void>();
  const { port } = await startServer({
    onData(stream, _session, done) {
      arrived.resolve();
      stream.resume().on('end', () => void open.promise.then(() => done()));
    },
  });
  let current = settingsFor(port);
  const smtp = createSmtp(noFiles, () => current);
  // More than there are connections.
  const sending = Array.from({ length: 8 }, (_, n) => smtp.deliver(mailTo(n)));
  await arrived.promise;
  current = settingsFor(port);
  sending.push(smtp.deliver(mailTo(9)));
  open.resolve();
  for (const ended of await Promise.all(sending)) expect(ended.outcome).toBe('accepted');
  smtp.close();
});

test('a server that says a word now and then and comes to no end keeps no mail for ever', async () => {
  const sockets: Socket[] = [];
  const slow = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined).write('220 slow\r\n');
    socket.once('data', () => {
      const talking = setInterval(() => socket.write('250-and\r\n'), 5);
      socket.once('close', () => clearInterval(talking));
    });
  });
  await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve));
  const settings = settingsFor((slow.address() as AddressInfo).port, 50);
  const smtp = createSmtp(noFiles, () => settings);
  await expect(smtp.deliver(mailTo(1))).rejects.toMatchObject({ name: 'DeliveryError' });
  smtp.close();
  for (const socket of sockets) socket.destroy();
  slow.close();
});

test('after the last attempt a message has failed', async () => {
  await use(await freePort());
  await platform.admin.patch('/config/communications', {
    config: { orchestration: { retryAttempts: 0 } },
  });
  const id = await send({ email: 'never@example.org', subject: 'x', body: 'y' });
  expect(await until(id, 'failed')).toMatchObject({ attempts: 1, error: 'ESOCKET' });
  await platform.admin.patch('/config/communications', {
    config: { orchestration: { retryAttempts: 15 } },
  });
});

test('a delivery that failed is tried again as often as `retryAttempts` says, first after `retryDelay`', async () => {
  await use(await freePort());
  const retry = (config: object) =>
    platform.admin.patch('/config/communications', { config: { orchestration: config } });
  expect((await retry({ retryAttempts: 2, retryDelay: 100 })).status).toBe(200);
  const soon = await send({ email: 'soon@example.org', subject: 'x', body: 'y' });
  const { timeline, attempts } = await until(soon, 'failed');
  expect(attempts).toBe(3);
  expect(timeline.map(({ kind }: { kind: string }) => kind)).toEqual([
    ...['queued', 'tried', 'tried', 'failed'],
  ]);
  await retry({ retryAttempts: 15, retryDelay: 3_600_000 });
  const later = await send({ email: 'later@example.org', subject: 'x', body: 'y' });
  await waitFor(async () => (await message(later)).error !== null, { what: 'a failed attempt' });
  const sql = await openTestConnection(platform.databaseUrl ?? '');
  const pause = waitFor(async () => {
    const rows = await sql.query(
      `select extract(epoch from start_after - created_on)::integer as seconds from penstock_jobs.job
       where name = 'communications.deliver' and data ->> 'id' = $1 and state = 'created'`,
      [later],
    );
    return rows[0];
  }).finally(() => sql.close());
  await retry({ retryAttempts: 15, retryDelay: 1000 });
  expect(await pause).toMatchObject({ seconds: 3600 });
  expect((await message(later)).status).toBe('queued');
  await platform.admin.post(`/communications/messages/${later}/cancel`);
});

test('pauses grow twofold, none above an hour, unless the provider asks for another', () => {
  const seconds = (attempts: number, retryAfter?: number) =>
    pauseBefore(new DeliveryError('transient', 'smtp', 'x', retryAfter), attempts, 2000);
  for (const [attempts, shortest] of [
    [1, 2],
    [2, 4],
    [5, 32],
  ] as const) {
    expect(seconds(attempts)).toBeGreaterThanOrEqual(shortest);
    expect(seconds(attempts)).toBeLessThanOrEqual(shortest * 1.25);
  }
  expect(seconds(40)).toBe(3600);
  expect(seconds(1, 77)).toBe(77);
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

test('a certificate that nobody vouches for is refused, unless an operator wants it; what logs in logs in again', async () => {
  const logins: string[] = [];
  const { port, received } = await startServer({
    disabledCommands: [],
    authMethods: ['PLAIN'],
    onAuth({ username = '', password = '' }, _session, done) {
      logins.push(`${username} ${password}`);
      done(null, { user: username });
    },
  });
  const auth = { username: 'penstock', password: 'a password', method: 'PLAIN' };
  await use(port, { ignoreTls: false, auth });
  const id = await send({ email: 'certificate@example.org', subject: 'x', body: 'y' });
  await waitFor(async () => (await message(id)).error !== null, { what: 'a failed attempt' });
  expect([logins, received]).toEqual([[], []]);
  await use(port, { ignoreTls: false, allowInvalidCertificates: true, auth });
  await until(id, 'sent');
  // What the first connection did to its settings is nothing to the second.
  const before = logins.length;
  const config = { orchestration: { timeout: 29_000 } };
  await platform.admin.patch('/config/communications', { config });
  await until(await send({ email: 'again@example.org', subject: 'x', body: 'y' }), 'sent');
  expect(logins.length).toBeGreaterThan(before);
  expect(new Set(logins)).toEqual(new Set(['penstock a password']));
  await use(port, { allowInvalidCertificates: false });
});

/** Whether a DKIM signature (RFC 6376, relaxed on both sides) is that of this mail: written here once more, from the RFC. */
function verifyDkim(raw: string, publicKey: KeyObject): { readonly signed: readonly string[] } {
  const split = raw.indexOf('\r\n\r\n');
  const fields = raw
    .slice(0, split)
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n')
    .map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1),
    ]);
  const relaxed = (value: string) => value.replace(/[ \t]+/g, ' ').trim();
  const field = (name: string) => fields.findLast(([other]) => other === name)?.[1];
  const signature = relaxed(field('dkim-signature') ?? '');
  const tags = new Map(
    signature.split(';').map((tag) => {
      const [name = '', ...value] = tag.split('=');
      return [name.trim(), value.join('=').replace(/\s+/g, '')];
    }),
  );
  const body = raw
    .slice(split + 4)
    .split('\r\n')
    .map((line) => line.replace(/[ \t]+/g, ' ').replace(/ $/, ''))
    .join('\r\n')
    .replace(/(?:\r\n)+$/, '');
  const hash = createHash('sha256').update(`${body}\r\n`, 'latin1').digest('base64');
  expect(tags.get('bh')).toBe(hash);
  const signed = (tags.get('h') ?? '').toLowerCase().split(':');
  const present = signed.filter((name) => field(name) !== undefined);
  const text = [
    ...present.map((name) => `${name}:${relaxed(field(name) ?? '')}\r\n`),
    `dkim-signature:${signature.replace(/\bb=[^;]*$/, 'b=')}`,
  ].join('');
  const genuine = verify(
    'sha256',
    Buffer.from(text, 'latin1'),
    publicKey,
    Buffer.from(tags.get('b') ?? '', 'base64'),
  );
  expect(genuine).toBe(true);
  expect([tags.get('d'), tags.get('s'), tags.get('a')]).toEqual([
    'example.com',
    'key1',
    'rsa-sha256',
  ]);
  return { signed: present };
}

test('mails are signed where we sign, with how to leave a list and to which thread they belong', async () => {
  const { port, received } = await startServer();
  await use(port);
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  const set = (dkim: object) =>
    platform.admin.patch('/config/communications', { config: { email: { dkim } } });
  expect(await set({ selector: 'key1', privateKey: 'no key' })).toMatchObject({
    status: 400,
    body: { errors: [{ path: expect.stringContaining('dkim.privateKey') }] },
  });
  // As consoles hand keys out.
  expect((await set({ selector: 'key1', privateKey: pem.replaceAll('\n', '\\n') })).status).toBe(
    200,
  );
  const id = await send({
    email: 'ada@example.org',
    subject: 'Grüße  an   alle',
    body: '<p>Hello   Ada</p>\n\n',
    category: 'news',
    inReplyTo: '<first@example.com>',
  });
  await until(id, 'sent');
  const { raw, mail } = received[0]!;
  const { signed } = verifyDkim(raw, publicKey);
  expect(signed).toEqual(
    expect.arrayContaining(['from', 'list-unsubscribe', 'list-unsubscribe-post', 'in-reply-to']),
  );
  expect(mail).toMatchObject({
    inReplyTo: '<first@example.com>',
    references: '<first@example.com>',
  });
  const header = mail.headers.find(({ key }) => key === 'list-unsubscribe')?.value;
  expect(header).toMatch(/^<http:\/\/127\.0\.0\.1:\d+\/hook\/communications\/unsubscribe\//);
  await set({ selector: '', privateKey: '' });
});
