/** Events are kept for functions as long as one is stored that follows them, whatever a node knows of it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { migrations as eventMigrations } from '../../../kernel/events/migrations.ts';
import { createHooks } from '../../../kernel/hooks/hooks.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations as queueMigrations } from '../../../kernel/queue/migrations.ts';
import { migrations } from '../migrations.ts';
import { startTriggers, type Triggers } from './triggers.ts';

let opened: OpenTestDatabase;
let triggers: Triggers;
beforeAll(async () => {
  const own = migrations.filter(({ id }) => id === '0001-functions' || id === '0004-triggers');
  const sets = [
    { owner: 'events', migrations: eventMigrations },
    { owner: 'queue', migrations: queueMigrations },
    { owner: 'functions', migrations: own },
  ];
  opened = await openTestDatabase({ migrations: sets });
  // This node knows of no function.
  const store = { all: () => [], byId: () => undefined, onChange: () => () => undefined };
  const given = { store, database: opened.database, log: silentLog, hooks: createHooks() };
  triggers = await startTriggers({
    ...given,
    events: { onPublished: () => () => undefined },
  } as unknown as Parameters<typeof startTriggers>[0]);
});
afterAll(async () => {
  await triggers.stop();
  await opened.close();
});

const consumers = async (): Promise<readonly unknown[]> =>
  (await opened.database.query(sql`select name from penstock.event_consumers`)).rows;

async function tidy(): Promise<void> {
  const [job] = triggers.jobs;
  const { signal } = new AbortController();
  await job?.handler({}, { signal, log: silentLog });
}

it('is not ended by a node that has not heard of the newest function', async () => {
  const definition = {
    ...{ inputs: { event: 'database:create:Order' }, returns: null, timeout: 1_000 },
    facts: { form: 'body', language: 'javascript' },
  };
  const id = newId();
  await opened.database.transaction(async (transaction) => {
    await triggers.follow(transaction);
    await transaction.query(sql`
      insert into penstock.functions (id, name, kind, definition, enabled, version, checksum)
      values (${id}::uuid, 'onOrder', 'event', ${JSON.stringify(definition)}::json, true, 1, '')`);
  });
  await tidy();
  expect(await consumers()).toEqual([{ name: 'functions' }]);
  await opened.database.query(sql`delete from penstock.functions where id = ${id}::uuid`);
  await tidy();
  expect(await consumers()).toEqual([]);
});

it('waits for whoever is just storing a function', async () => {
  // Somebody has followed before, and nobody has stopped it yet.
  await opened.database.transaction((transaction) => triggers.follow(transaction));
  const stored = Promise.withResolvers<void>();
  const following = Promise.withResolvers<void>();
  const storing = opened.database.transaction(async (transaction) => {
    await triggers.follow(transaction);
    following.resolve();
    await stored.promise;
    await transaction.query(sql`
      insert into penstock.functions (id, name, kind, definition, enabled, version, checksum)
      values (${newId()}::uuid, 'later', 'event', '{}'::json, true, 1, '')`);
  });
  await following.promise;
  const tidied = tidy();
  // Time in which it would stop following, were it not for the other.
  await opened.database.query(sql`select pg_sleep(0.3)`);
  stored.resolve();
  await Promise.all([storing, tidied]);
  expect(await consumers()).toEqual([{ name: 'functions' }]);
});
