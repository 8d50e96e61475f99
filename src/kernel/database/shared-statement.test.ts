/** What is spared on a connection that many share, and that answers stay whole. Counts what is written. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { StatementSender } from './shared-statement.ts';

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

const ask = (query: pg.QueryConfig<unknown[]>): Promise<readonly unknown[]> =>
  new Promise((resolve, reject) => {
    sender.send(query, (error, result) =>
      error ? reject(error) : resolve((result as pg.QueryResult).rows),
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
