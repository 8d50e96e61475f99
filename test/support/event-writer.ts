/**
 * A process to be killed: writes events in transactions and publishes them, and prints the id of
 * each once it is committed. Argument: the database's URL.
 */

import { system } from '../../src/kernel/caller.ts';
import { openDatabase } from '../../src/kernel/database/open-database.ts';
import { createBus } from '../../src/kernel/events/create-bus.ts';
import { createEvents } from '../../src/kernel/events/create-events.ts';
import { noMetrics, silentLog } from './quiet.ts';

const settings = {
  dataDir: '/nonexistent',
  databaseUrl: process.argv[2],
  databasePreparedStatements: true,
  databasePipelining: true,
};
const database = await openDatabase({ settings, log: silentLog });
const bus = await createBus({ database, redis: undefined, log: silentLog });
const events = createEvents({ database, bus, log: silentLog, metrics: noMetrics });
await events.start();

async function writeForEver(writer: number): Promise<never> {
  for (let i = 0; ; i += 1) {
    const id = `${writer}-${i}`;
    await database.transaction((transaction) =>
      events.emit(transaction, system('event-writer'), { topic: 'test:written', ids: [id] }),
    );
    process.stdout.write(`${id}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, (_, writer) => writeForEver(writer)));
