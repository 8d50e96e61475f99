/** Leaked passwords (OWASP ASVS 5.0, 6.2.12) without telling them: only five characters of the hash leave. */
import { createHash } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import { createBreachCheck } from './passwords.ts';

const leaked = 'a password that was leaked';
const digest = (password: string) =>
  createHash('sha1').update(password).digest('hex').toUpperCase();

let server: Server;
let url: string;
let asked: string[] = [];
let answer: (suffix: string) => { status: number; body: string };
beforeAll(async () => {
  server = createServer((request, response) => {
    asked.push(`${request.url} ${JSON.stringify(request.headers)}`);
    const { status, body } = answer(digest(leaked).slice(5));
    response.writeHead(status).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/range/`;
});
afterAll(() => void server.close());
beforeEach(() => {
  asked = [];
  answer = (suffix) => ({
    status: 200,
    body: `${'0'.repeat(35)}:3\r\n${suffix}:17\r\n${'F'.repeat(35)}:1`,
  });
});
const check = (more: object = {}) =>
  createBreachCheck(() => ({ enabled: true, url, failClosed: false, ...more }), silentLog);

test('finds a leaked password and no other', async () => {
  expect(await check()(leaked)).toBe(true);
  expect(await check()('a password that nobody has')).toBe(false);
});

test('tells five characters of the hash and nothing else', async () => {
  await check()(leaked);
  expect(asked).toHaveLength(1);
  expect(asked[0]).toMatch(new RegExp(`^/range/${digest(leaked).slice(0, 5)} `));
  expect(asked[0]).toContain('add-padding');
  expect(asked[0]).not.toContain(digest(leaked).slice(5));
  expect(asked[0]).not.toContain(leaked);
});

test('padding is no hit', async () => {
  answer = (suffix) => ({ status: 200, body: `${suffix}:0` });
  expect(await check()(leaked)).toBe(false);
});

test.each([
  ['an error', () => ({ status: 500, body: '' })],
  ['a redirect', () => ({ status: 302, body: '' })],
  ['an endless answer', () => ({ status: 200, body: 'x'.repeat(2_000_000) })],
])('%s: accepted, or refused with 503 where the configuration says so', async (_what, failing) => {
  answer = failing;
  expect(await check()(leaked)).toBe(false);
  await expect(check({ failClosed: true })(leaked)).rejects.toMatchObject({
    status: 503,
    code: 'BREACH_CHECK_UNAVAILABLE',
  });
});

test('asks nobody while it is off, and fails alike when nobody is there', async () => {
  expect(await check({ enabled: false })(leaked)).toBe(false);
  expect(asked).toEqual([]);
  expect(await check({ url: 'http://127.0.0.1:9/range/' })(leaked)).toBe(false);
});
