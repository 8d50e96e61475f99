/**
 * Every operation of a running platform, read from its own OpenAPI documents, gets random and hostile
 * input in every place, with good, bad and no credentials. New operations take part by themselves.
 * What each request costs is measured too: event loop, bytes and heap. A failure prints the request; `FUZZ_SEED=<seed>` repeats a run, `FUZZ_RUNS` sets requests per operation.
 */
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api } from '../test/support/api.ts';
import { type TestUser, testAdminPassword, testMasterKey } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { createRanking, measured } from './fuzz/cost.ts';
import { type DescribedOperation, describedOperations } from './fuzz/operations.ts';
import { badCredentials, createSender, requestsTo } from './fuzz/request.ts';
import { problemsOf } from './fuzz/verdict.ts';
import { switchOn } from './switched-on.ts';

/** CI judges a change, so it sends the same each time; every other run looks further. */
const seed = Number(process.env.FUZZ_SEED ?? (process.env.CI ? 20_261_123 : Date.now() % 2 ** 31));
const runsPerOperation = Number(process.env.FUZZ_RUNS ?? (process.env.CI ? 8 : 20));

/** First what only reads, last what takes away from others what they need. */
function disruption({ method, path }: DescribedOperation): number {
  if (path.startsWith('/config')) return 5;
  if (path.startsWith('/database/schemas') && method === 'DELETE') return 4;
  if (
    /password|admins|twofa|login/.test(path) ||
    (path.startsWith('/database/schemas') && method !== 'GET')
  )
    return 3;
  if (method === 'DELETE' || path.endsWith('/toggle')) return 2;
  return method === 'GET' ? 0 : 1;
}

describe(`fuzzing with seed ${seed}`, () => {
  let platform: TestPlatform;
  let operations: DescribedOperation[];
  let configuration: Readonly<Record<string, object>>;

  beforeAll(async () => {
    platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
    await platform.createSchema(authorSchema);
    await platform.createSchema(bookSchema);
    for (const name of ['Ada', 'Bob', 'Cleo'])
      await platform.client.post('/database/FuzzAuthor', { name });
    for (const title of ['One', 'Two', 'Three'])
      await platform.client.post('/database/FuzzBook', { title });
    // Enough for a test that asks as fast as it can; limits of single operations stay.
    await platform.admin.patch('/config/router', { rateLimit: { maxRequests: 1_000_000 } });
    await switchOn(platform.admin);
    await platform.admin.patch('/config/authentication', {
      teams: { enabled: true, allowAddWithoutInvite: true, invites: { enabled: true } },
    });
    configuration = (await platform.admin.get('/config')).body.config.modules;
    apiToken = (await platform.admin.post('/api-tokens', { name: 'fuzz' })).body.token;
    const described = await Promise.all([
      describedOperations('client', platform.client),
      describedOperations('admin', platform.admin),
    ]);
    // Streams end when their reader goes: change-stream.test.ts.
    const operationsThatEnd = described.flat().filter(({ path }) => !path.endsWith('/stream'));
    operations = operationsThatEnd.sort((a, b) => disruption(a) - disruption(b));
  });
  afterAll(() => platform.close());

  it('finds operations on both surfaces', () => {
    expect(operations.filter(({ surface }) => surface === 'client').length).toBeGreaterThan(10);
    expect(operations.filter(({ surface }) => surface === 'admin').length).toBeGreaterThan(20);
  });

  it('gets only declared answers, whatever it sends', { timeout: 600_000 }, async () => {
    const problems: string[] = [];
    for (const operation of operations) problems.push(...(await fuzz(operation)));
    expect(problems).toEqual([]);
  });

  it('reaches what it means to test', () => {
    const share = (status: number) =>
      (statuses.get(status) ?? 0) / [...statuses.values()].reduce((sum, each) => sum + each, 0);
    expect(share(200)).toBeGreaterThan(0.1);
    expect(share(400)).toBeGreaterThan(0.1);
    expect(share(429)).toBeLessThan(0.1);
  });

  it('costs the process little, whatever it sends', () => {
    const worst = ranking.worst(5);
    expect(worst).toHaveLength(5);
  });

  it('leaves a platform that still works', async () => {
    expect((await platform.adminAnonymous.get('/live')).status).toBe(200);
    expect((await platform.adminAnonymous.get('/ready')).status).toBe(200);
  });

  const ranking = createRanking();
  let adminToken = '';
  let apiToken = '';
  let prepared = 0;
  const statuses = new Map<number, number>();
  const fuzz = async (operation: DescribedOperation): Promise<string[]> => {
    const sender = createSender(
      operation.surface === 'client' ? platform.addresses.client : platform.addresses.admin,
    );
    const { good, dictionary } = await prepare(operation);
    const credentials = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(...good) },
      { weight: 1, arbitrary: fc.constantFrom(...badCredentials) },
    );
    const property = fc.asyncProperty(
      requestsTo(operation, dictionary),
      credentials,
      fc.ipV4(),
      async (one, credential, address) => {
        const headers = { ...one.headers, ...credential, 'x-forwarded-for': address };
        const {
          answer,
          cost,
          problems: dear,
        } = await measured(() => sender.send(operation.method, { ...one, headers }));
        ranking.note(`${operation.surface} ${operation.method} ${operation.path}`, cost);
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
        const problems = [
          ...dear,
          ...problemsOf(operation, answer, [testMasterKey, testAdminPassword]),
        ];
        if (problems.length > 0)
          throw new Error(`${problems.join('; ')}\n  answer: ${answer.text.slice(0, 300)}`);
      },
    );
    try {
      const options = { seed, numRuns: runsPerOperation, interruptAfterTimeLimit: 8_000 };
      const result = await fc.check(property, options);
      return result.failed ? [report(operation, result)] : [];
    } finally {
      sender.close();
      if (disruption(operation) > 0) await forget(operation);
    }
  };

  /** What is known of the platform until something is changed. */
  const opening = new Map<string, Promise<boolean>>();
  let authors: Promise<unknown> | undefined;
  let user: TestUser | undefined;

  const forget = async (changed: DescribedOperation): Promise<void> => {
    if (disruption(changed) === 5) await restoreConfiguration();
    opening.clear();
    authors = undefined;
    // Of those of operators it is enough that their token still opens.
    if (changed.surface === 'client') user = undefined;
  };

  /** Whether these credentials open that route. */
  const opens = (
    api: Api,
    path: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<boolean> => {
    const key = JSON.stringify([path, headers]);
    const known =
      opening.get(key) ?? api.get(path, { headers }).then(({ status }) => status === 200);
    opening.set(key, known);
    return known;
  };

  /** What a random configuration has switched off is needed by the next operation. */
  const restoreConfiguration = async () => {
    for (const [name, config] of Object.entries(configuration))
      await platform.admin.patch(`/config/${name}`, { config }, { query: { replace: true } });
  };

  /** The token if it still opens the surface, else a new one if we may log in (failed logins of the test itself may forbid it). */
  const liveAdminToken = async (token: string): Promise<string> => {
    if (token !== '' && (await opens(platform.adminAnonymous, '/admins', bearer(token))))
      return token;
    const answer = await platform.admin.post('/login', {
      username: 'admin',
      password: testAdminPassword,
    });
    return answer.body.token ?? '';
  };

  /** The user if nothing has shut it out, else a new one, each from another place: one address may not register so many. */
  const liveUser = async (): Promise<TestUser> => {
    const path = '/authentication/user';
    if (!user || !(await opens(platform.client, path, bearer(user.accessToken))))
      user = await platform.registerUser({
        from: `10.200.${++prepared >> 8}.${prepared % 256}`,
      });
    return user;
  };

  /** Tokens that earlier requests have revoked prove nothing more. */
  const stillOpening = async (candidates: readonly Readonly<Record<string, string>>[]) => {
    const answers = await Promise.all(
      candidates.map((headers) => opens(platform.adminAnonymous, '/admins', headers)),
    );
    return candidates.filter((_, index) => answers[index]);
  };

  /** Credentials that open the operation, from a user and a login, and values that exist. */
  const prepare = async ({ surface, path, credentials }: DescribedOperation) => {
    const user = await liveUser();
    adminToken = await liveAdminToken(adminToken);
    const byName = new Map<string, Readonly<Record<string, string>>>([
      ['masterKey', { masterkey: testMasterKey }],
      ['adminToken', bearer(adminToken)],
      ['apiToken', { credential: apiToken }],
      ['userToken', bearer(user.accessToken)],
      ['refreshToken', bearer(user.refreshToken)],
    ]);
    const api = surface === 'client' ? platform.client : platform.admin;
    const known = credentials.flatMap((name) =>
      [byName.get(name)].filter((one) => one !== undefined),
    );
    const alive = surface === 'client' ? known : await stillOpening(known);
    const good: readonly Readonly<Record<string, string>>[] = alive.length > 0 ? alive : [{}];
    const collection = await api.get(path.split('/{', 1)[0] ?? '/', { headers: good[0] ?? {} });
    authors ??= platform.client.get('/database/FuzzAuthor').then(({ body }) => body);
    const ids = idsIn(collection.body);
    const dictionary = new Map<string, readonly unknown[]>([
      ['id', ids],
      ['_id', ids],
      ['ids', ids],
      ['author', idsIn(await authors)],
      ['module', Object.keys(configuration)],
      ['name', path.startsWith('/database/schemas') ? [`Made${randomUUID().slice(0, 8)}`] : []],
      ['deleteData', [true]],
      ['if-match', ['"0"', '*']],
      ['fields', [{ text: 'String', count: { type: 'Number', required: true } }]],
      ['email', [user.email, `fuzz-${randomUUID()}@example.com`]],
      ['newPassword', ['Another-Secret-18']],
      ['username', ['admin']],
      ['password', [user.password, testAdminPassword]],
      ['oldPassword', [user.password]],
    ]);
    return { good, dictionary };
  };
});

const bearer = (token: string): Readonly<Record<string, string>> => ({
  authorization: `Bearer ${token}`,
});

/** Ids of what a list answers, whatever the list is called. */
function idsIn(body: unknown): string[] {
  const lists = Object.values(Object(body)).filter(Array.isArray);
  return lists.flat().flatMap((item) => (typeof item?._id === 'string' ? [item._id] : []));
}

function report(
  { surface, method, path }: DescribedOperation,
  result: { readonly errorInstance: unknown; readonly counterexample: unknown },
): string {
  const why =
    result.errorInstance instanceof Error
      ? result.errorInstance.message
      : String(result.errorInstance);
  return `${surface} ${method} ${path}: ${why}\n  request: ${JSON.stringify(result.counterexample)?.slice(0, 600)}`;
}

const authorSchema = {
  name: 'FuzzAuthor',
  fields: {
    name: { type: 'String', required: true, unique: true },
    born: 'Date',
    active: { type: 'Boolean', default: true },
  },
} as const;

const bookSchema = {
  name: 'FuzzBook',
  fields: {
    title: { type: 'String', required: true, validate: { minLength: 1, maxLength: 80 } },
    price: { type: 'Number', validate: { min: 0 } },
    tags: ['String'],
    details: { pages: 'Number', language: { type: 'String', enum: ['en', 'de', 'it'] } },
    extra: 'JSON',
    author: { type: 'Relation', model: 'FuzzAuthor' },
  },
} as const;
