/** Stored owners move into their records without anybody gaining or losing a right, however often it is tried. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { migrations as eventTables } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations } from '../migrations.ts';
import { moveOwners, sortIndexName } from '../owner-columns.ts';
import { createOwnerColumns, guardOwnerColumns, type OwnerColumns } from './owner-columns.ts';
import { createRowTracking } from './row-tracking.ts';

const table = 'app."Doc"';
const one = { type: 'Doc', table };
const schema = {
  name: 'Doc',
  table,
  tree: { fields: new Map() },
  layout: { indexes: {} },
  relations: new Map(),
  modelOptions: { conduit: { authorization: { enabled: true } } },
} as unknown as CompiledSchema;
const schemas = { get: (): CompiledSchema => schema };
const large = 10_001;

describe('owners in records', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  let database: Database;
  let columns: OwnerColumns;
  let another: Database;

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'events', migrations: eventTables },
        { owner: 'authorization', migrations },
      ],
    });
    database = opened.database;
    another = await opened.openAgain();
    columns = createOwnerColumns({
      database,
      schemas,
      models: {
        change: (work) => database.transaction((transaction) => work(transaction, new Map())),
      },
      log: silentLog,
    });
    await run('create schema app');
  });
  afterAll(() => opened.close());
  beforeEach(async () => {
    await run(
      `drop table if exists ${table}`,
      'delete from penstock.tuples',
      'delete from penstock.tuple_tables',
      `create table ${table} ("_id" uuid primary key, text text)`,
    );
    await createRowTracking({ database, schemas, log: silentLog }).track([schema]);
  });

  async function run(...texts: readonly string[]): Promise<void> {
    for (const text of texts) await database.query({ text });
  }
  const finish = async (signal = new AbortController().signal): Promise<void> =>
    columns.job.handler({}, { signal, log: silentLog });
  const addRow = async (): Promise<string> => {
    const id = newId();
    await database.query({ text: `insert into ${table} ("_id") values ($1)`, values: [id] });
    return id;
  };
  const store = async (
    id: string,
    [type, subject]: readonly [string, string],
    more: { readonly condition?: string; readonly expiresAt?: string; readonly set?: string } = {},
  ): Promise<void> =>
    void (await database.query({
      text: `insert into penstock.tuples (id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, expires_at)
        values ($1, $2, $3, $4, 'owner', 'Doc', $5, $6, $7)`,
      values: [
        newId(),
        type,
        subject,
        more.set ?? '',
        id,
        more.condition ?? null,
        more.expiresAt ?? null,
      ],
    }));
  /** What is stored, and what the record says. */
  const ownersOf = async (id: string, asked: Queryable = database): Promise<readonly string[]> => {
    const { rows } = await asked.query<{ owner: string }>({
      text: `select 'stored ' || subject_type || ':' || subject_id as owner from penstock.tuples where resource_id = $1::text
        union all select 'said ' || coalesce("@ownerType", 'User') || ':' || "@owner" from ${table} where "_id" = $1::uuid and "@owner" is not null
        order by 1`,
      values: [id],
    });
    return rows.map(({ owner }) => owner);
  };
  const indexNames = async (): Promise<readonly string[]> => {
    const { rows } = await database.query<{ name: string }>({
      text: `select indexname collate "C" as name from pg_indexes where tablename = 'Doc' order by 1`,
    });
    return rows.map(({ name }) => name);
  };
  /** With an ordered index of each of these fields; `folder` is a relation. */
  const indexed = (...fields: readonly string[]): CompiledSchema => ({
    ...schema,
    layout: {
      ...schema.layout,
      indexes: Object.fromEntries(
        fields.map((field) => [field, { columns: [field], unique: false, method: 'btree' }]),
      ),
    },
    relations: new Map([['folder', { model: 'Folder', many: false }]]) as never,
  });
  const state = async (): Promise<unknown> =>
    (await database.query({ text: `select owned, moved from penstock.tuple_tables` })).rows[0];

  it('a small table gets its columns at once; a new one has nothing to move', async () => {
    await columns.add([schema]);
    expect(await state()).toEqual({ owned: true, moved: true });
    await columns.add([schema]);
    expect(await indexNames()).toEqual(['Doc@owner', 'Doc_pkey']);
  });

  it('a table that is made gets them in the transaction that declares it', async () => {
    await run(
      'delete from penstock.tuple_tables',
      'delete from penstock.resource_definition_versions',
      `insert into penstock.resource_definitions (id, name, relations, permissions) values (gen_random_uuid(), 'Doc', '{}', '{}') on conflict do nothing`,
      `insert into penstock.resource_definition_versions (name, definition, changed_by) values ('Doc', '{}', 'test')`,
    );
    const versions = async (): Promise<number> =>
      (await database.query({ text: 'select 1 from penstock.resource_definition_versions' })).rows
        .length;
    const declare = () =>
      database.transaction((transaction) =>
        guardOwnerColumns(transaction, new Map([['Doc', indexed('text')]]), new Map(), new Set()),
      );
    await declare();
    expect([await state(), await versions()]).toEqual([{ owned: true, moved: true }, 2]);
    expect(await indexNames()).toEqual(['Doc@owner', sortIndexName('Doc', 'text'), 'Doc_pkey']);
    await declare();
    expect(await versions()).toBe(2);
  });

  it('lists of own records have an index for each order that has one', async () => {
    await columns.add([indexed('text')]);
    expect(await indexNames()).toContain(sortIndexName('Doc', 'text'));
    await columns.add([indexed('_id', 'folder')]);
    expect(await indexNames()).toEqual(['Doc@owner', 'Doc_pkey']);
    schemas.get = () => indexed('text');
    await finish();
    schemas.get = () => schema;
    expect(await indexNames()).toContain(sortIndexName('Doc', 'text'));
  });

  it('of very many orders, those that have an index of their own get one', async () => {
    const names = Array.from({ length: 9 }, (_, n) => `field${n}`);
    await run(
      ...[...names, 'flag', 'secret', 'size'].map(
        (name) => `alter table ${table} add column ${name} text`,
      ),
    );
    const { layout, ...rest } = indexed('flag', 'secret', 'size');
    const compared = names.map((name) => [
      name,
      { columns: [name, 'size'], unique: false, method: 'btree' },
    ]);
    const many = {
      ...rest,
      layout: { indexes: { ...Object.fromEntries(compared), ...layout.indexes } },
      tree: {
        fields: new Map([
          ['flag', { kind: 'boolean' }],
          ['secret', { kind: 'string', hidden: true }],
        ]),
      },
    } as unknown as CompiledSchema;
    await columns.add([many]);
    const orders = ['size', ...names.slice(0, 7)].map((name) => sortIndexName('Doc', name));
    expect(await indexNames()).toEqual(['Doc@owner', ...orders, 'Doc_pkey'].sort());
  });

  it('a large table gets them by the job, which can be cut off anywhere', async () => {
    const [user, id] = [newId(), await addRow()];
    await store(id, ['User', user]);
    await run(
      `insert into ${table} ("_id") select gen_random_uuid() from generate_series(1, ${large})`,
    );
    await columns.add([schema]);
    expect(await state()).toEqual({ owned: false, moved: false });
    const cut = new AbortController();
    cut.abort();
    await finish(cut.signal);
    expect(await state()).toEqual({ owned: false, moved: false });
    // The columns and an index that was left half done are there already.
    await run(
      `alter table ${table} add column "@owner" uuid`,
      `create index "Doc@owner" on ${table} ("@owner", "_id")`,
      `update pg_index set indisvalid = false where indexrelid = 'app."Doc@owner"'::regclass`,
    );
    await finish();
    expect(await state()).toEqual({ owned: true, moved: true });
    expect(await ownersOf(id)).toEqual([`said User:${user}`]);
  });

  it('moves one owner that is always true, and leaves all others', async () => {
    const [first, second, team] = [newId(), newId(), newId()];
    const ids = [await addRow(), await addRow(), await addRow(), await addRow(), await addRow()];
    const [two = '', teams = '', limited = '', conditional = '', odd = ''] = ids;
    await store(two, ['User', first]);
    await store(two, ['User', second]);
    await store(teams, ['Team', team]);
    await store(limited, ['User', first], { expiresAt: '2999-01-01' });
    await store(conditional, ['User', first], { condition: 'office' });
    await store(odd, ['User', 'somebody']);
    await store(odd, ['Team', team], { set: 'member' });
    await store(odd, ['User', '*']);
    await store(odd, ['User', first.toUpperCase()]);
    await store(newId(), ['User', first]);
    await columns.add([schema]);
    expect(await state()).toEqual({ owned: true, moved: false });
    await finish();
    await finish();
    expect(await state()).toEqual({ owned: true, moved: true });
    expect(await ownersOf(two)).toEqual([`said User:${first}`, `stored User:${second}`]);
    expect(await ownersOf(teams)).toEqual([`said Team:${team}`]);
    expect(await ownersOf(limited)).toEqual([`stored User:${first}`]);
    expect(await ownersOf(conditional)).toEqual([`stored User:${first}`]);
    expect(await ownersOf(odd)).toHaveLength(4);
    expect((await database.query({ text: 'select 1 from penstock.outbox' })).rows).toEqual([]);
  });

  it('what somebody takes away meanwhile does not come back', async () => {
    await columns.add([schema]);
    const [user, id] = [newId(), await addRow()];
    await store(id, ['User', user]);
    await another.transaction(async (transaction) => {
      await transaction.query({
        text: 'delete from penstock.tuples where resource_id = $1',
        values: [id],
      });
      // It is neither waited for nor moved.
      expect(await moveOwners(database, one, '')).toEqual({ last: null, held: true });
      expect(await ownersOf(id)).toEqual([`stored User:${user}`]);
    });
    expect(await moveOwners(database, one, '')).toEqual({ last: null, held: false });
    expect(await ownersOf(id)).toEqual([]);
  });
});
