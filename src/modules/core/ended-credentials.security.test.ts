/** An operator whose credential ends leaves nothing behind that was under way: no session, token or admin (CWE-613, CWE-362). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer, Api, Json } from '../../../test/support/api.ts';
import { openTestConnection, type TestConnection } from '../../../test/support/connection.ts';
import { expectStatus, type TestUser } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let platform: TestPlatform;
let user: TestUser;
let count = 0;
beforeAll(async () => {
  platform = await createTestPlatform();
  user = await platform.registerUser();
});
afterAll(() => platform?.close());

const password = 'Correct-Horse-Battery-9';

interface Operator {
  readonly api: Api;
  /** Ends the credential, or takes the rights. */
  end(): Promise<Answer<Json>>;
}

/** Of the master key, or of an admin. */
const byToken = async (owner: Api): Promise<Operator> => {
  count += 1;
  const made = await owner.post('/api-tokens', { name: `ending-${count}` });
  const { id, token } = expectStatus(made, 200, 'API token').body;
  return {
    api: platform.adminAnonymous.with({ credential: token }),
    end: () => owner.delete(`/api-tokens/${id}`),
  };
};

const byLogin = async (end: (id: string, api: Api) => Promise<Answer<Json>>): Promise<Operator> => {
  count += 1;
  const username = `ending-${count}`;
  const made = await platform.admin.post('/admins', { username, password, isSuperAdmin: true });
  const { admin } = expectStatus(made, 200, 'admin').body;
  const { token } = (await platform.admin.post('/login', { username, password })).body;
  const api = platform.adminAnonymous.with({ authorization: `Bearer ${token}` });
  return { api, end: () => end(admin._id, api) };
};

const operators: readonly (readonly [string, () => Promise<Operator>])[] = [
  ['a token of the master key that is revoked', () => byToken(platform.admin)],
  ['an admin who is deleted', () => byLogin((id) => platform.admin.delete(`/admins/${id}`))],
  [
    'an admin who is no super admin any more',
    () => byLogin((id) => platform.admin.patch(`/admins/${id}`, { isSuperAdmin: false })),
  ],
  ['an admin who logs out', () => byLogin((_id, api) => api.post('/logout', {}))],
];

/** Asks before, while and after the credential ends; answers what was made. */
async function whileEnding(
  { api, end }: Operator,
  ask: (api: Api, n: number) => Promise<Answer<Json>>,
): Promise<readonly Json[]> {
  expectStatus(await api.get('/ready'), 200, 'a warm cache');
  expectStatus(await api.get('/admins?limit=1'), 200, 'a warm cache');
  const before = Array.from({ length: 4 }, (_, n) => ask(api, n));
  const ended = end();
  const after = Array.from({ length: 12 }, (_, n) => ask(api, n + 4));
  const answers = await Promise.all([...before, ...after]);
  expectStatus(await ended, 200, 'the end');
  for (const { status, text } of answers) expect([200, 401, 403], text).toContain(status);
  return answers.filter(({ status }) => status === 200).map(({ body }) => body);
}

const rounds = 4;

test.each(operators)('%s acts as no user', async (_who, open) => {
  for (let round = 0; round < rounds; round += 1) {
    const made = await whileEnding(await open(), (api) =>
      api.post(`/authentication/users/${user.userId}/impersonate`, { reason: 'at the end' }),
    );
    for (const { accessToken } of made)
      expect(
        (await platform.client.get('/authentication/user', { token: accessToken })).status,
      ).toBe(401);
  }
});

test('a token makes no other one while it is revoked', async () => {
  const { id, token } = (await platform.admin.post('/api-tokens', { name: 'revoked' })).body;
  const api = platform.adminAnonymous.with({ credential: token });
  expectStatus(await api.get('/api-tokens'), 200, 'a warm cache');
  const sql = await openTestConnection(platform.databaseUrl ?? '');
  try {
    await sql.query('begin');
    await sql.query('delete from penstock.admin_api_tokens where id = $1', [id]);
    const late = api.post('/api-tokens', { name: 'late' });
    const isOver = late.then(() => true);
    await waitFor(async () => (await waiting(sql)) || Promise.race([isOver, false]), {
      what: 'the call to wait for the revocation',
    });
    await sql.query('commit');
    expect((await late).status).toBe(401);
  } finally {
    await sql.close();
  }
});

/** Whether a statement about tokens waits for a lock. */
const waiting = async (sql: TestConnection): Promise<boolean> => {
  const text = `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and query like '%admin_api_tokens%'`;
  // A transaction sees the activity of its beginning, unless it says otherwise.
  await sql.query('select pg_stat_clear_snapshot()');
  return (await sql.query(text)).length > 0;
};

test('an admin who is deleted makes no admin, however long the password is worked on', async () => {
  const { api, end } = await byLogin((id) => platform.admin.delete(`/admins/${id}`));
  expectStatus(await api.get('/admins?limit=1'), 200, 'a warm cache');
  const late = Array.from({ length: 30 }, (_, n) =>
    api.post('/admins', { username: `late-${n}`, password, isSuperAdmin: true }),
  );
  expectStatus(await end(), 200, 'the end');
  const listed = async (): Promise<number> =>
    (await platform.admin.get('/admins?limit=1000')).body.admins.filter((one: Json) =>
      one.username.startsWith('late-'),
    ).length;
  const seen = await listed();
  for (const { status, text } of await Promise.all(late))
    expect([200, 401], text).toContain(status);
  expect(await listed()).toBe(seen);
});
