/** Rate limits: counted for the real address, answered with 429 and when to come back (spec/router.md 5.5, 10). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';

const budget = 5;
const tighten = async (platform: TestPlatform) =>
  expectStatus(
    await platform.admin.patch('/config/router', {
      rateLimit: { maxRequests: budget, resetInterval: 60 },
    }),
    200,
    'limit',
  );

describe('the rate limit of a platform without a proxy', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
    await tighten(platform);
  });
  afterAll(() => platform.close());

  it('lets exactly the budget of parallel requests pass, whatever addresses they claim', async () => {
    const ask = (_: unknown, index: number) =>
      platform.client.get('/authentication/user', {
        headers: { 'x-forwarded-for': `10.0.0.${index}`, origin: 'https://app.example.com' },
      });
    const answers = await Promise.all(Array.from({ length: 4 * budget }, ask));
    const refused = answers.filter(({ status }) => status === 429);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(budget);
    expect(refused).toHaveLength(3 * budget);
    for (const { body, headers } of refused) {
      expect(body).toMatchObject({ name: 'RATE_LIMIT', status: 429, message: 'Too Many Requests' });
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(headers.get('access-control-allow-origin')).not.toBeNull();
    }
  });

  it('counts unknown paths too', async () => {
    expect((await platform.client.get('/no/such/path')).status).toBe(429);
  });
});

describe('what operators set for users and for the ids of requests', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());
  const set = async (config: object) =>
    expectStatus(await platform.admin.patch('/config/router', { config }), 200, 'settings');

  it('a number of their own for users, whatever their address may', async () => {
    const [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
    const ask = (headers: Readonly<Record<string, string>> = {}) =>
      platform.client.get('/authentication/user', { headers });
    const as = ({ accessToken }: { accessToken: string }) => ({
      authorization: `Bearer ${accessToken}`,
    });
    const statuses = async (count: number, headers = {}) => {
      const answers = await Promise.all(Array.from({ length: count }, () => ask(headers)));
      return answers.map(({ status }) => status).sort();
    };
    await set({ rateLimit: { maxRequests: 100, perUser: 3, resetInterval: 600 } });
    expect(await statuses(5, as(ann))).toEqual([200, 200, 200, 429, 429]);
    expect(await statuses(3, as(bob))).toEqual([200, 200, 200]);
    expect(await statuses(10)).toEqual(Array.from({ length: 10 }, () => 401));
    const refused = await ask(as(ann));
    expect(refused.headers.get('ratelimit-limit')).toBe('3');
    await set({ rateLimit: { maxRequests: 1_000, perUser: 0, resetInterval: 1 } });
    await waitFor(async () => (await ask(as(ann))).status === 200);
  });

  it('how many people stand behind one address', async () => {
    const reset = async (): Promise<number> =>
      (
        await platform.client.post('/authentication/reset-password', {
          passwordResetToken: 'of-a-person',
          password: 'correct horse battery',
        })
      ).status;
    const office = await Promise.all(Array.from({ length: 40 }, reset));
    expect(new Set(office)).toEqual(new Set([400]));
    await set({ rateLimit: { peoplePerAddress: 1 } });
    expect(await reset()).toBe(429);
    await set({ rateLimit: { peoplePerAddress: 10 } });
    expect(await reset()).toBe(400);
  });

  it('limits of single operations in place of the declared ones', async () => {
    const id = 'authentication.password.reset';
    const route = '?path=/authentication/reset-password&action=POST';
    const listed = async () =>
      (await platform.admin.get(`/router/route-middlewares${route}`)).body.middlewares;
    const [declared] = await listed();
    expect(declared).toMatch(/^rateLimit:/);
    const add = (middlewares: readonly string[]) =>
      platform.admin.patch(`/router/patch-middleware${route}`, { middlewares });
    expectStatus(await add([declared, 'rateLimit:900/1']), 200, 'another limit beside it');
    const reset = async (): Promise<number> =>
      (
        await platform.client.post('/authentication/reset-password', {
          passwordResetToken: 'of-a-person',
          password: 'correct horse battery',
        })
      ).status;
    await set({ rateLimit: { operations: { [id]: '1/3600' } } });
    expect(await listed()).toEqual(['rateLimit:1/3600', 'rateLimit:900/1']);
    const ofTenPeople = await Promise.all(Array.from({ length: 11 }, reset));
    expect(ofTenPeople).toContain(429);
    await set({ rateLimit: { operations: { [id]: '1000/1' } } });
    expect(await listed()).toEqual(['rateLimit:1000/1', 'rateLimit:900/1']);
    expect(await reset()).toBe(400);
    // What the module declared is none that operators add: it would have no effect.
    expect(await add(['rateLimit:1000/1', declared])).toMatchObject({ status: 400 });
    await set({ rateLimit: { operations: { [id]: null } } });
    expect(await listed()).toEqual([declared, 'rateLimit:900/1']);
  });

  it.each([
    ['an operation that there is not', { 'no.such.operation': '5/1' }, /no\.such\.operation/],
    ['one without a limit of its own', { 'router.routes.list': '5/1' }, /routes\.list/],
    ['no numbers', { 'embeddings.search': 'many' }, /embeddings\.search/],
    ['more than an hour', { 'embeddings.search': '5/3601' }, /embeddings\.search/],
  ])('refuse %s', async (_what, operations, path) => {
    const answer = await platform.admin.patch('/config/router', {
      config: { rateLimit: { operations } },
    });
    expect(answer).toMatchObject({
      status: 400,
      body: { errors: [{ path: expect.stringMatching(path) }] },
    });
  });

  it('a header in which a proxy says the id', async () => {
    const ask = (headers: Readonly<Record<string, string>>) =>
      platform.client.get('/ready', { headers });
    const given = { 'cf-ray': 'ray-1', 'x-request-id': 'mine' };
    expect((await ask(given)).headers.get('x-request-id')).toBe('mine');
    await set({ requestId: { header: 'CF-Ray' } });
    const { headers } = await ask({ ...given, origin: 'https://app.example.com' });
    expect([headers.get('x-request-id'), headers.get('cf-ray')]).toEqual(['ray-1', 'ray-1']);
    expect(headers.get('access-control-expose-headers')).toMatch(/cf-ray/i);
    expect((await ask({ 'x-request-id': 'mine' })).headers.get('cf-ray')).toBe('mine');
    expect((await ask({ 'cf-ray': 'a b' })).headers.get('cf-ray')).toMatch(/^[0-9a-f-]{36}$/);
    const wrong = await platform.admin.patch('/config/router', {
      config: { requestId: { header: 'content-length' } },
    });
    expect(wrong).toMatchObject({
      status: 400,
      body: { errors: [{ path: expect.stringMatching('requestId.header') }] },
    });
    await set({ requestId: { header: '' } });
    expect((await ask(given)).headers.get('cf-ray')).toBeNull();
  });
});

describe('the rate limit behind a trusted proxy', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
    await tighten(platform);
  });
  afterAll(() => platform.close());

  it('counts each address by itself, the last one that the proxy did not add itself', async () => {
    const from = (forwarded: string) =>
      platform.client.get('/authentication/user', { headers: { 'x-forwarded-for': forwarded } });
    for (let index = 0; index < budget; index += 1)
      expect((await from('10.0.0.1')).status).toBe(401);
    expect((await from('10.0.0.1')).status).toBe(429);
    expect((await from('10.0.0.2')).status).toBe(401);
    expect((await from('203.0.113.9, 10.0.0.1')).status).toBe(429);
  });
});
