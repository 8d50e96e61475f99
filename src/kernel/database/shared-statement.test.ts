/** What is spared on a connection that many share, and that answers stay whole. Counts what is written. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { UndoneError } from './shared-statement.ts';
import { StatementSender } from './statement-sender.ts';

let test: OpenTestDatabase;
let client: pg.Client;
let sender: StatementSender;

beforeAll(async () => {
  test = await openTestDatabase();
  client = new pg.Client({ connectionString: test.url, pipeline: true });
  await client.connect();
  sender = new StatementSender(client);
});

afterAll(async () => {
  await client.end();
  await test.close();
});

const ask = (query: pg.QueryConfig<unknown[]>, together = false): Promise<readonly unknown[]> =>
  new Promise((resolve, reject) => {
    sender.send(
      query,
      (error, result) => (error ? reject(error) : resolve(result?.rows ?? [])),
      together,
    );
  });

const wireOf = (of: pg.Client): pg.Connection =>
  (of as unknown as { connection: pg.Connection }).connection;

/** Messages that the server sent meanwhile. */
async function answersDuring(name: string, work: () => Promise<unknown>): Promise<number> {
  let seen = 0;
  const count = (): void => {
    seen += 1;
  };
  wireOf(client).on(name, count);
  await work();
  wireOf(client).off(name, count);
  return seen;
}

const named = { name: 'pair', text: 'select $1::integer as first, $2::text as second' };

it('asks for the columns of a prepared statement once', async () => {
  const described = await answersDuring('rowDescription', async () => {
    for (const first of [1, 2, 3])
      expect(await ask({ ...named, values: [first, 'two'] })).toEqual([{ first, second: 'two' }]);
  });
  expect(described).toBe(1);
});

it('answers each statement of one turn with its own rows, whatever fails among them', async () => {
  const values = Array.from({ length: 11 }, (_, index) => (index === 4 ? 'none' : index));
  const answers = await Promise.allSettled(
    values.map((first) => ask({ ...named, values: [first, 'x'] })),
  );
  expect(
    answers.map((answer) => (answer.status === 'fulfilled' ? answer.value : 'refused')),
  ).toEqual(values.map((first) => (first === 'none' ? 'refused' : [{ first, second: 'x' }])));
});

it('asks again for what has no name', async () => {
  expect(await ask({ text: 'select $1::integer as only', values: [1] })).toEqual([{ only: 1 }]);
  expect(await ask({ text: 'select $1::text as other', values: ['a'] })).toEqual([{ other: 'a' }]);
});

it('refuses a prepared statement whose columns have changed, so that no row is misread', async () => {
  await client.query(
    'create table public.changing (n integer); insert into public.changing values (7)',
  );
  const all = { name: 'all', text: 'select * from public.changing' };
  expect(await ask(all)).toEqual([{ n: 7 }]);
  await client.query('alter table public.changing rename column n to m');
  await expect(ask(all)).rejects.toMatchObject({ code: '0A000' });
  expect(await ask({ ...all, name: 'all_1' })).toEqual([{ m: 7 }]);
});

it('writes what one turn asks for together', async () => {
  const { stream } = wireOf(client);
  let writes = 0;
  const write = stream.write.bind(stream);
  stream.write = ((bytes: Buffer) => {
    writes += 1;
    return write(bytes);
  }) as typeof stream.write;
  await Promise.all([1, 2, 3, 4, 5, 6].map((first) => ask({ ...named, values: [first, 'y'] })));
  stream.write = write;
  expect(writes).toBe(2);
});

/** Bytes that are written from where they are. */
const large = (length: number): Buffer => Buffer.from(Array.from({ length }, (_, i) => i % 251));

const values = [
  'a text that fills more than its share, äöü 世界 '.repeat(2_000),
  null,
  true,
  4.5,
  12n,
  [1, 2],
  ['a "quoted" one', null],
  { nested: { list: [1] } },
  new Date('2026-03-01T10:00:00.123Z'),
  Buffer.from([0, 255, 10]),
  undefined,
  large(4_096),
  large(300_000),
  'between',
  large(5_000),
] as unknown[];

it('writes values, and reads answers of any size, as the driver does', async () => {
  const columns =
    'text,text,boolean,float8,int8,int[],text[],jsonb,timestamptz,bytea,text,bytea,bytea,text,bytea'.split(
      ',',
    );
  const text = `select ${columns.map((type, i) => `$${i + 1}::${type} as c${i}`).join(', ')}`;
  const { rows } = await client.query({ text, values });
  expect(await ask({ text, values, name: 'values' })).toEqual(rows);
  expect(await ask({ text, values, name: 'values' }, true)).toEqual(rows);
});

it('writes large values of several statements of one turn, each where it belongs', async () => {
  const text = 'select octet_length($1::bytea) as bytes, $2::text as beside, md5($1::bytea)';
  const { rows } = await client.query({ text, values: [large(70_000), 'all'] });
  const lengths = [70_000, 10, 70_000, 4_095, 4_096];
  const answers = await Promise.all(
    lengths.map((length) => ask({ text, values: [large(length), 'all'], name: 'large' }, true)),
  );
  expect(answers.map(([row]) => (row as { bytes: number }).bytes)).toEqual(lengths);
  expect([answers[0], answers[2]]).toEqual([rows, rows]);
});

const transactionOf = { name: 'transaction', text: 'select pg_current_xact_id()::text as id' };

it('commits what may be together as one transaction, and all else by itself', async () => {
  const ids = async (together: boolean): Promise<number> => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => ask(transactionOf, together)));
    return new Set(answers.map(([row]) => (row as { id: string }).id)).size;
  };
  expect(await ids(true)).toBe(1);
  expect(await ids(false)).toBe(4);
});

it('undoes all of a transaction when one of it fails, and says to the others that nothing happened', async () => {
  await client.query('create table public.numbers (n integer primary key)');
  const insert = (n: number) =>
    ask(
      { name: 'number', text: 'insert into public.numbers values ($1::integer)', values: [n] },
      true,
    );
  const settled = await Promise.allSettled([1, 2, 2].map(insert));
  const reasons = settled.map((one) => (one.status === 'rejected' ? one.reason : undefined));
  expect(reasons[0]).toBeInstanceOf(UndoneError);
  expect(reasons[1]).toBeInstanceOf(UndoneError);
  expect(reasons[2]).toMatchObject({ code: '23505' });
  expect((await client.query('select n from public.numbers')).rows).toEqual([]);
  await Promise.all([insert(1), insert(2)]);
  expect((await client.query('select n from public.numbers order by n')).rows).toEqual([
    { n: 1 },
    { n: 2 },
  ]);
});

it('takes a failed preparation for none, and the next statement of the name prepares it', async () => {
  const other = { name: 'later', text: 'select n from public.later' };
  await expect(ask(other, true)).rejects.toMatchObject({ code: '42P01' });
  await client.query('create table public.later (n integer); insert into public.later values (3)');
  expect(await ask(other, true)).toEqual([{ n: 3 }]);
});

it('what was gathered before does not wait for the end of the turn', async () => {
  const release = vi.spyOn(StatementSender.prototype, 'release');
  const statement = { text: 'select 1 as one', name: 'gathered', class: 'short' as const };
  const written = (gathered: boolean): readonly [number, Promise<unknown>] => {
    release.mockClear();
    const answer = test.database.query({ ...statement, gathered });
    return [release.mock.calls.length, answer];
  };
  const [[alone, first], [waiting, second]] = [written(true), written(false)];
  await Promise.all([first, second]);
  release.mockRestore();
  expect([alone, waiting]).toEqual([1, 0]);
});
