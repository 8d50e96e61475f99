/** Searches by every door: filters with `$search`, and searches of the module, by REST, custom endpoints, GraphQL and MCP. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import {
  compare,
  createEndpointBench,
  input,
  location,
  operation,
} from '../../test/support/endpoints.ts';
import type { TestUser } from '../../test/support/node.ts';
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
    { timeoutMs: 20_000, what: 'words of all leaves' },
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
