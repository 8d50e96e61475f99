/**
 * What a search finds, orders, counts, groups and marks for somebody is what their plain list has, by words, by meaning and by
 * both: beside random rights, fields that are shown in some records only, teams, the trash, and records that change hands,
 * texts that change and other settings of vectors, with a change between every two questions.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { randomOf } from '../../test/support/random-numbers.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { compareMeaning, createMeaning, type Meaning, settled } from './meaning.ts';

/** Changes, with some questions after each: a few with every test, more with `SEARCH_STEPS=1000`. */
const STEPS = Number(process.env.SEARCH_STEPS ?? 12);
const random = randomOf(Number(process.env.SEARCH_SEED ?? 541));
const LIMIT = 60_000 + STEPS * 2_000;
const RECORDS = 36;
const vocabulary = ['anchor', 'bucket', 'candle', 'dagger', 'engine', 'feather'];
const kinds = ['open', 'closed', 'secret'];

let platform: TestPlatform;
let users: readonly TestUser[];
let team: string;
let ids: string[];
let meaning: Meaning;
const tuples = new Set<string>();
const trash = new Set<string>();

beforeAll(async () => {
  platform = await createTestPlatform();
  const { admin } = platform;
  meaning = await createMeaning(admin, vocabulary);
  await liftLimits(admin);
  const rateLimit = { maxRequests: 1_000_000, operations: { 'embeddings.search': '10000/1' } };
  expectStatus(await admin.patch('/config/router', { config: { rateLimit } }), 200, 'limits');
  expectStatus(
    await admin.patch('/config/authentication', { config: { teams: { enabled: true } } }),
    200,
    'teams',
  );
  users = await Promise.all(Array.from({ length: 3 }, () => platform.registerUser()));
  const made = await users[0]?.api.post('/authentication/teams', { name: 'team' });
  team = expectStatus(made as NonNullable<typeof made>, 200, 'team').body._id;
  await platform.createSchema({
    name: 'Sheet',
    fields: {
      title: 'String',
      body: 'String',
      kind: 'String',
      remark: { type: 'String', access: { read: 'action:edit' } },
      price: { type: 'Number', access: { read: 'action:edit' } },
    },
    conduitOptions: {
      authorization: { enabled: true },
      softDelete: true,
      cms: {
        enabled: true,
        query: { enabled: true, fields: ['title', 'kind', 'body'], operators: ['$search'] },
      },
    },
  } as Json);
  await permissionsApi(admin).define({
    name: 'Sheet',
    version: 1,
    relations: { owner: ['User', 'Team'], reader: ['User', 'Team#member', '*'], editor: ['User'] },
    permissions: {
      read: ['reader', 'edit', { rule: "record.kind == 'open'" }],
      edit: ['owner', 'owner->edit', 'editor'],
      delete: ['owner', 'editor'],
    },
  });
  for (const targetField of ['titles', 'both', 'remarks'] as const) await configure(targetField);
  ids = [];
  for (let i = 0; i < RECORDS; i += 1) {
    const texts = { title: words(), body: words(), remark: words() };
    const doc = { ...texts, kind: random.pick(kinds), price: i % 3 };
    const answer = await random.pick(users).api.post('/database/Sheet', doc);
    ids.push(expectStatus(answer, 200, 'a record').body._id);
  }
  await settled(admin, 3 * RECORDS);
}, LIMIT);
afterAll(async () => {
  await platform?.close();
  await meaning?.close();
});

const words = () => `${random.pick(vocabulary)} ${random.pick(vocabulary)}`;

async function toggle(text: string): Promise<void> {
  const permissions = permissionsApi(platform.admin);
  if (tuples.delete(text)) return permissions.unrelate(text);
  await permissions.relate(text);
  tuples.add(text);
}

/** Of each configuration. */
const sources = { titles: ['title'], both: ['title', 'body'], remarks: ['title', 'remark'] };
const similarity = { titles: 'euclidean', both: 'cosine', remarks: 'cosine' } as Record<
  keyof typeof sources,
  'cosine' | 'euclidean'
>;

async function configure(targetField: keyof typeof sources): Promise<void> {
  const own = { targetField, similarity: similarity[targetField] };
  const config = { schemaName: 'Sheet', language: 'english', sourceFields: sources[targetField] };
  const answer = await platform.admin.post('/embeddings/configs', { ...config, ...own });
  expectStatus(answer, 200, 'a configuration');
}

const textOf = (record: Json, targetField: keyof typeof sources): string =>
  sources[targetField].map((name) => record[name]).join('\n');

/** Searches know the record as it is now. */
async function followed(record: Json): Promise<void> {
  for (const targetField of ['titles', 'both'] as const) {
    const text = textOf(record, targetField);
    const body = { schemaName: 'Sheet', targetField, text, filter: { _id: record._id } };
    const isNow = async (mode: string) =>
      (await platform.admin.post('/embeddings/search', { ...body, mode })).body.hits[0];
    const nearest = meaning.distance(similarity[targetField], text, text) + 1e-5;
    await waitFor(async () => (await isNow('vector'))?.distance <= nearest);
    await waitFor(async () => (await isNow('keyword')) !== undefined);
  }
}

const somebody = () => `User:${random.pick(users).userId}`;
const steps: readonly (() => Promise<unknown>)[] = [
  () => toggle(`${somebody()} reader Sheet:${random.pick(ids)}`),
  () => toggle(`${somebody()} editor Sheet:${random.pick(ids)}`),
  () => toggle(`${random.pick(['*', `Team:${team}#member`])} reader Sheet:${random.pick(ids)}`),
  () => toggle(`${somebody()} member Team:${team}`),
  async () => {
    const id = random.pick(ids);
    const { status } = await random.pick(users).api.delete(`/database/Sheet/${id}`);
    if (status === 200) trash.add(id);
  },
  async () => {
    const id = [...trash][0];
    if (id === undefined) return;
    const path = `/database/schemas/Sheet/docs/${id}/restore`;
    const { body } = expectStatus(await platform.admin.post(path, {}), 200, 'restore');
    trash.delete(id);
    await followed(body);
  },
  async () => {
    const path = `/database/schemas/Sheet/docs/${random.pick(ids)}`;
    const changedDocument = { kind: random.pick(kinds), title: words() };
    const { status, body } = await platform.admin.put(path, { changedDocument });
    if (status === 200) await followed(body);
  },
  async () => {
    const targetField = random.pick(['titles', 'both'] as const);
    similarity[targetField] = random.pick(['cosine', 'euclidean']);
    await configure(targetField);
    await waitFor(async () => {
      const { configs } = (await platform.admin.get('/embeddings/configs')).body;
      const now = configs.find((one: Json) => one.targetField === targetField);
      return now.similarity === similarity[targetField];
    });
    await settled(platform.admin);
  },
  async () => {
    const path = `/database/Sheet/${random.pick(ids)}/move`;
    const to = random.pick([`Team:${team}`, somebody()]);
    const { status } = await random.pick(users).api.post(path, { to });
    expect([200, 403, 404]).toContain(status);
  },
];

const idsOf = (documents: readonly Json[]): readonly string[] =>
  documents.map(({ _id }) => _id).sort();
const documentsOf = ({ hits }: Json): readonly Json[] => hits.map(({ document }: Json) => document);

interface Question {
  readonly asked: Json;
  /** All that the list of the user has. */
  readonly all: readonly Json[];
  /** Those of them that fit what is asked. */
  readonly fitting: readonly Json[];
}

async function questionFor({ api }: TestUser): Promise<Question> {
  const answer = await api.get('/database/Sheet', { query: { limit: 100 } });
  const all: readonly Json[] = expectStatus(answer, 200, 'list').body.documents;
  const text = random.pick(vocabulary);
  const targetField = random.pick(['titles', 'both'] as const);
  const wanted = random.chance(0.5) ? random.pick(kinds) : undefined;
  const fitting = all.filter(
    ({ title, body, kind }) =>
      (targetField === 'titles' ? title : `${title} ${body}`).includes(text) &&
      (wanted === undefined || kind === wanted),
  );
  const asked = {
    ...{ schemaName: 'Sheet', targetField, mode: 'keyword', text, limit: 50 },
    ...(wanted !== undefined && { filter: { kind: wanted } }),
  };
  return { asked, all, fitting };
}

async function compareSearches(
  { api }: TestUser,
  { asked, all, fitting }: Question,
): Promise<void> {
  const search = async (more: Json) =>
    expectStatus(await api.post('/embeddings/search', { ...asked, ...more }), 200, 'search').body;
  const found = await search({ typos: random.chance(0.5), highlight: true, facets: ['kind'] });
  expect([asked, idsOf(documentsOf(found))]).toEqual([asked, idsOf(fitting)]);
  for (const { document, highlights } of found.hits) {
    expect(document).toEqual(all.find(({ _id }) => _id === document._id));
    for (const field of Object.keys(highlights)) expect(document).toHaveProperty(field);
  }
  const facets = found.facets.kind.flatMap(({ value, count }: Json) => Array(count).fill(value));
  expect(facets.sort()).toEqual(fitting.map(({ kind }) => kind).sort());
  const groups = (await search({ groupBy: 'kind' })).hits.map(({ group }: Json) => group).sort();
  expect(groups).toEqual([...new Set(fitting.map(({ kind }) => kind))].sort());
  const pages: Json[] = [];
  let page = await search({ limit: 3 });
  for (; page.nextCursor !== null; page = await search({ limit: 3, cursor: page.nextCursor }))
    pages.push(...documentsOf(page));
  expect(idsOf([...pages, ...documentsOf(page)])).toEqual(idsOf(fitting));
}

async function compareVectors({ api }: TestUser, { asked, all }: Question): Promise<void> {
  const { targetField, filter } = asked;
  const text = words();
  await compareMeaning({
    fitting: all.filter(({ kind }) => filter === undefined || kind === filter.kind),
    distance: (record) =>
      meaning.distance(
        similarity[targetField as keyof typeof sources],
        textOf(record, targetField),
        text,
      ),
    async search(more) {
      const answer = await api.post('/embeddings/search', { ...asked, text, ...more });
      return expectStatus(answer, 200, 'search').body;
    },
  });
}

/** Searches in filters of lists, and what is like a record. */
async function compareOthers({ api }: TestUser, { asked, all }: Question): Promise<void> {
  const query = { query: { title: { $search: asked.text } } };
  const queried = await api.post('/database/Sheet/query?limit=100', query);
  expect(idsOf(expectStatus(queried, 200, 'query').body.documents)).toEqual(
    idsOf(all.filter(({ title }) => title.includes(asked.text))),
  );
  const mode = random.pick(['keyword', 'vector', 'hybrid']);
  const { text: _, ...like } = { ...asked, mode, documentId: random.pick(ids) };
  const { status, body } = await api.post('/embeddings/search', like);
  expect(status).toBe(all.some(({ _id }) => _id === like.documentId) ? 200 : 404);
  if (status === 200)
    for (const document of documentsOf(body)) expect(all).toContainEqual(document);
}

/** Fields that are shown in some records only are no question to anybody. */
async function compareRefusals({ api }: TestUser, { asked, fitting }: Question): Promise<void> {
  for (const [status, more] of [
    [400, { facets: ['price'] }],
    [fitting.length > 0 ? 403 : 200, { groupBy: 'price' }],
    [400, { filter: { price: 1 } }],
    [400, { filter: { remark: { $search: asked.text } } }],
    [403, { targetField: 'remarks' }],
    [403, { targetField: 'remarks', mode: random.pick(['vector', 'hybrid']) }],
  ] as const) {
    const answer = await api.post('/embeddings/search', { ...asked, ...more });
    expect([more, answer.status]).toEqual([more, status]);
  }
}

it('finds what lists show', { timeout: LIMIT }, async () => {
  for (let step = 0; step < STEPS; step += 1) {
    await random.pick(steps)();
    const user = random.pick(users);
    const question = await questionFor(user);
    await compareSearches(user, question);
    await compareVectors(user, question);
    await compareOthers(user, question);
    await compareRefusals(user, question);
  }
});
