/** What records say about relations is noted where others hang on it, whoever writes; other changes cost nothing. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { migrations as eventTables } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Engine } from '../engine/engine.ts';
import { releaseFields } from '../field-tracking-tables.ts';
import { migrations } from '../migrations.ts';
import { fieldKey, ownerColumn, type RecordField } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { type StoredDefinition, validDefinitions } from './definitions/stored-definition.ts';
import { createFieldTracking } from './field-tracking.ts';
import { trackWithin } from './row-tracking.ts';

const table = 'app."Project"';
const team: RecordField = { field: 'team', many: false, type: 'Team' };
const helpers: RecordField = { field: 'helpers', many: true, type: 'User' };
const schemas = {
  get: (name: string) =>
    name === 'Project'
      ? ({
          name,
          table,
          modelOptions: { conduit: { authorization: { enabled: true } } },
        } as CompiledSchema)
      : undefined,
};

const definition = (
  name: string,
  parts: Pick<StoredDefinition, 'relations' | 'permissions'> & Partial<StoredDefinition>,
): StoredDefinition => ({
  id: newId(),
  name,
  conditions: {},
  actAs: null,
  version: 1,
  createdAt: '',
  updatedAt: '',
  ...parts,
});
const project = definition('Project', {
  relations: { owner: ['User'], team: { from: 'team' }, helper: { from: 'helpers' } },
  fields: { team, helper: helpers },
  ownerColumns: true,
  permissions: { read: ['owner', 'team->read', 'helper'] },
});
const others = [
  definition('Team', { relations: { member: ['User'] }, permissions: { read: ['member'] } }),
  definition('Task', {
    relations: { project: ['Project'] },
    permissions: { read: ['project->read'] },
  }),
];

describe('fields of records on which others hang', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  let database: Database;
  let stored: Map<string, StoredDefinition>;

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'events', migrations: eventTables },
        { owner: 'authorization', migrations },
      ],
    });
    database = opened.database;
    await run('create schema app');
  });
  afterAll(() => opened.close());
  beforeEach(async () => {
    await run(
      `drop table if exists ${table}`,
      'delete from penstock.tuple_tables',
      'delete from penstock.resource_definitions',
      `create table ${table} ("_id" uuid primary key, title text, team uuid, helpers uuid[], "@owner" uuid, "@ownerType" text)`,
    );
    await database.transaction((transaction) => trackWithin(transaction, 'Project', table));
    stored = new Map([project, ...others].map((one) => [one.name, one]));
    await follow();
    await run('delete from penstock.tuple_changes');
  });

  async function run(...texts: readonly string[]): Promise<void> {
    for (const text of texts) await database.query({ text });
  }
  const follow = () =>
    createFieldTracking({
      schemas,
      models: {
        engine: async () => ({ model: buildModel(validDefinitions(stored.values()), 1) }) as Engine,
        change: (work) => database.transaction((transaction) => work(transaction, stored)),
      },
      log: silentLog,
    }).follow();
  const followed = async (): Promise<readonly string[]> =>
    (
      await database.query<{ followed: readonly string[] }>({
        text: 'select followed from penstock.tuple_tables',
      })
    ).rows[0]?.followed ?? [];
  const triggers = async (): Promise<number> =>
    (
      await database.query({
        text: `select 1 from pg_trigger where tgrelid = '${table}'::regclass and tgname like 'penstock%fields%'`,
      })
    ).rows.length;
  /** What was noted since the last call, in order. */
  async function noted(): Promise<readonly string[]> {
    const { rows } = await database.query<{ note: string }>({
      text: `delete from penstock.tuple_changes returning resource_type || ' ' || subject_type || ':' || subject_id as note`,
    });
    return rows.map(({ note }) => note).sort();
  }
  const add = async (values: Record<string, unknown>): Promise<string> => {
    const id = newId();
    await database.query({
      text: `insert into ${table} ("_id", title, team, helpers, "@owner", "@ownerType") values ($1, 'a', $2, $3, $4, $5)`,
      values: [
        id,
        values.team ?? null,
        values.helpers ?? null,
        values.owner ?? null,
        values.ownerType ?? null,
      ],
    });
    return id;
  };

  it('are followed where they lead on, and nothing else is', async () => {
    expect([...(await followed())].sort()).toEqual(
      [team, helpers, ownerColumn].map(fieldKey).sort(),
    );
    const alone = new Map([project, others[0] as StoredDefinition].map((one) => [one.name, one]));
    await run(`update penstock.tuple_tables set followed = '{}'`);
    stored = alone;
    await follow();
    expect(await followed()).toEqual([]);
  });

  it('are noted when a record comes, goes, or says something else', async () => {
    const [a, b, c, d] = [newId(), newId(), newId(), newId()];
    const id = await add({ team: a, helpers: [b, c], owner: d });
    expect(await noted()).toEqual(
      [`Project Team:${a}`, `Project User:${b}`, `Project User:${c}`, `Project User:${d}`].sort(),
    );
    const other = newId();
    await database.query({
      text: `update ${table} set team = $2 where "_id" = $1`,
      values: [id, other],
    });
    const after = await noted();
    expect(after).toContain(`Project Team:${a}`);
    expect(after).toContain(`Project Team:${other}`);
    await run(`update ${table} set "@ownerType" = 'Team'`);
    expect(await noted()).toEqual(
      expect.arrayContaining([`Project User:${d}`, `Project Team:${d}`]),
    );
    await run(`delete from ${table}`);
    expect(await noted()).toContain(`Project Team:${other}`);
  });

  it('cost nothing where they stay as they are, or say nothing', async () => {
    await add({ team: newId() });
    await noted();
    await run(`update ${table} set title = 'b', team = team`, `update ${table} set title = 'c'`);
    await add({});
    expect(await noted()).toEqual([]);
  });

  it('are noted as one where very many change', async () => {
    const rows = (n: number): string =>
      `insert into ${table} ("_id", team) select gen_random_uuid(), gen_random_uuid() from generate_series(1, ${n})`;
    await run(rows(1_001));
    expect(await noted()).toEqual(['* *:*']);
    await run(`update ${table} set team = gen_random_uuid()`);
    expect(await noted()).toContain('* *:*');
    // The count of a transaction is its own, and what a savepoint undoes is not counted.
    await database.transaction(async (transaction) => {
      await transaction.query({ text: 'savepoint s' });
      await transaction.query({ text: `update ${table} set team = gen_random_uuid()` });
      await transaction.query({ text: 'rollback to savepoint s' });
      await transaction.query({
        text: `update ${table} set team = gen_random_uuid() where "_id" = (select min("_id"::text)::uuid from ${table})`,
      });
    });
    expect((await noted()).filter((note) => note.startsWith('Project'))).toHaveLength(2);
    await run(`delete from ${table}`);
    expect(await noted()).toEqual(['* *:*']);
    await add({ team: newId() });
    await run(`truncate ${table}`);
    expect(await noted()).toContain('* *:*');
  });

  it('are let go with the definition, so that their columns can be dropped', async () => {
    const columns = (): Promise<void> => run(`alter table ${table} drop column team`);
    await expect(columns()).rejects.toThrow('depend');
    await database.query({
      text: `insert into penstock.resource_definitions (id, name, relations, fields, permissions, conditions, version)
        values (gen_random_uuid(), 'Project', '{}', $1, '{}', '{}', 1)`,
      values: [JSON.stringify({ team, helper: helpers })],
    });
    await database.transaction(releaseFields);
    expect(await triggers()).toBe(4);
    // The same column, which names others now.
    await database.query({
      text: 'update penstock.resource_definitions set fields = $1',
      values: [JSON.stringify({ team: { ...team, type: 'Club' }, helper: helpers })],
    });
    await database.transaction(releaseFields);
    expect([await triggers(), await followed()]).toEqual([0, []]);
    await columns();
  });

  it('are followed anew in a table that is made anew', async () => {
    await run(`drop table ${table}`, `create table ${table} ("_id" uuid primary key, team uuid)`);
    await database.transaction((transaction) => trackWithin(transaction, 'Project', table));
    expect(await followed()).toEqual([]);
  });
});
