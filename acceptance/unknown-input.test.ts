import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { textOfGuide } from './guides/code.ts';

const HEADER = 'penstock-input-notes';
const crud = { enabled: true };

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.createSchema({
    name: 'Task',
    fields: {
      title: { type: 'String', required: true },
      status: 'String',
      rank: 'Number',
      due: 'Date',
    },
    conduitOptions: {
      cms: {
        enabled: true,
        crudOperations: { create: crud, read: crud, update: crud, delete: crud },
      },
    },
  });
});
afterAll(() => platform.close());

const setUnknown = async (unknown: string) =>
  expectStatus(
    await platform.admin.patch('/config/core', { config: { input: { unknown } } }),
    200,
    'configuration',
  );

describe('input that an operation does not know', () => {
  it('is 400 in development where it is nearly a name that is known', async () => {
    const list = await platform.client.get('/database/Task?limti=2');
    expect([list.status, list.body.errors]).toEqual([
      400,
      [{ path: 'limti', rule: 'unknown', message: 'is not known here: did you mean limit?' }],
    ]);
    const made = await platform.client.post('/database/Task', { title: 'A', titel: 'B' });
    expect([made.status, made.body.errors?.[0]?.path]).toEqual([400, 'titel']);
    const schemas = await platform.admin.get('/database/schemas?serach=Task');
    expect([schemas.status, schemas.body.errors?.[0]?.message]).toEqual([
      400,
      'is not known here: did you mean search?',
    ]);
  });

  it('is left out and told where it is like nothing that is known', async () => {
    const list = await platform.client.get('/database/Task?search=apples');
    expect([list.status, list.headers.get(HEADER)]).toEqual([200, 'search: is not known here']);
  });

  it('is taken and told in production, until operators say otherwise', async () => {
    const setEnv = async (env: string) =>
      expectStatus(await platform.admin.patch('/config/core', { config: { env } }), 200, 'env');
    await setEnv('production');
    try {
      const list = await platform.client.get('/database/Task?limti=2');
      expect([list.status, list.headers.get(HEADER)]).toEqual([
        200,
        'limti: is not known here: did you mean limit?',
      ]);
    } finally {
      await setEnv('development');
    }
  });

  it('is taken where existing clients are known to send it', async () => {
    const made = await platform.client.post('/database/Task', { title: 'A' });
    const path = `/database/Task/${made.body._id}`;
    // The record as it was served, which an edit form sends back.
    const sent = await platform.client.patch(path, { ...made.body, title: 'B' });
    expect([sent.status, sent.body.title]).toEqual([200, 'B']);
    expect(sent.headers.get(HEADER)).toMatch(/^_id: is not known here/);
    const wrapped = await platform.admin.get('/database/schemas?params[redirect]=false&limit=1');
    expect(wrapped.status).toBe(200);
    const legacy = await platform.admin.get('/authorization/roles?limti=1');
    expect(legacy.headers.get(HEADER)).toBe('limti: is not known here: did you mean limit?');
    const mailed = await platform.client.get('/hook/authentication/verify-email/none?utm_source=x');
    expect(mailed.body.errors?.[0]?.rule).not.toBe('unknown');
    expect((await platform.client.get('/live?cache=no')).status).toBe(200);
  });
});

it('is told in the guide as it is', async () => {
  const guide = await textOfGuide('typed-clients');
  const fields = { name: { type: 'String', required: true } } as const;
  await platform.createSchema({ name: 'Track', fields });
  const refused = await platform.client.post('/database/Track', { nmae: 'River' });
  const [problem] = refused.body.errors.filter(({ rule }: { rule: string }) => rule === 'unknown');
  expect(guide).toContain(`-> ${refused.status} "${problem.path}: ${problem.message}"`);
  const told = await platform.client.post('/database/Track', { name: 'River', colour: 'blue' });
  expect(guide).toContain(`Penstock-Input-Notes: ${told.headers.get(HEADER)}`);
  const { config } = (await platform.admin.get('/config/core')).body;
  expect(guide).toContain(`\`${config.input.unknown}\` is the default`);
});

describe('input that an operation does not know, where it is reported', () => {
  beforeAll(() => setUnknown('report'));
  afterAll(() => setUnknown('environment'));

  it('is left out, and named in a header with what was probably meant', async () => {
    const list = await platform.client.get('/database/Task?status=done&limti=2');
    expect(list.status).toBe(200);
    expect(list.headers.get(HEADER)).toBe(
      'status: is not known here; limti: is not known here: did you mean limit?',
    );
    const made = await platform.client.post('/database/Task', {
      title: 'A',
      titel: 'B',
      note: null,
    });
    expect(made.body).not.toHaveProperty('titel');
    expect(made.headers.get(HEADER)).toBe(
      'titel: is not known here: did you mean title?; note: is not known here',
    );
    expect((await platform.client.get('/database/Task?limit=2')).headers.get(HEADER)).toBeNull();
    const body = { title: 'C', status: null };
    expect((await platform.client.post('/database/Task', body)).headers.get(HEADER)).toBeNull();
  });

  it('names what a header can hold, however it is written', async () => {
    const made = await platform.client.post('/database/Task', {
      title: 'A',
      'x\r\nset-cookie: a': 1,
      ['ключ'.repeat(100)]: 1,
    });
    expect(made.status).toBe(200);
    expect(made.headers.get(HEADER)).toMatch(/^x\?\?set-cookie: a: is not known here; \?+/);
    expect(made.headers.get('set-cookie')).toBeNull();
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, 1]));
    const told = await platform.client.post('/database/Task', { title: 'A', ...many });
    expect(told.headers.get(HEADER)?.split('; ')).toHaveLength(10);
  });

  it('is 400 where operators say so, at once', async () => {
    await setUnknown('refuse');
    try {
      const refused = await platform.client.post('/database/Task', { title: 'A', titel: 'B' });
      expect([refused.status, refused.body.errors]).toEqual([
        400,
        [{ path: 'titel', rule: 'unknown', message: 'is not known here: did you mean title?' }],
      ]);
      const wrong = await platform.client.post('/database/Task', {
        titel: 'B',
        rank: 'first',
        due: 'tomorrow',
      });
      const found = wrong.body.errors as { path: string }[];
      expect(found.map(({ path }) => path).sort()).toEqual(['due', 'rank', 'titel', 'title']);
      expect((await platform.client.get('/database/Task?search=apples')).status).toBe(400);
      expect((await platform.client.get('/database/Task?limit=1')).status).toBe(200);
    } finally {
      await setUnknown('report');
    }
  });
});

describe('a schema that decides for itself', () => {
  const setOption = async (unknownFields: string) => {
    const { body } = await platform.admin.get('/database/schemas?search=Task');
    expectStatus(
      await platform.admin.patch(`/database/schemas/${body.schemas[0]._id}`, {
        conduitOptions: { unknownFields },
      }),
      200,
      'schema',
    );
  };
  const misspelt = () => platform.client.post('/database/Task', { title: 'A', titel: 'B' });

  it('refuses what it does not know, and leaves what is known as it was', async () => {
    await setOption('refuse');
    const { status, body } = await misspelt();
    expect([status, body.errors?.[0]]).toEqual([
      400,
      { path: 'titel', rule: 'unknown', message: 'is not known here: did you mean title?' },
    ]);
    expect((await platform.client.get('/database/Task?limti=2')).status).toBe(400);
    expect((await platform.client.post('/database/Task', { title: 'A' })).status).toBe(200);
  });

  it('takes it and warns in the answer, where it says so', async () => {
    await setOption('warn');
    const { status, body, headers } = await misspelt();
    expect([status, body.title, body.warnings]).toEqual([
      200,
      'A',
      ['titel: is not known here: did you mean title?'],
    ]);
    expect(headers.get(HEADER)).toContain('titel');
    const right = await platform.client.post('/database/Task', { title: 'A' });
    expect(right.body).not.toHaveProperty('warnings');
  });

  it('takes it, and says so, where all else refuses', async () => {
    await setOption('report');
    await setUnknown('refuse');
    try {
      const { status, headers } = await misspelt();
      expect([status, headers.get(HEADER)]).toEqual([
        200,
        'titel: is not known here: did you mean title?',
      ]);
    } finally {
      await setUnknown('environment');
    }
  });
});

describe('what an existing panel sends', () => {
  it('are keys of its own in the conditions of endpoints', async () => {
    const { body: schema } = await platform.admin.get('/database/schemas?search=Task');
    const condition = {
      _id: 'row-1',
      schemaField: 'title',
      operation: 0,
      comparisonField: { type: 'Custom', value: 'A' },
    };
    const stored = expectStatus(
      await platform.admin.post('/database/customEndpoints', {
        name: 'panel',
        operation: 0,
        selectedSchema: schema.schemas[0]._id,
        query: { _id: 'row-0', AND: [condition, { _id: 'row-2', OR: [condition] }] },
      }),
      200,
      'endpoint',
    );
    const { _id, ...comparison } = condition;
    expect(_id).toBe('row-1');
    expect(stored.body.query).toEqual({ AND: [comparison, { OR: [comparison] }] });
  });

  it('are pages above the largest, which they get, and are told', async () => {
    const { status, body, headers } = await platform.admin.get(
      '/database/schemas?skip=0&limit=5000',
    );
    expect([status, body.count > 0]).toEqual([200, true]);
    expect(headers.get(HEADER)).toBe('limit: is 1000, the largest page');
    expect((await platform.client.get('/database/Task?limit=5000')).status).toBe(400);
  });

  it('are questions for teams that are switched off, and for the line of /ready', async () => {
    const off = { config: { teams: { enabled: false } } };
    expectStatus(await platform.admin.patch('/config/authentication', off), 200, 'configuration');
    const { body } = await platform.admin.get('/authentication/teams?skip=0&limit=25');
    expect(body).toEqual({ teams: [], count: 0 });
    const result = async (): Promise<string> =>
      (await platform.admin.get('/ready', { headers: { accept: 'application/json' } })).body.result;
    // A check may be late on a busy machine; the line is the panel's as soon as all of them are there.
    await waitFor(async () => (await result()) === 'Penstock Core is online!', {
      what: 'the line of /ready',
    });
  });

  it('are questions of both surfaces for one line of text', async () => {
    for (const path of ['/ready', '/live']) {
      const { status, text, headers } = await platform.client.get(`${path}?legacy=true`);
      expect([status, text, headers.get(HEADER)]).toEqual([200, 'Penstock is online!', null]);
      expect((await platform.client.get(path)).body).toHaveProperty('status');
    }
    const { text } = await platform.admin.get('/live?legacy=true');
    expect(text).toBe('Penstock Core is online!');
  });

  it('are texts for numbers and booleans of a configuration, which become them', async () => {
    const { body } = expectStatus(
      await platform.admin.patch('/config/authentication', {
        config: { accessTokens: { expiryPeriod: '3600001' }, twoFa: { enabled: 'true' } },
      }),
      200,
      'configuration',
    );
    expect(body.config).toMatchObject({
      accessTokens: { expiryPeriod: 3_600_001 },
      twoFa: { enabled: true },
    });
    for (const expiryPeriod of ['1e3', '0x10', ' 5', '', 'many'])
      expect(
        (
          await platform.admin.patch('/config/authentication', {
            config: { accessTokens: { expiryPeriod } },
          })
        ).status,
      ).toBe(400);
  });
});
