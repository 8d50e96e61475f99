import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { RecordDependencies } from '../../../kernel/permissions.ts';
import { createLiveHub } from './live-hub.ts';
import { Remembered, requireRoom } from './live-memory.ts';
import { MissedMessages } from './live-messages.ts';

/** A hub, and how often the list of each user was read; nothing but events makes it read again. */
async function hubOf(
  users: readonly string[],
  throughUsers: boolean,
  leans?: RecordDependencies,
  related: ReadonlySet<string> = new Set(),
) {
  let heard: (event: PublishedEvent) => void = () => expect.unreachable('nobody follows');
  let miss: () => void = () => expect.unreachable('nobody follows');
  const reads = new Map<string, number>();
  const hub = createLiveHub({
    records: { fitting: () => expect.unreachable('no record has changed') },
    onOwnAccount: (work) => work(),
    follow(handler, onGap) {
      heard = handler;
      miss = onGap;
      return () => undefined;
    },
    reachesThroughUsers: async () => throughUsers,
    dependenciesOf: async (schema) =>
      related.size === 0 || related.has(schema) ? leans : undefined,
    log: (error) => expect.unreachable(String(error)),
    onTold: () => undefined,
  });
  for (const user of users) {
    const all = async () => {
      reads.set(user, (reads.get(user) ?? 0) + 1);
      return [];
    };
    const rows = { limit: 10, byId: true, all, among: all };
    const about = { key: 'list', audience: user, rightsOf: user, schema: 'Note' };
    const listener = { admits: () => true, entered() {}, tell() {}, ended() {} };
    await hub.listen(async () => ({ kind: 'rows', ...about, related, rows }), listener, undefined);
  }
  const tell = (subject: string): void =>
    heard({
      topic: 'authorization:delete:relation',
      payload: { subject, relation: 'reader', resource: 'Note:1' },
    } as unknown as PublishedEvent);
  const tellOfRecord = (schema: string, operation: string): void =>
    heard({
      ...{ topic: `database:${operation}:${schema}`, schema, operation, ids: ['1'] },
      occurredAt: new Date().toISOString(),
    } as unknown as PublishedEvent);
  return { hub, reads, tell, tellOfRecord, miss: () => miss() };
}

describe('a change of rights', () => {
  // Lists are looked at every few seconds whatever happens, which is not what this is about.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval'] }));
  afterEach(() => void vi.useRealTimers());

  it('has the list of the user read again whose relation it is, and of nobody else', async () => {
    const { hub, reads, tell } = await hubOf(['ann', 'bob'], false);
    tell('User:ann');
    await waitFor(() => reads.get('ann') === 2);
    expect(reads.get('bob')).toBe(1);
    tell('Team:design#member');
    await waitFor(() => reads.get('ann') === 3 && reads.get('bob') === 2);
    hub.stop();
  });

  it('has all lists read again where users can have rights through another one', async () => {
    const { hub, reads, tell } = await hubOf(['ann', 'bob'], true);
    tell('User:ann');
    await waitFor(() => reads.get('bob') === 2);
    hub.stop();
  });

  it('has lists read again whose rights hang on what another record holds, or on whether it is there', async () => {
    const leans = { values: new Set(['Project']), presence: new Set(['Project', 'Folder']) };
    const { hub, reads, tellOfRecord } = await hubOf(['ann'], false, leans);
    tellOfRecord('Project', 'update');
    await waitFor(() => reads.get('ann') === 2);
    tellOfRecord('Folder', 'delete');
    await waitFor(() => reads.get('ann') === 3);
    // What a folder holds decides about nothing; by the end of the next change that has been seen to.
    tellOfRecord('Folder', 'update');
    tellOfRecord('Other', 'delete');
    await sleep(100);
    tellOfRecord('Project', 'update');
    await waitFor(() => reads.get('ann') === 4);
    hub.stop();
  });

  it('has lists read again that hold records of others whose rights hang on it', async () => {
    const leans = { values: new Set(['Project']), presence: new Set<string>() };
    const { hub, reads, tellOfRecord } = await hubOf(['ann'], false, leans, new Set(['Task']));
    tellOfRecord('Project', 'update');
    await waitFor(() => reads.get('ann') === 2);
    hub.stop();
  });
});

it('reads every list again where events were missed for good', async () => {
  const { hub, reads, miss } = await hubOf(['ann', 'bob'], false);
  miss();
  await waitFor(() => reads.get('ann') === 2 && reads.get('bob') === 2);
  hub.stop();
});

describe('what questions keep in memory', () => {
  const question = (asker: string, records: number) => ({ asker, records });

  it('has bounds for all, and for one who asks', () => {
    const bounds = { records: 100, ofOne: 40 };
    const open = [question('ann', 30), question('bob', 25)];
    requireRoom(open, 'ann', bounds);
    const more = [...open, question('ann', 10)];
    expect(() => requireRoom(more, 'ann', bounds)).toThrow('Too many different live queries');
    requireRoom(more, 'bob', bounds);
    const full = [...more, question('eva', 35)];
    expect(() => requireRoom(full, 'new', bounds)).toThrow('Too many different live queries');
  });

  it('counts as much as it may come to know until it is read', async () => {
    const { hub } = await hubOf([], false);
    const all = async () => [{ id: '1', json: '{}' }];
    const rows = { limit: 1_000, byId: true, all, among: all };
    const facts = { audience: 'ann', asker: 'ann', schema: 'Note', related: new Set<string>() };
    const listener = { admits: () => true, entered() {}, tell() {}, ended() {} };
    const open = (key: string) =>
      hub.listen(async () => ({ kind: 'rows', key, ...facts, rows }), listener, undefined);
    const opening = Array.from({ length: 251 }, (_, n) => open(String(n)));
    const refused = (await Promise.allSettled(opening)).filter(
      ({ status }) => status === 'rejected',
    );
    expect(refused).toMatchObject([{ reason: { code: 'QUERY_LIMIT_EXCEEDED' } }]);
    // What was read is small.
    await open('later');
    hub.stop();
  });

  it('keeps nothing for those who come back where all questions together keep too much', () => {
    const shared = new Remembered(100);
    const [one, other] = [new MissedMessages(shared), new MissedMessages(shared)];
    const message = { event: 'value', data: { watch: 'w', position: 'p', value: 1 } } as const;
    one.remember(1, message, 60);
    other.remember(1, message, 60);
    expect([one.since(0, 1), other.since(0, 1)]).toEqual([[message], undefined]);
    one.forget();
    other.remember(2, message, 60);
    expect(other.since(1, 2)).toEqual([message]);
  });
});

describe('a question that ends while somebody waits to be let in', () => {
  const about = { key: 'list', audience: 'ann', rightsOf: undefined, schema: 'Note' };
  const entering = () => {
    const entered: string[] = [];
    const listener = {
      admits: () => true,
      entered: ({ id }: { id: string }) => void entered.push(id),
      tell: () => expect.unreachable('who was not let in yet has nothing to hear'),
      ended: () => expect.unreachable('it was not one of the listeners yet'),
    };
    return { entered, listener };
  };

  it('is asked anew as it is then, before and after its schema has changed', async () => {
    const { hub } = await hubOf([], false);
    const { entered, listener } = entering();
    const reading = Promise.withResolvers<void>();
    let asked = 0;
    const all = async () => {
      if (asked === 1) await reading.promise;
      return [];
    };
    const listening = hub.listen(
      async () => {
        asked += 1;
        const rows = { limit: 10, byId: true, all, among: all };
        return { kind: 'rows', ...about, related: new Set<string>(), rows };
      },
      listener,
      undefined,
    );
    await waitFor(() => hub.counts().queries === 1);
    hub.schemasChanged(['Note']);
    reading.resolve();
    const { query, beginning } = await listening;
    expect({ asked, kind: beginning.kind, entered }).toEqual({
      ...{ asked: 2, kind: 'records', entered: [query.id] },
    });
    expect(hub.counts()).toEqual({ queries: 1, listeners: 1 });
  });

  it('is asked anew where what it was made from has changed, before it was open and while it was read', async () => {
    const { hub, tellOfRecord } = await hubOf([], false);
    const { entered, listener } = entering();
    const reading = Promise.withResolvers<void>();
    const all = async () => {
      await reading.promise;
      return [];
    };
    const rows = { limit: 10, byId: true, all, among: all };
    const madeFrom = { schema: 'User', id: '1' };
    const keys = ['first', 'second', 'second', 'second', 'third', 'third'];
    let asked = 0;
    const listening = hub.listen(
      async () => {
        const key = keys[asked] ?? 'third';
        asked += 1;
        return { kind: 'rows', ...about, key, madeFrom, related: new Set<string>(), rows };
      },
      listener,
      undefined,
    );
    await waitFor(() => asked === 4);
    // It is open for the second time, and being read.
    await new Promise(setImmediate);
    tellOfRecord('User', 'update');
    reading.resolve();
    const { query } = await listening;
    expect([query.read.key, entered]).toEqual(['third', [query.id]]);
    query.leave(listener);
    hub.stop();
  });

  it('is told that the platform stops, and not asked for ever', async () => {
    const { hub } = await hubOf([], false);
    const { listener } = entering();
    const reading = Promise.withResolvers<void>();
    const all = async () => {
      await reading.promise;
      return [];
    };
    const rows = { limit: 10, byId: true, all, among: all };
    const read = { kind: 'rows', ...about, related: new Set<string>(), rows } as const;
    const listening = hub.listen(async () => read, listener, undefined);
    const refused = expect(listening).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await waitFor(() => hub.counts().queries === 1);
    hub.stop();
    reading.resolve();
    await refused;
  });
});
