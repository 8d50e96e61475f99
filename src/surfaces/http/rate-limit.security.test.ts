/**
 * One budget per caller, whatever the caller varies. Guards against: CVE-2025-64526 (key taken from the body),
 * GHSA-444r-cwp2-x5xf (forwarding headers of untrusted peers), GHSA-775h-3xrc-c228 (other routes to the same thing).
 */
import { afterEach, expect, it } from 'vitest';
import {
  type FixtureOptions,
  type SurfaceFixture,
  startSurfaceFixture,
} from '../../../test/support/surface-fixture.ts';

let surfaces: SurfaceFixture | undefined;
afterEach(async () => {
  await surfaces?.close();
  surfaces = undefined;
});

/** A window so long that no test sees two of them. */
const start = async (requests: number, options: FixtureOptions = {}): Promise<SurfaceFixture> => {
  surfaces = await startSurfaceFixture({
    ...options,
    limits: () => ({ standard: { requests, seconds: 3_600 } }),
  });
  return surfaces;
};

const statuses = async (calls: readonly Promise<Response>[]): Promise<Record<number, number>> => {
  const counts: Record<number, number> = {};
  for (const { status } of await Promise.all(calls)) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
};

it('lets exactly the budget through under parallel load, and says when to come back', async () => {
  const { client, metrics } = await start(20);
  expect(await statuses(Array.from({ length: 60 }, () => client('/notes')))).toEqual({
    200: 20,
    429: 40,
  });
  const refused = await client('/notes', { headers: { origin: 'https://a.example' } });
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(refused.headers.get('ratelimit-limit')).toBe('20');
  expect(refused.headers.get('ratelimit-remaining')).toBe('0');
  expect(refused.headers.get('access-control-allow-origin')).toBe('*');
  expect(await refused.json()).toMatchObject({
    name: 'RATE_LIMIT',
    status: 429,
    message: 'Too Many Requests',
  });
  expect(await metrics.expose()).toContain('test_rate_limited_total{bucket="standard"} 41');
});

it('counts unknown paths, wrong methods, refused credentials and other spellings in the same budget', async () => {
  const { client } = await start(6);
  const calls = [
    () => client('/nothing'),
    () => client('/notes', { method: 'DELETE' }),
    () => client('/who/user', { headers: { authorization: 'Bearer bad' } }),
    () => client('/notes/'),
    () => client('/%6eotes'),
    () => client('/who/user'),
  ];
  const answers = [];
  for (const call of calls) answers.push((await call()).status);
  expect(answers).toEqual([404, 405, 401, 200, 200, 401]);
  expect((await client('/notes')).status).toBe(429);
  expect((await client('/nothing')).status).toBe(429);
  expect((await client('/who/user', { headers: { authorization: 'Bearer bad' } })).status).toBe(
    429,
  );
});

it('gives a user a budget beside that of the address', async () => {
  const { client } = await start(3);
  const user = { headers: { authorization: 'Bearer good' } };
  expect(await statuses(Array.from({ length: 5 }, () => client('/who/user', user)))).toEqual({
    200: 3,
    429: 2,
  });
  expect((await client('/notes')).status).toBe(200);
});

it('does not believe X-Forwarded-For from anybody', async () => {
  const { client } = await start(2);
  const calls = Array.from({ length: 5 }, (_, i) =>
    client('/notes', {
      headers: {
        'x-forwarded-for': `10.0.0.${i}`,
        'x-real-ip': `10.0.0.${i}`,
        'cf-connecting-ip': `10.0.0.${i}`,
      },
    }),
  );
  expect(await statuses(calls)).toEqual({ 200: 2, 429: 3 });
});

it('believes a trusted proxy, but only the part of the header that the proxy wrote', async () => {
  const { client } = await start(2, {
    settings: { trustedProxies: ['127.0.0.0/8', '10.9.0.0/16'] },
  });
  const from = (chain: string) => client('/notes', { headers: { 'x-forwarded-for': chain } });
  expect((await from('203.0.113.1')).status).toBe(200);
  expect((await from('198.51.100.7, 203.0.113.1')).status).toBe(200);
  expect((await from('198.51.100.8, 203.0.113.1, 10.9.0.1')).status).toBe(429);
  expect((await from('203.0.113.2')).status).toBe(200);
  expect((await from('nonsense, 203.0.113.2:5123')).status).toBe(200);
  expect((await from('203.0.113.2')).status).toBe(429);
});

it('counts proxies by number', async () => {
  const { client } = await start(1, { settings: { trustedProxies: ['2'] } });
  const from = (chain: string) => client('/notes', { headers: { 'x-forwarded-for': chain } });
  expect((await from('6.6.6.6, 203.0.113.1, 10.0.0.1')).status).toBe(200);
  expect((await from('7.7.7.7, 203.0.113.1, 10.0.0.1')).status).toBe(429);
});

it('limits what is sent per account and address, whatever the spelling', async () => {
  const { client } = await start(1_000);
  const reset = (email: string) =>
    client('/reset', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email, [email]: 1 }),
    });
  const answers = [];
  for (const email of ['ann@example.com', 'ANN@example.com ', 'ann@example.com'])
    answers.push((await reset(email)).status);
  expect(answers).toEqual([200, 200, 429]);
  expect((await reset('bob@example.com')).status).toBe(200);
  const others = await statuses(
    Array.from({ length: 30 }, (_, i) => reset(`user${i}@example.com`)),
  );
  expect(others).toEqual({ 200: 16, 429: 14 });
});
