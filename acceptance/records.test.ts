/** The path of an app's data: an admin declares it, a user stores and reads it (interface 4.3, spec/database.md 1.1). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

const signedIn = { enabled: true, authenticated: true };
const authenticatedWrites = {
  cms: { crudOperations: { create: signedIn, update: signedIn, delete: signedIn } },
};

describe('records', () => {
  let platform: TestPlatform;
  let user: Api;
  const create = async (schema: string, body: object): Promise<Json> =>
    expectStatus(await user.post(`/database/${schema}`, body), 200, `create ${schema}`).body;

  beforeAll(async () => {
    platform = await createTestPlatform();
    user = (await platform.registerUser()).api;
    await platform.createSchema({
      name: 'Author',
      fields: {
        name: { type: 'String', required: true },
        email: 'String',
        secret: { type: 'String', select: false },
      },
      conduitOptions: authenticatedWrites,
    });
    await platform.createSchema({
      name: 'Post',
      fields: {
        title: { type: 'String', required: true },
        likes: { type: 'Number', default: 0 },
        tags: ['String'],
        published: 'Date',
        author: { type: 'Relation', model: 'Author' },
        coauthors: [{ type: 'Relation', model: 'Author' }],
      },
      conduitOptions: authenticatedWrites,
    });
  });
  afterAll(() => platform.close());

  it('a schema is usable on the client surface when the admin call returns', async () => {
    const name = `Live${randomUUID().slice(0, 8)}`;
    expect((await user.get(`/database/${name}`)).status).toBe(404);
    await platform.createSchema({ name, fields: { text: 'String' } });
    expectStatus(await user.post(`/database/${name}`, { text: 'at once' }), 200, 'create');
    expect((await user.get(`/database/${name}`)).body.count).toBe(1);
  });

  it('creates, reads, changes and deletes', async () => {
    const author = await create('Author', {
      name: 'Ada',
      secret: 'hidden',
      unknown: 'dropped',
      _id: randomUUID(),
    });
    expect(author).toMatchObject({ name: 'Ada', email: null, __v: 0 });
    expect(author).not.toHaveProperty('secret');
    expect(author).not.toHaveProperty('unknown');
    expect(new Date(author.createdAt).toISOString()).toBe(author.createdAt);

    expect((await user.get(`/database/Author/${author._id}`)).body).toEqual(author);
    const changed = await user.patch(`/database/Author/${author._id}`, {
      email: 'ada@example.com',
    });
    expect(changed.body).toMatchObject({
      _id: author._id,
      name: 'Ada',
      email: 'ada@example.com',
      __v: 1,
    });
    const cleared = await user.patch(`/database/Author/${author._id}`, { email: null });
    expect(cleared.body.email).toBeNull();

    expect((await user.delete(`/database/Author/${author._id}`)).body).toEqual({ result: 'Ok' });
    const gone = await user.get(`/database/Author/${author._id}`);
    expect(gone.status).toBe(404);
    expect(gone.body).toMatchObject({
      name: 'NOT_FOUND',
      status: 404,
      message: 'Document does not exist',
    });
    expect((await user.delete(`/database/Author/${author._id}`)).status).toBe(404);
  });

  it('wants a user for what is marked as authenticated, and lets others read', async () => {
    expect((await platform.client.post('/database/Author', { name: 'Nobody' })).status).toBe(401);
    expect((await platform.client.get('/database/Author')).status).toBe(200);
    expect((await platform.client.get('/database/Author', { token: 'not-a-token' })).status).toBe(
      401,
    );
  });

  it('lists in pages with an exact count, sorted as asked', async () => {
    const name = `Page${randomUUID().slice(0, 8)}`;
    await platform.createSchema({ name, fields: { rank: 'Number', group: 'String' } });
    for (let rank = 0; rank < 30; rank += 1)
      await create(name, { rank, group: rank % 2 ? 'odd' : 'even' });

    const first = (await user.get(`/database/${name}`)).body;
    expect(first.count).toBe(30);
    expect(first.documents.map(({ rank }: Json) => rank)).toEqual(
      Array.from({ length: 25 }, (_, rank) => rank),
    );
    const page = (
      await user.get(`/database/${name}`, { query: { sort: '-rank', skip: 2, limit: 3 } })
    ).body;
    const { documents } = page;
    expect((await user.get(`/database/${name}?sort=-rank&skip=2&limit=3&count=none`)).body).toEqual(
      { documents },
    );
    expect(
      (await user.get(`/database/${name}?sort=-rank&skip=2&limit=3&count=estimated`)).body,
    ).toEqual({ ...page, estimated: false });
    expect(page).toMatchObject({
      count: 30,
      documents: [{ rank: 27 }, { rank: 26 }, { rank: 25 }],
    });
    const grouped = (await user.get(`/database/${name}?sort=group&sort=-rank&limit=2`)).body
      .documents;
    expect(grouped.map(({ rank }: Json) => rank)).toEqual([28, 26]);
    expect((await user.get(`/database/${name}?sort=group,-rank&limit=2`)).body.documents).toEqual(
      grouped,
    );
  });

  it.each([
    'limit=1001',
    'limit=0',
    'limit=ten',
    'limit=1e1',
    'skip=-1',
    'limit=1&limit=2',
    'sort=nothing',
    'populate=nothing',
    'count=some',
  ])('refuses ?%s', async (query) => {
    const answer = await user.get(`/database/Post?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0].path).toContain(query.split('=', 1)[0]);
  });

  it('has no filter: unknown query keys are ignored', async () => {
    expect((await user.get('/database/Post?title=x')).status).toBe(200);
  });

  it('populates relations, in lists and in single reads', async () => {
    const [ada, bob] = [
      await create('Author', { name: 'Ada' }),
      await create('Author', { name: 'Bob' }),
    ];
    const post = await create('Post', {
      title: 'Both',
      author: ada._id,
      coauthors: [bob._id, ada._id],
    });
    expect(post.author).toBe(ada._id);
    const read = (await user.get(`/database/Post/${post._id}?populate=author&populate=coauthors`))
      .body;
    expect(read.author).toEqual(ada);
    expect(read.coauthors).toEqual([bob, ada]);
    const listed = (await user.get('/database/Post?populate=author&sort=-createdAt&limit=1')).body
      .documents[0];
    expect(listed.author).toEqual(ada);
  });

  it('refuses relations to nothing, wrong types and missing fields, and names the place', async () => {
    const answers = await Promise.all([
      user.post('/database/Post', { title: 'x', author: randomUUID() }),
      user.post('/database/Post', { title: 'x', likes: 'many' }),
      user.post('/database/Post', { likes: 1 }),
      user.post('/database/Post', { title: 'x', published: 'yesterday' }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 400]);
    expect(answers.map(({ body }) => body.errors[0].path)).toEqual([
      'author',
      'likes',
      'title',
      'published',
    ]);
  });

  it('answers 409 for a value that must be unique, and names the field', async () => {
    await platform.createSchema({
      name: 'Badge',
      fields: { number: { type: 'String', required: true, unique: true } },
    });
    await create('Badge', { number: '7' });
    const second = await user.post('/database/Badge', { number: '7' });
    expect(second.status).toBe(409);
    expect(second.body.errors).toMatchObject([{ path: 'number', rule: 'unique' }]);
  });

  it('creates and changes many at once, or none', async () => {
    const before = (await user.get('/database/Author?limit=1')).body.count;
    const refused = await user.post('/database/Author/many', { docs: [{ name: 'One' }, {}] });
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].path).toBe('docs.1.name');
    expect((await user.get('/database/Author?limit=1')).body.count).toBe(before);

    const { docs } = expectStatus(
      await user.post('/database/Author/many', { docs: [{ name: 'One' }, { name: 'Two' }] }),
      200,
      'many',
    ).body;
    const renamed = docs.map(({ _id, name }: Json) => ({ _id, name: `${name}!` }));
    const changed = expectStatus(
      await user.patch('/database/Author/many', { docs: renamed }),
      200,
      'patch many',
    ).body.docs;
    expect(changed.map(({ name }: Json) => name)).toEqual(['One!', 'Two!']);
  });

  it('changes a record only as the caller saw it (If-Match)', async () => {
    const author = await create('Author', { name: 'Versioned' });
    const path = `/database/Author/${author._id}`;
    const etag = (await user.get(path)).headers.get('etag') ?? '';
    const race = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        user.patch(path, { name: `Writer ${index}` }, { headers: { 'if-match': etag } }),
      ),
    );
    expect(race.map(({ status }) => status).sort()).toEqual([
      200,
      ...Array.from({ length: 9 }, () => 412),
    ]);
    expect((await user.get(path)).body.__v).toBe(1);
  });

  it('does a write once for one Idempotency-Key', async () => {
    const key = randomUUID();
    const send = (name: string) =>
      user.post('/database/Author', { name }, { headers: { 'idempotency-key': key } });
    const answers = await Promise.all(Array.from({ length: 8 }, () => send('Once')));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(
      answers.filter(({ headers }) => headers.get('idempotency-replayed') === 'true').length,
    ).toBe(7);
    const other = await send('Another');
    expect(other.status).toBe(409);
    expect(other.body.code).toBe('IDEMPOTENCY_KEY_REUSED');
  });

  it('returns records that look like instructions to the server as they are', async () => {
    const name = `Odd${randomUUID().slice(0, 8)}`;
    await platform.createSchema({
      name,
      fields: { result: 'String', redirect: 'String', setCookies: 'JSON' },
    });
    const record = await user.post(`/database/${name}`, {
      result: 'r',
      redirect: 'https://example.com',
      setCookies: [{ name: 'a' }],
    });
    expect(record.body).toMatchObject({
      result: 'r',
      redirect: 'https://example.com',
      setCookies: [{ name: 'a' }],
    });
    expect(record.headers.get('set-cookie')).toBeNull();
  });
});
