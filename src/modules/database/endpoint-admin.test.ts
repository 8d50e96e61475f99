// Custom endpoints on the admin surface (spec/database.md 2.4, 5.7).
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

describe('the design of custom endpoints', () => {
  let platform: TestPlatform;
  let bench: EndpointBench;
  beforeAll(async () => {
    platform = await createTestPlatform();
    bench = createEndpointBench(platform);
  });
  afterAll(() => platform.close());

  it('works while the client routes are closed, not while the schema is switched off', async () => {
    const crudOperations = Object.fromEntries(
      ['read', 'update', 'delete'].map((name) => [name, { enabled: false }]),
    );
    const selectedSchemaName = await bench.posts([{ title: 'a' }], { cms: { crudOperations } });
    expect((await platform.client.get(`/database/${selectedSchemaName}`)).status).toBe(405);
    const { _id } = await bench.endpoint('only', { operation: GET, selectedSchemaName, query: {} });
    expect((await bench.call('only')).body).toHaveLength(1);
    const [schema] = (await platform.admin.get(`/database/schemas?search=${selectedSchemaName}`))
      .body.schemas;
    await platform.admin.post(`/database/schemas/${schema._id}/toggle`);
    expect((await bench.call('only')).status).toBe(404);
    expect((await platform.admin.get(`/database/customEndpoints/${_id}`)).body.enabled).toBe(false);
    await platform.admin.post(`/database/schemas/${schema._id}/toggle`);
    expect((await bench.call('only')).body).toHaveLength(1);
    expect(
      await platform.admin.delete(`/database/schemas/${schema._id}?deleteData=true`),
    ).toMatchObject({
      status: 409,
      body: { code: 'SCHEMA_IN_USE' },
    });
    await bench.endpoint('byText', {
      operation: GET,
      selectedSchemaName,
      query: compare('text', 0, ['Custom', 'x']),
    });
    await platform.admin.put(`/database/schemas/${schema._id}`, { fields: { title: 'String' } });
    expect((await bench.call('byText')).status).toBe(404);
    const [view] = (await platform.admin.get('/database/customEndpoints?search=byText')).body
      .customEndpoints;
    expect(view.warnings[0]).toContain('query.AND.0.schemaField');
    await platform.admin.delete(`/database/customEndpoints/${view._id}`);
    expect((await platform.admin.delete(`/database/customEndpoints/${_id}`)).body.result).toBe(
      'Custom Endpoint deleted',
    );
    expect((await bench.call('only')).status).toBe(404);
    expect((await platform.admin.delete(`/database/customEndpoints/${_id}`)).status).toBe(404);
    expect(
      (await platform.admin.delete(`/database/schemas/${schema._id}?deleteData=true`)).status,
    ).toBe(200);
  });

  it('warns of fields that no client may ask', async () => {
    const name = 'Paid';
    await platform.createSchema({
      name,
      fields: {
        title: 'String',
        pay: { type: 'Number', access: { read: 'role:payroll' } },
        note: { type: 'String', access: { read: 'relation:editor' } },
        file: { type: 'String', access: { read: 'admin' } },
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    const told = async (field: string, value: unknown): Promise<readonly string[]> => {
      const made = await platform.admin.post('/database/customEndpoints', {
        ...{ name: `by-${field}`, operation: GET, selectedSchemaName: name, authentication: true },
        query: { AND: [compare(field, 0, ['Custom', value])] },
      });
      expect([made.status, made.body]).toEqual([200, expect.anything()]);
      const { body } = await platform.admin.get(`/database/customEndpoints/${made.body._id}`);
      return body.warnings;
    };
    expect(await told('title', 'x')).toEqual([]);
    expect(await told('pay', 1)).toEqual([]);
    for (const field of ['note', 'file'])
      expect(await told(field, 'x')).toEqual([
        expect.stringMatching(
          /^query\.AND\.0\.schemaField: the read rule of "(note|file)" shows it/,
        ),
      ]);
  });

  it('names every problem of a definition with its place', async () => {
    const selectedSchemaName = await bench.posts([]);
    const good = {
      name: 'good',
      operation: GET,
      selectedSchemaName,
      query: compare('title', 0, ['Custom', 'x']),
    };
    const leaf = (field: string, code: number, source: readonly [string, unknown], more = {}) => ({
      query: { AND: [compare(field, code, source, more)] },
    });
    const at = (rest: string) => `query.AND.0.${rest}`;
    const writes = { operation: PUT };
    const cases: readonly (readonly [Json, string])[] = [
      [{ name: 'a b' }, 'name'],
      [{ name: '__proto__' }, 'name'],
      [{ operation: 9 }, 'operation'],
      [{ query: { AND: [], OR: [] } }, 'query'],
      [{ query: { XOR: [] } }, 'query.XOR'],
      [{ query: { OR: [{ AND: [] }] } }, 'query.OR.0.AND'],
      [{ query: [1] }, 'query'],
      [leaf('nothing', 0, ['Custom', 'x']), at('schemaField')],
      [leaf('secret', 0, ['Custom', 'x']), at('schemaField')],
      [leaf('author.hashedPassword', 0, ['Custom', 'x']), at('schemaField')],
      [leaf('title"; drop table x; --', 0, ['Custom', 'x']), at('schemaField')],
      [leaf('title', 11, ['Custom', 'x']), at('operation')],
      [leaf('title', 0, ['Magic', 'x']), at('comparisonField.type')],
      [leaf('title', 0, ['Input', 'none']), at('comparisonField.value')],
      [leaf('title', 0, ['Context', 'user.hashedPassword']), at('comparisonField.value')],
      [leaf('title', 0, ['Context', 'env.SECRET']), at('comparisonField.value')],
      [leaf('title', 0, ['Schema', 'views']), at('comparisonField.type')],
      [leaf('views', 0, ['Custom', 'x']), at('comparisonField.value')],
      [leaf('views', 0, ['Custom', 1], { like: true }), at('comparisonField.value')],
      [leaf('title', 2, ['Custom', 'x'], { like: true }), at('comparisonField.like')],
      [leaf('title', 0, ['Custom', 'x'], { evil: 1 }), at('comparisonField.evil')],
      [{ inputs: [input('a b', 'String', QUERY)] }, 'inputs.0.name'],
      [{ inputs: [input('constructor', 'String', QUERY)] }, 'inputs.0.name'],
      [{ inputs: [input('limit', 'String', QUERY)] }, 'inputs.0.name'],
      [{ inputs: [input('a', 'String', QUERY), input('a', 'String', QUERY)] }, 'inputs.1.name'],
      [{ inputs: [input('a', 'String', BODY)] }, 'inputs.0.location'],
      [{ inputs: [input('a', 'String', PATH, { array: true })] }, 'inputs.0.array'],
      [{ inputs: [input('a', 'String', PATH, { optional: true })] }, 'inputs.0.optional'],
      [{ inputs: [input('a', 'Text', QUERY)] }, 'inputs.0.type'],
      [
        { inputs: [input('n', 'Number', QUERY)], ...leaf('title', 0, ['Input', 'n']) },
        at('comparisonField.type'),
      ],
      [
        { inputs: [input('n', 'Number', QUERY)], ...leaf('views', 6, ['Input', 'n']) },
        at('comparisonField.type'),
      ],
      [{ assignments: [assign('title', 0, 'Custom', 'x')] }, 'assignments'],
      [
        { ...writes, paginated: true, assignments: [assign('title', 0, 'Custom', 'x')] },
        'paginated',
      ],
      [{ ...writes }, 'assignments'],
      [{ ...writes, assignments: [assign('_id', 0, 'Custom', 'x')] }, 'assignments.0.schemaField'],
      [
        { ...writes, assignments: [assign('title', 1, 'Custom', 1)] },
        'assignments.0.assignmentField',
      ],
      [
        { ...writes, assignments: [assign('views', 3, 'Custom', 1)] },
        'assignments.0.assignmentField',
      ],
      [
        { ...writes, operation: PATCH, assignments: [assign('views', 1, 'Custom', 1)] },
        'assignments.0.action',
      ],
      [
        { ...writes, assignments: [assign('title', 0, 'Schema', 'text')] },
        'assignments.0.assignmentField.type',
      ],
      [{ operation: POST, assignments: [assign('title', 0, 'Custom', 'x')] }, 'query'],
      [{ operation: AGGREGATE }, 'aggregate'],
      [{ query: undefined }, 'query'],
    ];
    for (const [part, path] of cases) {
      const { status, body } = await platform.admin.post('/database/customEndpoints', {
        ...good,
        ...part,
      });
      expect([
        JSON.stringify(part),
        status,
        body.errors?.map((problem: Json) => problem.path),
      ]).toEqual([JSON.stringify(part), 400, [path]]);
    }
    expect(
      (
        await platform.admin.post('/database/customEndpoints', {
          ...good,
          selectedSchemaName: 'None',
        })
      ).status,
    ).toBe(404);
    const { selectedSchemaName: _, ...nameless } = good;
    expect((await platform.admin.post('/database/customEndpoints', nameless)).status).toBe(400);
    const { _id } = await bench.endpoint('Good', good);
    for (const name of ['Good', 'good', 'go_od']) {
      expect(
        (await platform.admin.post('/database/customEndpoints', { ...good, name })).status,
      ).toBe(409);
    }
    const path = `/database/customEndpoints/${_id}`;
    expect(
      await platform.admin.patch(path, { selectedSchemaName, ...leaf('none', 0, ['Custom', 1]) }),
    ).toMatchObject({ status: 400 });
    expect((await platform.admin.patch(path, { query: {} })).status).toBe(400);
    const changed = await platform.admin.patch(path, {
      selectedSchemaName,
      name: 'Other',
      operation: DELETE,
      paginated: true,
    });
    expect(changed.body).toMatchObject({
      name: 'good',
      operation: GET,
      paginated: true,
      __v: 1,
      query: { AND: [{ schemaField: 'title' }] },
    });
  });

  it('refuses a create that could never make a record', async () => {
    await platform.createSchema({
      name: 'Strict',
      fields: {
        title: { type: 'String', required: true },
        place: { type: { city: { type: 'String', required: true } }, required: true },
        state: { type: 'String', required: true, default: 'new' },
        by: { type: 'Relation', model: 'User', required: true },
      },
      conduitOptions: { owner: { field: 'by' } },
    });
    const define = (name: string, ...assignments: Json[]) =>
      platform.admin.post('/database/customEndpoints', {
        name,
        operation: POST,
        selectedSchemaName: 'Strict',
        authentication: true,
        inputs: [input('title', 'String', BODY, { optional: true })],
        assignments,
      });
    const place = assign('place', 0, 'Custom', { city: 'Rome' });
    const refused = await define('addStrict', place);
    expect(refused).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'assignments', rule: 'required' }] },
    });
    expect(refused.body.message).toContain('"title" of Strict');
    expect(
      (await define('addStrict', assign('title', 0, 'Input', 'title'))).body.message,
    ).toContain('"place"');
    expect((await define('addStrict', assign('title', 0, 'Input', 'title'), place)).status).toBe(
      200,
    );
    const { api, userId } = await platform.registerUser();
    const made = await api.post('/database/function/addStrict', { title: 'a' });
    expect(made.body).toMatchObject([
      { title: 'a', place: { city: 'Rome' }, state: 'new', by: userId },
    ]);
  });

  it('keeps all of several changes at once, under either spelling of the ids', async () => {
    const selectedSchemaName = await bench.posts([]);
    const { _id, selectedSchema } = await bench.endpoint('busy', {
      ...{ operation: GET, selectedSchemaName, query: {} },
    });
    const path = `/database/customEndpoints/${_id.toUpperCase()}`;
    const changes = [
      { authentication: true },
      { endpointDescription: 'described' },
      { paginated: true },
      { sorted: true },
    ];
    const answers = await Promise.all(
      changes.map((change) =>
        platform.admin.patch(path, { selectedSchema: selectedSchema.toUpperCase(), ...change }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    expect((await platform.admin.get(path)).body).toMatchObject({
      ...Object.assign({}, ...changes),
      ...{ selectedSchema, __v: 4 },
    });
    const schema = `/database/schemas/${selectedSchema.toUpperCase()}`;
    expect((await platform.admin.get(schema)).body.name).toBe(selectedSchemaName);
    const removals = await Promise.all([1, 2].map(() => platform.admin.delete(path)));
    expect(removals.map(({ status }) => status).sort()).toEqual([200, 404]);
  });

  it('lists, exports and imports, all or nothing', async () => {
    const selectedSchemaName = await bench.posts([{ title: 'a' }]);
    await bench.endpoint('zeta', { operation: GET, selectedSchemaName, query: {}, inputs: [] });
    await bench.endpoint('eta', {
      operation: DELETE,
      selectedSchemaName,
      query: compare('title', 0, ['Custom', 'x']),
    });
    const list = await platform.admin.get(
      `/database/customEndpoints?schemaName=${selectedSchemaName}&sort=-name&limit=1`,
    );
    expect(list.body).toMatchObject({
      count: 2,
      customEndpoints: [{ name: 'zeta', returns: selectedSchemaName, enabled: true }],
    });
    const deletes = await platform.admin.get(
      `/database/customEndpoints?operation=3&schemaName=${selectedSchemaName}&search=ETA`,
    );
    expect(deletes.body.customEndpoints.map(({ name }: Json) => name)).toEqual(['eta']);
    expect((await platform.admin.get('/database/customEndpoints?sort=query')).status).toBe(400);
    const used = await platform.admin.get('/database/customEndpoints/schemas?limit=1000');
    expect(used.body.schemaNames).toContain(selectedSchemaName);
    expect(used.body.schemas[0]).toEqual({
      id: used.body.schemaIds[0],
      name: used.body.schemaNames[0],
    });
    const identities = async () =>
      (await platform.admin.get('/database/customEndpoints?limit=1000')).body.customEndpoints.map(
        ({ _id, __v }: Json) => [_id, __v],
      );
    const before = await identities();
    const exported = await platform.admin.get('/database/customEndpoints/export');
    expect(exported.body.endpoints[0]).not.toHaveProperty('_id');
    expect(
      (await platform.admin.post('/database/customEndpoints/import', exported.body)).body.result,
    ).toBe('Custom endpoints imported successfully');
    expect((await platform.admin.get('/database/customEndpoints/export')).text).toBe(exported.text);
    // What is the same stays as it is; what differs keeps its id.
    expect(await identities()).toEqual(before);
    const [first] = exported.body.endpoints;
    const changed = { endpoints: [{ ...first, endpointDescription: 'changed' }] };
    const both = await Promise.all(
      [1, 2].map(() => platform.admin.post('/database/customEndpoints/import', changed)),
    );
    expect(both.map(({ status }) => status)).toEqual([200, 200]);
    expect((await identities()).map(([id]: [string]) => id)).toEqual(
      before.map(([id]: [string]) => id),
    );
    expect(
      (await platform.admin.get('/database/customEndpoints/export')).body.endpoints[0]
        .endpointDescription,
    ).toBe('changed');
    await platform.admin.post('/database/customEndpoints/import', {
      endpoints: [{ ...first, name: 'imported' }],
    });
    expect(
      (await platform.admin.get('/database/customEndpoints?search=imported')).body,
    ).toMatchObject({ count: 1 });
    const half = {
      endpoints: [
        { ...first, name: 'fresh' },
        { ...first, name: 'broken', query: { AND: [{}] } },
      ],
    };
    const refused = await platform.admin.post('/database/customEndpoints/import', half);
    expect([refused.status, refused.body.errors[0].path]).toEqual([
      400,
      'endpoints.1.query.AND.0.schemaField',
    ]);
    expect((await platform.admin.get('/database/customEndpoints?search=fresh')).body.count).toBe(0);
    expect(
      (await platform.admin.post('/database/customEndpoints/import', { endpoints: [first, first] }))
        .status,
    ).toBe(400);
    const [schema] = (await platform.admin.get(`/database/schemas?search=${selectedSchemaName}`))
      .body.schemas;
    const details = await platform.admin.get(
      `/database/schemas/${schema._id}/cms/operation/0/details`,
    );
    expect(details.body.accessibleFields).toEqual(
      expect.arrayContaining(['_id', 'title', 'createdAt']),
    );
    expect(details.body.accessibleFields).not.toContain('secret');
    expect((await platform.adminAnonymous.get('/database/customEndpoints')).status).toBe(401);
  });
});
