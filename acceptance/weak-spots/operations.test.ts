/** spec/database.md section 8, rows 29 to 38, and the checks 1, 9, 11 and 12 of section 10: what it costs, and how it runs. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { openBench, owned, type WeakSpotBench } from './bench.ts';

describe('weak spots: performance and operations', () => {
  let bench: WeakSpotBench;
  let other: TestPlatform;
  beforeAll(async () => {
    bench = await openBench();
    other = await createTestPlatform({ databaseUrl: bench.platform.databaseUrl ?? '' });
  });
  afterAll(async () => {
    await other?.close();
    await bench.close();
  });

  /** How many statements of a kind this node has sent about a schema. */
  const sent = async (schema: Json, kind: string): Promise<number> => {
    const { statements } = (await bench.platform.admin.get('/database/insights')).body;
    return (
      statements.find((each: Json) => each.schema === schema.name && each.operation === kind)
        ?.count ?? 0
    );
  };

  test('row 29: reading with permissions makes nothing in the database, however many users read', async () => {
    const schema = await bench.schema({ a: 'String' }, owned);
    const objects = async () =>
      (await bench.rows('select count(*)::integer as n from pg_class'))[0].n;
    const before = await objects();
    for (let i = 0; i < 4; i += 1) {
      const user = await bench.platform.registerUser();
      await user.api.post(`/database/${schema.name}`, { a: `of ${i}` });
      const { body } = await user.api.get(`/database/${schema.name}`);
      expect(body).toMatchObject({ count: 1, documents: [{ a: `of ${i}` }] });
    }
    expect(await objects()).toBe(before);
  });

  test('row 30: a list with permissions and its count are one statement', async () => {
    const schema = await bench.schema({ a: 'String' }, owned);
    /** Statements that the list of somebody who was not here before sends about the table. */
    const askedFor = async (): Promise<number> => {
      const user = await bench.platform.registerUser();
      for (const a of ['x', 'y']) await user.api.post(`/database/${schema.name}`, { a });
      const before = await sent(schema, 'select');
      expect((await user.api.get(`/database/${schema.name}?limit=1`)).body).toMatchObject({
        count: 2,
        documents: [{ a: 'x' }],
      });
      return (await sent(schema, 'select')) - before;
    };
    // A new table is looked at once, on each node, to give it the columns of its owners.
    await waitFor(async () => (await askedFor()) === 1, { what: 'the look at the new table' });
    expect(await askedFor()).toBe(1);
  });

  test('row 31: every list is bounded, counts can be left out, and pages go on from where they ended', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({ n: 'Number' });
    const rows = Array.from({ length: 1_000 }, (_, n) => ({ n }));
    await bench.fill(schema, rows);
    await bench.fill(schema, [{ n: 1_000 }]);
    const path = `/database/${schema.name}`;
    for (const limit of ['0', '-1', '1001', '1e9'])
      expect((await client.get(`${path}?limit=${limit}`)).status).toBe(400);
    await bench.endpoint(schema, 'unbounded', { operation: operation.get, query: {} });
    expect(await client.get('/database/function/unbounded')).toMatchObject({
      status: 400,
      body: { code: 'RECORD_LIMIT_EXCEEDED' },
    });
    expect((await client.get(`${path}?count=none`)).body).not.toHaveProperty('count');
    expect((await client.get(`${path}?count=estimated&limit=1`)).body).toMatchObject({
      count: 1_001,
    });
    const first = (await client.get(`${path}?cursor=start&limit=600&sort=-n`)).body;
    const last = (
      await client.get(`${path}?cursor=${encodeURIComponent(first.nextCursor)}&limit=600&sort=-n`)
    ).body;
    expect(last.nextCursor).toBeNull();
    expect([...first.documents, ...last.documents].map(({ n }: Json) => n)).toEqual([
      ...rows.map(({ n }) => 1_000 - n),
      0,
    ]);
  });

  test('row 32: a client sees its own write at once, and an ETag says whether it changed', async () => {
    const { client } = bench.platform;
    const schema = await bench.schema({ n: 'Number' });
    const [record] = await bench.fill(schema, [{ n: 0 }]);
    const path = `/database/${schema.name}/${record._id}`;
    for (let n = 1; n <= 5; n += 1) {
      await client.patch(path, { n });
      for (const node of [client, other.client]) {
        const read = await node.get(path);
        expect([read.body.n, read.headers.get('etag')]).toEqual([
          n,
          expect.stringMatching(`^"${n}-`),
        ]);
      }
    }
  });

  test('row 33, check 9: a schema serves on every node when the call that made it returns', async () => {
    for (let i = 0; i < 5; i += 1) {
      const schema = await bench.schema({ a: 'String' });
      expect((await other.client.post(`/database/${schema.name}`, { a: 'there' })).status).toBe(
        200,
      );
      expect((await bench.platform.client.get(`/database/${schema.name}`)).body.count).toBe(1);
    }
  });

  test('row 34: a relation to a schema that is not there keeps nobody waiting', async () => {
    const { admin, client } = bench.platform;
    const schema = await bench.schema({
      a: 'String',
      link: { type: 'Relation', model: 'NeverMade' },
    });
    expect(JSON.stringify((await admin.get(`/database/schemas/${schema._id}`)).body)).toContain(
      'NeverMade',
    );
    const [record] = await bench.fill(schema, [{ a: 'x', link: crypto.randomUUID() }]);
    expect((await client.get(`/database/${schema.name}/${record._id}`)).body.link).toBe(
      record.link,
    );
    const late = await createTestPlatform({ databaseUrl: bench.platform.databaseUrl ?? '' });
    try {
      expect((await late.client.get(`/database/${schema.name}`)).body.count).toBe(1);
      expect((await late.client.get('/ready')).status).toBe(200);
    } finally {
      await late.close();
    }
  });

  test('row 35: reading the tables of others again keeps what an admin has edited, and touches no row', async () => {
    const { admin } = bench.platform;
    await bench.rows(
      'create table public.ledger (id integer primary key, amount numeric not null)',
    );
    await bench.rows('insert into public.ledger values (1, 9.99)');
    expect((await admin.post('/database/introspection')).status).toBe(200);
    const pending = async (): Promise<Json> =>
      (await admin.get('/database/introspection/schemas?limit=100')).body.schemas.find(
        ({ source }: Json) => source?.table === 'ledger',
      );
    const { _id, fields } = await pending();
    const { amount, ...kept } = fields;
    const edit = { renames: { amount: 'total' }, fields: { ...kept, total: amount } };
    const edited = await admin.patch(`/database/introspection/schemas/${_id}`, edit);
    expect(edited.status, edited.text).toBe(200);
    expect((await admin.post('/database/introspection')).status).toBe(200);
    expect(await pending()).toMatchObject({ _id, fields: { total: amount } });
    expect(await bench.rows('select id, amount::text from public.ledger')).toEqual([
      { id: 1, amount: '9.99' },
    ]);
  });

  test('row 36, check 11: every writer leaves one event per record, which names it and says nothing of its content', async () => {
    const { client, admin } = bench.platform;
    const schema = await bench.schema({ text: 'String', n: 'Number' });
    const path = `/database/${schema.name}`;
    const text = 'content-of-a-record';
    const written: Json = {};
    written.client = (await client.post(path, { text })).body._id;
    [written.many] = (await client.post(`${path}/many`, { docs: [{ text }] })).body.docs.map(
      ({ _id }: Json) => _id,
    );
    written.admin = (
      await admin.post(`/database/schemas/${schema.name}/docs`, { inputDocument: { text } })
    ).body._id;
    const batch = await client.post('/database/batch', {
      operations: [{ op: 'create', schema: schema.name, data: { text } }],
    });
    written.batch = batch.body.results[0].document._id;
    await bench.endpoint(schema, 'maker', {
      operation: operation.post,
      assignments: [assign('text', 0, 'Custom', text)],
    });
    written.endpoint = (await client.post('/database/function/maker', {})).body[0]._id;
    const lines = await admin.post(
      `/database/schemas/${schema.name}/docs/import`,
      `${JSON.stringify({ text })}\n`,
      {
        headers: { 'content-type': 'application/x-ndjson' },
      },
    );
    expect(lines.status, lines.text).toBe(200);
    const ids: string[] = (await client.get(`${path}?limit=100`)).body.documents.map(
      ({ _id }: Json) => _id,
    );
    expect(ids).toEqual(expect.arrayContaining(Object.values(written)));
    expect(ids).toHaveLength(6);
    const query = compare('text', 0, ['Custom', text]);
    await bench.endpoint(schema, 'raise', {
      operation: operation.patch,
      query,
      assignments: [assign('n', 0, 'Custom', 1)],
    });
    await client.patch('/database/function/raise', {});
    await bench.endpoint(schema, 'clean', { operation: operation.delete, query });
    await client.delete('/database/function/clean');
    const events = await bench.rows(
      'select operation, ids, to_jsonb(o)::text as "all" from penstock.outbox o where schema = $1 and operation is not null',
      [schema.name],
    );
    for (const kind of ['insert', 'update', 'delete']) {
      const touched = events
        .filter((event) => event.operation === kind)
        .flatMap((event) => event.ids);
      expect([kind, touched.sort()]).toEqual([kind, [...ids].sort()]);
    }
    expect(events.some(({ all }) => all.includes(text))).toBe(false);
  });

  // Large tables get theirs beside running writes: acceptance/schemas.test.ts, src/modules/database/index-build.test.ts.
  test('row 37: an index is made once under a name that is its own, also when its parts have long names', async () => {
    const { admin } = bench.platform;
    const long = (letter: string): string => letter.repeat(60);
    const schema = await bench.schema({
      [long('a')]: 'String',
      [long('b')]: 'String',
      [`${long('a')}2`]: 'String',
    });
    const path = `/database/schemas/${schema._id}/indexes`;
    const indexes = [
      { fields: [long('a'), long('b')] },
      { fields: [`${long('a')}2`, long('b')] },
      { fields: [long('a')] },
    ];
    for (let turn = 0; turn < 2; turn += 1)
      expect((await admin.post(path, { indexes })).status).toBe(200);
    const restarted = await createTestPlatform({ databaseUrl: bench.platform.databaseUrl ?? '' });
    await restarted.close();
    const made = await bench.rows('select indexname as name from pg_indexes where tablename = $1', [
      schema.name,
    ]);
    const names = made.map(({ name }) => name);
    expect(names).toHaveLength(4);
    expect(new Set(names).size).toBe(4);
    for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63);
    expect((await admin.get(path)).body.indexes.map(({ state }: Json) => state)).toEqual([
      'ready',
      'ready',
      'ready',
    ]);
  });

  test('row 38: all comparisons mean what they say, and clients may filter where a schema lets them', async () => {
    const { client } = bench.platform;
    const cms = { enabled: true, query: { enabled: true, fields: ['n'] } };
    const schema = await bench.schema({ n: 'Number', tags: ['String'], title: 'String' }, { cms });
    await bench.fill(schema, [
      { n: 1, tags: ['x', 'y'], title: 'One' },
      { n: 2, tags: [], title: 'two' },
    ]);
    const inputs = [input('tag', 'String', location.query)];
    await bench.endpoint(schema, 'tagged', {
      operation: operation.get,
      inputs,
      query: compare('tags', 8, ['Input', 'tag']),
    });
    expect((await client.get('/database/function/tagged?tag=y')).body).toMatchObject([{ n: 1 }]);
    for (const [name, more, found] of [
      ['anyCase', { like: true }, 1],
      ['sameCase', { like: true, caseSensitiveLike: true }, 0],
    ] as const) {
      await bench.endpoint(schema, name, {
        operation: operation.get,
        query: compare('title', 0, ['Custom', 'ONE'], more),
      });
      expect((await client.get(`/database/function/${name}`)).body).toHaveLength(found);
    }
    const path = `/database/${schema.name}`;
    expect((await client.post(`${path}/query`, { query: { n: { $gt: 1 } } })).body).toMatchObject({
      count: 1,
      documents: [{ n: 2 }],
    });
    expect((await client.post(`${path}/query`, { query: { title: 'One' } })).status).toBe(400);
    expect((await client.get(`${path}?n=1&title=One`)).body.count).toBe(2);
  });

  test('check 1: lists begin at 0 with 25, count what the caller sees, and keep their order under equal keys', async () => {
    const [anna, ben] = [await bench.platform.registerUser(), await bench.platform.registerUser()];
    const schema = await bench.schema({ same: 'Number', n: 'Number' }, owned);
    const path = `/database/${schema.name}`;
    const docs = Array.from({ length: 30 }, (_, n) => ({ same: 1, n }));
    await anna.api.post(`${path}/many`, { docs });
    await ben.api.post(`${path}/many`, { docs: docs.slice(0, 3) });
    const { documents, count } = (await anna.api.get(path)).body;
    expect([documents.length, count]).toEqual([25, 30]);
    expect((await ben.api.get(path)).body.count).toBe(3);
    const pages = await Promise.all(
      [0, 10, 20].map((skip) => anna.api.get(`${path}?sort=same&limit=10&skip=${skip}`)),
    );
    const seen = pages.flatMap(({ body }) => body.documents.map(({ _id }: Json) => _id));
    expect(new Set(seen).size).toBe(30);
    expect(
      (await anna.api.get(`${path}?sort=same&limit=30`)).body.documents.map(({ _id }: Json) => _id),
    ).toEqual(seen);
  });

  test('check 12: the same import at two nodes at once is one migration', async () => {
    const body = { schemas: [{ name: 'TwiceAtOnce', fields: { a: 'String', b: 'Number' } }] };
    const answers = await Promise.all(
      [bench.platform.admin, other.admin].map((admin) =>
        admin.post('/database/schemas/import', body),
      ),
    );
    for (const { status } of answers) expect(status).toBeOneOf([200, 409, 503]);
    const { schemas } = (await bench.platform.admin.get('/database/schemas?search=TwiceAtOnce'))
      .body;
    expect(schemas).toHaveLength(1);
    const { count } = (await other.admin.get(`/database/schemas/${schemas[0]._id}/migrations`))
      .body;
    expect(count).toBe(1);
  });
});
