import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import { openRecordKernel, type RecordKernel } from '../../../../test/support/record-kernel.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { system } from '../../../kernel/caller.ts';
import { parseFilter } from '../../conditions/parse.ts';
import type { FieldMap, IndexDefinition } from '../language/definition.ts';
import { migrations } from '../migrations.ts';
import { listIndexes } from '../plan/index-change.ts';
import { buildIndexes, indexStates, retryIndexBuilds } from './index-builds.ts';

const admin = system('test');

describe('indexes', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
  });
  afterAll(() => kernel.close());

  const fields = {
    title: 'String',
    rank: 'Number',
    done: 'Boolean',
    tags: ['String'],
    seo: { slug: 'String' },
    at: 'Date',
  } satisfies FieldMap;
  const create = (name: string, map: FieldMap = fields, indexes: readonly IndexDefinition[] = []) =>
    kernel.schemas.create(admin, { name, fields: map, indexes });
  const add = (id: string, ...indexes: readonly IndexDefinition[]) =>
    kernel.schemas.apply(admin, { kind: 'indexes', changes: [{ id, add: indexes, remove: [] }] });
  const remove = (id: string, ...names: readonly string[]) =>
    kernel.schemas.apply(admin, { kind: 'indexes', changes: [{ id, add: [], remove: names }] });
  const definitions = async (table: string): Promise<string[]> => {
    const text = "select indexdef from pg_indexes where schemaname = 'app' and tablename = $1";
    const { rows } = await kernel.database.query<{ indexdef: string }>({ text, values: [table] });
    const bodies = rows.map(({ indexdef }) => indexdef.replace(/^.* ON app\."?\w+"? /, ''));
    return bodies.filter((body) => !body.includes('(_id)')).sort();
  };
  const stateOf = async (schema: string, name: string) => {
    const found =
      listIndexes(kernel.schemas.get(schema) ?? fail()).find((index) => index.name === name) ??
      fail();
    return (await indexStates(kernel.database, schema)).get(found.physical);
  };
  const fail = (): never => {
    throw new Error('there is no such thing');
  };
  const fill = (table: string, values: string) =>
    kernel.database.query({ text: `insert into "app"."${table}" ${values}` });
  const build = () => buildIndexes({ database: kernel.database, log: silentLog });

  it('are made as they are declared, portable or for PostgreSQL', async () => {
    const { _id } = await create(
      'Made',
      { ...fields, code: { type: 'String', index: { type: 'HASH', options: { name: 'byCode' } } } },
      [
        {
          fields: ['title', 'rank'],
          types: ['Ascending', 'Descending'],
          options: { name: 'byTitle' },
        },
      ],
    );
    await add(
      _id,
      { fields: ['tags'], types: ['GIN'] },
      { fields: ['seo'] },
      { fields: ['at'], engine: { method: 'BRIN' } },
      { fields: ['rank'], engine: { method: 'HASH' } },
      { fields: ['title'], types: ['text'], options: { name: 'words', background: true } },
      {
        fields: ['rank'],
        types: [1],
        options: { unique: true },
        engine: { where: { done: true, title: { $exists: true } } },
      },
    );
    expect(await definitions('Made')).toEqual(
      [
        'USING hash (code)',
        'USING btree (title, rank DESC)',
        'USING gin (tags) WITH (fastupdate=off)',
        'USING gin (seo) WITH (fastupdate=off)',
        'USING brin (at)',
        'USING hash (rank)',
        `USING gin (to_tsvector('simple'::regconfig, "left"(title, 200000))) WITH (fastupdate=off)`,
        'USING btree (rank) WHERE ((done = true) AND (title IS NOT NULL))',
      ].sort(),
    );
    expect(await stateOf('Made', 'words')).toEqual({ state: 'ready', reason: null });
    const made = await definitions('Made');
    const { rows } = await kernel.database.query<{ name: string }>({
      text: `select indexname as name from pg_indexes where tablename = 'Made' and indexdef like '%USING gin%'`,
    });
    for (const { name } of rows)
      await kernel.database.query({ text: `alter index app."${name}" reset (fastupdate)` });
    await fill('Made', `("_id", "title") values (gen_random_uuid(), 'some words')`);
    const own = 'create index by_hand on app."Made" using gin (tags)';
    await kernel.database.query({ text: own });
    await migrations.find(({ id }) => id === '0006-words-at-once')?.run(kernel.database);
    expect(await definitions('Made')).toEqual([...made, 'USING gin (tags)'].sort());
    await kernel.database.query({ text: 'drop index app.by_hand; delete from app."Made"' });
    const version = kernel.schemas.get('Made')?.__v;
    await add(_id, { fields: ['title'], types: 'Text' }, { fields: ['tags'] });
    expect(kernel.schemas.get('Made')?.__v).toBe(version);
    await remove(_id, 'byTitle', 'words');
    expect(await definitions('Made')).toHaveLength(6);
    await expect(remove(_id, 'byTitle')).rejects.toMatchObject({
      status: 404,
      code: 'INDEX_NOT_FOUND',
    });
    await expect(remove(_id, 'byCode')).rejects.toMatchObject({
      status: 409,
      code: 'INDEX_BUILT_IN',
    });
  });

  it('are not made for a relation that says `index: false`, and go when it says so later', async () => {
    await create('Referred', { title: 'String' });
    const relation = { type: 'Relation', model: 'Referred' } as const;
    const together = { fields: ['first', 'at'] };
    const map = { first: relation, second: { ...relation, index: false }, at: 'Date' } as const;
    const { _id } = await create('Referring', map, [together]);
    expect(await definitions('Referring')).toEqual([
      'USING btree (first)',
      'USING btree (first, at)',
    ]);
    const later = { ...map, first: map.second, second: relation };
    await kernel.schemas.update(admin, _id, { fields: later });
    expect(await definitions('Referring')).toEqual([
      'USING btree (first, at)',
      'USING btree (second)',
    ]);
  });

  it.each<[string, IndexDefinition, string]>([
    ['an unknown field', { fields: ['nothing'] }, 'indexes.0.fields.0'],
    ['a nested field', { fields: ['seo.slug'] }, 'indexes.0.fields.0'],
    ['SQL as a field', { fields: ['title"); drop table x; --'] }, 'indexes.0.fields.0'],
    ['an unknown type', { fields: ['title'], types: ['Sideways'] }, 'indexes.0.types.0'],
    ['a type of another engine', { fields: ['title'], types: ['2dsphere'] }, 'indexes.0.types'],
    ['a type too many', { fields: ['title'], types: [1, -1] }, 'indexes.0.types'],
    [
      'an option that would be ignored',
      { fields: ['title'], options: { expireAfterSeconds: 5 } },
      'indexes.0.options.expireAfterSeconds',
    ],
    [
      'GIN over a number',
      { fields: ['rank'], engine: { method: 'GIN' } },
      'indexes.0.engine.method',
    ],
    [
      'a list in a btree',
      { fields: ['tags'], engine: { method: 'BTREE' } },
      'indexes.0.engine.method',
    ],
    ['a list beside a number', { fields: ['tags', 'rank'] }, 'indexes.0.fields'],
    ['words of a number', { fields: ['rank'], types: ['Text'] }, 'indexes.0.types'],
    [
      'a unique hash',
      { fields: ['title'], types: ['hashed'], options: { unique: true } },
      'indexes.0.options.unique',
    ],
    [
      'a condition in SQL',
      { fields: ['rank'], engine: { where: 'done = true' as never } },
      'indexes.0.engine.where',
    ],
    [
      'an operator in a condition',
      { fields: ['rank'], engine: { where: { rank: { $gt: 1 } } } },
      'indexes.0.engine.where.rank',
    ],
    [
      'a value of another type',
      { fields: ['rank'], engine: { where: { rank: "1' or true" } } },
      'indexes.0.engine.where.rank',
    ],
  ])('refuse %s and name the place', async (_, definition, path) => {
    const schema = kernel.schemas.get('Refusing') ?? (await create('Refusing'));
    await expect(add(schema._id, definition)).rejects.toMatchObject({
      status: 400,
      errors: [{ path }],
    });
    expect(await definitions('Refusing')).toEqual([]);
  });

  it('have one name for one index, and no name for two', async () => {
    const { _id } = await create('Named');
    await add(_id, { fields: ['rank'], options: { name: 'x' } });
    await add(_id, { fields: ['rank'], options: { name: 'x' } });
    await expect(add(_id, { fields: ['title'], options: { name: 'x' } })).rejects.toMatchObject({
      status: 409,
      code: 'INDEX_EXISTS',
    });
    const indexes = ['a', 'b'].map((field) => ({ fields: [field], options: { name: 'x' } }));
    const input = { name: 'Twins', fields: { a: 'String', b: 'String' }, indexes } as const;
    await expect(kernel.schemas.create(admin, input)).rejects.toMatchObject({
      errors: [{ path: 'modelOptions.indexes.1.options.name' }],
    });
    const long = await create(`L${'o'.repeat(60)}ng`, {
      ['f'.repeat(63)]: 'String',
      ['g'.repeat(63)]: 'String',
    });
    await add(
      long._id,
      { fields: ['f'.repeat(63), 'g'.repeat(63)] },
      { fields: ['g'.repeat(63), 'f'.repeat(63)] },
    );
    expect(listIndexes(long)).toEqual([]);
    const [one, two] = listIndexes(kernel.schemas.get(long.name) ?? fail());
    expect([one?.name.length, two?.name.length]).toEqual([63, 63]);
    expect(one?.name).not.toBe(two?.name);
  });

  it('serve $search: the statement of the query language uses the index of words', async () => {
    await create('Article', { title: 'String' }, [
      { fields: ['title'], types: ['Text'], options: { name: 'words' } },
    ]);
    await fill(
      'Article',
      `("_id", "title") select gen_random_uuid(), 'plain words ' || n from generate_series(1, 20000) n`,
    );
    await fill('Article', `("_id", "title") values (gen_random_uuid(), 'a heron by the penstock')`);
    await kernel.database.query({ text: 'analyze "app"."Article"' });
    const [index] = listIndexes(kernel.schemas.get('Article') ?? fail());
    /** What a search answers, and the plans of its statements. */
    const searched = async (words: string, count: 'none' | 'exact') => {
      const seen = vi.spyOn(kernel.database, 'query');
      const answer = await kernel.records.select(admin, 'Article', {
        filter: parseFilter({ title: { $search: words } }),
        limit: 20,
        count,
      });
      const statements = seen.mock.calls
        .map(([one]) => one)
        .filter(({ text }) => text.includes('websearch_to_tsquery'));
      seen.mockRestore();
      const plans: string[] = [];
      for (const { text, values } of statements) {
        const explained = { text: `explain ${text}`, ...(values && { values }) };
        plans.push(JSON.stringify((await kernel.database.query(explained)).rows));
      }
      return { answer: JSON.parse(answer), plans };
    };
    const few = await searched('penstock heron', 'exact');
    expect(few.answer).toMatchObject({
      count: 1,
      documents: [{ title: 'a heron by the penstock' }],
    });
    expect(few.plans).toHaveLength(2);
    // The words lead to their records, and these to the page: neither goes through the table.
    expect(few.plans[0]).toContain(`Bitmap Index Scan on \\"${index?.physical}\\"`);
    expect(few.plans[1]).toMatch(/_id\\" = ANY|_id = ANY/);
    for (const plan of few.plans) expect(plan).not.toContain('Seq Scan');
    // So many have these words that the first ones in order are found soonest by following the order.
    const many = await searched('plain', 'none');
    expect(many.answer.documents).toHaveLength(20);
    expect(many.plans[1]).not.toContain('= ANY');
    expect(many.plans[1]).not.toContain('Sort');
  });

  it('bound texts that stand in order, and find those that are too long already', async () => {
    const { _id } = await create('Long', { a: 'String', b: 'String' });
    await kernel.records.create(admin, 'Long', { a: 'x'.repeat(400), b: 'y' });
    await expect(add(_id, { fields: ['a', 'b'] })).rejects.toMatchObject({
      status: 409,
      message: /1 records have more than 300/,
    });
    await add(_id, { fields: ['a'] });
    await expect(
      kernel.records.create(admin, 'Long', { a: 'x'.repeat(601) }),
    ).rejects.toMatchObject({
      status: 400,
      errors: [{ path: 'a', rule: 'maxLength' }],
    });
  });

  describe('of a large table', () => {
    const rows = (n: number) =>
      `("_id", "code") select gen_random_uuid(), 'c' || n from generate_series(1, ${n}) n`;
    const large = async (name: string) => {
      const schema = await create(name, { code: 'String' });
      await fill(name, rows(10_010));
      return schema._id;
    };

    it('are made afterwards, beside running writes', async () => {
      const id = await large('Large');
      await add(id, { fields: ['code'], options: { name: 'byCode' } });
      expect(await stateOf('Large', 'byCode')).toMatchObject({ state: 'building' });
      const builder = await kernel.another();
      let building: Promise<void> | undefined;
      await kernel.database.transaction(async (transaction) => {
        await transaction.query({
          text: `insert into "app"."Large" ("_id", "code") values (gen_random_uuid(), 'early')`,
        });
        building = buildIndexes({ database: builder.database, log: silentLog });
        // The build waits for this open write; other writes do not wait for the build.
        await waitFor(async () => {
          const text =
            "select 1 from pg_stat_activity where query like 'create index concurrently%' and wait_event_type = 'Lock'";
          return (await builder.database.query({ text })).rows.length > 0;
        });
        await builder.database.query({
          text: `insert into "app"."Large" ("_id", "code") values (gen_random_uuid(), 'beside')`,
        });
      });
      await building;
      expect(await stateOf('Large', 'byCode')).toEqual({ state: 'ready', reason: null });
      const { rows: log } = await kernel.database.query<{ statements: string[] }>({
        text: "select statements from penstock.schema_migrations where schema = 'Large' order by id desc limit 1",
      });
      expect(log[0]?.statements[0]).toMatch(/^create index concurrently/);
    });

    it('are finished after a crash, once, however many nodes are at it', async () => {
      const id = await large('Crashed');
      await add(id, { fields: ['code'], options: { name: 'one', unique: true } });
      const [index] = listIndexes(kernel.schemas.get('Crashed') ?? fail());
      await fill('Crashed', `("_id", "code") values (gen_random_uuid(), 'c1')`);
      // What a build leaves behind that is cut off: an index that is there, and not valid.
      const half = `create unique index concurrently "${index?.physical}" on "app"."Crashed" (code)`;
      await expect(
        kernel.database.session((session) => session.query({ text: half })),
      ).rejects.toMatchObject({ code: '23505' });
      await kernel.database.query({
        text: `delete from "app"."Crashed" where ctid = (select max(ctid) from "app"."Crashed" where code = 'c1')`,
      });
      const other = await kernel.another();
      await Promise.all([
        build(),
        buildIndexes({ database: other.database, log: silentLog }),
        build(),
      ]);
      expect(await stateOf('Crashed', 'one')).toEqual({ state: 'ready', reason: null });
      const text =
        "select count(*)::int as n from penstock.schema_migrations where schema = 'Crashed' and statements::text like '%concurrently%'";
      expect((await kernel.database.query({ text })).rows).toEqual([{ n: 1 }]);
    });

    it('that shall be unique are refused for duplicates, and fail with examples when those come in between', async () => {
      const id = await large('Twice');
      await fill(
        'Twice',
        `("_id", "code") values (gen_random_uuid(), 'c7'), (gen_random_uuid(), 'c7')`,
      );
      const unique = { fields: ['code'], options: { name: 'one', unique: true } };
      await expect(add(id, unique)).rejects.toMatchObject({
        status: 409,
        message: /"c7" \(3 records\)/,
      });
      await kernel.database.query({ text: `delete from "app"."Twice" where code = 'c7'` });
      await add(id, unique);
      await fill('Twice', `("_id", "code") values (gen_random_uuid(), 'c9')`);
      await build();
      expect(await stateOf('Twice', 'one')).toMatchObject({
        state: 'failed',
        reason: /"c9" \(2 records\)/,
      });
      expect(await definitions('Twice')).toEqual([]);
      await kernel.database.query({ text: `delete from "app"."Twice" where code = 'c9'` });
      const [index] = listIndexes(kernel.schemas.get('Twice') ?? fail());
      expect(await retryIndexBuilds(kernel.database, 'Twice', [index?.physical ?? ''])).toBe(true);
      await build();
      expect(await stateOf('Twice', 'one')).toMatchObject({ state: 'ready' });
      await expect(kernel.records.create(admin, 'Twice', { code: 'c1' })).rejects.toMatchObject({
        status: 409,
      });
    });

    it('follow a field that gets another name before they are made', async () => {
      const id = await large('Moving');
      await add(id, { fields: ['code'], options: { name: 'x' } });
      await kernel.schemas.update(admin, id, { renames: { code: 'key' } });
      expect(await stateOf('Moving', 'x')).toMatchObject({ state: 'building' });
      await build();
      expect(await stateOf('Moving', 'x')).toEqual({ state: 'ready', reason: null });
      expect(await definitions('Moving')).toEqual(['USING btree (key)']);
    });

    it('are forgotten when nobody wants them any more', async () => {
      const id = await large('Unwanted');
      await add(id, { fields: ['code'], options: { name: 'x' } });
      await remove(id, 'x');
      await build();
      expect(await definitions('Unwanted')).toEqual([]);
    });
  });
});
