/**
 * Core through the whole platform: what surfaces must enforce for it, and that no secret leaves.
 * https://cwe.mitre.org/data/definitions/532.html, https://cwe.mitre.org/data/definitions/307.html
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alteredAt } from '../../../test/support/altered.ts';
import { type Api, createApi } from '../../../test/support/api.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { testAdminPassword, testMasterKey } from '../../../test/support/node.ts';
import { testEnvironment } from '../../../test/support/platform.ts';
import { readSettings } from '../../kernel/settings/settings.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { type Platform, startPlatform } from '../../platform.ts';

const masterkey = testMasterKey;
const newPassword = 'a-Password-of-their-own-81';

/** Keeps everything that is logged, before any redaction. */
function recordingLog(lines: string[]): Logger {
  const write = (fields: object, message: string): void => {
    const { err } = fields as { err?: Error };
    lines.push(`${JSON.stringify(fields)} ${err?.stack ?? ''} ${message}`);
  };
  const log: Logger = { debug: write, info: write, warn: write, error: write, child: () => log };
  return log;
}

describe('core over HTTP', () => {
  const lines: string[] = [];
  let dataDir: string;
  let database: TestDatabase;
  let platform: Platform;
  let admin: Api;

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'penstock-core-'));
    database = await createTestDatabase();
    const settings = readSettings(testEnvironment(dataDir, database.url));
    platform = await startPlatform({ settings, log: recordingLog(lines) });
    admin = createApi(platform.addresses.admin);
  });
  afterAll(async () => {
    await platform.close();
    await database.drop();
    await rm(dataDir, { recursive: true, force: true });
  });

  const login = (password = testAdminPassword, username = 'admin') =>
    admin.post('/login', { username, password }, { headers: { masterkey } });

  it('lets a first password open nothing but its change, outside of development', async () => {
    await admin.patch('/config/core', { env: 'production' }, { headers: { masterkey } });
    const { token } = (await login()).body;
    for (const path of ['/config', '/admins', '/admins/me', '/api-tokens', '/config/modules']) {
      expect(await admin.get(path, { token }), path).toMatchObject({
        status: 403,
        body: { code: 'PASSWORD_CHANGE_REQUIRED' },
      });
    }
    const changed = await admin.put(
      '/change-password',
      { oldPassword: testAdminPassword, newPassword },
      { token },
    );
    expect(changed).toMatchObject({
      status: 200,
      body: { message: 'OK', token: expect.any(String) },
    });
    expect((await admin.get('/admins/me', { token })).status).toBe(401);
    expect((await admin.get('/admins/me', { token: changed.body.token })).body).toMatchObject({
      username: 'admin',
      mustChangePassword: false,
    });
    await admin.patch('/config/core', { env: null }, { headers: { masterkey } });
  });

  it('answers both forms of the second factor, and none to the wrong credential', async () => {
    const { token } = (await login(newPassword)).body;
    expect((await admin.post('/verify-twofa', { code: '123456' }, { token })).status).toBe(401);
    expect((await admin.post('/verify-twofa', { code: '123456' })).status).toBe(401);
    expect((await admin.post('/verify-twofa', {}, { token })).status).toBe(400);
    const begun = await admin.put('/toggle-twofa', { enableTwoFa: true }, { token });
    expect(begun.body.result).toMatch(/^data:image\/png;base64,/);
    expect(begun.headers.get('cache-control')).toContain('no-store');
  });

  it('names the field of bad input with 400, everywhere', async () => {
    const headers = { masterkey };
    const bad = async (method: string, path: string, body: unknown, field: string) => {
      const answer = await admin.send(method, path, body, { headers });
      expect(answer, `${method} ${path}`).toMatchObject({
        status: 400,
        body: { name: 'INVALID_ARGUMENTS', errors: [{ path: field }] },
      });
    };
    await bad('POST', '/login', { username: 'admin' }, 'password');
    await bad('POST', '/login', { username: 'admin', password: 5 }, 'password');
    await bad('POST', '/login', { username: 'a\u0000b', password: 'x' }, 'username');
    await bad('POST', '/api-tokens', { name: 'x', expiresInDays: 0 }, 'expiresInDays');
    await bad('POST', '/api-tokens', { name: 'x', expiresInDays: 3_651 }, 'expiresInDays');
    await bad('POST', '/api-tokens', { name: 'x', expiresInDays: 1.5 }, 'expiresInDays');
    await bad('POST', '/api-tokens', { name: '' }, 'name');
    await bad('GET', '/admins?limit=0', undefined, 'limit');
    await bad('GET', '/admins?skip=-1', undefined, 'skip');
    await bad('GET', '/admins?sort=nothing', undefined, 'sort');
    await bad('GET', '/admins/not-an-id', undefined, 'id');
    await bad('GET', '/ready?legacy=yes', undefined, 'legacy');
    await bad('PATCH', '/config/core', { env: 'staging' }, 'env');
    await bad('POST', '/config/core/rollback', { version: 'one' }, 'version');
  });

  it('takes PUT for PATCH on configuration, and knows ETag and If-Match', async () => {
    const headers = { masterkey };
    const read = await admin.get('/config/admin', { headers });
    const etag = read.headers.get('etag') ?? '';
    const put = await admin.put('/config/admin', read.body.config, {
      headers: { ...headers, 'if-match': etag },
    });
    expect(put).toMatchObject({ status: 200, body: { warnings: [], applied: { failed: [] } } });
    expect(
      (await admin.patch('/config/admin', {}, { headers: { ...headers, 'if-match': etag } }))
        .status,
    ).toBe(412);
  });

  it('serves health without a credential on both surfaces', async () => {
    const client = createApi(platform.addresses.client);
    for (const api of [admin, client]) {
      const headers = { accept: 'application/json' };
      expect(await api.get('/ready', { headers })).toMatchObject({
        status: 200,
        body: { status: 'ready', checks: expect.any(Array) },
      });
      expect(await api.get('/live', { headers })).toMatchObject({
        status: 200,
        body: { status: 'alive' },
      });
    }
    expect((await admin.get('/readyanything')).status).toBeOneOf([401, 404]);
    const names = (
      await admin.get('/ready', { headers: { accept: 'application/json' } })
    ).body.checks.map(({ name }: { name: string }) => name);
    expect(names).toEqual(
      expect.arrayContaining(['core.initialized', 'database', 'config.sync', 'modules.core']),
    );
  });

  it('writes no credential into a log, a metric or an error', async () => {
    const session = (await login(newPassword)).body.token;
    const apiToken = (await admin.post('/api-tokens', { name: 'scan' }, { token: session })).body
      .token;
    const secrets = [
      masterkey,
      testAdminPassword,
      newPassword,
      session,
      apiToken,
      'wrong-guess-5512',
    ];
    const answers = [
      await admin.get('/config', { headers: { masterkey: 'wrong-guess-5512' } }),
      await admin.get('/config', { token: 'wrong-guess-5512' }),
      await admin.get('/config', { token: `${session}x` }),
      await admin.get('/config', { token: alteredAt(apiToken, -1) }),
      await login('wrong-guess-5512'),
      await admin.send('POST', '/login', '{"username":"admin","password":"wrong-guess-5512"', {
        headers: { masterkey },
      }),
      await admin.put(
        '/change-password',
        { oldPassword: 'wrong-guess-5512', newPassword: 'short' },
        { token: session },
      ),
      await admin.get('/config', { token: session }),
      await admin.get('/api-tokens', { token: session }),
    ];
    const texts = [
      ...answers.map(({ text }) => text),
      ...lines,
      await platform.kernel.metrics.expose(),
    ];
    for (const secret of secrets)
      for (const text of texts) expect(text.includes(secret), text.slice(0, 200)).toBe(false);
  });
});
