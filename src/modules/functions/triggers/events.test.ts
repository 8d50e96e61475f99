/** Which runs events cause, in which order, and how often (specification functions.md section 5.2). */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { migrations as eventMigrations } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import { createDurableQueue } from '../../../kernel/queue/create-durable-queue.ts';
import { migrations as queueMigrations } from '../../../kernel/queue/migrations.ts';
import type { FunctionInputs, StoredFunction } from '../definition/definition.ts';
import { migrations } from '../migrations.ts';
import { fanOutRuns } from './events.ts';
import { queueName, type TriggerParts } from './parts.ts';

let opened: OpenTestDatabase;
beforeAll(async () => {
  const sets = [
    { owner: 'events', migrations: eventMigrations },
    { owner: 'queue', migrations: queueMigrations },
    { owner: 'functions', migrations: migrations.filter(({ id }) => id === '0004-triggers') },
  ];
  opened = await openTestDatabase({ migrations: sets });
});
afterAll(() => opened.close());
beforeEach(() => opened.database.query({ text: 'delete from penstock.queue_items' }));

const listening = (inputs: FunctionInputs, enabled = true): StoredFunction =>
  ({ _id: newId(), functionType: 'event', enabled, inputs }) as unknown as StoredFunction;

const publish = (functions: readonly StoredFunction[], events: readonly object[]): Promise<void> =>
  opened.database.transaction(async (transaction) => {
    const parts = {
      store: { all: () => functions },
      queue: createDurableQueue(opened.database, queueName),
    };
    const facts = { occurredAt: new Date().toISOString(), actor: 'system' };
    const published = events.map((one) => ({ ...facts, ...one }) as PublishedEvent);
    await fanOutRuns(parts as unknown as TriggerParts, transaction, published);
  });

const runs = async () =>
  (
    await opened.database.query<{ target: string; key: string }>(
      sql`select target, order_key as key from penstock.queue_items order by seq`,
    )
  ).rows;

it('run in the order of the value at `orderBy`, else of what the event is about', async () => {
  const byShop = listening({ event: 'shop:*', orderBy: 'order.shop' });
  const usual = listening({ event: 'shop:paid' });
  await publish(
    [byShop, usual],
    [
      { sequence: 1, topic: 'shop:paid', payload: { order: { shop: 'north' } } },
      { sequence: 2, topic: 'shop:paid', payload: { order: {} } },
      { sequence: 3, topic: 'shop:left', payload: { order: { shop: 7 } } },
    ],
  );
  const all = await runs();
  const keysOf = ({ _id }: StoredFunction) =>
    all.filter(({ target }) => target === _id).map(({ key }) => key);
  expect(keysOf(byShop)).toEqual(['by:north', 'shop:paid', 'by:7']);
  expect(keysOf(usual)).toEqual(['shop:paid', 'shop:paid']);
});

it('run once for each event, however often it is read, and not while they are off', async () => {
  const on = listening({ event: 'shop:paid' });
  const functions = [on, listening({ event: 'shop:paid' }, false), listening({ event: 'shop' })];
  const event = { sequence: 9, topic: 'shop:paid', payload: {} };
  await publish(functions, [event]);
  await publish(functions, [event]);
  expect((await runs()).map(({ target }) => target)).toEqual([on._id]);
});
