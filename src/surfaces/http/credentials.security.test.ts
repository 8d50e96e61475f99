/**
 * Credentials that are malformed, foreign or insufficient are 401 or 403, never 500 and never let through.
 * Guards against: GHSA-8fpg-xm3f-6cx3 and GHSA-xmf8-cvqr-rfgj (exceptions on malformed Authorization),
 * GHSA-wjqw-r9x4-j59v (empty credentials pass).
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseRaw, sendRaw } from '../../../test/support/raw-http.ts';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture();
});
afterAll(() => surfaces.close());

const bearer = (token: string): RequestInit => ({ headers: { authorization: `Bearer ${token}` } });

describe('Authorization header', () => {
  const malformed: readonly [string, string][] = [
    ['empty', ''],
    ['scheme only', 'Bearer'],
    ['no token', 'Bearer '],
    ['other scheme', 'Basic dTpw'],
    ['token only', 'good'],
    ['two spaces', 'Bearer  good'],
    ['tab', 'Bearer\tgood'],
    ['space in token', 'Bearer go od'],
    ['64 KB', `Bearer ${'x'.repeat(65_536)}`],
    ['bytes above 127', 'Bearer g\u00f6\u00f6d'],
    ['comma', 'Bearer good, Bearer good'],
  ];

  it.each(malformed)('%s is 401 wherever a user is expected or possible', async (_name, value) => {
    for (const path of [
      '/who/user',
      '/who/optionalUser',
      '/who/partialUser',
      '/who/refreshToken',
    ]) {
      const raw = await sendRaw(
        surfaces.clientAddress,
        Buffer.from(
          `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ${value}\r\n\r\n`,
          'latin1',
        ),
      );
      const { status, body } = parseRaw(raw);
      expect(status, path).toBe(401);
      expect(JSON.parse(body)).toMatchObject({
        name: 'UNAUTHORIZED',
        status: 401,
        code: 'UNAUTHORIZED',
        error: expect.any(String),
      });
    }
  });

  it('given twice is 401, whichever is right', async () => {
    for (const [first, second] of [
      ['good', 'bad'],
      ['bad', 'good'],
      ['good', 'good'],
    ]) {
      const raw = await sendRaw(
        surfaces.clientAddress,
        `GET /who/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${first}\r\nauthorization: Bearer ${second}\r\n\r\n`,
      );
      expect(parseRaw(raw).status).toBe(401);
    }
  });

  it('is not looked at where nobody needs to be known', async () => {
    expect(
      (await surfaces.client('/who/public', { headers: { authorization: 'nonsense' } })).status,
    ).toBe(200);
  });

  it('takes its scheme without case, and an access token from the cookie', async () => {
    expect(
      (await surfaces.client('/who/user', { headers: { authorization: 'bEARER good' } })).status,
    ).toBe(200);
    expect(
      (await surfaces.client('/who/user', { headers: { cookie: 'a=b; accessToken=good' } })).status,
    ).toBe(200);
    expect(
      (await surfaces.client('/who/user', { headers: { cookie: 'accessToken=bad' } })).status,
    ).toBe(401);
  });
});

describe('access of the client surface', () => {
  it.each([
    ['user', undefined, 401],
    ['user', 'good', 200],
    ['user', 'bad', 401],
    ['user', 'partial', 401],
    ['partialUser', 'partial', 200],
    ['partialUser', 'good', 200],
    ['optionalUser', undefined, 200],
    ['optionalUser', 'bad', 401],
    ['optionalUser', 'partial', 401],
    ['refreshToken', undefined, 401],
    ['refreshToken', 'anything', 200],
  ] as const)('%s with %s answers %i', async (access, token, status) => {
    const response = await surfaces.client(
      `/who/${access}`,
      token === undefined ? {} : bearer(token),
    );
    expect(response.status).toBe(status);
    if (token === undefined && status === 401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
    if (token !== undefined && status === 401)
      expect(response.headers.get('www-authenticate')).toBeNull();
  });

  it('gives admin credentials no meaning', async () => {
    expect((await surfaces.client('/who/user', { headers: { masterkey: 'master' } })).status).toBe(
      401,
    );
    expect((await surfaces.client('/who/user', { headers: { credential: 'super' } })).status).toBe(
      401,
    );
    expect((await surfaces.client('/who/user', bearer('super'))).status).toBe(401);
  });
});

describe('access of the admin surface', () => {
  it('takes any one of three credentials', async () => {
    expect((await surfaces.admin('/who/admin', { headers: { masterkey: 'master' } })).status).toBe(
      200,
    );
    expect((await surfaces.admin('/who/admin', bearer('admin'))).status).toBe(200);
    expect((await surfaces.admin('/who/admin', { headers: { credential: 'admin' } })).status).toBe(
      200,
    );
  });

  it('refuses none, a wrong one, a user token and a cookie', async () => {
    const none = await surfaces.admin('/who/admin');
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    expect((await surfaces.admin('/who/admin', { headers: { masterkey: '' } })).status).toBe(401);
    expect((await surfaces.admin('/who/admin', { headers: { masterkey: 'wrong' } })).status).toBe(
      401,
    );
    expect((await surfaces.admin('/who/admin', bearer('good'))).status).toBe(401);
    expect(
      (await surfaces.admin('/who/admin', { headers: { cookie: 'accessToken=admin' } })).status,
    ).toBe(401);
    expect(
      (
        await surfaces.admin('/who/admin', {
          headers: { masterkey: 'master', authorization: 'Bearer bad' },
        })
      ).status,
    ).toBe(401);
  });

  it('keeps super admin and master key operations to those', async () => {
    expect((await surfaces.admin('/who/superAdmin', bearer('admin'))).status).toBe(403);
    expect((await surfaces.admin('/who/superAdmin', bearer('super'))).status).toBe(200);
    expect((await surfaces.admin('/who/masterKey', bearer('super'))).status).toBe(401);
    expect(
      (await surfaces.admin('/who/masterKey', { headers: { masterkey: 'master' } })).status,
    ).toBe(200);
  });

  it('lets an admin with the initial password do nothing but change it', async () => {
    const refused = await surfaces.admin('/who/admin', bearer('fresh'));
    expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([
      403,
      'PASSWORD_CHANGE_REQUIRED',
    ]);
    expect((await surfaces.admin('/password', bearer('fresh'))).status).toBe(200);
  });
});
