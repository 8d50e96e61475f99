import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import {
  assign,
  compare,
  createEndpointBench,
  type EndpointBench,
  input,
  location,
  operation,
} from '../../../test/support/endpoints.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('insights', () => {
  let platform: TestPlatform;
  let server: pg.Client;
  let metricsPort: number;
  let bench: EndpointBench;
  beforeAll(async () => {
    metricsPort = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
    server = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
    await server.connect();
    bench = createEndpointBench(platform);
  });
  afterAll(async () => {
    await server?.end();
    await platform.close();
  });

  const insights = async (query = ''): Promise<Json> => {
    const answer = await platform.admin.get(`/database/insights${query}`);
    expect(answer.status, answer.text).toBe(200);
    return answer.body;
  };
  const explain = (body: Json) => platform.admin.post('/database/insights/explain', body);
  const adviceOf = async (schema: string, kind: string): Promise<Json[]> =>
    (await insights('?minRows=2')).advice.filter(
      (each: Json) => each.schema === schema && each.kind === kind,
    );

  it('are for operators', async () => {
    expect((await platform.adminAnonymous.get('/database/insights')).status).toBe(401);
    expect(
      (await platform.adminAnonymous.post('/database/insights/explain', { schemaName: 'User' }))
        .status,
    ).toBe(401);
    const { body } = await platform.admin.post('/api-tokens', { name: 'reader', scopes: ['read'] });
    const reader = platform.adminAnonymous.with({ credential: body.token });
    expect((await reader.get('/database/insights')).status).toBe(200);
    expect((await reader.post('/database/insights/explain', { schemaName: 'User' })).status).toBe(
      200,
    );
    expect((await platform.admin.get('/database/insights?minRows=-1')).status).toBe(400);
  });

  it('name fields that are filtered by without an index, with a call that makes it', async () => {
    const schema = await bench.posts([{ title: 'a', tags: ['x'] }, { title: 'b' }, { title: 'c' }]);
    const query = {
      AND: [
        compare('title', 0, ['Input', 'title']),
        compare('text', 0, ['Input', 'title'], { like: true }),
        compare('tags', 8, ['Custom', 'x']),
        compare('author', 0, ['Custom', '00000000-0000-7000-8000-000000000000']),
      ],
    };
    const inputs = [input('title', 'String', location.query)];
    await bench.endpoint('unindexed', {
      operation: operation.get,
      selectedSchemaName: schema,
      inputs,
      query,
    });
    await server.query(`analyze app."${schema}"`);

    const found = await adviceOf(schema, 'missing-index');
    expect(found.map(({ message }) => message)).toEqual([
      expect.stringMatching(/custom endpoint unindexed filters by "title".*all 3 rows/),
      expect.stringContaining('"tags"'),
    ]);
    for (const { call } of found)
      expect((await platform.admin.send(call.method, call.path, call.body)).status).toBe(200);
    expect(await adviceOf(schema, 'missing-index')).toEqual([]);
    expect((await insights()).advice.filter((each: Json) => each.kind === 'missing-index')).toEqual(
      [],
    );
  });

  it('name fields that clients may filter by, and foreign keys without an index', async () => {
    await server.query('create table public.parent (id integer primary key)');
    await server.query(
      'create table public.child (id integer primary key, parent integer references public.parent)',
    );
    await server.query(
      'insert into public.parent values (1); insert into public.child values (1, 1), (2, 1), (3, null)',
    );
    const cms = { enabled: true, query: { enabled: true, fields: ['code'] } };
    await platform.createSchema({
      name: 'Asked',
      fields: { code: 'String' },
      conduitOptions: { cms },
    });
    await platform.client.post('/database/Asked/many', { docs: [{ code: 'a' }, { code: 'b' }] });
    await server.query('analyze app."Asked"; analyze public.child');
    expect(await adviceOf('Asked', 'missing-index')).toHaveLength(1);
    const { advice } = await insights('?minRows=2');
    const relation = advice.find(
      ({ kind, table }: Json) => kind === 'unindexed-relation' && table === 'public.child',
    );
    await server.query(relation.sql);
    const after = (await insights('?minRows=2')).advice;
    expect(
      after.filter(
        ({ kind, table }: Json) => kind === 'unindexed-relation' && table === 'public.child',
      ),
    ).toEqual([]);
  });

  it('name indexes that are not used, say nothing new, or are half made', async () => {
    const schema = await platform.createSchema({
      name: 'Shelf',
      fields: { code: 'String', place: 'String', year: 'Number' },
    });
    const indexes = [
      { fields: ['code'], options: { name: 'short' } },
      { fields: ['code', 'place'], options: { name: 'long' } },
      { fields: ['year'], options: { name: 'unread' } },
    ];
    expect(
      (await platform.admin.post(`/database/schemas/${schema._id}/indexes`, { indexes })).status,
    ).toBe(200);
    await platform.client.post('/database/Shelf/many', {
      docs: [{ code: 'a' }, { code: 'b' }, { code: 'c' }],
    });
    await server.query('analyze app."Shelf"');
    await server.query('create index same_again on app."Shelf" (year)');
    await server.query('create index broken on app."Shelf" (place)');
    await server.query(
      `update pg_index set indisvalid = false where indexrelid = 'app.broken'::regclass`,
    );

    const duplicates = await adviceOf('Shelf', 'duplicate-index');
    const short = duplicates.find(({ call }) => call?.query.indexNames === 'short');
    expect(short?.call).toEqual({
      method: 'DELETE',
      path: `/database/schemas/${schema._id}/indexes`,
      query: { indexNames: 'short' },
    });
    expect(duplicates).toHaveLength(2);
    expect(duplicates.map(({ sql }) => sql)).toContain(
      'drop index concurrently "app"."same_again"',
    );
    // What modules declare nobody can change.
    expect(
      (await insights('?minRows=0')).advice.filter(
        ({ schema }: Json) => schema === 'Team' || schema === 'User',
      ),
    ).toEqual([]);
    expect(await adviceOf('Shelf', 'invalid-index')).toMatchObject([
      { sql: 'reindex index concurrently "app"."broken"' },
    ]);
    const unused = await adviceOf('Shelf', 'unused-index');
    expect(unused.map(({ message }) => message).join()).toContain('never read');
    const { call } = short;
    expect((await platform.admin.delete(call.path, { query: call.query })).status).toBe(200);
    expect(await adviceOf('Shelf', 'duplicate-index')).toHaveLength(1);
  });

  it('name tables that nobody has cleaned up', async () => {
    await platform.createSchema({ name: 'Dusty', fields: { n: 'Number' } });
    await server.query('alter table app."Dusty" set (autovacuum_enabled = off)');
    // By one connection: others hand their counts in later.
    await server.query(
      `insert into app."Dusty" ("_id", "n", "createdAt", "updatedAt", "__v") select gen_random_uuid(), i, now(), now(), 0 from generate_series(1, 50) i;
       update app."Dusty" set n = n + 1; select pg_stat_force_next_flush(); analyze app."Dusty"`,
    );
    const [dead] = await adviceOf('Dusty', 'dead-rows');
    expect(dead).toMatchObject({ severity: 'warning', sql: 'vacuum (analyze) "app"."Dusty"' });
    const { tables } = await insights();
    expect(tables.find(({ schema }: Json) => schema === 'Dusty')).toMatchObject({
      rows: 50,
      deadRows: 50,
      lastVacuum: null,
    });
    await server.query(dead.sql);
    expect(await adviceOf('Dusty', 'dead-rows')).toEqual([]);
  });

  it('tell how long statements take, by schema and operation, and never show a value', async () => {
    await platform.createSchema({ name: 'Timed', fields: { text: 'String' } });
    for (let i = 0; i < 5; i += 1)
      await platform.client.post('/database/Timed', { text: 'a very private text' });
    // Only the kinds of statements that took most are shown: enough reads to be among them.
    for (let i = 0; i < 40; i += 1) await platform.client.get('/database/Timed');
    const answer = await platform.admin.get('/database/insights');
    const of = (named: string) =>
      answer.body.statements.find(
        (each: Json) => each.schema === 'Timed' && each.operation === named,
      );
    expect(of('insert')).toMatchObject({
      table: 'app.Timed',
      count: 5,
      p50Ms: expect.any(Number),
      maxMs: expect.any(Number),
    });
    expect(of('select').count).toBe(40);
    expect(of('insert').p50Ms).toBeLessThanOrEqual(of('insert').maxMs);
    expect(answer.text).not.toContain('private');
    expect(answer.body.server.connections.used).toBeGreaterThan(0);
    expect(answer.body.server.cacheHitRatio).toBeLessThanOrEqual(1);
  });

  it('explain a list and an endpoint without running anything', async () => {
    const selectedSchemaName = await bench.posts([{ title: 'a' }, { title: 'b' }]);
    const inputs = [input('title', 'String', location.query)];
    const query = compare('title', 0, ['Input', 'title']);
    await bench.endpoint('sweep', {
      operation: operation.delete,
      selectedSchemaName,
      inputs,
      query,
    });
    await bench.endpoint('mark', {
      operation: operation.patch,
      selectedSchemaName,
      inputs,
      query,
      assignments: [assign('text', 0, 'Custom', 'marked')],
    });
    await bench.endpoint('add', {
      operation: operation.post,
      selectedSchemaName,
      assignments: [assign('title', 0, 'Custom', 'new')],
    });
    const call = { inputs: { title: 'a secret value' } };
    for (const [customEndpoint, step] of [
      ['sweep', 'ModifyTable'],
      ['mark', 'ModifyTable'],
      ['add', 'ModifyTable'],
    ]) {
      const answer = await explain({ customEndpoint, ...call });
      expect(answer.status, answer.text).toBe(200);
      expect(answer.body.statements[0].steps.map((each: Json) => each.step)).toContain(step);
      expect(answer.text).not.toContain('secret value');
    }
    const { body } = await explain({
      schemaName: selectedSchemaName,
      query: { title: 'a secret value' },
      sort: ['-views'],
      limit: 5,
    });
    expect(body.statements[0].remarks.join()).toContain(`Reads all rows of ${selectedSchemaName}`);
    expect(JSON.stringify(body)).not.toContain('secret value');
    const documents = (await platform.client.get(`/database/${selectedSchemaName}`)).body;
    expect(documents).toMatchObject({
      count: 2,
      documents: [
        { title: 'a', text: null },
        { title: 'b', text: null },
      ],
    });
  });

  it('explain as a user, with the permissions of the rows', async () => {
    const { userId } = await platform.registerUser();
    await platform.createSchema({
      name: 'Mine',
      fields: { a: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const [all, own] = [
      await explain({ schemaName: 'Mine' }),
      await explain({ schemaName: 'Mine', userId }),
    ];
    expect([all.status, own.status]).toEqual([200, 200]);
    expect(own.body.statements[0].text.length).toBeGreaterThan(all.body.statements[0].text.length);
  });

  it('tell a narrow token nothing of endpoints over what it does not reach', async () => {
    const fields = { holder: { type: 'Relation', model: 'User' }, title: 'String' } as const;
    await platform.createSchema({ name: 'Badge', fields });
    const made = (name: string, selectedSchemaName: string, query: Json) =>
      bench.endpoint(name, {
        ...{ operation: operation.get, selectedSchemaName, query, authentication: true },
        inputs: [input('asked', 'String', location.query)],
      });
    await made('accounts', 'User', compare('email', 0, ['Input', 'asked']));
    await made('holders', 'Badge', compare('holder.email', 0, ['Input', 'asked']));
    await made('named', 'Badge', compare('title', 0, ['Context', 'user.email']));
    await made('titles', 'Badge', compare('title', 0, ['Input', 'asked']));
    const { userId } = await platform.registerUser();
    const asking = async (...scopes: string[]) => {
      const { body } = await platform.admin.post('/api-tokens', { name: scopes.join(), scopes });
      const api = platform.adminAnonymous.with({ credential: body.token });
      const answers = ['accounts', 'holders', 'named', 'titles'].map(async (customEndpoint) => {
        const asked = { customEndpoint, inputs: { asked: 'a' }, userId };
        return (await api.post('/database/insights/explain', asked)).status;
      });
      return Promise.all(answers);
    };
    expect(await asking('database')).toEqual([403, 403, 403, 200]);
    expect(await asking('database', 'authentication')).toEqual([200, 200, 200, 200]);
  });

  it('refuse a question that cannot be asked, as the question itself would be', async () => {
    await platform.createSchema({ name: 'Plain', fields: { a: 'String' } });
    const refused: [Json, number][] = [
      [{}, 400],
      [{ schemaName: 'Plain', customEndpoint: 'x' }, 400],
      [{ schemaName: 'Nowhere' }, 404],
      [{ customEndpoint: 'nowhere' }, 404],
      [{ schemaName: 'Plain', sort: ['a"; drop table x --'] }, 400],
      [{ schemaName: 'Plain', query: { $where: '1' } }, 400],
      [{ schemaName: 'Plain', populate: ['a'] }, 400],
      [{ schemaName: 'Plain', other: 1 }, 400],
    ];
    for (const [body, status] of refused) {
      const answer = await explain(body);
      expect({ body, status: answer.status, text: answer.status < 400 ? answer.text : '' }).toEqual(
        { body, status, text: '' },
      );
    }
  });

  it('are metrics too, from the start', async () => {
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    for (const line of [
      /^penstock_custom_endpoints_total\{module_name="database"\} \d+$/m,
      /^penstock_registered_schemas_total\{module_name="database",imported="true"\} 0$/m,
      /^penstock_registered_schemas_total\{module_name="database",imported="false"\} \d+$/m,
      /^penstock_database_queries_total\{module_name="database"\} \d+$/m,
      /^penstock_database_query_duration_seconds_count\{table="app.Timed",operation="insert"\} 5$/m,
      /^penstock_database_connections\{state="waiting"\} \d+$/m,
      /^penstock_events_lag_seconds [\d.e-]+$/m,
      /^penstock_realtime_subscriptions 0$/m,
    ])
      expect(text).toMatch(line);
  });
});
