import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestDatabase } from '../../../../../test/support/database.ts';
import { isWaiting } from '../../../../../test/support/locks.ts';
import { noMetrics, silentLog } from '../../../../../test/support/quiet.ts';
import { waitFor } from '../../../../../test/support/wait-for.ts';
import { system } from '../../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../../kernel/database/database.ts';
import type { Bus } from '../../../../kernel/events/bus.ts';
import type { Events } from '../../../../kernel/events/events.ts';
import { migrations as eventMigrations } from '../../../../kernel/events/migrations.ts';
import { alwaysFresh } from '../../../../kernel/freshness/freshness.ts';
import { migrations } from '../../migrations.ts';
import { createDefinitions } from './definitions.ts';
import { createModels } from './models.ts';
import { guardFields } from './record-fields.ts';

/** A bus whose messages nobody hears; `connected` says whether it knows. */
function deafBus() {
  const state = { connected: true, announced: 0, reconnect: (): void => undefined };
  const bus: Bus = {
    nodeId: 'test',
    publish: async () => undefined,
    async announce() {
      state.announced += 1;
      return { replicas: 1, failed: [] };
    },
    subscribe: () => () => undefined,
    connected: () => state.connected,
    freshness: alwaysFresh,
    onReconnect: (listener) => {
      state.reconnect = listener;
    },
  };
  return { bus, state };
}

describe('definitions in force', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  const events = { emit: async () => undefined, wake: () => undefined } as unknown as Events;
  const caller = system('test');

  beforeAll(async () => {
    opened = await openTestDatabase({
      migrations: [
        { owner: 'events', migrations: eventMigrations },
        { owner: 'authorization', migrations },
      ],
    });
  });
  afterAll(() => opened.close());

  const node = (database: Database = opened.database) => {
    const { bus, state } = deafBus();
    const models = createModels({ database, bus, log: silentLog, metrics: noMetrics });
    return {
      models,
      state,
      definitions: createDefinitions({
        database,
        events,
        models,
        hasRecords: () => false,
        objects: { type: () => undefined },
        schemas: { get: () => undefined },
        uses: () => [],
        follow: async () => undefined,
      }),
    };
  };
  const define = (by: ReturnType<typeof node>, name: string, version = 0) =>
    by.definitions.define(caller, {
      name,
      version,
      relations: {},
      permissions: {},
      conditions: {},
      actAs: null,
    });
  const knows = async ({ models }: ReturnType<typeof node>, name: string) =>
    (await models.engine()).model.get(name) !== undefined;

  it('hold for the next question on a node that hears nothing', async () => {
    const [one, other] = [node(), node()];
    expect(await knows(other, 'First')).toBe(false);
    await define(one, 'First');
    expect(await knows(one, 'First')).toBe(true);
    expect(await knows(other, 'First')).toBe(true);
    const asked: boolean[] = [];
    await define(one, 'Second');
    const answer = await other.models.ask(async ({ model }) => {
      asked.push(model.get('Second') !== undefined);
      return asked.at(-1);
    });
    expect([answer, asked]).toEqual([true, [false, true]]);
    other.state.reconnect();
    expect(await knows(other, 'Second')).toBe(true);
  });

  it('are those of the transaction inside of one, and nobody else sees them', async () => {
    const [one, other] = [node(), node()];
    expect(await knows(one, 'Inside')).toBe(false);
    const undone = opened.database.transaction(async () => {
      await define(one, 'Inside');
      expect(await knows(one, 'Inside')).toBe(true);
      throw new Error('undo');
    });
    await expect(undone).rejects.toThrow('undo');
    expect([await knows(one, 'Inside'), await knows(other, 'Inside')]).toEqual([false, false]);
  });

  it('change one after the other, whoever changes them', async () => {
    const nodes = [node(), node(), node()];
    const outcomes = await Promise.all(
      nodes.flatMap((one) =>
        [1, 2, 3].map((version) => define(one, 'Raced', version).then(({ status }) => status)),
      ),
    );
    expect(outcomes.filter((status) => status === 'processed').length).toBeGreaterThan(0);
    // One that hears nothing has what it read last: a fresh one reads now.
    const { definitions } = node();
    expect((await definitions.get('Raced')).version).toBe(3);
    const versions = await definitions.versions('Raced', 10);
    expect(versions.map(({ definition }) => definition?.version)).toEqual(
      [...versions.map(({ definition }) => definition?.version)].sort().reverse(),
    );
  });

  it('are not taken in when the transaction around them fails', async () => {
    const one = node();
    const failing = opened.database.transaction(async () => {
      await define(one, 'Undone');
      throw new Error('undo');
    });
    await expect(failing).rejects.toThrow('undo');
    expect(await knows(one, 'Undone')).toBe(false);
  });

  /** The database, where what is read outside of transactions goes through `around`. */
  const reading = (around: (read: () => Promise<unknown>) => Promise<unknown>): Database => {
    const query = (statement: Parameters<Queryable['query']>[0]) =>
      around(() => opened.database.query(statement));
    return Object.assign(Object.create(opened.database), { query }) as Database;
  };

  it('are announced, and read at the next use, when they cannot be read after the change', async () => {
    const trouble = { next: false };
    const one = node(
      reading(async (read) => {
        if (!trouble.next) return read();
        trouble.next = false;
        throw new Error('no connection');
      }),
    );
    expect(await knows(one, 'Third')).toBe(false);
    trouble.next = true;
    await define(one, 'Third').catch(() => undefined);
    expect(trouble.next).toBe(false);
    expect(one.state.announced).toBe(1);
    expect(await knows(one, 'Third')).toBe(true);
  });

  it('are not taken from a read that began before a reconnect', async () => {
    const held = Promise.withResolvers<void>();
    let hold = true;
    const other = node(
      reading(async (read) => {
        const answer = await read();
        if (hold) await held.promise;
        return answer;
      }),
    );
    const early = knows(other, 'Fourth');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await define(node(), 'Fourth');
    other.state.reconnect();
    hold = false;
    held.resolve();
    await early;
    expect(await knows(other, 'Fourth')).toBe(true);
  });

  it('are changed and deleted beside a stored one that nobody understands', async () => {
    const one = node();
    await define(one, 'Broken');
    await define(one, 'Sound');
    await opened.database.query({
      text: `update penstock.resource_definitions set permissions = '{"read": ["nobody"]}' where name = 'Broken'`,
    });
    const after = node();
    expect([await knows(after, 'Broken'), await knows(after, 'Sound')]).toEqual([false, true]);
    expect((await define(after, 'Fifth')).status).toBe('processed');
    expect((await define(after, 'Sound', 1)).status).toBe('processed');
    expect(await after.definitions.remove(caller, 'Broken')).toBe(0);
    expect((await after.definitions.all()).map(({ name }) => name)).not.toContain('Broken');
  });

  it('keep a change that somebody else commits while the table of their schema goes', async () => {
    const one = node();
    await define(one, 'Leaving');
    const fields = '{"folder": {"field": "folder", "many": false, "type": "Leaving"}}';
    const text = (set: string) =>
      `update penstock.resource_definitions set ${set} where name = 'Leaving'`;
    await opened.database.query({ text: text(`fields = '${fields}'`) });
    const other = await opened.openAgain();
    let leaving: Promise<unknown> | undefined;
    await one.models.change(
      async (transaction) => {
        await transaction.query({ text: text(`act_as = 'changed'`) });
        leaving = other.transaction((own) =>
          guardFields(own, new Map([['Leaving', undefined]]), new Map(), new Set()),
        );
        await waitFor(() => isWaiting(other));
      },
      async () => undefined,
    );
    await leaving;
    const { rows } = await other.query({
      text: `select act_as, fields from penstock.resource_definitions where name = 'Leaving'`,
    });
    expect(rows).toEqual([{ act_as: 'changed', fields: {} }]);
  });

  it('know what was granted directly before it was noted', async () => {
    const { database } = opened;
    await define(node(), 'Granted');
    const run = (text: string) => database.query({ text });
    await run('alter table penstock.resource_definitions drop column granted');
    for (const relation of ['can:read', 'can:read', 'owner'])
      await run(`insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id)
        values (gen_random_uuid(), 'User', 'ann', '${relation}', 'Granted', gen_random_uuid()::text)`);
    await migrations.find(({ id }) => id === '0010-granted-actions')?.run(database);
    const { model } = await node().models.engine();
    expect([...(model.get('Granted')?.granted ?? [])]).toEqual(['read']);
  });
});
