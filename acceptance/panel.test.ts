/**
 * The calls of an existing admin panel (spec/admin-panel-calls.md), as it makes them: with the master key and its
 * token on every call, arrays as `ids[]=`, whole objects sent back, and nested query keys that mean nothing.
 * Each row is one call; what the panel reads of the answer is there and has the right type.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import { freePort } from '../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { authentication } from './panel/authentication.ts';
import { communications } from './panel/communications.ts';
import { core } from './panel/core.ts';
import { database } from './panel/database.ts';
import { forms } from './panel/forms.ts';
import { router } from './panel/router.ts';
import { number, password, type Row, type Seen, text } from './panel/row.ts';

describe('the calls of the admin panel', () => {
  let platform: TestPlatform;
  let panel: Api;
  let metrics: string;
  const seen: Seen = {};

  beforeAll(async () => {
    const port = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(port) } });
    metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    panel = platform.admin.with({ authorization: `Bearer ${await platform.adminLogin()}` });
  });
  afterAll(() => platform.close());

  const filled = (template: string): string =>
    template.replace(/\{([\w.]+)\}/g, (_, path: string) =>
      path.split('.').reduce((value: Json, key) => value[key], seen),
    );

  const replay = (rows: readonly Row[]) =>
    test.each(rows)('$call', async ({ call, body, reads, keep }) => {
      const [method = '', path = ''] = filled(call).split(' ');
      const answer = await panel.send(method, path, typeof body === 'function' ? body(seen) : body);
      expect(answer.status, answer.text.slice(0, 500)).toBe(200);
      if (reads !== undefined) expectReads(answer.body, reads);
      Object.assign(seen, keep?.(answer.body));
    });

  /** Objects may have more than is read. */
  const expectReads = (body: Json, reads: unknown): void => {
    if (
      Array.isArray(reads) ||
      typeof reads !== 'object' ||
      reads === null ||
      'asymmetricMatch' in reads
    )
      expect(body).toEqual(reads);
    else expect(body).toMatchObject(reads);
  };

  describe('of core', () => {
    test('POST /login and POST /verify-twofa', async () => {
      const { body } = await platform.admin.post('/login', {
        username: 'admin',
        password: platform.adminPassword,
      });
      const claims = JSON.parse(Buffer.from(body.token.split('.')[1], 'base64url').toString());
      expect(claims).toMatchObject({ id: text, exp: number });
      expect(claims.twoFaRequired).not.toBe(true);
      expect(
        (await platform.admin.post('/verify-twofa', { code: '123456' }, { token: body.token }))
          .status,
      ).toBe(401);
    });
    test('PUT /toggle-twofa and POST /verify-qr-code', async () => {
      await platform.admin.post('/admins', { username: 'careful', password });
      const { token } = (await platform.admin.post('/login', { username: 'careful', password }))
        .body;
      const careful = platform.admin.with({ authorization: `Bearer ${token}` });
      expect((await careful.put('/toggle-twofa', { enableTwoFa: true })).body.result).toMatch(
        /^data:image\/png;base64,/,
      );
      expect((await careful.post('/verify-qr-code', { code: '000000' })).status).toBe(401);
      expect((await careful.put('/toggle-twofa', { enableTwoFa: false })).body.message).toBe('OK');
    });
    replay(core);
  });
  describe('of authentication', () => replay(authentication));
  describe('of the database', () => replay(database));
  describe('of the router', () => replay(router));
  describe('of messages', () => replay(communications));
  describe('of forms', () => replay(forms));

  test.each(['core', 'admin', 'router', 'database', 'authentication', 'communications'])(
    'PATCH /config/%s with what was just read changes nothing',
    async (module) => {
      const before = (await panel.get(`/config/${module}`)).body;
      const answer = await panel.patch(`/config/${module}`, { config: before.config });
      expect(answer.status, answer.text).toBe(200);
      expect(answer.body.config).toEqual(before.config);
      expect((await panel.get(`/config/${module}`)).body.config).toEqual(before.config);
    },
  );

  test('keys of providers that are gone are dropped, not refused', async () => {
    const config = {
      google: { OAuth2Flow: 'authorizationCode' },
      service: { enabled: true },
      accessTokens: { jwtSecret: '********' },
    };
    expect((await panel.patch('/config/authentication', { config })).status).toBe(200);
  });

  test.each([
    '/admins?params[0]=x',
    '/authentication/users?params[redirect]=false',
    '/database/schemas?params[0]=a&params[sort]=name',
    '/router/security/client?params[sort]=x',
    '/config/modules?params[a][b]=c',
  ])('GET %s ignores what it does not know', async (path) => {
    expect((await panel.get(path)).status).toBe(200);
  });

  test('401 is for credentials alone: a wrong current password and a missing right are others', async () => {
    const own = platform.adminAnonymous.with({
      authorization: `Bearer ${await platform.adminLogin()}`,
    });
    expect(
      (await own.put('/change-password', { oldPassword: 'wrong', newPassword: 'Correct-Horse-44' }))
        .status,
    ).toBe(400);
    await panel.post('/admins', { username: 'plain', password });
    const { token } = (await platform.admin.post('/login', { username: 'plain', password })).body;
    const plain = platform.adminAnonymous.with({ authorization: `Bearer ${token}` });
    expect((await plain.post('/admins', { username: 'other', password })).status).toBe(403);
    expect((await plain.get('/nothing')).status).toBe(404);
    expect((await platform.adminAnonymous.get('/admins', { token: `${token}x` })).status).toBe(401);
  });

  test('error bodies have a readable message and no details', async () => {
    const { body } = await panel.post('/database/schemas', { fields: 1 });
    expect(body).toMatchObject({ message: text, status: 400 });
    expect(body).not.toHaveProperty('details');
  });

  test('/admins/me is there for a login and for the master key', async () => {
    expect((await panel.get('/admins/me')).body).toMatchObject({
      username: 'admin',
      isSuperAdmin: true,
    });
    expect((await platform.admin.get('/admins/me')).body).toMatchObject({
      username: 'masterkey',
      isSuperAdmin: true,
    });
  });

  /** Name and labels that the panel's queries have, with the value that a new platform shows. */
  test.each([
    ...['core', 'router', 'database', 'authentication'].flatMap((module) => [
      `module_health_state{module_name="${module}"} 1`,
      `admin_grpc_requests_total{module_name="${module}"} 0`,
      `internal_grpc_requests_total{module_name="${module}"} 0`,
      `grpc_request_latency_seconds{module_name="${module}"} 0`,
    ]),
    'registered_schemas_total{module_name="database",imported="true"} 0',
    'forms_total{module_name="forms"} 0',
    'push_notifications_sent_total{module_name="pushNotifications"} 0',
    ...['email', 'sms', 'pushNotifications'].map(
      (module) => `module_health_state{module_name="${module}"} 1`,
    ),
    /registered_schemas_total\{module_name="database",imported="false"\} [1-9]/,
    'custom_endpoints_total{module_name="database"} 0',
    /database_queries_total\{module_name="database"\} \d/,
    /client_routes_total\{module_name="router",transport="rest"\} [1-9]/,
    /client_routes_total\{module_name="router",transport="graphql"\} [1-9]/,
    /client_routes_total\{module_name="router",transport="sockets"\} [01]/,
    'logged_in_users_total{module_name="authentication"} 0',
    /login_requests_total\{.*module_name="authentication".*\} 0/,
    /email_templates_total\{module_name="email"\} [1-9]/,
    'emails_sent_total{module_name="email"} 0',
    'sms_sent_total{module_name="sms"} 0',
    /security_clients_total\{.*platform="WEB".*\} 0/,
  ])('the metric %s is there from the start', (expected) => {
    if (typeof expected === 'string') expect(metrics.split('\n')).toContain(`penstock_${expected}`);
    else expect(metrics).toMatch(new RegExp(`^penstock_${expected.source}`, 'm'));
  });
});
