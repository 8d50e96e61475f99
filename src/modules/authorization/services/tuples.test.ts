import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../../test/support/database.ts';
import { noMetrics, silentLog } from '../../../../test/support/quiet.ts';
import { system } from '../../../kernel/caller.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import type { Events } from '../../../kernel/events/events.ts';
import { migrations as eventTables } from '../../../kernel/events/migrations.ts';
import { alwaysFresh } from '../../../kernel/freshness/freshness.ts';
import { migrations } from '../migrations.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { createDefinitions } from './definitions/definitions.ts';
import { createModels } from './definitions/models.ts';
import { createTuples } from './tuples.ts';

describe('relations that are written in a transaction of somebody else', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  const events = { emit: async () => undefined, wake: () => undefined } as unknown as Events;
  const bus: Bus = {
    nodeId: 'test',
    publish: async () => undefined,
    announce: async () => ({ replicas: 1, failed: [] }),
    subscribe: () => () => undefined,
    connected: () => true,
    freshness: alwaysFresh,
    onReconnect: () => undefined,
  };
  const caller = system('test');

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'events', migrations: eventTables },
        { owner: 'authorization', migrations },
      ],
    });
  });
  afterAll(() => opened.close());

  it('are seen by a change of the definition that they would not fit', async () => {
    const { database } = opened;
    const models = createModels({ database, bus, log: silentLog, metrics: noMetrics });
    const definitions = createDefinitions({
      database,
      events,
      models,
      hasRecords: () => false,
      objects: { type: () => undefined },
      schemas: { get: () => undefined },
      uses: () => [],
      follow: async () => undefined,
    });
    const tuples = createTuples({ database, events, models, schemas: { get: () => undefined } });
    const plain = { version: 0, permissions: {}, conditions: {}, actAs: null };
    await definitions.define(caller, { ...plain, name: 'User', relations: {} });
    await definitions.define(caller, { ...plain, name: 'Doc', relations: { reader: ['User'] } });
    const { promise: written, resolve } = Promise.withResolvers<void>();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const writing = database.transaction(async () => {
      await tuples.write(caller, [
        {
          subject: parseSubject('User:a', 'subject'),
          relation: 'reader',
          resource: parseObject('Doc:d', 'resource'),
        },
      ]);
      resolve();
      await released;
    });
    await written;
    const changing = definitions
      .change(caller, 'Doc', { ...plain, version: 1, relations: {} })
      .catch((error: { code: string }) => error.code);
    const waiting = `select 1 from pg_locks where locktype = 'advisory' and not granted`;
    while ((await database.query({ text: waiting })).rows.length === 0);
    release();
    await writing;
    expect(await changing).toBe('RESOURCE_IN_USE');
  });
});
