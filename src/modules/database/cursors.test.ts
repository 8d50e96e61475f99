// Pages by cursor on every surface that has lists of records.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import type { TestUser } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('pages by cursor', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;
  beforeAll(async () => {
    platform = await createTestPlatform();
    const query = { enabled: true, fields: ['rank'], operators: ['$gte'] };
    await platform.createSchema({ name: 'Author', fields: { name: 'String' } });
    await platform.createSchema({
      name: 'Item',
      fields: { rank: 'Number', author: { type: 'Relation', model: 'Author' } },
      conduitOptions: { cms: { query } },
    });
    await platform.createSchema({
      name: 'Owned',
      fields: { rank: 'Number' },
      conduitOptions: { authorization: { enabled: true } },
    });
    [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    const author = (await platform.client.post('/database/Author', { name: 'Ada' })).body._id;
    await platform.client.post('/database/Item/many', {
      docs: Array.from({ length: 10 }, (_, i) => ({ rank: i % 4, author })),
    });
    for (const user of [ann, bob])
      await user.api.post('/database/Owned/many', {
        docs: Array.from({ length: 5 }, (_, i) => ({ rank: i })),
      });
  });
  afterAll(() => platform.close());

  const walk = async (read: (cursor: string) => Promise<Json>): Promise<Json[]> => {
    const seen: Json[] = [];
    for (let cursor = 'start'; cursor !== null; ) {
      const { body } = await read(encodeURIComponent(cursor));
      expect(body).toHaveProperty('nextCursor');
      seen.push(...body.documents);
      cursor = body.nextCursor;
    }
    return seen;
  };

  it('go through client lists, with relations', async () => {
    const whole = (await platform.client.get('/database/Item?sort=-rank&populate=author')).body;
    expect(whole).not.toHaveProperty('nextCursor');
    const seen = await walk((cursor) =>
      platform.client.get(`/database/Item?sort=-rank&populate=author&limit=3&cursor=${cursor}`),
    );
    expect(seen).toEqual(whole.documents);
    expect(seen[0].author.name).toBe('Ada');
  });

  it('go through what a user may see, and nothing else', async () => {
    const seen = await walk((cursor) =>
      ann.api.get(`/database/Owned?limit=2&sort=rank&count=none&cursor=${cursor}`),
    );
    expect(seen.map(({ rank }) => rank)).toEqual([0, 1, 2, 3, 4]);
    const other = await walk((cursor) =>
      bob.api.get(`/database/Owned?limit=2&sort=rank&cursor=${cursor}`),
    );
    expect(other.some(({ _id }) => seen.some((mine) => mine._id === _id))).toBe(false);
    // A cursor of somebody else is a place in the order, not a right.
    const { nextCursor } = (await ann.api.get('/database/Owned?limit=2&sort=rank&cursor=start'))
      .body;
    const { documents } = (
      await bob.api.get(`/database/Owned?limit=10&sort=rank&cursor=${nextCursor}`)
    ).body;
    expect(documents.every(({ _id }: Json) => other.some((mine) => mine._id === _id))).toBe(true);
  });

  it('go through filtered lists of clients and admins, each bound to its filter', async () => {
    const query = { rank: { $gte: 2 } };
    const mine = await walk((cursor) =>
      platform.client.post(`/database/Item/query?limit=2&cursor=${cursor}`, { query }),
    );
    expect(mine).toHaveLength(4);
    const admin = await walk((cursor) =>
      platform.admin.post(
        `/database/schemas/Item/query?limit=3&sort=-rank&count=none&cursor=${cursor}`,
        { query },
      ),
    );
    expect(new Set(admin.map(({ _id }) => _id))).toEqual(new Set(mine.map(({ _id }) => _id)));
    const { nextCursor } = (
      await platform.client.post('/database/Item/query?limit=2&cursor=start', { query })
    ).body;
    const moved = await platform.client.post(`/database/Item/query?limit=2&cursor=${nextCursor}`, {
      query: { rank: { $gte: 1 } },
    });
    expect(moved).toMatchObject({ status: 400, body: { errors: [{ path: 'cursor' }] } });
  });

  it('go through custom endpoints, for the inputs that they were made with', async () => {
    await platform.admin.post('/database/customEndpoints', {
      name: 'ranked',
      operation: 0,
      selectedSchemaName: 'Item',
      paginated: true,
      sorted: true,
      inputs: [{ name: 'from', type: 'Number', location: 1 }],
      query: {
        AND: [
          { schemaField: 'rank', operation: 3, comparisonField: { type: 'Input', value: 'from' } },
        ],
      },
    });
    const call = (from: number, cursor: string) =>
      platform.client.get(
        `/database/function/ranked?from=${from}&skip=0&limit=2&sort=-rank&cursor=${cursor}`,
      );
    expect((await walk((cursor) => call(1, cursor))).map(({ rank }) => rank)).toEqual([
      3, 3, 2, 2, 1, 1, 1,
    ]);
    const { nextCursor } = (await call(1, 'start')).body;
    expect((await call(2, nextCursor)).status).toBe(400);
    expect(
      (await platform.client.get('/database/function/ranked?from=1&skip=0&limit=2')).body,
    ).not.toHaveProperty('nextCursor');
  });

  it('go through GraphQL', async () => {
    const ask = async (cursor: string): Promise<Json> => {
      const query =
        'query($cursor: String) { getDatabaseItem(limit: 4, sort: ["-rank"], cursor: $cursor) { documents { rank } nextCursor } }';
      const { body } = await platform.client.post('/graphql', {
        query,
        variables: { cursor: decodeURIComponent(cursor) },
      });
      return { body: body.data.getDatabaseItem };
    };
    expect((await walk(ask)).map(({ rank }) => rank)).toEqual([3, 3, 2, 2, 1, 1, 1, 0, 0, 0]);
  });

  it.each(['x', 'start0', 'null', '%00', 'a'.repeat(9_000)])(
    'do not begin at %s',
    async (cursor) => {
      const { status, body } = await platform.client.get(`/database/Item?cursor=${cursor}`);
      expect([status, body.errors[0].path]).toEqual([400, 'cursor']);
    },
  );

  it('are not counted from anywhere', async () => {
    expect(await platform.client.get('/database/Item?cursor=start&skip=1')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'skip' }] },
    });
    expect(
      (await platform.client.get('/database/Item?cursor=&skip=0&limit=1')).body.documents,
    ).toHaveLength(1);
  });
});
