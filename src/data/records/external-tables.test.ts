// Schemas over tables of others, below the HTTP surface: how their rows are reached, and what writers at the same time do to each other.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openRecordKernel, type RecordKernel } from '../../../test/support/record-kernel.ts';
import type { AdminCaller } from '../../kernel/caller.ts';
import { all } from '../conditions/condition.ts';
import { parseFilter } from '../conditions/parse.ts';
import type { MappedColumn, TableMapping } from '../schema/mapping/table-mapping.ts';
import type { ImportedTable } from '../schema/plan/schema-request.ts';

const admin: AdminCaller = {
  kind: 'admin',
  adminId: 'a',
  username: 'a',
  superAdmin: true,
} as unknown as AdminCaller;
const type = (name: string) => ({ schema: 'pg_catalog', name });
const source = (name: string) => ({ schema: 'public', name });

const plain = (column: string, name: string, more: Partial<MappedColumn> = {}): MappedColumn => ({
  column,
  type: type(name),
  form: 'plain',
  filled: 'never',
  ...more,
});
const mapped = (
  name: string,
  columns: TableMapping['columns'],
  key: readonly string[],
): TableMapping => ({
  source: source(name),
  kind: 'table',
  columns,
  key,
  writable: true,
  rules: {},
});
const adopted = (
  name: string,
  fields: ImportedTable['fields'],
  mapping: TableMapping,
): ImportedTable => ({
  name,
  fields,
  columns: fields,
  options: { cms: { enabled: false } },
  mapping,
  indexes: {},
  foreignKeys: {},
});

const things = adopted(
  'Thing',
  {
    number: { type: 'Number', sqlType: 'INT' },
    name: 'String',
    parent: { type: 'Relation', model: 'Thing' },
    amount: { type: 'Number', sqlType: 'INT' },
  },
  mapped(
    'thing',
    {
      number: plain('id', 'int4', { keyType: 'bigint', filled: 'default' }),
      name: plain('its name', 'text'),
      parent: plain('parent', 'int4', { keyType: 'bigint', references: source('thing') }),
      amount: plain('amount', 'int4'),
    },
    ['number'],
  ),
);
const pairs = adopted(
  'Pair',
  {
    left: { type: 'Relation', model: 'Thing', required: true },
    right: { type: 'String', required: true },
    note: 'String',
  },
  mapped(
    'pair',
    {
      left: plain('l', 'int4', { keyType: 'bigint', references: source('thing') }),
      right: plain('r', 'text', { keyType: 'text' }),
      note: plain('note', 'text'),
    },
    ['left', 'right'],
  ),
);

describe('tables of others', () => {
  let kernel: RecordKernel;
  beforeAll(async () => {
    kernel = await openRecordKernel();
    await kernel.database.query({
      text: `create table public.thing (id serial primary key, "its name" text, parent int references public.thing (id), amount int);
        create index on public.thing (parent);
        create table public.pair (l int references public.thing (id), r text, note text, primary key (l, r));
        insert into public.thing ("its name", parent, amount) select 'n' || n, nullif(n / 10, 0), 0 from generate_series(1, 5000) n;
        insert into public.pair select n, 'r~!' || n from generate_series(1, 5000) n;
        analyze public.thing; analyze public.pair`,
    });
    await kernel.schemas.apply(admin, { kind: 'adopt', tables: [things, pairs] });
  });
  afterAll(() => kernel.close());

  /** The plan of every statement that `work` sends outside of transactions. */
  async function plansOf(work: () => Promise<unknown>): Promise<string> {
    const { database } = kernel;
    const query = database.query.bind(database);
    const plans: string[] = [];
    Object.assign(database, {
      query: async (statement: { text: string; values?: unknown[] }) => {
        const { rows } = await query<{ 'QUERY PLAN': string }>({
          text: `explain ${statement.text}`,
          values: statement.values ?? [],
        });
        plans.push(...rows.map((row) => row['QUERY PLAN']));
        return query(statement);
      },
    });
    try {
      await work();
    } finally {
      Object.assign(database, { query });
    }
    return plans.join('\n');
  }

  it.each([
    ['reads by id', () => kernel.records.get(admin, 'Thing', '4000')],
    ['reads by a key of two parts', () => kernel.records.get(admin, 'Pair', '4000~r!1!04000')],
    [
      'follows a relation',
      () => kernel.records.get(admin, 'Thing', '4000', { populate: ['parent.parent'] }),
    ],
    [
      'lists in the order of the key',
      () => kernel.records.list(admin, 'Thing', { limit: 5, count: 'none' }),
    ],
    [
      'lists in the order of a key of two parts',
      () => kernel.records.list(admin, 'Pair', { limit: 5, count: 'none' }),
    ],
    [
      'pages by cursor',
      () => kernel.records.list(admin, 'Thing', { limit: 5, count: 'none', cursor: 'start' }),
    ],
    [
      'filters by a relation',
      () => kernel.records.find(admin, 'Thing', { filter: parseFilter({ parent: '12' }) }),
    ],
    [
      'filters by id',
      () =>
        kernel.records.find(admin, 'Thing', { filter: parseFilter({ _id: { $in: ['7', '8'] } }) }),
    ],
    [
      'changes by id',
      () =>
        kernel.records
          .update(admin, 'Thing', '4000', { amount: 1 }, { expectedVersion: 1 })
          .catch(() => undefined),
    ],
    [
      'changes by a key of two parts',
      () => kernel.records.update(admin, 'Pair', '4000~r!1!04000', { note: 'x' }),
    ],
    ['deletes by id', () => kernel.records.remove(admin, 'Pair', '3999~r!1!03999')],
  ])('%s by an index', async (_, work) => {
    const plans = await plansOf(work);
    expect(plans).toMatch(/Index (Only )?(Scan|Cond)/);
    // The node reads its own tables beside it.
    expect(plans).not.toMatch(/Seq Scan on (thing|pair)\b/);
  });

  it('is listened to in the order of its keys, which is none of texts', async () => {
    for (const name of ['Thing', 'Pair']) {
      const read = await kernel.records.live(admin, name, { filter: all(), limit: 12 });
      if (read.kind !== 'rows') throw new Error('records are rows');
      const ids = (await read.rows.all()).map(({ id }) => id);
      expect(ids).not.toEqual(ids.toSorted());
      expect(read.rows.byId).toBe(false);
    }
  });

  it('lets every one of many increments count', async () => {
    const change = [{ field: 'amount', action: 'increment', value: 1, place: 'amount' }] as const;
    const filter = parseFilter({ number: 77 });
    await Promise.all(
      Array.from({ length: 50 }, () =>
        kernel.records.updateWhere(admin, 'Thing', change, { filter }),
      ),
    );
    expect(JSON.parse((await kernel.records.get(admin, 'Thing', '77')).json)).toMatchObject({
      amount: 50,
    });
    await Promise.all(
      Array.from({ length: 50 }, () =>
        kernel.records.update(admin, 'Thing', '77', { $inc: { amount: -1 } }),
      ),
    );
    expect(JSON.parse((await kernel.records.get(admin, 'Thing', '77')).json)).toMatchObject({
      amount: 0,
    });
  });

  it('lets one of two changes of the same version win, also against writers that are not us', async () => {
    const { version } = await kernel.records.get(admin, 'Thing', '78');
    await kernel.database.query({ text: 'update public.thing set amount = 5 where id = 78' });
    await expect(
      kernel.records.update(admin, 'Thing', '78', { amount: 6 }, { expectedVersion: version }),
    ).rejects.toMatchObject({
      status: 412,
    });
    const fresh = await kernel.records.get(admin, 'Thing', '78');
    await expect(
      kernel.records.update(
        admin,
        'Thing',
        '78',
        { amount: 6 },
        { expectedVersion: fresh.version },
      ),
    ).resolves.toBeDefined();
    await expect(
      kernel.records.remove(admin, 'Thing', '78', { expectedVersion: fresh.version }),
    ).rejects.toMatchObject({ status: 412 });
  });

  it('deletes by condition, and changes no key by it', async () => {
    expect(
      await kernel.records.removeWhere(admin, 'Pair', {
        filter: parseFilter({ 'left.number': { $lte: 3 } }),
      }),
    ).toBe(3);
    expect((await kernel.events('Pair')).filter((event) => event.startsWith('delete'))).toContain(
      'delete:1~r!1!01',
    );
    const change = [{ field: 'number', action: 'set', value: 1, place: 'number' }] as const;
    await expect(
      kernel.records.updateWhere(admin, 'Thing', change, { filter: parseFilter({}) }),
    ).rejects.toMatchObject({ status: 400 });
  });

  it('counts, adds up and groups', async () => {
    const json = await kernel.records.aggregate(admin, 'Thing', {
      filter: parseFilter({ number: { $lte: 20 } }),
      groupBy: ['parent'],
      values: [{ as: 'n', function: 'count' }],
      sort: ['-n'],
      limit: 1,
    });
    expect(JSON.parse(json)).toEqual([{ parent: expect.anything(), n: 10 }]);
  });

  it('is the same on another node', async () => {
    const node = await kernel.another();
    expect(JSON.parse((await node.records.get(admin, 'Pair', '10~r!1!010')).json)).toMatchObject({
      right: 'r~!10',
    });
  });

  it('says that the table has changed when it has', async () => {
    await kernel.database.query({ text: 'alter table public.pair rename column note to remark' });
    await expect(kernel.records.list(admin, 'Pair')).rejects.toMatchObject({ status: 404 });
    await kernel.database.query({ text: 'alter table public.pair rename column remark to note' });
  });
});
