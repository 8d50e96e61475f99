/**
 * One caller, or everybody at once, asks for more than there is (security review 2026-11-22, F9; reliability review,
 * B8 and B14): others are answered, health answers, and whoever cannot be served in time is told so.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Answer } from '../test/support/api.ts';
import { openTestConnection } from '../test/support/connection.ts';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform({
    env: { TRUSTED_PROXIES: '127.0.0.1' },
    dearPasswords: true,
  });
});
afterAll(() => platform?.close());

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } });
const statuses = (answers: readonly Answer[]) =>
  [...new Set(answers.map(({ status }) => status))].sort();
const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/router', { config }), 200, 'configuration');

describe('health', () => {
  // A minute, so that the budget is used up however slow the machine is.
  beforeAll(() => configure({ rateLimit: { maxRequests: 100, resetInterval: 60 } }));

  test('answers on both surfaces while the same address has used up its budget', async () => {
    const floods = await Promise.all(
      Array.from({ length: 150 }, () => platform.client.get('/nowhere')),
    );
    expect(statuses(floods)).toEqual([404, 429]);
    const checks = ['/live', '/ready'].flatMap((path) =>
      [platform.client, platform.adminAnonymous].map((api) => () => api.get(path)),
    );
    const answers = await Promise.all(
      checks.flatMap((check) => Array.from({ length: 100 }, check)),
    );
    expect(statuses(answers)).toEqual([200]);
  });

  test('of the admin surface costs whoever presents a credential with it, as guessing does', async () => {
    const guess = () =>
      platform.adminAnonymous.get('/ready', {
        headers: { credential: 'cdt_guess', 'x-forwarded-for': '10.9.9.9' },
      });
    expect(statuses(await Promise.all(Array.from({ length: 150 }, guess)))).toEqual([200, 429]);
  });

  test('a flood of the client surface takes nothing of the budget of the admin surface', async () => {
    await Promise.all(
      Array.from({ length: 150 }, () => platform.client.get('/nowhere', from('10.0.0.7'))),
    );
    expect((await platform.adminAnonymous.get('/nowhere', from('10.0.0.7'))).status).toBe(404);
  });
});

describe('calls at once', () => {
  const crud = { create: { enabled: true }, read: { enabled: true } };
  beforeAll(async () => {
    await configure({
      rateLimit: { maxRequests: 100_000, resetInterval: 1 },
      requests: { heavyCallsPerCaller: 2, maxWaitSeconds: 1 },
    });
    await platform.createSchema({
      name: 'Plain',
      fields: { title: 'String' },
      conduitOptions: { cms: { enabled: true, crudOperations: crud } },
    });
    await platform.createSchema({
      name: 'Slow',
      fields: { title: 'String' },
      conduitOptions: { cms: { enabled: true, crudOperations: crud } },
    });
    expectStatus(await platform.client.post('/database/Slow', { title: 'one' }), 200, 'a record');
    await slowDown('Slow');
  });

  test('of one caller are bounded: the others wait in turn, then hear 429, and nobody else waits', async () => {
    const greedy = Promise.all(
      Array.from({ length: 40 }, () => platform.client.get('/database/Slow', from('10.1.0.1'))),
    );
    await sleep(100);
    // In one line with the greedy they would hear 429 or 503 after their second.
    const others = await Promise.all([
      platform.client.get('/database/Plain', from('10.1.0.2')),
      platform.client.get('/ready', from('10.1.0.1')),
    ]);
    const answers = await greedy;
    expect(statuses(others)).toEqual([200]);
    expect(statuses(answers)).toEqual([200, 429]);
    for (const { status, headers } of answers)
      if (status === 429) expect(headers.get('retry-after')).toBe('1');
  });

  test('of one caller leave room for short ones, over GraphQL too', async () => {
    const made = await platform.client.post('/database/Plain', { title: 'one' });
    const document =
      'query One($id: ID!) { getDatabasePlainId(id: $id) { _id } } query Many { getDatabasePlain { documents { _id } } }';
    const ask = (operationName: string) =>
      platform.client.post(
        '/graphql',
        { query: document, operationName, variables: { id: made.body._id } },
        from('10.1.0.3'),
      );
    // Read once, so that it is known what its operations ask for.
    expect((await ask('One')).body).toEqual({
      data: { getDatabasePlainId: { _id: made.body._id } },
    });
    const slow = Promise.all(
      Array.from({ length: 4 }, () => platform.client.get('/database/Slow', from('10.1.0.3'))),
    );
    const order: string[] = [];
    const noted = (name: string, work: Promise<unknown>) => work.then(() => order.push(name));
    await sleep(50);
    await Promise.all([
      noted('slow', slow),
      noted('short', ask('One')),
      noted('list', ask('Many')),
    ]);
    expect(order[0]).toBe('short');
  });

  test('of everybody are bounded too: what cannot be worked on in time is 503 with Retry-After', async () => {
    await configure({ requests: { callsAtOnce: 4, heavyCallsPerCaller: 8, maxWaitSeconds: 1 } });
    const many = Array.from({ length: 40 }, (_, i) =>
      platform.client.get('/database/Slow', from(`10.2.0.${i}`)),
    );
    const answers = await Promise.all(many);
    await configure({ requests: { callsAtOnce: 256, heavyCallsPerCaller: 8, maxWaitSeconds: 2 } });
    expect(statuses(answers)).toEqual([200, 503]);
    for (const { status, headers } of answers)
      if (status === 503) expect(headers.get('retry-after')).toBe('1');
  });

  /** Puts a pause of half a second behind each read of the table. */
  async function slowDown(name: string): Promise<void> {
    const connection = await openTestConnection(platform.databaseUrl ?? '');
    await connection.query(`alter table app."${name}" rename to "${name}_rows"`);
    await connection.query(
      `create view app."${name}" as select r.* from app."${name}_rows" r, (select pg_sleep(0.5)) pause`,
    );
    await connection.close();
  }
});

test('a right password is checked in bounded time while 200 addresses try wrong ones', async () => {
  const { email, password } = await platform.registerUser({ from: '10.3.0.1' });
  const attempt = (address: string, guess: string) =>
    platform.client.post('/authentication/local', { email, password: guess }, from(address));
  const wrong = Array.from({ length: 200 }, (_, i) =>
    platform.client.post(
      '/authentication/local',
      { email: `${i}@example.com`, password: 'wrong-Guess-1' },
      from(`10.4.0.${i}`),
    ),
  );
  const began = performance.now();
  const right = await attempt('10.3.0.1', password);
  const took = performance.now() - began;
  expect([200, 503]).toContain(right.status);
  if (right.status === 503) expect(right.headers.get('retry-after')).toBe('2');
  expect(took).toBeLessThan(10_000);
  for (const status of statuses(await Promise.all(wrong))) expect([401, 503]).toContain(status);
});

/** What comes back to a client that sends half a second apart, when the connection is closed. */
async function trickle(address: string, head: readonly string[], bytes: string): Promise<string> {
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  let answer = '';
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString();
  });
  socket.on('error', () => undefined);
  socket.write([...head, 'Host: x', '', ''].join('\r\n'));
  const drip = setInterval(() => socket.write(bytes), 500);
  await new Promise<void>((resolve) => void socket.once('close', () => resolve()));
  clearInterval(drip);
  return answer;
}

test('bodies that trickle in are given up, and their connections closed', {
  timeout: 60_000,
}, async () => {
  const whole = [
    'POST /authentication/local HTTP/1.1',
    'Content-Type: application/json',
    'Content-Length: 900',
  ];
  const streamed = [
    'POST /database/schemas/Plain/docs/import HTTP/1.1',
    `masterkey: ${platform.masterKey}`,
    'Content-Type: text/csv',
    'Transfer-Encoding: chunked',
  ];
  const answers = await Promise.all([
    trickle(platform.addresses.client, whole, ' '),
    trickle(platform.addresses.admin, streamed, '6\r\ntitle\n\r\n'),
  ]);
  for (const answer of answers) {
    expect(answer).toMatch(/^HTTP\/1\.1 408 /);
    expect(answer).toContain('"code":"REQUEST_TIMEOUT"');
  }
});
