/** Search as a developer begins with it: the built-in model, one call of configuration (specification embeddings.md, interface 4.5). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let ann: TestUser;
let bob: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, bob] = [await platform.registerUser(), await platform.registerUser()];
});
afterAll(() => platform.close());

const titles = (hits: Json): string[] => hits.map(({ document }: Json) => document.title);

/** Nothing waits, and every backfill is through. */
const indexed = (schemaName: string) =>
  waitFor(
    async () => {
      const { body } = await platform.admin.get('/embeddings/status', { query: { schemaName } });
      const { generationQueue: queue, backfillQueue: runs } = body;
      return queue.waiting + queue.active + queue.delayed + runs.waiting + runs.active === 0;
    },
    { what: `embeddings of ${schemaName}` },
  );

const configure = async (body: object) => {
  const answer = await platform.admin.post('/embeddings/configs', body);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
};

describe('texts of a schema', () => {
  const search = (body: object, user = ann) =>
    user.api.post('/embeddings/search', { schemaName: 'Recipe', ...body });
  let bread: Json;

  beforeAll(async () => {
    await platform.createSchema({
      name: 'Recipe',
      fields: { title: 'String', body: 'String', minutes: 'Number', password: 'String' },
      conduitOptions: { cms: { enabled: true } },
    });
    const create = (title: string, body: string, minutes: number) =>
      ann.api.post('/database/Recipe', { title, body, minutes });
    bread = (await create('Bread', 'Flour, yeast and an oven make a loaf', 90)).body;
    await create('Engine', 'How to repair the motor of a car', 300);
    await create('Trip', 'Ten days of hiking in the mountains', 14_400);
    await configure({
      schemaName: 'Recipe',
      sourceFields: ['title', 'body'],
      targetField: 'meaning',
    });
    await indexed('Recipe');
  });

  it('are found by what they mean, those that were there before too', async () => {
    const answer = await search({ text: 'baking something for breakfast' });
    expect(answer.status, answer.text).toBe(200);
    const { hits } = answer.body;
    expect(titles(hits)[0]).toBe('Bread');
    expect(hits).toHaveLength(3);
    expect(hits[0]).toMatchObject({
      metric: 'cosine',
      provider: 'built-in',
      document: { minutes: 90 },
      matchedChunk: { start: 0, preview: expect.stringContaining('Flour') },
    });
    expect(hits[0].score).toBeCloseTo(1 - hits[0].distance / 2, 9);
    expect(answer.text).not.toMatch(/hash|vector"/i);
  });

  it('follow their records: changed, deleted and new ones', async () => {
    await ann.api.patch(`/database/Recipe/${bread._id}`, { body: 'A play of Shakespeare' });
    await ann.api.patch(`/database/Recipe/${bread._id}`, { title: 'Hamlet' });
    const found = async (text: string) => titles((await search({ text, limit: 1 })).body.hits)[0];
    await waitFor(async () => (await found('theatre and drama')) === 'Hamlet', { everyMs: 300 });
    await ann.api.delete(`/database/Recipe/${bread._id}`);
    expect(titles((await search({ text: 'theatre and drama' })).body.hits)).toEqual(
      expect.not.arrayContaining(['Hamlet']),
    );
    const inputDocument = { title: 'Soup', body: 'Boil vegetables in water' };
    await platform.admin.post('/database/schemas/Recipe/docs', { inputDocument });
    await waitFor(async () => (await found('a warm meal of carrots and leek')) === 'Soup', {
      everyMs: 300,
    });
  });

  it('are filtered, cut to the limit, and refused where the input is wrong', async () => {
    // The tests before may have used up what a user may search in a minute.
    const filtered = await waitFor(
      async () => {
        const answer = await search({ text: 'anything', filter: { minutes: { $gt: 1_000 } } });
        return answer.status === 429 ? undefined : answer;
      },
      { everyMs: 1_000, timeoutMs: 70_000 },
    );
    expect(filtered.status, filtered.text).toBe(200);
    expect(titles(filtered.body.hits)).toEqual(['Trip']);
    const refused = async (body: object) => {
      const admin = await platform.admin.post('/embeddings/search', {
        schemaName: 'Recipe',
        text: 'words',
        ...body,
      });
      return [admin.status, admin.body.errors?.[0]?.path];
    };
    for (const limit of [0, -1, 1.5]) expect(await refused({ limit })).toEqual([400, 'limit']);
    expect(await refused({ text: '  ' })).toEqual([400, 'text']);
    expect(await refused({ text: 'x'.repeat(40_000) })).toEqual([400, 'text']);
    expect((await refused({ filter: { nowhere: 1 } }))[0]).toBe(400);
    expect((await refused({ filter: { minutes: { $where: '1' } } }))[0]).toBe(400);
    expect(await refused({ targetField: 'other' })).toEqual([400, 'targetField']);
    expect((await refused({ schemaName: 'Nothing' }))[0]).toBe(404);
  }, 90_000);

  it('keep the limits of the client surface', async () => {
    const statuses: number[] = [];
    for (const limit of [51, '5', 0]) {
      statuses.push((await search({ text: 'words', limit }, bob)).status);
    }
    expect(statuses).toEqual([400, 400, 400]);
    expect(
      (await platform.client.post('/embeddings/search', { schemaName: 'Recipe', text: 'a' }))
        .status,
    ).toBe(401);
    const many = await Promise.all(
      Array.from({ length: 12 }, () => search({ text: 'words' }, bob)),
    );
    expect(many.some(({ status }) => status === 429)).toBe(true);
  });

  it('are found by texts as long as they may be, and these keep nobody waiting', async () => {
    for (const text of [
      'baking bread in the oven for breakfast '.repeat(840),
      `"${'bread and butter '.repeat(1_900)}"`,
      'bread-and-'.repeat(3_270),
      'bread'.repeat(6_550),
    ]) {
      const body = { schemaName: 'Recipe', text, mode: 'hybrid', highlight: true };
      const answer = await platform.admin.post('/embeddings/search', body);
      expect(answer.status, answer.text).toBe(200);
      expect(answer.body.hits).toHaveLength(3);
    }
  });

  it('are like each other, and by words where these are what counts', async () => {
    const admin = (body: object) =>
      platform.admin.post('/embeddings/search', { schemaName: 'Recipe', ...body });
    const [trip] = (await admin({ text: 'hiking', limit: 1 })).body.hits;
    const like = await admin({ documentId: trip.document._id });
    expect(like.status, like.text).toBe(200);
    expect(titles(like.body.hits)).not.toContain('Trip');
    expect((await admin({ documentId: crypto.randomUUID() })).status).toBe(404);
    const words = async (text: string) =>
      titles((await admin({ text, mode: 'keyword' })).body.hits);
    expect(await words('mountains')).toEqual(['Trip']);
    expect(await words('"motor of a car"')).toEqual(['Engine']);
    expect(await words('mountains -hiking')).toEqual([]);
    for (const text of ['...', "'", 'a & | ! b', '日本語', '😀'])
      expect((await admin({ text, mode: 'hybrid' })).status).toBe(200);
  });

  it('are not searched by who does not see them', async () => {
    await platform.createSchema({
      name: 'Guarded',
      fields: {
        title: 'String',
        note: { type: 'String', access: { read: 'role:editor' } },
        secret: { type: 'String', select: false },
      },
      conduitOptions: { cms: { enabled: true } },
    });
    await ann.api.post('/database/Guarded', { title: 'seen' });
    const config = { schemaName: 'Guarded', sourceFields: ['title', 'note'], targetField: 'm' };
    await configure(config);
    for (const mode of ['vector', 'keyword']) {
      const body = { schemaName: 'Guarded', text: 'seen', mode, userId: ann.userId };
      expect((await platform.admin.post('/embeddings/search', body)).status).toBe(403);
    }
    await configure({ ...config, targetField: 'open', sourceFields: ['title'] });
    await indexed('Guarded');
    const filtered = (filter: object) =>
      platform.admin.post('/embeddings/search', {
        ...{ schemaName: 'Guarded', text: 'seen', mode: 'keyword', targetField: 'open' },
        ...{ userId: ann.userId, filter },
      });
    expect((await filtered({ title: 'seen' })).body.hits).toHaveLength(1);
    // What is hidden cannot be guessed by a filter either.
    for (const filter of [
      { note: 'x' },
      { note: { $exists: true } },
      { secret: 'x' },
      { $or: [{ title: 'seen' }, { secret: { $ne: 'x' } }] },
    ]) {
      const refused = await filtered(filter);
      expect([400, 403], refused.text).toContain(refused.status);
      expect(refused.body.hits).toBeUndefined();
    }
    const hidden = { ...config, targetField: 'n', sourceFields: ['secret'] };
    expect((await platform.admin.post('/embeddings/configs', hidden)).status).toBe(400);
  });

  it('are not searched by what is hidden within a field since', async () => {
    const field = { type: 'String' } as Json;
    const fields = (deep: Json) => ({ title: 'String', inner: [{ open: 'String', deep }] }) as Json;
    const made = await platform.createSchema({
      name: 'Nested',
      fields: fields(field),
      conduitOptions: { cms: { enabled: true } },
    });
    await ann.api.post('/database/Nested', {
      title: 'seen',
      inner: [{ open: 'gate', deep: 'well' }],
    });
    const config = { schemaName: 'Nested', targetField: 'm', provider: 'none', language: 'simple' };
    await configure({ ...config, sourceFields: ['title', 'inner.open', 'inner.deep'] });
    await indexed('Nested');
    const found = (more: object = {}) =>
      platform.admin.post('/embeddings/search', {
        ...{ schemaName: 'Nested', text: 'well', mode: 'keyword', userId: ann.userId, ...more },
      });
    expect((await found()).body.hits).toHaveLength(1);
    const changed = await platform.admin.patch(`/database/schemas/${made._id}`, {
      fields: fields({ ...field, select: false }),
    });
    expect(changed.status, changed.text).toBe(200);
    const refused = await found({ highlight: true });
    expect([refused.status, refused.body.hits], refused.text).toEqual([403, undefined]);
    await configure({ ...config, targetField: 'open', sourceFields: ['title', 'inner.open'] });
    await indexed('Nested');
    const open = await found({ targetField: 'open', text: 'gate' });
    expect(open.body.hits, open.text).toHaveLength(1);
  });

  it('refuse sources that are no texts, or had better not be searched', async () => {
    const refused = async (body: object) => {
      const answer = await platform.admin.post('/embeddings/configs', {
        schemaName: 'Recipe',
        targetField: 'second',
        ...body,
      });
      return [answer.status, answer.body.errors?.[0]?.path];
    };
    expect(await refused({ sourceFields: ['minutes'] })).toEqual([400, 'sourceFields.0']);
    expect(await refused({ sourceFields: ['title', 'password'] })).toEqual([400, 'sourceFields.1']);
    expect(await refused({ sourceFields: ['title'], targetField: 'body' })).toEqual([
      400,
      'targetField',
    ]);
    expect((await refused({ sourceFields: ['email'], schemaName: 'User' }))[0]).toBe(403);
    expect((await refused({ sourceFields: ['title'], schemaName: 'Gone' }))[0]).toBe(404);
  });
});
