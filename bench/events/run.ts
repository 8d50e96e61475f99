/**
 * Measures how fast the relay publishes, beside how fast rows are inserted into a bare table and into the outbox, and how
 * fast a reader follows. On an embedded server of its own, with the settings that the platform uses. Prints one line each.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Database } from '../../src/kernel/database/database.ts';
import { migrate } from '../../src/kernel/database/migrate.ts';
import { openDatabase } from '../../src/kernel/database/open-database.ts';
import { readAfter } from '../../src/kernel/events/event-reader.ts';
import { migrations } from '../../src/kernel/events/migrations.ts';
import { publishEvents } from '../../src/kernel/events/publication.ts';
import { silentLog } from '../../test/support/quiet.ts';

const help = `Measures the relay of events (about half a minute).

  npm run bench:events -- [options]

  --events <n>  events of the second measurement, and ten times those of the first (500000)`;

const print = (line: string): void => console.log(line);
const perSecond = (count: number, ms: number): string =>
  `${Math.round((count / ms) * 1_000).toLocaleString('en')}/s`;

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

const insertText = (table: string): string =>
  `insert into ${table} (topic, schema, ids, operation, actor) select 'database:create:Post', 'Post', array[gen_random_uuid()::text], 'insert', 'user:1'
   from generate_series(1, $1::int)`;

/** Writes `count` rows, `batch` in a transaction, over ten connections. */
async function write(
  database: Database,
  table: string,
  count: number,
  batch: number,
): Promise<void> {
  let left = Math.ceil(count / batch);
  const writer = async (): Promise<void> => {
    while (left-- > 0)
      await database.query({
        text: insertText(table),
        values: [batch],
        name: `write_${table.replace('.', '_')}`,
      });
  };
  await Promise.all(Array.from({ length: 60 }, writer));
}

async function publishAll(database: Database): Promise<number> {
  let count = 0;
  for (;;) {
    const published = await publishEvents(database);
    if (!published || published.count === 0) return count;
    count += published.count;
  }
}

async function readAll(database: Database, from: number): Promise<number> {
  let position = from;
  for (;;) {
    const last = (await readAfter(database, position, 500)).events.at(-1);
    if (!last) return position - from;
    position = last.sequence;
  }
}

async function measure(database: Database, count: number, batch: number): Promise<void> {
  await database.query({ text: 'truncate bare' });
  const { last: from } = await readAfter(database, 0, 1);
  print(`${batch} to a transaction, ${count.toLocaleString('en')} events`);
  print(
    `  inserts into a bare table   ${perSecond(count, await timed(() => write(database, 'bare', count, batch)))}`,
  );
  print(
    `  inserts into the outbox     ${perSecond(count, await timed(() => write(database, 'penstock.outbox', count, batch)))}`,
  );
  let published = 0;
  const ms = await timed(async () => {
    published = await publishAll(database);
  });
  print(`  the relay publishes         ${perSecond(published, ms)}`);
  let read = 0;
  const reading = await timed(async () => {
    read = await readAll(database, from);
  });
  print(`  a follower reads            ${perSecond(read, reading)}`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      events: { type: 'string', default: '500000' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) return print(help);
  const count = Number(values.events);
  if (!Number.isSafeInteger(count) || count < 1_000)
    throw new Error('--events takes a whole number of 1000 and more');
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-bench-'));
  const settings = {
    dataDir,
    databaseUrl: undefined,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  const database = await openDatabase({ settings, log: silentLog });
  try {
    await migrate(database, [{ owner: 'kernel/events', migrations }]);
    await database.query({
      text: `create table bare (seq bigint generated always as identity primary key, occurred_at timestamptz(3) not null default now(),
        topic text not null, schema text, operation text, actor text not null, ids text[], payload jsonb)`,
    });
    await measure(database, Math.ceil(count / 10), 1);
    await measure(database, count, 500);
  } finally {
    await database.close();
    await rm(dataDir, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
