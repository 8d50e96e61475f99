/** Strict-Transport-Security binds browsers for a year and, with subdomains, other people's hosts: it is sent when it is asked for. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

describe('Strict-Transport-Security', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform?.close());
  const sent = async (api: Api): Promise<(string | null)[]> =>
    [await api.get('/live'), await api.get('/nowhere')].map(({ headers }) =>
      headers.get('strict-transport-security'),
    );

  it('is not sent unless it is set', async () => {
    expect(await sent(platform.client)).toEqual([null, null]);
    expect(await sent(platform.admin)).toEqual([null, null]);
  });

  it.each([
    ['router', { enabled: true }, 'max-age=31536000'],
    ['router', { maxAge: 60, includeSubDomains: true }, 'max-age=60; includeSubDomains'],
    [
      'router',
      { maxAge: 63_072_000, preload: true },
      'max-age=63072000; includeSubDomains; preload',
    ],
    ['admin', { enabled: true, maxAge: 0 }, 'max-age=0'],
  ])('of %s says what %j means', async (module, hsts, value) => {
    expect((await platform.admin.patch(`/config/${module}`, { config: { hsts } })).status).toBe(
      200,
    );
    expect(await sent(module === 'router' ? platform.client : platform.admin)).toEqual([
      value,
      value,
    ]);
  });

  it('goes on no list of browsers without subdomains and a year', async () => {
    for (const hsts of [
      { preload: true, includeSubDomains: false },
      { preload: true, maxAge: 60 },
    ]) {
      const refused = await platform.admin.patch('/config/router', {
        config: { hsts: { enabled: true, includeSubDomains: true, ...hsts } },
      });
      expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: 'hsts.preload' }] } });
    }
  });
});
