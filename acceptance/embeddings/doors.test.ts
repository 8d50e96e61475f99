/** Searches by every door: filters with `$search`, and searches of the module, by REST, custom endpoints, GraphQL and MCP. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi, type Json } from '../../test/support/api.ts';
import {
  compare,
  createEndpointBench,
  input,
  location,
  operation,
} from '../../test/support/endpoints.ts';
import type { TestUser } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;

const annsLeaves = ['green tea from Uji', 'black tea from Assam', 'coffee from Sidamo'];
const bobsLeaves = ['green tea in secret'];

beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  await platform.createSchema({
    name: 'Leaf',
    fields: { text: 'String' },
    conduitOptions: {
      cms: { enabled: true, query: { enabled: true, fields: ['text'], operators: ['$search'] } },
      authorization: { enabled: true },
    },
  });
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Leaf',
    sourceFields: ['text'],
    targetField: 'words',
    provider: 'none',
    language: 'english',
  });
  expect(made.status, made.text).toBe(200);
  for (const [user, texts] of [
    [ann, annsLeaves],
    [bob, bobsLeaves],
  ] as const) {
    const docs = texts.map((text) => ({ text }));
    expect((await user.api.post('/database/Leaf/many', { docs })).status).toBe(200);
  }
  await waitFor(
    async () => {
      const { body } = await platform.admin.get('/embeddings/status');
      return body.generationQueue.completed === annsLeaves.length + bobsLeaves.length;
    },
    { what: 'words of all leaves' },
  );
});
afterAll(() => platform?.close());

const sorted = (documents: readonly Json[]): string[] => documents.map(({ text }) => text).sort();
const ofHits = ({ hits }: Json): string[] => sorted(hits.map(({ document }: Json) => document));
const graphql = async (user: TestUser | undefined, query: string, variables: Json) =>
  (await (user?.api ?? platform.client).post('/graphql', { query, variables })).body as Json;
const tool = async (modules: string, name: string, args: Json): Promise<Json> => {
  const { body } = await platform.admin.post(`/mcp?modules=${modules}`, {
    ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
    params: { name, arguments: args },
  });
  return JSON.parse(body.result.content[0].text).data;
};

const all = [...annsLeaves.slice(0, 2), ...bobsLeaves].sort();

describe('$search in a filter', () => {
  const query = { text: { $search: 'tea' } };

  it('finds by REST, GraphQL and MCP what the caller may read', async () => {
    const { body } = await ann.api.post('/database/Leaf/query', { query });
    expect(sorted(body.documents)).toEqual(annsLeaves.slice(0, 2).sort());
    const document =
      'mutation ($query: JSONObject) { postDatabaseLeafQuery(params: { query: $query }) { documents { text } } }';
    const { data } = await graphql(bob, document, { query });
    expect(sorted(data.postDatabaseLeafQuery.documents)).toEqual(bobsLeaves);
    const args = { schemaName: 'Leaf', query };
    const answer = await tool('database', 'post_database_schemas_schemaname_query', args);
    expect(sorted(answer.documents)).toEqual(all);
  });

  it('finds in a custom endpoint what its caller may read', async () => {
    const bench = createEndpointBench(platform);
    await bench.endpoint('leaves', {
      operation: operation.get,
      selectedSchemaName: 'Leaf',
      authentication: true,
      inputs: [input('q', 'String', location.query)],
      query: compare('text', 0, ['Input', 'q'], { search: true }),
    });
    const found = async (user: TestUser, q: string) => {
      const answer = await user.api.get('/database/function/leaves', { query: { q } });
      expect(answer.status, answer.text).toBe(200);
      return sorted(answer.body.documents ?? answer.body);
    };
    expect(await found(ann, 'tea -assam')).toEqual(['green tea from Uji']);
    expect(await found(bob, '"green tea"')).toEqual(bobsLeaves);
    expect(await found(bob, 'coffee')).toEqual([]);
  });
});

describe('a search of the module', () => {
  const params = { schemaName: 'Leaf', text: 'tea', mode: 'keyword' };

  it('finds by GraphQL what the user may read, and nothing for nobody', async () => {
    const document =
      'mutation ($params: postEmbeddingsSearchRequest!) { postEmbeddingsSearch(params: $params) { hits { document score } took usage { cachedQuery tokens } } }';
    const found = await graphql(bob, document, { params });
    expect(found.errors, JSON.stringify(found)).toBeUndefined();
    const answer = found.data.postEmbeddingsSearch;
    expect(ofHits(answer)).toEqual(bobsLeaves);
    expect(answer).toMatchObject({
      took: expect.any(Number),
      usage: { cachedQuery: false, tokens: 0 },
    });
    const refused = await graphql(undefined, document, { params });
    expect(refused.data?.postEmbeddingsSearch ?? null).toBeNull();
    expect(refused.errors[0].extensions.code).toBe(401);
  });

  it('finds by MCP what an operator may read, or the user that they name', async () => {
    const found = async (more: Json = {}) =>
      ofHits(await tool('embeddings', 'post_embeddings_search', { ...params, ...more }));
    expect(await found()).toEqual(all);
    expect(await found({ userId: bob.userId })).toEqual(bobsLeaves);
  });
});

describe('a search of everything', () => {
  const everything = async (query: Json, api = platform.admin): Promise<Json> => {
    const answer = await api.get('/search', { query });
    expect(answer.status, answer.text).toBe(200);
    return answer.body;
  };
  const ofKind = (kind: string, { results }: Json): Json[] =>
    results.filter((one: Json) => one.kind === kind);

  beforeAll(async () => {
    const file = { name: 'Teas of Asia.txt', data: Buffer.from('x').toString('base64') };
    const made = await platform.admin.post('/storage/files', { ...file, mimeType: 'text/plain' });
    expect(made.status, made.text).toBe(200);
  });

  it('finds records, files, users, schemas, settings and operations, and says where they are', async () => {
    const tea = await everything({ text: 'tea', limit: 10 });
    expect(tea.incomplete).toEqual([]);
    const records = ofKind('record', tea);
    expect(records.map(({ title }) => title).sort()).toEqual(all);
    const [record] = records;
    expect(record).toMatchObject({ description: 'Leaf', score: expect.any(Number) });
    const there = await platform.admin.get(record?.path);
    expect([there.status, there.body.result?.text ?? there.body.text]).toEqual([
      200,
      record?.title,
    ]);
    expect(ofKind('file', tea)).toMatchObject([{ title: 'Teas of Asia.txt' }]);
    expect((await platform.admin.get(ofKind('file', tea)[0]?.path)).status).toBe(200);
    // Somebody who types is not done.
    expect(ofKind('record', await everything({ text: 'cof' }))[0]?.title).toBe(
      'coffee from Sidamo',
    );
    const [user] = ofKind('user', await everything({ text: ann.email.toUpperCase() }));
    expect(user).toMatchObject({ title: ann.email, id: ann.userId });
    expect((await platform.admin.get(user?.path)).body.users[0]._id).toBe(ann.userId);
    expect(ofKind('user', await everything({ text: bob.userId }))).toHaveLength(1);
    const own = await everything({ text: 'leaf' });
    expect(ofKind('schema', own)).toMatchObject([{ id: 'Leaf', description: 'database' }]);
    const keys = await everything({
      text: 'embedTimeout provider',
      kinds: ['setting', 'operation'],
    });
    expect(keys.results).toMatchObject([{ id: 'embeddings.security.embedTimeoutMs' }]);
    const calls = await everything({ text: 'start backfills', kinds: ['operation'] });
    expect(calls.results[0]).toMatchObject({ title: 'POST /embeddings/backfills' });
    expect(tea.results.length).toBeGreaterThan(0);
  });

  it('is one call of a tool, and has no more than its credential may see', async () => {
    const answer = await tool('embeddings', 'get_search', { text: 'tea' });
    expect(
      ofKind('record', answer)
        .map(({ title }) => title)
        .sort(),
    ).toEqual(all);
    const made = await platform.admin.post('/api-tokens', {
      name: 'narrow',
      scopes: ['embeddings', 'storage'],
    });
    expect(made.status, made.text).toBe(200);
    const narrow = createApi(platform.admin.baseUrl, {
      authorization: `Bearer ${made.body.token}`,
    });
    const { results, incomplete } = await everything({ text: 'tea', limit: 20 }, narrow);
    const kinds = new Set(results.map(({ kind }: Json) => kind));
    for (const hidden of ['record', 'user', 'schema']) expect(kinds).not.toContain(hidden);
    expect(kinds).toContain('file');
    expect(incomplete).toEqual([]);
    // Nor what others asked of records when they had these looked at again.
    const filter = { text: 'green tea' };
    const begun = await platform.admin.post('/embeddings/backfills', {
      ...{ schemaName: 'Leaf', filter },
    });
    expect(begun.status, begun.text).toBe(200);
    const [{ id }] = begun.body.runs;
    const path = `/embeddings/backfills/${id}`;
    expect((await platform.admin.get(path)).body.filter).toEqual(filter);
    expect((await narrow.get(path)).body).not.toHaveProperty('filter');
    expect((await narrow.get('/embeddings/backfills')).text).not.toContain('green tea');
    const settings = await everything({ text: 'a', kinds: ['setting'], limit: 20 }, narrow);
    for (const { id } of settings.results) expect(id).toMatch(/^(embeddings|storage)\./);
    expect((await everything({ text: ann.email }, narrow)).results).toEqual([]);
  });

  it('refuses what says nothing, and is for operators', async () => {
    for (const query of [{}, { text: ' ' }, { text: 'a', kinds: ['x'] }])
      expect((await platform.admin.get('/search', { query: query as Json })).status).toBe(400);
    expect((await ann.api.get('/search', { query: { text: 'tea' } })).status).toBe(404);
  });
});

describe('a search for a team', () => {
  const team = `Team:${crypto.randomUUID()}`;

  beforeAll(async () => {
    const permissions = permissionsApi(platform.admin);
    await permissions.define({
      name: 'Herb',
      version: 1,
      relations: { owner: ['User', 'Team'], auditor: ['Team'] },
      permissions: { read: ['owner', 'auditor'], edit: ['owner'], delete: ['owner'] },
    });
    await platform.createSchema({
      name: 'Herb',
      fields: { text: 'String', price: { type: 'Number', access: { read: 'owner' } } },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.relate(`User:${ann.userId} owner ${team}`);
    const config = { schemaName: 'Herb', sourceFields: ['text'], targetField: 'words' };
    const made = await platform.admin.post('/embeddings/configs', { ...config, provider: 'none' });
    expect(made.status, made.text).toBe(200);
    for (const scope of [`?scope=${team}`, `?scope=${team}`, ''])
      expect(
        (await ann.api.post(`/database/Herb${scope}`, { text: 'mint', price: 3 })).status,
      ).toBe(200);
    await waitFor(
      async () => {
        const query = { schemaName: 'Herb' };
        const { body } = await platform.admin.get('/embeddings/status', { query });
        return body.generationQueue.completed === 3;
      },
      { what: 'words of all herbs' },
    );
  });
  const search = (more: Json, query: Json = {}) =>
    ann.api.post('/embeddings/search', { schemaName: 'Herb', mode: 'keyword', ...more }, { query });

  it('finds what is like a record of the team', async () => {
    const listed = await ann.api.get('/database/Herb', { query: { scope: team } });
    const [one, other] = listed.body.documents;
    const like = await search({ documentId: one._id }, { scope: team });
    expect(like.status, like.text).toBe(200);
    expect(like.body.hits.map(({ document }: Json) => document._id)).toEqual([other._id]);
    expect((await search({ documentId: one._id })).status).toBe(404);
  });

  it('shows a field that depends on the record when it is chosen, as without choosing', async () => {
    await permissionsApi(platform.admin).relate(
      ...(await ann.api.get('/database/Herb')).body.documents.map(
        ({ _id }: Json) => `${team} auditor Herb:${_id}`,
      ),
    );
    const chosen = async (select: readonly string[]) => {
      const answer = await search({ text: 'mint', select }, { scope: team });
      expect(answer.status, answer.text).toBe(200);
      return answer.body.hits.map(({ document }: Json) => document);
    };
    const shown = await chosen(['price']);
    expect(shown).toHaveLength(3);
    expect(shown.filter(({ price }: Json) => price === 3)).toHaveLength(2);
    expect(shown).toContainEqual({});
    expect((await search({ text: 'mint', select: ['nothing'] })).status).toBe(400);
  });
});
