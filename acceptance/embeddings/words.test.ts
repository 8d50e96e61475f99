/** Search by words, without any model: beginnings, typing errors, weights, languages, marks and counts. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;

const annsBooks = [
  { title: 'The bicycle thief', body: 'A story from Rome', shelf: 'film', nachricht: 'Fahrräder' },
  { title: 'Cooking at home', body: 'Soup, bread and a bicycle ride', shelf: 'food' },
  { title: 'Gardens <b>&amp; "weeds"</b>', body: 'How to plant tomatoes', shelf: 'food' },
  { title: 'Das Haus', body: 'Nothing in English', shelf: 'home', nachricht: 'Häuser am See' },
];
const bobsBooks = [{ title: 'Bicycles in secret', body: 'zeppelin gardenz', shelf: 'hidden' }];

beforeAll(async () => {
  platform = await createTestPlatform();
  // On a slow machine one user waits for what is made in the background with more requests than users have.
  const rateLimit = { maxRequests: 1_000_000, operations: { 'embeddings.search': '1000/1' } };
  expect((await platform.admin.patch('/config/router', { config: { rateLimit } })).status).toBe(
    200,
  );
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
  await platform.createSchema({
    name: 'Book',
    fields: {
      title: 'String',
      body: 'String',
      shelf: 'String',
      nachricht: 'String',
      price: { type: 'Number', access: { read: 'role:seller' } },
    },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Book',
    sourceFields: ['title', 'body', 'nachricht'],
    targetField: 'words',
    provider: 'none',
    language: 'english',
    fieldOptions: { title: { weight: 5 }, nachricht: { language: 'german' } },
  });
  expect(made.status, made.text).toBe(200);
  expect(made.body.config.fieldOptions).toEqual({
    title: { weight: 5 },
    nachricht: { language: 'german' },
  });
  for (const [user, docs] of [
    [ann, annsBooks],
    [bob, bobsBooks],
  ] as const)
    expect((await user.api.post('/database/Book/many', { docs })).status).toBe(200);
  await waitFor(async () => {
    const { body } = await platform.admin.get('/embeddings/status');
    return body.generationQueue.completed === annsBooks.length + bobsBooks.length;
  });
});
afterAll(() => platform.close());

const search = async (text: string, more: object = {}): Promise<Json> => {
  const answer = await platform.admin.post('/embeddings/search', {
    schemaName: 'Book',
    mode: 'keyword',
    text,
    userId: ann.userId,
    ...more,
  });
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};
const titles = ({ hits }: Json): string[] => hits.map(({ document }: Json) => document.title);

it('finds beginnings, phrases, alternatives and forms of words, weightier fields first', async () => {
  expect(titles(await search('bicycles'))).toEqual(['The bicycle thief', 'Cooking at home']);
  expect(titles(await search('bicy*'))).toEqual(['The bicycle thief', 'Cooking at home']);
  expect(titles(await search('bicycle -thief'))).toEqual(['Cooking at home']);
  expect(titles(await search('"story from rome" or tomato')).sort()).toEqual([
    'Gardens <b>&amp; "weeds"</b>',
    'The bicycle thief',
  ]);
  // In the language of their field.
  expect(titles(await search('Haus see'))).toEqual(['Das Haus']);
  expect(titles(await search('Fahrrad'))).toEqual(['The bicycle thief']);
  expect((await search('bicycle')).hits[0].score).toBeGreaterThan(
    (await search('bicycle')).hits[1].score,
  );
});

it('makes up for typing errors, unless it shall not', async () => {
  expect(titles(await search('tomatos'))).toHaveLength(1);
  expect(titles(await search('bycicle'))).toEqual(['The bicycle thief', 'Cooking at home']);
  expect(titles(await search('gardns plant'))).toHaveLength(1);
  expect(titles(await search('bycicle', { typos: false }))).toEqual([]);
  expect(titles(await search('xyzzyplugh'))).toEqual([]);
  // Nearly a word of a record that this user may not read.
  expect(titles(await search('zepelin'))).toEqual([]);
  expect(titles(await search('zepelin', { userId: bob.userId }))).toHaveLength(1);
});

it('finds words that are written nearly so whatever stands in texts of others', async () => {
  const before = await search('tomatxes', { facets: ['shelf'], highlight: true });
  expect(titles(before)).toEqual([annsBooks[2]?.title]);
  // Nearer to what is asked for, and more of them than are ever looked at.
  const letters = [...'abcdefghijklmnopqrstuvwxyz'];
  const alike = letters.flatMap((one) => [`tomat${one}es`, `toma${one}xes`]);
  const made = await bob.api.post('/database/Book', { title: 'crowd', body: alike.join(' ') });
  expect(made.status, made.text).toBe(200);
  await waitFor(
    async () => titles(await search('tomatqes', { userId: bob.userId })).includes('crowd'),
    { what: 'the words of others' },
  );
  const after = await search('tomatxes', { facets: ['shelf'], highlight: true });
  const { took: _, ...same } = before;
  expect(after).toMatchObject(same);
  expect(titles(after)).toEqual(titles(before));
  expect((await bob.api.delete(`/database/Book/${made.body._id}`)).status).toBe(200);
});

it('marks words as HTML that holds nothing of the text but its letters', async () => {
  const { hits } = await search('weeds tomatoes', { highlight: true });
  expect(hits[0].highlights).toEqual({
    title: 'Gardens  &#38; &#34;<mark>weeds</mark>&#34;',
    body: 'How to plant <mark>tomatoes</mark>',
  });
  const [mistyped] = (await search('bycicle thief', { highlight: true })).hits;
  expect(mistyped.highlights.title).toBe('The <mark>bicycle</mark> <mark>thief</mark>');
  const [chosen] = (await search('bicycle rome', { highlight: true, select: ['body'] })).hits;
  expect(chosen.highlights).toEqual({ body: 'A story from <mark>Rome</mark>' });
});

it('groups by a field that the caller sees, and by no other', async () => {
  const { hits } = await search('bicycle or tomatoes or nothing', { groupBy: 'shelf' });
  expect(hits.map(({ group }: Json) => group).sort()).toEqual(['film', 'food', 'home']);
  const price = { schemaName: 'Book', mode: 'keyword', text: 'bicycle', groupBy: 'price' };
  const refused = await ann.api.post('/embeddings/search', price);
  expect([400, 403]).toContain(refused.status);
});

it('counts what the caller may see alone, and only by fields that they see', async () => {
  const { facets } = await search('bicycle', { facets: ['shelf'], limit: 1 });
  const byValue = (list: Json) => Object.fromEntries(list.map((x: Json) => [x.value, x.count]));
  expect(byValue(facets.shelf)).toEqual({ film: 1, food: 1 });
  const all = await search('bicycle', { facets: ['shelf'], userId: undefined });
  expect(byValue(all.facets.shelf)).toEqual({ film: 1, food: 1, hidden: 1 });
  const filtered = await search('bicycle', { facets: ['shelf'], filter: { shelf: 'food' } });
  expect(byValue(filtered.facets.shelf)).toEqual({ food: 1 });
  const refused = await ann.api.post('/embeddings/search', {
    schemaName: 'Book',
    mode: 'keyword',
    text: 'bicycle',
    facets: ['shelf', 'price'],
  });
  expect(refused.body).toMatchObject({ status: 400, errors: [{ path: 'facets.1' }] });
  const words = { schemaName: 'Book', mode: 'keyword', text: 'x' };
  // Whether somebody else's record has a word is told by no count: `gardenz` stands in one that this user may not read.
  for (const text of ['gardenz', 'gardenx'])
    expect(byValue((await search(text, { facets: ['shelf'] })).facets.shelf)).toEqual({ food: 1 });
  for (const facets of [['nowhere'], ['shelf', 'a', 'b', 'c', 'd', 'e'], ['']])
    expect((await platform.admin.post('/embeddings/search', { ...words, facets })).status).toBe(
      400,
    );
});

it('answers whatever is typed, and refuses what a configuration cannot mean', async () => {
  for (const text of [
    '*',
    '"',
    '-',
    'or',
    '- -',
    '"" or *',
    "a':*",
    '日本語*',
    'a:b&c|!d',
    '😀',
    '\\',
  ])
    expect((await search(text, { highlight: true })).hits).toBeInstanceOf(Array);
  const refused = async (fieldOptions: object) => {
    const answer = await platform.admin.post('/embeddings/configs', {
      schemaName: 'Book',
      sourceFields: ['title', 'body', 'nachricht', 'shelf'],
      targetField: 'other',
      provider: 'none',
      fieldOptions,
    });
    return [answer.status, answer.body.errors?.[0]?.path];
  };
  expect(await refused({ missing: { weight: 2 } })).toEqual([400, 'fieldOptions.missing']);
  expect((await refused({ title: { weight: 0 } }))[0]).toBe(400);
  expect((await refused({ title: { language: 'klingon' } }))[0]).toBe(400);
});

it('goes with its fields when these are renamed: nothing is searched anew, and what comes later is found', async () => {
  const { _id } = await platform.createSchema({
    name: 'Paper',
    fields: { title: 'String', inner: { note: 'String' } },
    conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Paper',
    sourceFields: ['title', 'inner.note'],
    targetField: 'words',
    provider: 'none',
    fieldOptions: { title: { weight: 5 } },
  });
  expect(made.status, made.text).toBe(200);
  const asked = async (text: string) => {
    const body = { schemaName: 'Paper', mode: 'keyword', text, typos: false, highlight: true };
    const answer = await ann.api.post('/embeddings/search', body);
    expect(answer.status, answer.text).toBe(200);
    return answer.body.hits as Json[];
  };
  const written = async (doc: Json) => {
    const answer = await ann.api.post('/database/Paper', doc);
    expect(answer.status, answer.text).toBe(200);
    return answer.body._id as string;
  };
  const first = await written({ title: 'walrus', inner: { note: 'otter' } });
  await waitFor(async () => (await asked('walrus otter')).length === 1);
  const generation = async () => {
    const { body } = await platform.admin.get('/embeddings/status?schemaName=Paper');
    return body.configs[0].current.id as string;
  };
  const before = await generation();
  const change = {
    fields: { heading: 'String', inside: { note: 'String' } },
    renames: { title: 'heading', inner: 'inside' },
  };
  const changed = await platform.admin.put(`/database/schemas/${_id}`, change);
  expect(changed.status, changed.text).toBe(200);
  expect((await asked('walrus otter'))[0]).toMatchObject({
    document: { _id: first, heading: 'walrus' },
    highlights: { heading: '<mark>walrus</mark>', 'inside.note': '<mark>otter</mark>' },
  });
  const { configs } = (await platform.admin.get('/embeddings/configs?schemaName=Paper')).body;
  expect(configs[0]).toMatchObject({
    sourceFields: ['heading', 'inside.note'],
    fieldOptions: { heading: { weight: 5 } },
  });
  expect(await generation()).toBe(before);
  const second = await written({ heading: 'narwhal', inside: { note: 'otter' } });
  const found = async () => (await asked('otter')).map(({ document }) => document._id).sort();
  await waitFor(async () => (await found()).includes(second));
  expect(await found()).toEqual([first, second].sort());
});

it('reads texts anew when their fields get other names before they are written', async () => {
  await platform.createSchema({
    name: 'Sheet',
    fields: { former: 'String', text: 'String' },
    conduitOptions: { cms: { enabled: true } },
  } as Json);
  const made = await platform.admin.post('/embeddings/configs', {
    schemaName: 'Sheet',
    sourceFields: ['former'],
    targetField: 'words',
    provider: 'none',
  });
  expect(made.status, made.text).toBe(200);
  const { body } = await platform.admin.get('/embeddings/status?schemaName=Sheet');
  const database = new pg.Client({ connectionString: platform.databaseUrl });
  await database.connect();
  try {
    await database.query('begin');
    const held = 'select from penstock.embeddings_generations where id = $1 for update';
    await database.query(held, [body.configs[0].current.id]);
    const sheet = { former: 'lapwing', text: 'plover' };
    expect((await ann.api.post('/database/Sheet', sheet)).status).toBe(200);
    const waiting =
      'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
    await waitFor(async () => (await database.query(waiting)).rowCount !== 0);
    const rename = `update penstock.embeddings_generations set source_fields = '{text}' where id = $1`;
    await database.query(rename, [body.configs[0].current.id]);
    await database.query('commit');
  } finally {
    await database.end();
  }
  const found = async (text: string) => {
    const asked = { schemaName: 'Sheet', mode: 'keyword', text, typos: false };
    return (await platform.admin.post('/embeddings/search', asked)).body.hits.length as number;
  };
  await waitFor(async () => (await found('plover')) === 1);
  expect(await found('lapwing')).toBe(0);
});

it('finds records that are too large to be read together', async () => {
  await platform.createSchema({
    name: 'Tome',
    fields: { shelf: 'String', body: 'String' },
  } as Json);
  const config = { schemaName: 'Tome', sourceFields: ['body'], targetField: 'w', provider: 'none' };
  expect((await platform.admin.post('/embeddings/configs', config)).status).toBe(200);
  const inputDocuments = Array.from({ length: 24 }, () => ({ shelf: 'low' }));
  const many = await platform.admin.post('/database/schemas/Tome/docs/many', { inputDocuments });
  expect(many.status, many.text).toBe(200);
  const made = await platform.admin.post('/database/customEndpoints', {
    ...{ name: 'write', operation: operation.patch, selectedSchemaName: 'Tome' },
    inputs: [input('body', 'String', location.body)],
    query: compare('shelf', 0, ['Custom', 'low']),
    assignments: [assign('body', 0, 'Input', 'body')],
  });
  expect(made.status, made.text).toBe(200);
  // All change at once, and are read 32 at a time: 19 MB.
  const body = `quagga ${' '.repeat(800_000)}`;
  const changed = await platform.client.patch('/database/function/write', { body });
  expect(changed.body).toEqual({ matchedCount: 24, modifiedCount: 24 });
  await waitFor(async () => {
    const found = await search('quagga', { schemaName: 'Tome', limit: 1, userId: undefined });
    return found.hits.length === 1;
  });
  // So are those that were there before.
  const second = await platform.admin.post('/embeddings/configs', {
    ...{ ...config, sourceFields: ['shelf'], targetField: 'shelves' },
  });
  expect(second.status, second.text).toBe(200);
  await waitFor(async () => {
    const asked = { schemaName: 'Tome', targetField: 'shelves', limit: 1, userId: undefined };
    return (await search('low', asked)).hits.length === 1;
  });
});
