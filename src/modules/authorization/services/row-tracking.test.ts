/** What is noted about rows is never said of a row that is not there, in whatever order tuples and rows come and go. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { migrations as eventTables } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations } from '../migrations.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { recordTuples } from '../record-tuples.ts';
import { deleteOldChanges } from '../tuple-removals.ts';
import { type NewTuple, writeTuples } from '../tuple-writes.ts';
import { createRowTracking, type RowTracking } from './row-tracking.ts';

describe.each(['embedded', 'external15'] as const)('what is noted about rows (%s)', (server) => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  let tracking: RowTracking;
  const table = 'app."Doc"';
  const tables = new Map([['Doc', table]]);
  const schema = {
    name: 'Doc',
    table,
    modelOptions: { conduit: { authorization: { enabled: true } } },
  } as unknown as CompiledSchema;

  beforeAll(async () => {
    opened = await openTestDatabase({
      server,
      migrations: [
        { owner: 'events', migrations: eventTables },
        { owner: 'authorization', migrations },
      ],
    });
    tracking = createRowTracking({
      database: opened.database,
      schemas: { get: () => schema },
      log: silentLog,
    });
    await run('create schema app');
  });
  afterAll(() => opened.close());
  beforeEach(async () => {
    await run(
      `drop table if exists ${table}`,
      'delete from penstock.tuples',
      `create table ${table} (_id uuid primary key, text text)`,
    );
    await tracking.track([schema]);
  });

  async function run(...texts: readonly string[]): Promise<void> {
    for (const text of texts) await opened.database.query({ text });
  }
  const addRow = async (id = newId()): Promise<string> => {
    await opened.database.query({ text: `insert into ${table} values ($1)`, values: [id] });
    return id;
  };
  const about = (id: string, user = 'a'): NewTuple => ({
    id: newId(),
    subject: parseSubject(`User:${user}`, 'subject'),
    relation: 'reader',
    resource: parseObject(`Doc:${id}`, 'resource'),
  });
  const write = (...tuples: readonly NewTuple[]) =>
    writeTuples(opened.database, tuples, 'test', tables);
  const removeRow = (id: string) =>
    opened.database.query({ text: `delete from ${table} where _id = $1`, values: [id] });
  /** Of each resource, whether it is noted as a row, by its id. */
  const noted = async (): Promise<readonly (readonly [string, boolean])[]> => {
    const text = `select resource_id as id, row_of is not distinct from to_regclass('${table}')::oid as noted from penstock.tuples order by 1`;
    return (await opened.database.query<{ id: string; noted: boolean }>({ text })).rows.map(
      ({ id, noted }) => [id, noted],
    );
  };
  /** Noted although there is no such row. */
  const wrong = async (): Promise<number> => {
    const text = `select count(*)::integer as count from penstock.tuples t where row_of = '${table}'::regclass and not exists (select 1 from ${table} d where d._id = t.resource_uuid)`;
    return (await opened.database.query<{ count: number }>({ text })).rows[0]?.count ?? -1;
  };

  it('is known from the write, for one and for many, and gone with the row', async () => {
    const [row, other, never] = [await addRow(), await addRow(), newId()];
    await write(about(row));
    await write(about(other), about(never), about('no-row-id'));
    expect(new Map(await noted())).toEqual(
      new Map([
        [row, true],
        [other, true],
        [never, false],
        ['no-row-id', false],
      ]),
    );
    await removeRow(row);
    expect(new Map(await noted()).get(row)).toBe(false);
    await run(`truncate ${table}`);
    expect((await noted()).some(([, known]) => known)).toBe(false);
  });

  it('is known of owners that are written with their records', async () => {
    const owner = { type: `'User'`, id: `'a'` };
    const parts = recordTuples.own({ rows: 'r', schema: 'Doc', table, actor: `'test'` }, owner);
    await run(
      `with r as (insert into ${table} values ('${newId()}') returning *), ${parts.join(', ')} select 1 from r`,
    );
    expect((await noted()).map(([, known]) => known)).toEqual([true]);
  });

  it('a row that goes while a tuple about it is written is not noted', async () => {
    const row = await addRow();
    const { promise: written, resolve } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const writing = opened.database.transaction(async (transaction) => {
      await writeTuples(transaction, [about(row)], 'test', tables);
      resolve();
      await released;
    });
    await written;
    const forgotten = recordTuples
      .forget({ rows: 'r', schema: 'Doc', table, actor: `'test'` })
      .join(', ');
    const removing = opened.database.query({
      text: `with r as (delete from ${table} where _id = '${row}' returning _id), ${forgotten} select 1 from r`,
    });
    // The removal is in the database, where it waits for the tuple.
    const waiting = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like 'with r as (delete%'`;
    while ((await opened.database.query({ text: waiting })).rows.length === 0);
    release();
    await Promise.all([writing, removing]);
    expect(await noted()).toEqual([[row, false]]);
  });

  it('holds while rows and tuples come and go at the same time', async () => {
    const ids = Array.from({ length: 5 }, () => newId());
    const churn = async (n: number): Promise<void> => {
      for (let round = 0; round < 20; round += 1) {
        const id = ids[(n + round) % ids.length] ?? '';
        if (n % 2 === 0) await write(about(id, `u${n}-${round}`));
        else if (round % 2 === 0)
          await opened.database.query({
            text: `insert into ${table} values ($1) on conflict do nothing`,
            values: [id],
          });
        else await removeRow(id);
      }
    };
    await Promise.all(Array.from({ length: 8 }, (_, n) => churn(n)));
    expect(await wrong()).toBe(0);
  });

  it('is found out for tuples of before, and is about this table only', async () => {
    const rows = [await addRow(), await addRow()];
    await writeTuples(opened.database, [...rows.map((id) => about(id)), about(newId())], 'test');
    await run('delete from penstock.tuple_tables');
    await tracking.track([schema]);
    await tracking.job.handler({}, { signal: new AbortController().signal, log: silentLog });
    expect(new Map(await noted())).toEqual(
      new Map((await noted()).map(([id]) => [id, rows.includes(id)])),
    );
    expect((await noted()).filter(([, known]) => known)).toHaveLength(2);
    await run(`drop table ${table}`, `create table ${table} (_id uuid primary key)`);
    expect((await noted()).some(([, known]) => known)).toBe(false);
    await tracking.track([schema]);
    await addRow(rows[0]);
    await tracking.job.handler({}, { signal: new AbortController().signal, log: silentLog });
    expect((await noted()).filter(([, known]) => known)).toEqual([[rows[0], true]]);
  });

  it('notes about changes are taken away after two runs, and it is said from where on they are complete', async () => {
    const count = async (): Promise<number> =>
      (
        await opened.database.query<{ count: number }>({
          text: 'select count(*)::integer as count from penstock.tuple_changes',
        })
      ).rows[0]?.count ?? -1;
    const hourLater = () =>
      run(`update penstock.tuple_change_state set moved_at = now() - interval '1 hour'`);
    await write(about(newId()));
    expect(await count()).toBeGreaterThan(0);
    await hourLater();
    await deleteOldChanges(opened.database);
    await write(about(newId()));
    const before = await count();
    await deleteOldChanges(opened.database);
    expect(await count()).toBe(before);
    await hourLater();
    await deleteOldChanges(opened.database);
    expect(await count()).toBe(1);
    expect(before).toBeGreaterThan(1);
    const text =
      'select bool_and(c.xid >= s.kept_from) as complete from penstock.tuple_changes c, penstock.tuple_change_state s';
    expect((await opened.database.query({ text })).rows).toEqual([{ complete: true }]);
  });
});
