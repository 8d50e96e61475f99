/**
 * Names that want to be SQL, through every door that takes a name (CWE-89, CWE-1321): each is refused with a 4xx
 * that says where it stood, nothing of it reaches the database as text, and nothing has happened.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

const hostile: readonly string[] = [
  `a"; drop table app."Canary"; --`,
  `a'; drop table app."Canary"; --`,
  `a" desc, (select pg_sleep(10)) --`,
  `"Canary"."text"`,
  't0."_id"',
  'text) union select 1 --',
  'a/**/or/**/1=1',
  '$1',
  '$where',
  'a\\',
  'a`b',
  'a\nb',
  'a;b',
  '--',
  '"',
  '*',
  '%s{{7*7}}',
  'a\u202eb',
  'ａ＂',
  `a${String.fromCharCode(0)}b`,
  '__proto__',
  'constructor',
  'x'.repeat(2_000),
];

/** One way in. `keys`: the name is a key of an object, so it is put into the JSON as text. */
type Door = readonly [name: string, go: (bad: string) => Promise<Answer<Json>>];

describe('hostile identifiers', () => {
  let platform: TestPlatform;
  let server: pg.Client;
  let id: string;

  /** Everything that a door could have made or broken. */
  const state = async (): Promise<string> => {
    const { rows } = await server.query(`
      select (select count(*) from app."Canary") as canaries, (select string_agg(relname, ',' order by relname) from pg_class
        where relnamespace = 'app'::regnamespace) as relations, (select string_agg(attname, ',' order by attname) from pg_attribute
        where attrelid = 'app."Canary"'::regclass) as columns, (select count(*) from penstock.schema_migrations) as migrations`);
    return JSON.stringify(rows);
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    server = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
    await server.connect();
    await platform.admin.patch('/config/router', { rateLimit: { maxRequests: 1_000_000 } });
    const schema = await platform.createSchema({
      name: 'Canary',
      fields: {
        text: 'String',
        meta: 'JSON',
        inner: { deep: 'String' },
        self: { type: 'Relation', model: 'Canary' },
        gone: 'String',
      },
      conduitOptions: {
        cms: { enabled: true, query: { enabled: true, fields: ['text', 'meta'] } },
      },
    });
    id = schema._id;
    await platform.client.post('/database/Canary', { text: 'alive' });
    const endpoint = {
      name: 'sorting',
      operation: 0,
      selectedSchemaName: 'Canary',
      query: {},
      paginated: true,
      sorted: true,
    };
    await platform.admin.post('/database/customEndpoints', endpoint);
  });
  afterAll(async () => {
    await server?.end();
    await platform.close();
  });

  const admin = (path: string, body: unknown, method = 'POST') =>
    platform.admin.send(method, path, body);
  const client = (path: string, query: Record<string, string> = {}) =>
    platform.client.get(path, { query });
  /** A body in which `bad` is a key; the parser would drop `__proto__` from an object literal. */
  const keyed = (template: string, bad: string): string =>
    template.replace('"KEY"', () => JSON.stringify(bad));
  const endpoint = (more: Json) =>
    admin('/database/customEndpoints', {
      name: 'bad',
      operation: 0,
      selectedSchemaName: 'Canary',
      query: {},
      ...more,
    });
  const leaf = (schemaField: string, value: Json = { type: 'Custom', value: 'x' }) => ({
    schemaField,
    operation: 0,
    comparisonField: value,
  });

  const doors: readonly Door[] = [
    ['schema name', (bad) => admin('/database/schemas', { name: bad, fields: { a: 'String' } })],
    [
      'field name',
      (bad) =>
        admin(
          '/database/schemas',
          keyed('{"name":"New","fields":{"a":"String","KEY":"String"}}', bad),
        ),
    ],
    [
      'nested field name',
      (bad) =>
        admin(
          '/database/schemas',
          keyed('{"name":"New","fields":{"a":{"b":"String","KEY":"String"}}}', bad),
        ),
    ],
    [
      'relation target',
      (bad) =>
        admin('/database/schemas', {
          name: 'New',
          fields: { a: { type: 'Relation', model: bad } },
        }),
    ],
    ['field type', (bad) => admin('/database/schemas', { name: 'New', fields: { a: bad } })],
    [
      'sqlType',
      (bad) =>
        admin('/database/schemas', {
          name: 'New',
          fields: { a: { type: 'String', sqlType: bad } },
        }),
    ],
    [
      'owner field',
      (bad) =>
        admin('/database/schemas', {
          name: 'New',
          fields: { a: 'String' },
          conduitOptions: { owner: { field: bad } },
        }),
    ],
    [
      'fields that clients may filter by',
      (bad) =>
        admin('/database/schemas', {
          name: 'New',
          fields: { a: 'String' },
          conduitOptions: { cms: { query: { enabled: true, fields: [bad] } } },
        }),
    ],
    [
      'new name of a field',
      (bad) => admin(`/database/schemas/${id}`, { renames: { text: bad } }, 'PUT'),
    ],
    [
      'old name of a field',
      (bad) => admin(`/database/schemas/${id}`, keyed('{"renames":{"KEY":"other"}}', bad), 'PUT'),
    ],
    [
      'changed field map',
      (bad) =>
        admin(
          `/database/schemas/${id}`,
          keyed('{"fields":{"text":"String","KEY":"String"}}', bad),
          'PUT',
        ),
    ],
    [
      'restored field',
      (bad) => admin(`/database/schemas/${id}/fields/${encodeURIComponent(bad)}/restore`, {}),
    ],
    [
      'extension field',
      (bad) =>
        admin(`/database/schemas/${id}/extensions`, keyed('{"fields":{"KEY":"String"}}', bad)),
    ],
    [
      'imported schema',
      (bad) =>
        admin('/database/schemas/import', { schemas: [{ name: bad, fields: { a: 'String' } }] }),
    ],
    [
      'imported extension',
      (bad) =>
        admin('/database/schemas/import', {
          schemas: [],
          extensions: [{ schemaName: bad, extension: { fields: { z: 'String' } } }],
        }),
    ],
    [
      'indexed field',
      (bad) => admin(`/database/schemas/${id}/indexes`, { indexes: [{ fields: [bad] }] }),
    ],
    [
      'direction of an index',
      (bad) =>
        admin(`/database/schemas/${id}/indexes`, { indexes: [{ fields: ['text'], types: [bad] }] }),
    ],
    [
      'method of an index',
      (bad) =>
        admin(`/database/schemas/${id}/indexes`, {
          indexes: [{ fields: ['text'], engine: { method: bad } }],
        }),
    ],
    [
      'condition of an index',
      (bad) =>
        admin(
          `/database/schemas/${id}/indexes`,
          keyed('{"indexes":[{"fields":["text"],"engine":{"where":{"KEY":"x"}}}]}', bad),
        ),
    ],
    [
      'removed index',
      (bad) =>
        platform.admin.delete(`/database/schemas/${id}/indexes`, { query: { indexNames: bad } }),
    ],
    ['sort of a list', (bad) => client('/database/Canary', { sort: bad })],
    ['descending sort', (bad) => client('/database/Canary', { sort: `-${bad}` })],
    [
      'sort of an endpoint',
      (bad) => client('/database/function/sorting', { skip: '0', limit: '1', sort: bad }),
    ],
    [
      'sort for admins',
      (bad) =>
        platform.admin.post(
          '/database/schemas/Canary/query',
          { query: {} },
          { query: { sort: bad } },
        ),
    ],
    ['sort of schemas', (bad) => platform.admin.get('/database/schemas', { query: { sort: bad } })],
    ['populate', (bad) => client('/database/Canary', { populate: bad })],
    ['deep populate', (bad) => client('/database/Canary', { populate: `self.${bad}` })],
    ['cursor', (bad) => client('/database/Canary', { cursor: bad })],
    ['count mode', (bad) => client('/database/Canary', { count: bad })],
    ['record id', (bad) => platform.client.get(`/database/Canary/${encodeURIComponent(bad)}`)],
    ['schema of a record', (bad) => platform.client.get(`/database/${encodeURIComponent(bad)}/x`)],
    [
      'filtered field',
      (bad) => admin('/database/schemas/Canary/query', keyed('{"query":{"KEY":"x"}}', bad)),
    ],
    [
      'path into a nested field',
      (bad) =>
        admin('/database/schemas/Canary/query', keyed('{"query":{"KEY":"x"}}', `inner.${bad}`)),
    ],
    [
      'path over a relation',
      (bad) =>
        admin('/database/schemas/Canary/query', keyed('{"query":{"KEY":"x"}}', `self.${bad}`)),
    ],
    [
      'operator',
      (bad) =>
        admin('/database/schemas/Canary/query', keyed('{"query":{"text":{"KEY":"x"}}}', `$${bad}`)),
    ],
    [
      'field of a client filter',
      (bad) => platform.client.post('/database/Canary/query', keyed('{"query":{"KEY":"x"}}', bad)),
    ],
    ['endpoint name', (bad) => endpoint({ name: bad })],
    ['schema of an endpoint', (bad) => endpoint({ selectedSchemaName: bad })],
    ['field that an endpoint compares', (bad) => endpoint({ query: leaf(bad) })],
    [
      'field that it is compared with',
      (bad) => endpoint({ query: leaf('text', { type: 'Schema', value: bad }) }),
    ],
    ['context value', (bad) => endpoint({ query: leaf('text', { type: 'Context', value: bad }) })],
    [
      'name of an input',
      (bad) => endpoint({ inputs: [{ name: bad, type: 'String', location: 1 }] }),
    ],
    [
      'assigned field',
      (bad) =>
        endpoint({
          operation: 1,
          query: undefined,
          assignments: [
            { schemaField: bad, action: 0, assignmentField: { type: 'Custom', value: 'x' } },
          ],
        }),
    ],
    [
      'name of a result',
      (bad) => endpoint({ operation: 5, aggregate: { values: [{ as: bad, function: 'count' }] } }),
    ],
    [
      'field of a group',
      (bad) =>
        endpoint({
          operation: 5,
          aggregate: { groupBy: [bad], values: [{ as: 'n', function: 'count' }] },
        }),
    ],
    [
      'function of a result',
      (bad) =>
        endpoint({
          operation: 5,
          aggregate: { values: [{ as: 'n', function: bad, field: 'text' }] },
        }),
    ],
    [
      'schema of a batch',
      (bad) =>
        platform.client.post('/database/batch', {
          operations: [{ op: 'create', schema: bad, data: {} }],
        }),
    ],
    [
      'reference in a batch',
      (bad) =>
        platform.client.post('/database/batch', {
          operations: [{ op: 'read', schema: 'Canary', id: { $ref: bad } }],
        }),
    ],
    [
      'column of an import',
      (bad) => importRows(`text,"${bad.replaceAll('"', '""')}"\nx,y\n`, 'text/csv'),
    ],
    [
      'vector field',
      (bad) => admin('/database/schemas/Canary/vector-search', { field: bad, vector: [1] }),
    ],
    ['explained list', (bad) => admin('/database/insights/explain', { schemaName: bad })],
    [
      'explained order',
      (bad) => admin('/database/insights/explain', { schemaName: 'Canary', sort: [bad] }),
    ],
    ['explained endpoint', (bad) => admin('/database/insights/explain', { customEndpoint: bad })],
    [
      'GraphQL sort',
      (bad) =>
        graphql('query ($x: [String]) { getDatabaseCanary(sort: $x) { documents { _id } } }', [
          bad,
        ]),
    ],
    [
      'GraphQL populate',
      (bad) =>
        graphql('query ($x: [String]) { getDatabaseCanary(populate: $x) { documents { _id } } }', [
          bad,
        ]),
    ],
    [
      'GraphQL id',
      (bad) => graphql('query ($x: ID!) { getDatabaseCanaryId(id: $x) { _id } }', bad),
    ],
  ];

  const importRows = (text: string, type: string) =>
    platform.admin.post('/database/schemas/Canary/docs/import', text, {
      headers: { 'content-type': type },
    });

  /** An error of a field, in the form of the other doors. */
  const graphql = async (query: string, x: unknown): Promise<Answer<Json>> => {
    const answer = await platform.client.post('/graphql', { query, variables: { x } });
    const [error] = answer.body.errors ?? [];
    const code = error?.extensions?.code;
    return {
      ...answer,
      status: typeof code === 'number' ? code : answer.status,
      body: { message: error?.message, ...error?.extensions, code: String(code) },
    };
  };

  it.each(doors)('are refused as %s', async (name, go) => {
    const before = await state();
    for (const bad of hostile) {
      const answer = await go(bad);
      const what = `${name}: ${JSON.stringify(bad.slice(0, 60))}: ${answer.status} ${answer.text.slice(0, 300)}`;
      expect(answer.status, what).toBeGreaterThanOrEqual(400);
      expect(answer.status, what).toBeLessThan(500);
      expect(answer.body.code, what).toEqual(expect.any(String));
      // 404 says that there is no such thing; everything else names the place.
      if (answer.status === 400 && !name.startsWith('GraphQL'))
        expect(answer.body.errors?.[0]?.path ?? answer.body.code, what).toEqual(expect.any(String));
      expect(answer.text, what).not.toMatch(
        /syntax error|unterminated|pg_catalog|relation ".*" does not exist|column ".*" does not exist/i,
      );
    }
    expect(await state()).toBe(before);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });

  it('are plain values where values are expected', async () => {
    const before = await state();
    const { status, body } = await platform.client.post(
      '/database/Canary',
      { text: hostile[0], meta: { [hostile[2] ?? '']: hostile } },
      {},
    );
    // NUL is the one character that PostgreSQL cannot hold.
    expect([status, body.errors?.[0]?.path]).toEqual([400, expect.stringContaining('meta')]);
    for (const text of hostile.filter((each) => !each.includes(String.fromCharCode(0)))) {
      const made = await platform.client.post('/database/Canary', { text, meta: { key: text } });
      expect(made.body).toMatchObject({ text, meta: { key: text } });
      const found = await platform.admin.post('/database/schemas/Canary/query', {
        query: { text },
      });
      expect(found.body.documents).toMatchObject([{ _id: made.body._id }]);
      expect((await platform.client.delete(`/database/Canary/${made.body._id}`)).status).toBe(200);
    }
    expect(await state()).toBe(before);
  });
});
