/** Deleting an account deletes everything that is the user's, in one transaction (W30), and the audit log says who did what from where. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openTestConnection } from '../../../test/support/connection.ts';
import { createMailbox } from '../../../test/support/mailbox.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const password = 'correct horse battery staple';
let platform: TestPlatform;
let connection: Awaited<ReturnType<typeof openTestConnection>>;
beforeAll(async () => {
  platform = await createTestPlatform();
  connection = await openTestConnection(platform.databaseUrl ?? '');
  await platform.admin.patch('/config/authentication', {
    config: { local: { verification: { send_email: true } }, magic_link: { enabled: true } },
  });
});
afterAll(async () => {
  await connection.close();
  await platform.close();
});

/** Every table in which this text still stands, the audit log and the events (ids only) aside. */
async function tablesWith(text: string): Promise<string[]> {
  const tables = await connection.query(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
     where table_schema in ('penstock', 'app', 'penstock_jobs') and table_type = 'BASE TABLE'`,
  );
  const found = [];
  for (const { name } of tables as { name: string }[]) {
    const rows = await connection.query(
      `select 1 from ${name} t where to_jsonb(t)::text like '%' || $1 || '%' limit 1`,
      [text],
    );
    if (rows.length > 0) found.push(name);
  }
  return found.filter(
    (name) => name !== 'penstock.audit_log' && !name.startsWith('penstock.outbox'),
  );
}

test('after a user deleted themselves nothing of them is left, and nothing of them works', async () => {
  const email = 'gone@example.com';
  const mailbox = createMailbox(platform.admin);
  const registering = { email, password };
  await platform.client
    .with({ 'idempotency-key': 'registering' })
    .post('/authentication/local/new', registering);
  // What an operator was answered in the name of the user is kept under both.
  const { userId } = await platform.login(email, password);
  const acting = await platform.admin.post(`/authentication/users/${userId}/impersonate`, {
    reason: 'a look',
  });
  const inTheirName = platform.client.with({
    'idempotency-key': 'in-their-name',
    authorization: `Bearer ${acting.body.accessToken}`,
  });
  expect((await inTheirName.delete('/authentication/sessions')).status).toBe(200);
  const user = await platform.login(email, password);
  await user.api.with({ 'idempotency-key': 'ending' }).delete('/authentication/sessions');
  const other = await platform.login(email, password);
  await platform.client.post('/authentication/magic-link', { email });
  await platform.client.post('/authentication/forgot-password', { email });
  const link = await mailbox.link(email, 'MagicLink');
  await mailbox.mail(email, 'ForgotPassword');
  expect((await tablesWith(user.userId)).length).toBeGreaterThan(3);

  expect(await user.api.delete('/authentication/user')).toMatchObject({
    status: 200,
    body: { result: 'LoggedOut' },
  });
  expect(await tablesWith(user.userId)).toEqual([]);
  expect(await tablesWith(email)).toEqual([]);
  expect((await other.api.get('/authentication/user')).status).toBe(401);
  expect(
    (await platform.client.post('/authentication/renew', undefined, { token: other.refreshToken }))
      .status,
  ).toBe(401);
  expect((await platform.client.send('POST', link.pathname)).status).toBe(404);
  expect((await platform.client.post('/authentication/local', { email, password })).status).toBe(
    401,
  );
  expect(
    (await platform.client.post('/authentication/local/new', { email, password })).status,
  ).toBe(200);
});

test('an operator who deletes users deletes as much', async () => {
  const email = 'removed@example.com';
  const { userId } = await platform.registerUser({ email, password });
  await platform.client.post('/authentication/forgot-password', { email });
  await createMailbox(platform.admin).mail(email, 'ForgotPassword');
  expect((await platform.admin.delete(`/authentication/users/${userId}`)).status).toBe(200);
  expect(await tablesWith(userId)).toEqual([]);
  expect(await tablesWith(email)).toEqual([]);
});

test('the audit log says who did what, from where and how it ended, and holds no secret', async () => {
  const email = 'audited@example.com';
  const client = platform.client.with({ 'user-agent': 'A test browser' });
  await client.post('/authentication/local/new', { email, password });
  await client.post('/authentication/local', { email, password: 'a wrong password' });
  const { userId, accessToken } = (await client.post('/authentication/local', { email, password }))
    .body;
  const change = { oldPassword: password, newPassword: 'seven purple elephants' };
  await client.post('/authentication/local/change-password', change, { token: accessToken });
  const of = async (query: Record<string, string>) =>
    (await platform.admin.get('/audit-logs', { query: { limit: 100, ...query } })).text;
  const about = await of({ target: `User:${userId}` });
  const by = await of({ actor: userId });
  for (const text of [
    'authentication.register',
    'authentication.login',
    'refused',
    'A test browser',
    '127.0.0.1',
  ])
    expect(about).toContain(text);
  expect(by).toContain('authentication.local.changePassword');
  for (const secret of [password, 'a wrong password', 'seven purple elephants', accessToken])
    expect(about + by).not.toContain(secret);
});
