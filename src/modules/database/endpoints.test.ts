// Calls of custom endpoints (spec/database.md 1.2, 5.7).
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
  titles,
} from '../../../test/support/endpoints.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const {
  get: GET,
  post: POST,
  put: PUT,
  delete: DELETE,
  patch: PATCH,
  aggregate: AGGREGATE,
} = operation;
const { body: BODY, query: QUERY, path: PATH } = location;

describe('custom endpoints', () => {
  let platform: TestPlatform;
  let bench: EndpointBench;
  beforeAll(async () => {
    platform = await createTestPlatform();
    bench = createEndpointBench(platform);
  });
  afterAll(() => platform.close());

  it('reads with nested groups, every comparison and every source of values', async () => {
    const selectedSchemaName = await bench.posts([
      {
        title: 'a',
        text: 'The 100% Story',
        views: 1,
        likes: 1,
        tags: ['x', 'y'],
        day: '2026-01-01',
      },
      { title: 'b', text: 'another story', views: 2, likes: 1, tags: ['y'], day: '2026-02-01' },
      { title: 'c', views: 3, likes: 5, meta: { $ne: null } },
    ]);
    const codes = [['b'], ['a', 'c'], ['c'], ['b', 'c'], ['a'], ['a', 'b']];
    for (const [code, expected] of codes.entries()) {
      const name = `code${code}`;
      const created = await bench.endpoint(name, {
        operation: GET,
        selectedSchemaName,
        inputs: [input('v', 'Number', QUERY)],
        query: compare('views', code, ['Input', 'v']),
      });
      expect(created.query).toEqual({ AND: [compare('views', code, ['Input', 'v'])] });
      expect(titles((await bench.call(`${name}?v=2`)).body)).toEqual(expected);
    }
    const sets = {
      operation: GET,
      selectedSchemaName,
      inputs: [input('v', 'Number', QUERY, { array: true })],
    };
    await bench.endpoint('inSet', { ...sets, query: compare('views', 6, ['Input', 'v']) });
    await bench.endpoint('notInSet', { ...sets, query: compare('views', 7, ['Input', 'v']) });
    expect(titles((await bench.call('inSet?v=1,3')).body)).toEqual(['a', 'c']);
    expect(titles((await bench.call('notInSet?v=1&v=3')).body)).toEqual(['b']);
    await bench.endpoint('contains', {
      operation: GET,
      selectedSchemaName,
      inputs: [input('tag', 'String', PATH), input('text', 'String', QUERY, { optional: true })],
      query: {
        AND: [
          compare('tags', 8, ['Input', 'tag']),
          {
            OR: [
              compare('text', 0, ['Input', 'text'], { like: true }),
              compare('views', 0, ['Custom', 2]),
            ],
          },
        ],
      },
    });
    expect(titles((await bench.call('contains/y?text=STORY')).body)).toEqual(['a', 'b']);
    expect(titles((await bench.call('contains/y?text=100%25')).body)).toEqual(['a', 'b']);
    expect(titles((await bench.call('contains/y')).body)).toEqual(['b']);
    expect((await bench.call('contains')).status).toBe(404);
    await bench.endpoint('caseSensitive', {
      operation: GET,
      selectedSchemaName,
      inputs: [input('text', 'String', QUERY)],
      query: compare('text', 0, ['Input', 'text'], { like: true, caseSensitiveLike: true }),
    });
    expect(titles((await bench.call('caseSensitive?text=Story')).body)).toEqual(['a']);
    expect(titles((await bench.call('caseSensitive?text=_tory')).body)).toEqual([]);
    expect(titles((await bench.call('caseSensitive?text=S%25y')).body)).toEqual([]);
    await bench.endpoint('columns', {
      operation: GET,
      selectedSchemaName,
      query: compare('views', 0, ['Schema', 'likes']),
    });
    expect(titles((await bench.call('columns')).body)).toEqual(['a']);
    await bench.endpoint('words', {
      operation: GET,
      selectedSchemaName,
      inputs: [input('q', 'String', QUERY)],
      query: compare('text', 0, ['Input', 'q'], { search: true }),
    });
    expect(titles((await bench.call('words?q=story%20-another')).body)).toEqual(['a']);
    await bench.endpoint('since', {
      operation: GET,
      selectedSchemaName,
      inputs: [input('day', 'Date', QUERY)],
      query: compare('day', 3, ['Input', 'day']),
    });
    expect(titles((await bench.call('since?day=2026-01-15')).body)).toEqual(['b']);
    expect(await bench.call('since?day=yesterday')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'day' }] },
    });
    await bench.endpoint('json', {
      operation: GET,
      selectedSchemaName,
      inputs: [input('meta', 'JSON', QUERY)],
      query: compare('meta', 0, ['Input', 'meta']),
    });
    expect(
      titles((await bench.call(`json?meta=${encodeURIComponent('{"$ne":null}')}`)).body),
    ).toEqual(['c']);
    expect(
      titles((await bench.call(`json?meta=${encodeURIComponent('{"$gt":""}')}`)).body),
    ).toEqual([]);
  });

  it('answers the exact bodies of the five operations', async () => {
    const selectedSchemaName = await bench.posts([
      { title: 'a', views: 1, tags: ['x'] },
      { title: 'b', views: 2, tags: [] },
    ]);
    await bench.endpoint('pages', {
      operation: GET,
      selectedSchemaName,
      query: {},
      paginated: true,
      sorted: true,
    });
    const page = await bench.call('pages?skip=1&limit=1&sort=-views');
    expect(page.body).toMatchObject({ count: 2, documents: [{ title: 'a' }] });
    expect(await bench.call('pages?skip=0')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'limit' }] },
    });
    expect((await bench.call('pages?skip=0&limit=5&sort=secret')).status).toBe(400);
    expect((await bench.call('pages?skip=0&limit=5&populate=title')).status).toBe(400);

    await bench.endpoint('make', {
      operation: POST,
      selectedSchemaName,
      inputs: [
        input('title', 'String', BODY),
        input('views', 'Number', BODY, { optional: true }),
        input('tag', 'String', PATH),
      ],
      assignments: [
        assign('title', 0, 'Input', 'title'),
        assign('views', 0, 'Input', 'views'),
        assign('text', 0, 'Custom', 'fixed'),
      ],
    });
    const made = await platform.client.post('/database/function/make/x', {
      title: 'c',
      secret: 'dropped',
    });
    expect(made.body).toEqual([
      expect.objectContaining({ title: 'c', views: null, text: 'fixed', __v: 0 }),
    ]);
    expect(await platform.client.post('/database/function/make/x', {})).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'title' }] },
    });

    const writes = {
      selectedSchemaName,
      inputs: [input('title', 'String', BODY), input('by', 'Number', BODY, { optional: true })],
    };
    const query = compare('title', 0, ['Input', 'title']);
    await bench.endpoint('bump', {
      ...writes,
      operation: PUT,
      query,
      assignments: [
        assign('views', 1, 'Input', 'by'),
        assign('likes', 2, 'Custom', -3),
        assign('tags', 3, 'Custom', 'new'),
      ],
    });
    expect(
      (await platform.client.put('/database/function/bump', { title: 'a', by: 4 })).body,
    ).toEqual(['Ok']);
    await platform.client.put('/database/function/bump', { title: 'a' });
    const all = await platform.client.get(`/database/${selectedSchemaName}?sort=title`);
    expect(all.body.documents[0]).toMatchObject({
      views: 5,
      likes: 6,
      tags: ['x', 'new', 'new'],
      __v: 2,
    });
    await bench.endpoint('clear', {
      ...writes,
      operation: PATCH,
      query,
      assignments: [assign('views', 0, 'Input', 'by')],
    });
    expect(
      (await platform.client.patch('/database/function/clear', { title: 'a', by: null })).body,
    ).toEqual({
      matchedCount: 1,
      modifiedCount: 1,
    });
    expect(
      (await platform.client.patch('/database/function/clear', { title: 'none', by: 1 })).body,
    ).toEqual({
      matchedCount: 0,
      modifiedCount: 0,
    });
    await bench.endpoint('drop', {
      operation: DELETE,
      selectedSchemaName,
      inputs: [input('title', 'String', QUERY)],
      query,
    });
    expect((await platform.client.delete('/database/function/drop?title=a')).body).toEqual({
      deletedCount: 1,
    });
    expect((await platform.client.get(`/database/${selectedSchemaName}`)).body.count).toBe(2);
    expect((await platform.client.post('/database/function/drop?title=a', {})).status).toBe(405);
  });

  it('never widens a write when optional inputs are absent', async () => {
    const selectedSchemaName = await bench.posts([{ title: 'a' }, { title: 'b' }]);
    const optional = { optional: true };
    const inputs = [
      input('one', 'String', QUERY, optional),
      input('two', 'String', QUERY, optional),
    ];
    const or = {
      OR: [compare('title', 0, ['Input', 'one']), { AND: [compare('title', 0, ['Input', 'two'])] }],
    };
    await bench.endpoint('sweep', { operation: DELETE, selectedSchemaName, inputs, query: or });
    await bench.endpoint('sweepAll', {
      operation: DELETE,
      selectedSchemaName,
      inputs,
      query: or,
      matchAllWhenEmpty: true,
    });
    for (const name of ['sweep', 'sweepAll']) {
      expect(await platform.client.delete(`/database/function/${name}`)).toMatchObject({
        status: 400,
        body: { code: 'EMPTY_FILTER' },
      });
    }
    const guarded = { AND: [compare('title', 1, ['Custom', 'zzz']), or] };
    await bench.endpoint('guarded', {
      operation: PATCH,
      selectedSchemaName,
      inputs,
      query: guarded,
      assignments: [assign('views', 0, 'Custom', 1)],
    });
    expect((await platform.client.patch('/database/function/guarded', {})).body).toEqual({
      matchedCount: 0,
      modifiedCount: 0,
    });
    expect(
      (await platform.client.patch('/database/function/guarded?two=b', {})).body.matchedCount,
    ).toBe(1);
    await bench.endpoint('seen', { operation: GET, selectedSchemaName, inputs, query: or });
    await bench.endpoint('seenAll', {
      operation: GET,
      selectedSchemaName,
      inputs,
      query: or,
      matchAllWhenEmpty: true,
    });
    expect([
      (await bench.call('seen')).body.length,
      (await bench.call('seenAll')).body.length,
    ]).toEqual([0, 2]);
    expect(titles((await bench.call('seen?two=b')).body)).toEqual(['b']);
    expect((await platform.client.get(`/database/${selectedSchemaName}`)).body.count).toBe(2);
    expect(
      (
        await platform.admin.post('/database/customEndpoints', {
          name: 'all',
          operation: DELETE,
          selectedSchemaName,
          query: {},
        })
      ).status,
    ).toBe(400);
  });

  it('knows the user, and needs one where rows are a matter of permission', async () => {
    const selectedSchemaName = await bench.posts([]);
    await bench.endpoint('addMine', {
      operation: POST,
      selectedSchemaName,
      authentication: true,
      inputs: [input('title', 'String', BODY)],
      assignments: [
        assign('title', 0, 'Input', 'title'),
        assign('author', 0, 'Context', 'user._id'),
        assign('text', 0, 'Context', 'user.email'),
      ],
    });
    await bench.endpoint('mine', {
      operation: GET,
      selectedSchemaName,
      query: compare('author', 0, ['Context', 'user._id']),
    });
    const [one, two] = [await platform.registerUser(), await platform.registerUser()];
    expect((await platform.client.post('/database/function/addMine', { title: 'x' })).status).toBe(
      401,
    );
    const made = await one.api.post('/database/function/addMine', { title: 'one' });
    expect(made.body).toMatchObject([{ author: one.userId, text: one.email }]);
    await two.api.post('/database/function/addMine', { title: 'two' });
    expect(titles((await one.api.get('/database/function/mine')).body)).toEqual(['one']);
    expect(await bench.call('mine')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'user._id' }] },
    });

    const guarded = await bench.posts([], { authorization: { enabled: true } });
    const open = { name: 'open', operation: GET, selectedSchemaName: guarded, query: {} };
    expect(await platform.admin.post('/database/customEndpoints', open)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'authentication' }] },
    });
    await bench.endpoint('guardedAdd', {
      operation: POST,
      selectedSchemaName: guarded,
      authentication: true,
      inputs: [input('title', 'String', BODY)],
      assignments: [assign('title', 0, 'Input', 'title')],
    });
    await bench.endpoint('guardedAll', {
      operation: GET,
      selectedSchemaName: guarded,
      authentication: true,
      query: {},
    });
    await bench.endpoint('guardedWipe', {
      operation: DELETE,
      selectedSchemaName: guarded,
      authentication: true,
      query: compare('title', 1, ['Custom', '']),
    });
    await one.api.post('/database/function/guardedAdd', { title: 'private one' });
    await two.api.post('/database/function/guardedAdd', { title: 'private two' });
    expect((await bench.call('guardedAll')).status).toBe(401);
    expect(titles((await one.api.get('/database/function/guardedAll')).body)).toEqual([
      'private one',
    ]);
    expect((await one.api.delete('/database/function/guardedWipe')).body).toEqual({
      deletedCount: 1,
    });
    expect(titles((await two.api.get('/database/function/guardedAll')).body)).toEqual([
      'private two',
    ]);
  });

  it('counts and adds up', async () => {
    const selectedSchemaName = await bench.posts([
      { title: 'a', views: 1, likes: 10, day: '2026-01-01' },
      { title: 'a', views: 2, likes: 20, day: '2026-01-03' },
      { title: 'b', views: 3 },
    ]);
    const values = [
      { as: 'n', function: 'count' },
      { as: 'views', function: 'sum', field: 'views' },
      { as: 'mean', function: 'avg', field: 'likes' },
      { as: 'last', function: 'max', field: 'day' },
      { as: 'kinds', function: 'distinct', field: 'likes' },
    ];
    const facts = {
      operation: AGGREGATE,
      selectedSchemaName,
      inputs: [input('min', 'Number', QUERY)],
      query: compare('views', 3, ['Input', 'min']),
    };
    await bench.endpoint('totals', { ...facts, aggregate: { values } });
    expect((await bench.call('totals?min=0')).body).toEqual([
      { n: 3, views: 6, mean: 15, last: '2026-01-03T00:00:00.000Z', kinds: 2 },
    ]);
    expect((await bench.call('totals?min=9')).body).toEqual([
      { n: 0, views: null, mean: null, last: null, kinds: 0 },
    ]);
    await bench.endpoint('perTitle', {
      ...facts,
      aggregate: { groupBy: ['title'], values },
      sorted: true,
    });
    expect((await bench.call('perTitle?min=0&sort=-n')).body).toMatchObject([
      { title: 'a', n: 2, views: 3 },
      { title: 'b', n: 1, mean: null },
    ]);
    expect((await bench.call('perTitle?min=0&sort=secret')).status).toBe(400);
    const wrong = {
      ...facts,
      name: 'wrong',
      aggregate: {
        groupBy: ['secret', 'tags'],
        values: [{ as: 'x', function: 'sum', field: 'title' }],
      },
    };
    const refused = await platform.admin.post('/database/customEndpoints', wrong);
    expect(refused.body.errors.map(({ path }: Json) => path)).toEqual([
      'aggregate.groupBy.0',
      'aggregate.groupBy.1',
      'aggregate.values.0.field',
    ]);
  });

  it('takes what clients send as values, whatever it looks like', async () => {
    const selectedSchemaName = await bench.posts([{ title: 'a', meta: { k: 1 } }]);
    const inputs = [
      input('text', 'String', QUERY),
      input('json', 'JSON', QUERY, { optional: true }),
    ];
    const query = {
      AND: [
        compare('title', 0, ['Input', 'text'], { like: true }),
        compare('meta.k', 0, ['Input', 'json']),
      ],
    };
    await bench.endpoint('hostile', { operation: GET, selectedSchemaName, inputs, query });
    const texts = [
      "' or 1=1; --",
      '"; drop table app."Post0"; --',
      '$1',
      '%',
      '_',
      '\\',
      "a' || pg_sleep(5) || '",
      '{"$ne":null}',
      '\u202e',
      'é',
    ];
    for (const text of texts) {
      const answer = await platform.client.get('/database/function/hostile', { query: { text } });
      expect([text, answer.status, answer.body]).toEqual([text, 200, []]);
    }
    for (const [json, status] of [
      ['{"$gt":0}', 200],
      ['[1]', 200],
      ['{', 400],
      ['"text"', 400],
      [JSON.stringify({ a: '\0' }), 400],
      [`{"__proto__":{"x":1}}`, 400],
    ] as const) {
      const answer = await platform.client.get('/database/function/hostile', {
        query: { text: 'a', json },
      });
      expect([json, answer.status]).toEqual([json, status]);
      if (status === 200) expect(answer.body).toEqual([]);
    }
    expect(
      (await platform.client.get('/database/function/hostile', { query: { text: 'a', json: '1' } }))
        .body,
    ).toHaveLength(1);
    expect((await bench.call('hostile?text=%00')).status).toBe(400);
    expect((await bench.call('hostile?text[$ne]=a')).status).toBe(400);
    expect((await bench.call('hostile?text=a&text=b')).status).toBe(400);
    expect((await bench.call('constructor')).status).toBe(404);
    expect((await bench.call('hostile?text=a,b')).status).toBe(200);
  });

  it('refuses a list that is too long without pages', async () => {
    const selectedSchemaName = await bench.posts([]);
    const docs = Array.from({ length: 1_000 }, (_, views) => ({ title: 'x', views }));
    await platform.client.post(`/database/${selectedSchemaName}/many`, { docs });
    await bench.endpoint('long', { operation: GET, selectedSchemaName, query: {} });
    expect((await bench.call('long')).body).toHaveLength(1_000);
    await platform.client.post(`/database/${selectedSchemaName}`, { title: 'one more' });
    expect(await bench.call('long')).toMatchObject({
      status: 400,
      body: { code: 'RECORD_LIMIT_EXCEEDED' },
    });
  });

  it('stands in the description of the client surface as it is', async () => {
    const { body } = await platform.client.get('/swagger.json');
    const path = body.paths['/database/function/contains/{tag}'];
    const operation = path.get;
    // Parameters of the address stand at the path, for all its methods.
    const names = [...(path.parameters ?? []), ...operation.parameters].map(
      ({ name, $ref }: Json) => name ?? $ref.split('/').at(-1),
    );
    expect(names).toEqual(expect.arrayContaining(['tag', 'text']));
    const answer = operation.responses['200'];
    const response = answer.$ref
      ? body.components.responses[answer.$ref.split('/').at(-1)]
      : answer;
    expect(response.content['application/json'].schema.type).toBe('array');
  });
});
