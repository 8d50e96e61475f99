/** What is searched, as state: exported, changed, brought with its schema, and taken away. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await platform.createSchema({
    name: 'Page',
    fields: { title: 'String', token: 'String' },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Page',
    sourceFields: ['title', 'token'],
    sourceFieldAllowlist: ['token'],
    targetField: 'words',
    provider: 'none',
    language: 'english',
    fieldOptions: { title: { weight: 3 } },
  });
  expect(made.status, made.text).toBe(200);
});
afterAll(() => platform.close());

const exported = async (): Promise<Json> => (await platform.admin.get('/state/export')).body;
const searches = async (): Promise<Json[]> => (await exported()).modules.embeddings.searches;
const importing = async (change: (state: Json) => void, query: Record<string, string> = {}) => {
  const state = await exported();
  change(state);
  return platform.admin.post('/state/import', state, { query });
};

it('is exported as it is, and the export changes nothing', async () => {
  expect(await searches()).toEqual([
    {
      schemaName: 'Page',
      sourceFields: ['title', 'token'],
      sourceFieldAllowlist: ['token'],
      targetField: 'words',
      provider: 'none',
      similarity: 'cosine',
      language: 'english',
      fieldOptions: { title: { weight: 3 } },
      enabled: true,
    },
  ]);
  const before = (await platform.admin.get('/embeddings/configs')).body.configs;
  const same = await importing(() => undefined);
  expect(same.status, same.text).toBe(200);
  expect((await platform.admin.get('/embeddings/configs')).body.configs).toEqual(before);
});

it('is changed and added by an import, refused with its place, and comes with its schema', async () => {
  const changed = await importing((state) => {
    state.modules.embeddings.searches[0].language = 'german';
    state.modules.embeddings.searches.push({
      schemaName: 'Page',
      sourceFields: ['title'],
      targetField: 'short',
      provider: 'none',
    });
  });
  expect(changed.status, changed.text).toBe(200);
  expect((await searches()).map(({ targetField, language }) => [targetField, language])).toEqual([
    ['short', 'simple'],
    ['words', 'german'],
  ]);
  const refused = await importing((state) => {
    state.modules.embeddings.searches[0].sourceFields = ['nowhere'];
  });
  expect(refused.status).toBe(400);
  expect(refused.body.errors[0].path).toBe('modules.embeddings.searches.0.sourceFields.0');
  const arriving = await importing((state) => {
    const page = state.modules.database.schemas.find(({ name }: Json) => name === 'Page');
    state.modules.database.schemas.push({ ...page, name: 'Arriving' });
    state.modules.embeddings.searches.push({
      schemaName: 'Arriving',
      sourceFields: ['title'],
      targetField: 'words',
      provider: 'none',
    });
  });
  expect(arriving.status, arriving.text).toBe(200);
  expect((await searches()).map(({ schemaName }) => schemaName)).toContain('Arriving');
});

it('is imported for schemas alone that the credential reaches', async () => {
  const scopes = ['core', 'embeddings', 'write'];
  const { token } = (await platform.admin.post('/api-tokens', { name: 'narrow', scopes })).body;
  const narrow = platform.adminAnonymous.with({ credential: token });
  const search = { schemaName: 'Page', sourceFields: ['title'], provider: 'none' };
  const searches = [{ ...search, targetField: 'another' }];
  const state = { modules: { embeddings: { searches } } };
  const answer = await narrow.post('/state/import', state);
  expect([answer.status, answer.body.code], answer.text).toEqual([403, 'SCOPE_EXCEEDED']);
  expect((await platform.admin.post('/state/import', state)).status).toBe(200);
  const { configs } = (await platform.admin.get('/embeddings/configs')).body;
  const { id: _id } = configs.find(({ targetField }: Json) => targetField === 'another');
  const deleted = await narrow.delete(`/embeddings/configs/${_id}`);
  expect([deleted.status, deleted.body.code], deleted.text).toEqual([403, 'SCOPE_EXCEEDED']);
  expect((await platform.admin.delete(`/embeddings/configs/${_id}`)).status).toBe(200);
});
