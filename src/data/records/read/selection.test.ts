// Reading, changing and deleting by condition, on a real database.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestServer } from '../../../../test/support/database.ts';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { describeWithPostgres15 } from '../../../../test/support/servers/fixtures.ts';
import { anonymous, type Caller, system } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import type { PermissionEngine } from '../../../kernel/permissions.ts';
import { parseFilter } from '../../conditions/parse.ts';
import type { AggregateOptions, Assignment } from '../store.ts';

const admin = system('test');
const user: Caller = {
  kind: 'user',
  userId: newId(),
  sessionId: 's',
  authenticatedAt: 0,
  complete: true,
  clientId: 'web',
};
const operator: Caller = {
  kind: 'admin',
  via: 'masterkey',
  adminId: 'masterkey',
  username: 'x',
  isSuperAdmin: true,
};

const suite = (server: TestServer) => () => {
  let kernel: RecordKernel;
  let count = 0;
  beforeAll(async () => {
    kernel = await openRecordKernel(server);
  });
  afterAll(() => kernel.close());

  const change = (action: Assignment['action'], field: string, value: unknown): Assignment => ({
    action,
    field,
    value,
    place: field,
  });

  /** A schema of the test's own, with its rows. */
  async function table(
    rows: readonly Record<string, unknown>[],
    extra: Record<string, unknown> = {},
  ): Promise<string> {
    const name = `Sel${count++}`;
    const fields = {
      n: { type: 'Number', validate: { max: 100 } },
      m: 'Number',
      whole: { type: 'Number', sqlType: 'INT' },
      name: 'String',
      tags: { type: ['String'], validate: { maxItems: 5 } },
      seo: { slug: 'String', secret: { type: 'String', select: false } },
      secret: { type: 'String', select: false },
      ...extra,
    };
    await kernel.schemas.create(admin, { name, fields: fields as never });
    await kernel.records.createMany(admin, name, rows);
    return name;
  }
  const found = async (
    name: string,
    query: unknown,
    caller: Caller = operator,
  ): Promise<Record<string, unknown>[]> =>
    JSON.parse(await kernel.records.find(caller, name, { filter: parseFilter(query) }));

  it('reads the operator language', async () => {
    const name = await table([
      { name: 'Apple pie', n: 1, tags: ['a', 'b'], seo: { slug: 'x' } },
      { name: '100% cocoa', n: 2, tags: ['c'] },
      { name: null, n: 3, tags: [] },
    ]);
    const numbers = async (query: unknown) => (await found(name, query)).map(({ n }) => n);
    expect(await numbers({})).toEqual([1, 2, 3]);
    expect(await numbers({ n: 1 })).toEqual([1]);
    expect(await numbers({ n: { $gt: 1, $lt: 3 } })).toEqual([2]);
    expect(await numbers({ name: { $ne: 'Apple pie' } })).toEqual([2, 3]);
    expect(await numbers({ n: { $in: [1, 3, 9] } })).toEqual([1, 3]);
    expect(await numbers({ n: { $nin: [1, 3] } })).toEqual([2]);
    expect(await numbers({ tags: 'a' })).toEqual([1]);
    expect(await numbers({ tags: { $in: ['b', 'c'] } })).toEqual([1, 2]);
    expect(await numbers({ tags: ['a', 'b'] })).toEqual([1]);
    expect(await numbers({ 'seo.slug': 'x' })).toEqual([1]);
    expect(await numbers({ name: { $exists: false } })).toEqual([3]);
    expect(await numbers({ $or: [{ n: 1 }, { $and: [{ n: 3 }, { name: null }] }] })).toEqual([
      1, 3,
    ]);
    expect(await numbers({ $nor: [{ n: 1 }, { n: 2 }] })).toEqual([3]);
    expect(await numbers({ n: { $not: { $gte: 2 } } })).toEqual([1]);
    expect(await numbers({ name: { $like: '%100%%' } })).toEqual([2]);
    expect(await numbers({ name: { $like: 'apple%' } })).toEqual([]);
    expect(await numbers({ name: { $ilike: 'apple%' } })).toEqual([1]);
    expect(await numbers({ name: { $like: '_pple%' } })).toEqual([]);
    expect(await numbers({ name: { $regex: '^apple', $options: 'i' } })).toEqual([1]);
    expect(await numbers({ name: { $search: 'pie apple' } })).toEqual([1]);
    const page = JSON.parse(
      await kernel.records.select(operator, name, {
        filter: parseFilter({ n: { $gte: 1 } }),
        sort: ['-n'],
        skip: 1,
        limit: 1,
      }),
    );
    expect(page).toMatchObject({ count: 3, documents: [{ n: 2 }] });
  });

  it('names the place of what it does not understand, and never reaches SQL', async () => {
    const name = await table([{ n: 1 }]);
    const wrong: readonly (readonly [unknown, string])[] = [
      [{ n: { $where: 'sleep(1)' } }, 'query.n.$where'],
      [{ $where: '1' }, 'query.$where'],
      [{ $expr: {} }, 'query.$expr'],
      [{ n: { $gt: 1, plain: 2 } }, 'query.n.plain'],
      [{ $or: [{ n: 1 }, { n: { $regexp: 'a' } }] }, 'query.$or.1.n.$regexp'],
      [{ $and: [] }, 'query.$and'],
      [{ $and: { n: 1 } }, 'query.$and'],
      [{ n: 'text' }, 'query.n'],
      [{ n: { $gt: null } }, 'query.n.$gt'],
      [{ n: { $in: [1, 'x'] } }, 'query.n.$in'],
      [{ n: { $in: 1 } }, 'query.n.$in'],
      [{ n: { $like: 'a' } }, 'query.n.$like'],
      [{ name: { $regex: '(a+)+\\1' } }, 'query.name.$regex'],
      [{ name: { $regex: 'a', $options: 'x' } }, 'query.name.$regex'],
      [{ name: { $options: 'i' } }, 'query.name.$options'],
      [{ n: { $exists: 1 } }, 'query.n.$exists'],
      [{ nothing: 1 }, 'query.nothing'],
      [{ 'seo.nothing': 1 }, 'query.seo.nothing'],
      [{ 'n.x': 1 }, 'query.n.x'],
      [{ seo: { slug: 'x' } }, 'query.seo'],
      [{ secret: 'x' }, 'query.secret'],
      [{ 'seo.secret': 'x' }, 'query.seo.secret'],
      [{ name: 'a\0b' }, 'query.name'],
      [[], 'query'],
      ['{}', 'query'],
    ];
    for (const [query, path] of wrong) {
      await expect(async () => found(name, query), JSON.stringify(query)).rejects.toMatchObject({
        status: 400,
        errors: [{ path }],
      });
    }
    const hostile = [
      '"; drop table x; --',
      "n' or '1'='1",
      'n" = 1 or "n',
      '__proto__',
      'constructor',
      'xmin',
      'ctid',
      '',
      '.',
      'n.',
      '$1',
      't0.n',
    ];
    for (const path of hostile) {
      await expect(
        async () => found(name, JSON.parse(`{${JSON.stringify(path)}: 1}`)),
        path,
      ).rejects.toMatchObject({ status: 400 });
    }
    const large = { $or: Array.from({ length: 65 }, () => ({ n: 1 })) };
    await expect(async () => found(name, large)).rejects.toMatchObject({
      status: 400,
      errors: [{ rule: 'count' }],
    });
    const deep = Array.from({ length: 40 }).reduce<unknown>((inner) => ({ $not: inner }), { n: 1 });
    await expect(async () => found(name, deep)).rejects.toMatchObject({
      status: 400,
      errors: [{ rule: 'depth' }],
    });
    expect(await found(name, { secret: null }, admin)).toHaveLength(1);
    expect(await found(name, { name: "'; drop table x; --" })).toEqual([]);
  });

  it('changes all that fit, by what is stored at that moment', async () => {
    const name = await table([
      { n: 1, m: 10, name: 'a', tags: ['x'] },
      { n: 2, name: 'b' },
      { n: 90, m: 1, name: 'c' },
    ]);
    const where = (query: unknown, ...changes: Assignment[]) =>
      kernel.records.updateWhere(operator, name, changes, { filter: parseFilter(query) });
    expect(
      await where(
        { n: { $lt: 50 } },
        change('increment', 'n', 5),
        change('decrement', 'm', 2),
        change('set', 'name', null),
      ),
    ).toBe(2);
    expect(await found(name, { n: { $lt: 50 } })).toMatchObject([
      { n: 6, m: 8, name: null, __v: 1 },
      { n: 7, m: -2, name: null },
    ]);
    await where(
      { n: 6 },
      change('append', 'tags', ['y', 'z']),
      change('append', 'tags', 'x'),
      change('remove', 'tags', 'y'),
    );
    expect(await found(name, { n: 6 })).toMatchObject([{ tags: ['x', 'z', 'x'] }]);
    await where({ n: 6 }, change('remove', 'tags', ['x', 'none']));
    expect(await found(name, { n: 6 })).toMatchObject([{ tags: ['z'] }]);
    expect(await kernel.events(name)).toHaveLength(7);
    expect(await where({ n: 12_345 }, change('set', 'm', 1))).toBe(0);

    await expect(where({}, change('increment', 'n', 20))).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'n', rule: 'max' }],
    });
    expect(await found(name, { n: 90 })).toHaveLength(1);
    const many = change('append', 'tags', ['1', '2', '3', '4', '5']);
    await expect(where({ n: 6 }, many)).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'tags', rule: 'maxItems' }],
    });
    await expect(where({ n: 6 }, change('set', 'whole', 2_147_483_647))).resolves.toBe(1);
    await expect(where({ n: 6 }, change('increment', 'whole', 1))).rejects.toMatchObject({
      status: 400,
    });
    for (const [wrong, path] of [
      [change('increment', 'name', 1), 'name'],
      [change('append', 'n', 1), 'n'],
      [change('increment', 'n', '1'), 'n'],
      [change('append', 'tags', 1), 'tags'],
      [change('set', 'n', 'x'), 'n'],
      [change('set', '_id', newId()), '_id'],
      [change('set', '__v', 1), '__v'],
      [change('set', 'a" = 1, "n', 1), 'a" = 1, "n'],
    ] as const) {
      await expect(where({}, wrong)).rejects.toMatchObject({ status: 400, errors: [{ path }] });
    }
  });

  it('keeps 100 parallel appends and adds up parallel increments', async () => {
    const name = await table([{ n: 0 }], { list: ['Number'] });
    await Promise.all(
      Array.from({ length: 100 }, (_, i) =>
        kernel.records.updateWhere(
          operator,
          name,
          [change('append', 'list', i), change('increment', 'm', 1)],
          {
            filter: parseFilter({ n: 0 }),
          },
        ),
      ),
    );
    const [record] = await found(name, {});
    expect(record).toMatchObject({ m: 100, __v: 100 });
    expect(new Set(record?.list as number[]).size).toBe(100);
  });

  it('deletes all that fit, with what relations say, each with its event', async () => {
    const name = await table([{ n: 1 }, { n: 2 }, { n: 3 }]);
    const child = `${name}Child`;
    const relation = { type: 'Relation', model: name, onDelete: 'cascade' } as const;
    expect(
      await kernel.records.removeWhere(operator, name, { filter: parseFilter({ n: 3 }) }),
    ).toBe(1);
    await kernel.schemas.create(admin, {
      name: child,
      fields: { parent: relation, soft: { ...relation, onDelete: 'setNull' } },
    });
    const [first, second] = await found(name, {});
    await kernel.records.createMany(admin, child, [
      { parent: first?._id },
      { parent: second?._id },
      { soft: first?._id },
    ]);
    expect(await found(child, { 'parent.n': 1 })).toHaveLength(1);
    expect(
      await kernel.records.removeWhere(operator, name, { filter: parseFilter({ n: 1 }) }),
    ).toBe(1);
    expect(await found(child, {})).toMatchObject([
      { parent: second?._id },
      { parent: null, soft: null },
    ]);
    const operations = (await kernel.events(child)).map((event) => event.split(':')[0]);
    expect(operations.sort()).toEqual(['delete', 'insert', 'insert', 'insert', 'update']);
    expect((await kernel.events(name)).filter((event) => event.startsWith('delete'))).toHaveLength(
      2,
    );
  });

  it('asks for the rights of the caller on rows and on relations', async () => {
    const name = await table([{ n: 1 }, { n: 2 }]);
    const holder = `${name}Holder`;
    await kernel.schemas.create(admin, {
      name: holder,
      fields: { link: { type: 'Relation', model: name }, open: 'String' },
    });
    const [one, two] = await found(name, {});
    await kernel.records.createMany(admin, holder, [{ link: one?._id }, { link: two?._id }]);
    const { _id = '' } = kernel.schemas.get(name) ?? {};
    await kernel.schemas.update(admin, _id, { options: { authorization: { enabled: true } } });
    const engine: Partial<PermissionEngine> = {
      predicate: async () => ({
        shape: 'only',
        compile: (id, next) => `${id} = ${next(two?._id)}::uuid`,
      }),
    };
    kernel.permissions.engine = engine as PermissionEngine;
    try {
      expect(await found(name, {}, user)).toMatchObject([{ n: 2 }]);
      expect(await found(holder, { 'link.n': { $in: [1, 2] } }, user)).toMatchObject([
        { link: two?._id },
      ]);
      // Rows can be public: what visitors read is asked too. They never change any.
      expect(await found(name, {}, anonymous)).toMatchObject([{ n: 2 }]);
      const filter = parseFilter({});
      await expect(async () =>
        kernel.records.updateWhere(anonymous, name, [change('set', 'm', 5)], { filter }),
      ).rejects.toMatchObject({ status: 401 });
      expect(
        await kernel.records.updateWhere(user, name, [change('set', 'm', 5)], { filter }),
      ).toBe(1);
      expect(await kernel.records.removeWhere(user, name, { filter: parseFilter({ n: 1 }) })).toBe(
        0,
      );
      expect(await found(name, { m: 5 })).toMatchObject([{ n: 2 }]);
    } finally {
      kernel.permissions.engine = undefined;
    }
    await kernel.schemas.update(admin, _id, {
      options: { authorization: { enabled: false }, cms: { enabled: false } },
    });
    await expect(async () => found(holder, { 'link.n': 1 }, user)).rejects.toMatchObject({
      status: 403,
      errors: [{ path: 'query.link.n' }],
    });
    await expect(async () => found(name, {}, user)).rejects.toMatchObject({ status: 404 });
    const granted = { filter: parseFilter({ 'link.n': 1 }), granted: true };
    expect(JSON.parse(await kernel.records.find(anonymous, holder, granted))).toHaveLength(1);
  });

  it('counts few rows that fit by asking each, and many by finding what the caller sees', async () => {
    const name = await table([{ n: 2 }, { n: 2 }]);
    for (const count of [600, 600])
      await kernel.records.createMany(
        admin,
        name,
        Array.from({ length: count }, () => ({ n: 1 })),
      );
    const { _id = '' } = kernel.schemas.get(name) ?? {};
    await kernel.schemas.update(admin, _id, { options: { authorization: { enabled: true } } });
    const engine: Partial<PermissionEngine> = {
      predicate: async () => ({
        shape: 'many',
        many: true,
        // Which of the two is asked shows in the number.
        compile: (_id, _next, use) => String(use !== 'count'),
      }),
    };
    kernel.permissions.engine = engine as PermissionEngine;
    try {
      const counted = async (query: object): Promise<unknown> => {
        const options = { filter: parseFilter(query), limit: 1 };
        return JSON.parse(await kernel.records.select(user, name, options)).count;
      };
      expect(await counted({ n: 2 })).toBe(2);
      expect(await counted({ n: 1 })).toBe(0);
    } finally {
      kernel.permissions.engine = undefined;
    }
  });

  it('counts and adds up, in groups', async () => {
    const name = await table([
      { n: 1, name: 'a', seo: { slug: 'x' } },
      { n: 2, name: 'a', seo: { slug: 'y' } },
      { n: 4, name: 'b' },
      { name: 'b' },
    ]);
    const ask = async (query: unknown, options: Partial<AggregateOptions>) =>
      JSON.parse(
        await kernel.records.aggregate(operator, name, {
          filter: parseFilter(query),
          groupBy: [],
          values: [],
          ...options,
        }),
      );
    const values = [
      { as: 'count', function: 'count' },
      { as: 'sum "; --', function: 'sum', field: 'n' },
      { as: 'slugs', function: 'distinct', field: 'seo.slug' },
      { as: 'low', function: 'min', field: 'name' },
    ] as const;
    expect(await ask({}, { values })).toEqual([{ count: 4, 'sum "; --': 7, slugs: 2, low: 'a' }]);
    expect(
      await ask(
        { n: { $exists: true } },
        { values: values.slice(0, 2), groupBy: ['name'], sort: ['-count'] },
      ),
    ).toEqual([
      { name: 'a', count: 2, 'sum "; --': 3 },
      { name: 'b', count: 1, 'sum "; --': 4 },
    ]);
    expect(
      await ask({}, { values: values.slice(0, 1), groupBy: ['seo.slug'], skip: 1, limit: 1 }),
    ).toEqual([{ 'seo.slug': 'y', count: 1 }]);
    for (const [options, path] of [
      [{ values: [{ as: 'x', function: 'sum', field: 'name' }] }, 'aggregate.values.0.field'],
      [{ values: [{ as: 'x', function: 'avg' }] }, 'aggregate.values.0.field'],
      [{ values, groupBy: ['tags'] }, 'aggregate.groupBy.0'],
      [{ values, groupBy: ['secret'] }, 'aggregate.groupBy.0'],
      [{ values, groupBy: ['name" from x; --'] }, 'aggregate.groupBy.0'],
      [{ values: [values[0], values[0]] }, 'aggregate'],
      [{ values, sort: ['n'] }, 'sort'],
    ] as const) {
      await expect(ask({}, options as Partial<AggregateOptions>)).rejects.toMatchObject({
        status: 400,
        errors: [{ path }],
      });
    }
  });

  it('shows results as records show numbers, and says so when one is too large', async () => {
    const fields = {
      huge: 'Number',
      whole: { type: 'Number', sqlType: 'BIGINT' },
      exact: { type: 'Number', sqlType: 'DECIMAL' },
    } as const;
    await kernel.schemas.create(admin, { name: 'Numbers', fields });
    const row = { huge: 1.7e308, whole: '9007199254740993', exact: '0.12345678901234567891' };
    await kernel.records.createMany(admin, 'Numbers', [row, { ...row, whole: 5, exact: 0.5 }]);
    const ask = async (name: 'min' | 'max' | 'sum', field: string, groupBy: string[] = []) => {
      const values = [{ as: 'x', function: name, field }] as const;
      return JSON.parse(
        await kernel.records.aggregate(operator, 'Numbers', {
          filter: parseFilter({}),
          groupBy,
          values,
        }),
      );
    };
    expect(await ask('max', 'whole')).toEqual([{ x: '9007199254740993' }]);
    expect(await ask('min', 'whole')).toEqual([{ x: 5 }]);
    expect(await ask('min', 'exact', ['whole'])).toEqual([
      { whole: 5, x: 0.5 },
      { whole: '9007199254740993', x: '0.12345678901234567891' },
    ]);
    await expect(ask('sum', 'huge')).rejects.toMatchObject({ status: 400, code: 'RECORD_INVALID' });
  });

  it('searches beside texts of any length', async () => {
    await kernel.schemas.create(admin, {
      name: 'Long',
      fields: { plain: 'String', indexed: 'String' },
      indexes: [{ fields: ['indexed'], types: ['Text'] }],
    });
    // More words than PostgreSQL takes at once, also where each is a character of four bytes.
    const words = Array.from({ length: 125_000 }, (_, i) => i.toString(36)).join(' needle');
    const wide = Array.from({ length: 120_000 }, (_, i) =>
      String.fromCodePoint(0x20000 + (i % 42_000)),
    ).join(' ');
    for (const text of [`first ${words}`, `first ${wide}`, 'first of few']) {
      await kernel.records.create(admin, 'Long', { plain: text, indexed: text });
    }
    expect(await found('Long', { plain: { $search: 'first -few' } })).toHaveLength(2);
    expect(await found('Long', { indexed: { $search: 'first' } })).toHaveLength(3);
  });

  it('refuses a bare list that is too long', async () => {
    const name = await table(Array.from({ length: 1_000 }, (_, n) => ({ m: n })));
    expect(await found(name, {})).toHaveLength(1_000);
    await kernel.records.create(admin, name, { m: -1 });
    await expect(async () => found(name, {})).rejects.toMatchObject({
      status: 400,
      code: 'RECORD_LIMIT_EXCEEDED',
    });
  });
};

describe('records by condition', suite('embedded'));
await describeWithPostgres15('records by condition on PostgreSQL 15', suite('external15'));
