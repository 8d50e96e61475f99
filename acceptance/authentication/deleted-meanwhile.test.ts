/**
 * A user who is deleted while a request of theirs is under way (reliability review 2026-11-22, B10): the rows that the
 * request would write belong to nobody. The deletion holds the user's row when the request arrives, and commits then.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

describe('a user who is deleted meanwhile', () => {
  let platform: TestPlatform;
  let deleting: pg.Client;
  beforeAll(async () => {
    platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
    await platform.admin.patch('/config/authentication', {
      twoFa: { enabled: true, methods: { authenticator: true } },
      passkeys: { enabled: true, rpId: 'localhost', origins: ['http://localhost:3000'] },
      biometricAuthentication: { enabled: true },
      teams: { enabled: true, invites: { enabled: true } },
      magic_link: { enabled: true },
    });
    deleting = new pg.Client({ connectionString: platform.databaseUrl });
    await deleting.connect();
  }, 120_000);
  afterAll(async () => {
    await deleting?.end();
    await platform?.close();
  });

  /** True when the server has a statement that waits for the deletion. */
  const isWaiting = async () => {
    const { rows } = await deleting.query(
      "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows.length > 0;
  };

  const requests: readonly (readonly [string, (user: TestUser) => Promise<Answer>])[] = [
    [
      'asks for options of a passkey',
      ({ api }) => api.post('/authentication/passkeys/register/options'),
    ],
    [
      'begins a second factor',
      ({ api }) => api.post('/authentication/twoFa/enable', { method: 'authenticator' }),
    ],
    [
      'enrols a device',
      ({ api }) => api.post('/authentication/biometrics/enroll', { publicKey: 'x'.repeat(40) }),
    ],
    [
      'renews a session',
      ({ refreshToken }) => platform.client.post('/authentication/renew', { refreshToken }),
    ],
    [
      'signs in',
      ({ email, password }) => platform.client.post('/authentication/local', { email, password }),
    ],
    [
      'asks for a link',
      ({ email }) => platform.client.post('/authentication/magic-link', { email }),
    ],
    [
      'makes a team',
      ({ api }) => api.post('/authentication/teams', { name: `team ${Math.random()}` }),
    ],
    ['changes their data', ({ api }) => api.patch('/authentication/user', { userData: {} })],
  ];

  it.each(requests)('gets an answer that says so when the user %s', async (_, request) => {
    const user = await platform.registerUser();
    await deleting.query('begin');
    await deleting.query('delete from app."User" where _id = $1', [user.userId]);
    const answered = request(user);
    let ended = false;
    void answered.finally(() => {
      ended = true;
    });
    await waitFor(async () => ended || (await isWaiting()));
    await deleting.query('commit');
    const { status, text } = await answered;
    expect({ status, text }).toMatchObject({
      status: expect.toSatisfy((given: number) => given < 500),
    });
    if (request === requests[0]?.[1]) expect(status).toBe(401);
  });
});
