/** Pages of lists in which the rows that somebody sees are many, late, taken away, or on very many shelves: each way to the first rows gives the right ones. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const ROWS = 1_500;
/** More than are looked up one by one. */
const SHELVES = 600;
/** Records before this one are seen by nobody but their owner. */
const FIRST = 150;
/** So many, the first ones, are taken away from somebody: enough for it to be remembered where the others begin. */
const LATE = 700;

interface Leaf {
  readonly id: string;
  readonly n: number;
  readonly rank: number;
  readonly level: number | null;
}

const idText = (n: string): string => `('0198f000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))`;
const leaves: readonly Leaf[] = Array.from({ length: ROWS }, (_, i) => ({
  id: `0198f000-0000-7000-8000-${(i + 1).toString(16).padStart(12, '0')}`,
  n: i + 1,
  rank: ((i + 1) * 7) % ROWS,
  level: (i + 1) % 3 === 0 ? null : (i + 1) % 50,
}));

/** As PostgreSQL orders: null is greater than everything; equals by their ids. */
const compare = (name: 'rank' | 'level' | 'n', sign: 1 | -1) => (a: Leaf, b: Leaf) =>
  sign * ((a[name] ?? Infinity) < (b[name] ?? Infinity) ? -1 : 1) * (a[name] === b[name] ? 0 : 1) ||
  a.n - b.n;

const orders = {
  '': compare('n', 1),
  rank: compare('rank', 1),
  '-rank': compare('rank', -1),
  level: compare('level', 1),
  '-level': compare('level', -1),
  '-_id': compare('n', -1),
} as const;

const isBanned = (n: number): boolean => n >= 50 && n <= 55;

const readers = {
  group: ({ n }: Leaf) => n > FIRST && !(n > 700 && n <= 900),
  shelves: ({ n }: Leaf) => n % SHELVES > 0 && n % SHELVES < SHELVES - 60,
  late: ({ n }: Leaf) => n > LATE,
  owner: ({ n }: Leaf) => n <= 40 || n === ROWS,
  // Some by tuples, some in their records, some both.
  few: ({ n }: Leaf) => (n >= 30 && n <= 60 && !isBanned(n)) || (n >= 1_400 && n <= 1_430),
} as const;

describe('pages in any order', () => {
  let platform: TestPlatform;
  const users = {} as Record<keyof typeof readers, TestUser>;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    const permissions = permissionsApi(platform.admin);
    for (const name of ['group', 'shelves', 'late', 'owner', 'few'] as const)
      users[name] = await platform.registerUser();
    await permissions.define({ name: 'Crowd', relations: { member: ['User'] }, permissions: {} });
    await permissions.define({
      name: 'Shelf',
      relations: { viewer: ['User'], parent: ['Shelf'] },
      permissions: { view: ['viewer', 'parent->view'] },
    });
    const index = { type: 'Ascending' };
    await platform.createSchema({
      name: 'Leaf',
      fields: {
        rank: { type: 'Number', required: true, index },
        level: { type: 'Number', index },
      },
      conduitOptions: {
        authorization: { enabled: true },
        cms: {
          enabled: true,
          crudOperations: { read: { enabled: true, authenticated: true } },
          query: { enabled: true, fields: ['rank', 'level'] },
        },
      },
    });
    await permissions.define({
      name: 'Leaf',
      version: 1,
      relations: {
        owner: ['User'],
        reader: ['User', 'Crowd#member'],
        shelf: ['Shelf'],
        banned: ['User'],
      },
      permissions: {
        read: { exclusion: { base: ['owner', 'reader', 'shelf->view'], subtract: ['banned'] } },
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    await permissions.relate(
      `User:${users.group.userId} member Crowd:all`,
      `User:${users.late.userId} member Crowd:all`,
      `User:${users.shelves.userId} viewer Shelf:root`,
    );
    await fill();
  }, 120_000);
  afterAll(() => platform.close());

  async function fill(): Promise<void> {
    const database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
    const tuples = (values: string, count: number) =>
      database.query(
        `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id)
         select gen_random_uuid(), ${values} from generate_series(1, ${count}) n`,
      );
    try {
      await database.query(
        `insert into app."Leaf" (_id, rank, level, "@owner", "createdAt", "updatedAt", __v)
         select ${idText('n')}::uuid, n * 7 % ${ROWS}, case when n % 3 > 0 then n % 50 end,
           case when n <= 40 or n = ${ROWS} then '${users.owner.userId}'::uuid when n between 1400 and 1420 then '${users.few.userId}'::uuid end,
           now(), now(), 0 from generate_series(1, ${ROWS}) n`,
      );
      const ofFew = (relation: string, before: number): string =>
        `'User', '${users.few.userId}', '', '${relation}', 'Leaf', ${idText(`n + ${before}`)}`;
      await tuples(ofFew('reader', 29), 31);
      await tuples(ofFew('reader', 1_409), 21);
      await tuples(ofFew('banned', 49), 6);
      await tuples(
        `'Crowd', 'all', 'member', 'reader', 'Leaf', ${idText(`n + ${FIRST}`)}`,
        ROWS - FIRST,
      );
      await tuples(
        `'User', '${users.group.userId}', '', 'banned', 'Leaf', ${idText('n + 700')}`,
        200,
      );
      const ofLate = `'User', '${users.late.userId}', '', 'banned', 'Leaf', ${idText('n')}`;
      await tuples(ofLate, LATE);
      await tuples(`'Shelf', 'root', '', 'parent', 'Shelf', 's' || n`, SHELVES - 61);
      await tuples(`'Shelf', 's' || n % ${SHELVES}, '', 'shelf', 'Leaf', ${idText('n')}`, ROWS);
      await database.query('analyze app."Leaf"');
    } finally {
      await database.end();
    }
  }

  async function read(name: keyof typeof readers, query: Readonly<Record<string, string>>) {
    const { body } = expectStatus(
      await users[name].api.get('/database/Leaf', { query }),
      200,
      `${name} ${JSON.stringify(query)}`,
    );
    const { documents, ...rest } = body as {
      documents: { _id: string }[];
      count?: number;
      nextCursor?: string | null;
    };
    return { ids: documents.map(({ _id }) => _id), ...rest };
  }

  describe.each(Object.keys(readers) as (keyof typeof readers)[])('of %s', (name) => {
    const visible = leaves.filter(readers[name]);

    it.each(Object.entries(orders))('sorted by "%s"', async (sort, order) => {
      const expected = visible.toSorted(order).map(({ id }) => id);
      const sorted: Readonly<Record<string, string>> = sort === '' ? {} : { sort };
      for (const skip of [0, 20, 600]) {
        const page = await read(name, { ...sorted, skip: `${skip}`, limit: '20' });
        expect([skip, page.ids]).toEqual([skip, expected.slice(skip, skip + 20)]);
        expect(page.count).toBe(expected.length);
      }
      const all: string[] = [];
      let cursor: string | null | undefined = 'start';
      while (typeof cursor === 'string') {
        const page = await read(name, { ...sorted, cursor, limit: '200', count: 'none' });
        all.push(...page.ids);
        cursor = page.nextCursor;
      }
      expect(all).toEqual(expected);
    });
  });

  describe('and their number, of somebody who sees few', () => {
    const visible = leaves.filter(readers.few);

    it.each(Object.entries(orders))('by cursor, sorted by "%s"', async (sort, order) => {
      const expected = visible.toSorted(order).map(({ id }) => id);
      const all: string[] = [];
      let cursor: string | null | undefined = 'start';
      while (typeof cursor === 'string') {
        const page = await read('few', { ...(sort !== '' && { sort }), cursor, limit: '7' });
        expect(page.count).toBe(expected.length);
        all.push(...page.ids);
        cursor = page.nextCursor;
      }
      expect(all).toEqual(expected);
    });

    it.each(Object.entries(orders))('of a filter, sorted by "%s"', async (sort, order) => {
      const fits = ({ level }: Leaf): boolean => level !== null && level >= 12;
      const expected = visible.filter(fits).toSorted(order);
      for (const skip of [0, 4, 100]) {
        const query = { ...(sort !== '' && { sort }), skip: `${skip}`, limit: '6' };
        const { body } = expectStatus(
          await users.few.api.post(
            '/database/Leaf/query',
            { query: { level: { $gte: 12 } } },
            { query },
          ),
          200,
          sort,
        );
        expect(body.count).toBe(expected.length);
        expect(body.documents.map(({ _id }: { _id: string }) => _id)).toEqual(
          expected.slice(skip, skip + 6).map(({ id }) => id),
        );
      }
    });
  });

  it('sees at once what comes before the rows that are remembered as the first', async () => {
    const permissions = permissionsApi(platform.admin);
    const ids = leaves.map(({ id }) => id);
    const top = async (): Promise<string | undefined> =>
      (await read('late', { limit: '2', count: 'none' })).ids[0];
    // The first page finds out that it takes long, the second where they begin, the third begins there.
    for (let i = 0; i < 3; i += 1) expect(await top()).toBe(ids[LATE]);
    const { userId } = users.late;
    const ban = `User:${userId} banned Leaf:${ids[FIRST + 10]}`;
    const grant = { subject: `User:${userId}`, permission: 'read', resource: `Leaf:${ids[3]}` };
    await permissions.unrelate(ban);
    expect(await top()).toBe(ids[FIRST + 10]);
    expectStatus(await platform.admin.post('/authorization/permissions', grant), 200, 'grant');
    expect(await top()).toBe(ids[3]);
    await permissions.unrelate(`User:${userId} member Crowd:all`);
    expect(await top()).toBe(ids[3]);
    expectStatus(
      await platform.admin.delete('/authorization/permissions', { query: grant }),
      200,
      'end',
    );
    expect(await top()).toBe(undefined);
    await permissions.relate(`User:${userId} member Crowd:all`, ban);
    expect(await top()).toBe(ids[LATE]);
  });

  it('sees what is given and taken away between two pages', async () => {
    const permissions = permissionsApi(platform.admin);
    const first = leaves.find(readers.group);
    const banned = `User:${users.group.userId} banned Leaf:${first?.id}`;
    const given = `User:${users.group.userId} reader Leaf:${leaves[3]?.id}`;
    const top = async (): Promise<string | undefined> =>
      (await read('group', { limit: '1', count: 'none' })).ids[0];
    expect(await top()).toBe(first?.id);
    await permissions.relate(banned);
    expect(await top()).toBe(leaves[FIRST + 1]?.id);
    await permissions.relate(given);
    expect(await top()).toBe(leaves[3]?.id);
    await permissions.unrelate(banned);
    await permissions.unrelate(given);
    expect(await top()).toBe(first?.id);
  });
});
