/** Rate limits: counted for the real address, answered with 429 and when to come back (spec/router.md 5.5, 10). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

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
