/** Somebody who reaches more objects than are named, where rights are taken away again and conditions count: every surface answers, and rightly. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

/** More than `limits.reached`. */
const MANY = 100_010;

describe('a reader of a place with very many places in it', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let author: TestUser;
  let reader: TestUser;
  const ids = new Map<string, string>();

  /** Each record with the place that it is at. */
  const places = {
    near: 'p7',
    far: 'deep',
    closed: 'p5',
    below: 'inner',
    elsewhere: 'other',
  } as const;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [author, reader] = [await platform.registerUser(), await platform.registerUser()];
    await permissions.define({
      name: 'Place',
      relations: { viewer: ['User'], parent: ['Place'], closed: ['User'] },
      permissions: {
        enter: { exclusion: { base: ['viewer', 'parent->enter'], subtract: ['closed'] } },
      },
    });
    await platform.createSchema({
      name: 'Find',
      fields: { title: 'String', rank: 'Number' },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.define({
      name: 'Find',
      version: 1,
      relations: { owner: ['User'], at: ['Place'], guest: ['User with marked'] },
      permissions: {
        read: ['owner', 'guest', 'at->enter'],
        edit: ['owner', 'at->enter'],
        delete: ['owner'],
      },
      conditions: { marked: { eq: [{ attribute: 'mark' }, 1] } },
    });
    for (const [rank, title] of [...Object.keys(places), 'marked', 'unmarked'].entries()) {
      const made = await author.api.post('/database/Find', { title, rank });
      ids.set(title, expectStatus(made, 200, 'create').body._id);
    }
    await permissions.relate(
      ...Object.entries(places).map(([title, at]) => `Place:${at} at Find:${ids.get(title)}`),
      `User:${reader.userId} viewer Place:root`,
      `User:${reader.userId} closed Place:p5`,
      'Place:p5 parent Place:inner',
      ...Array.from({ length: 30 }, (_, n) => `Place:d${n} parent Place:d${n + 1}`),
      'Place:p9 parent Place:d0',
      'Place:d30 parent Place:deep',
    );
    const database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
    await database.query(
      `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
       select gen_random_uuid(), 'Place', 'root', 'parent', 'Place', 'p' || n from generate_series(1, ${MANY}) n`,
    );
    for (const [title, mark] of [
      ['marked', 1],
      ['unmarked', 2],
    ] as const)
      await database.query(
        `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id, condition, attributes)
         values (gen_random_uuid(), 'User', $1, 'guest', 'Find', $2, 'marked', $3)`,
        [reader.userId, ids.get(title), { mark }],
      );
    await database.end();
  }, 180_000);
  afterAll(() => platform.close());

  const visible = ['marked', 'far', 'near'];

  it('gets lists, in any order and with their number', async () => {
    const { body } = expectStatus(
      await reader.api.get('/database/Find', { query: { sort: '-rank' } }),
      200,
      'list',
    );
    expect(body.documents.map(({ title }: { title: string }) => title)).toEqual(visible);
    expect(body.count).toBe(3);
    const second = await reader.api.get('/database/Find', {
      query: { sort: '-rank', skip: '1', limit: '1', count: 'none' },
    });
    expect(second.body.documents.map(({ title }: { title: string }) => title)).toEqual(['far']);
  });

  it('gets the same by GraphQL, and single records by their ids', async () => {
    const query = '{ getDatabaseFind(sort: ["-rank"]) { documents { title } count } }';
    const { body } = await reader.api.post('/graphql', { query });
    expect(body.data?.getDatabaseFind, JSON.stringify(body)).toEqual({
      documents: visible.map((title) => ({ title })),
      count: 3,
    });
    for (const [title, id] of ids) {
      const { status } = await reader.api.get(`/database/Find/${id}`);
      expect([title, status]).toEqual([title, visible.includes(title) ? 200 : 404]);
      expect(await permissions.can(`User:${reader.userId} read Find:${id}`)).toBe(
        visible.includes(title),
      );
    }
  });

  it('sees what is taken away and given at once', async () => {
    const titles = async (): Promise<readonly string[]> =>
      (await reader.api.get('/database/Find', { query: { sort: '-rank' } })).body.documents.map(
        ({ title }: { title: string }) => title,
      );
    await permissions.relate(`User:${reader.userId} closed Place:d15`);
    expect(await titles()).toEqual(['marked', 'near']);
    await permissions.unrelate(`User:${reader.userId} closed Place:p5`);
    expect(await titles()).toEqual(['marked', 'below', 'closed', 'near']);
  });
});
