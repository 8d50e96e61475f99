/** One locked or slow table, seen from outside: everything else answers while requests about it are still waiting. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../test/support/api.ts';
import type { TestUser } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';

const filtered = { cms: { query: { enabled: true, fields: ['title'] } } };
const TEST_MS = 60_000;

describe('a table that cannot be used', () => {
  let platform: TestPlatform;
  let database: pg.Client;
  let email: string;
  let password: string;
  let user: TestUser;
  let doc: string;
  let otherDoc: string;

  beforeAll(async () => {
    // Everything comes from one address here.
    platform = await createTestPlatform({ env: { READY_PUBLIC_DETAILS: 'true' } });
    database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
    const settings = {
      rateLimit: { maxRequests: 100_000 },
      requests: { callsPerCaller: 200, heavyCallsPerCaller: 100, callsAtOnce: 1_000 },
    };
    expect((await platform.admin.patch('/config/router', settings)).status).toBe(200);
    for (const name of ['Doc', 'Other'])
      await platform.createSchema({
        name,
        fields: { title: { type: 'String' } },
        conduitOptions: filtered,
      });
    doc = (await platform.client.post('/database/Doc', { title: 'one' })).body._id;
    otherDoc = (await platform.client.post('/database/Other', { title: 'one' })).body._id;
    user = await platform.registerUser();
    ({ email, password } = user);
  });

  afterAll(async () => {
    await database.end();
    await platform.close();
  });

  /** One of everything that has nothing to do with `Doc`. */
  const others = (): Promise<Answer>[] => {
    const { client, adminAnonymous } = platform;
    return [
      client.get(`/database/Other/${otherDoc}`),
      client.get('/database/Other?limit=5'),
      client.post('/database/Other', { title: 'two' }),
      client.patch(`/database/Other/${otherDoc}`, { title: 'three' }),
      client.post('/database/Other/many', { docs: [{ title: 'four' }, { title: 'five' }] }),
      user.api.get('/authentication/user'),
      client.get('/live'),
      adminAnonymous.get('/live'),
      adminAnonymous.get('/ready'),
    ];
  };

  async function whileLocked(begin: () => Promise<Answer>[]): Promise<Answer[]> {
    await database.query('begin; lock table app."Doc" in access exclusive mode');
    let answered = 0;
    const blocked = begin();
    for (const one of blocked) void one.then(() => (answered += 1));
    try {
      await waitFor(
        async () =>
          (await database.query('select 1 from pg_locks where not granted')).rows.length > 0,
        {
          what: 'the lock waited for',
        },
      );
      for (let round = 0; round < 10; round += 1) {
        const statuses = (await Promise.all(others())).map(({ status }) => status);
        expect(statuses).toEqual(statuses.map(() => 200));
      }
      const login = await platform.client.post('/authentication/local', { email, password });
      expect(login.status).toBe(200);
      // Those that found no turn may have been told to come again; none has been served.
      expect(answered).toBeLessThan(blocked.length);
    } finally {
      await database.query('rollback');
    }
    return Promise.all(blocked);
  }

  const times = (count: number, make: () => Promise<Answer>): Promise<Answer>[] =>
    Array.from({ length: count }, make);
  const expectServedOrRefused = (answers: readonly Answer[]): void => {
    for (const { status, headers } of answers) {
      expect([200, 503, 504]).toContain(status);
      if (status === 503) expect(headers.get('retry-after')).toBe('1');
    }
    expect(answers.some(({ status }) => status === 200)).toBe(true);
  };

  it.each<[string, () => Promise<Answer>]>([
    ['reads by id', () => platform.client.get(`/database/Doc/${doc}`)],
    ['lists', () => platform.client.get('/database/Doc?limit=25&sort=-title')],
    ['searches', () => user.api.post('/database/Doc/query', { query: { title: { $ne: 'x' } } })],
    ['creates', () => platform.client.post('/database/Doc', { title: 'more' })],
    ['changes', () => platform.client.patch(`/database/Doc/${doc}`, { title: 'changed' })],
    [
      'bulk creates',
      () => platform.client.post('/database/Doc/many', { docs: [{ title: 'a' }, { title: 'b' }] }),
    ],
  ])(
    'lets everything else be served while %s of it wait',
    async (_, request) => {
      expectServedOrRefused(await whileLocked(() => times(40, request)));
    },
    TEST_MS,
  );

  it(
    'stops a search by a client at its limit, and sends it once',
    async () => {
      await database.query('begin; lock table app."Doc" in access exclusive mode');
      try {
        const answer = await platform.client.get('/database/Doc?limit=25&sort=title');
        expect(answer).toMatchObject({ status: 504, body: { code: 'TIMEOUT' } });
      } finally {
        await database.query('rollback');
      }
      const waiting = await database.query(
        `select query from pg_stat_activity where wait_event_type = 'Lock'`,
      );
      expect(waiting.rows).toEqual([]);
    },
    TEST_MS,
  );
});
