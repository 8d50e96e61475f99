import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { RecordDependencies } from '../../../kernel/permissions.ts';
import { createLiveHub } from './live-hub.ts';

/** A hub, and how often the list of each user was read; nothing but events makes it read again. */
async function hubOf(users: readonly string[], throughUsers: boolean, leans?: RecordDependencies) {
  let heard: (event: PublishedEvent) => void = () => expect.unreachable('nobody follows');
  const reads = new Map<string, number>();
  const hub = createLiveHub({
    records: { fitting: () => expect.unreachable('no record has changed') },
    onOwnAccount: (work) => work(),
    follow(handler) {
      heard = handler;
      return () => undefined;
    },
    reachesThroughUsers: async () => throughUsers,
    dependenciesOf: async () => leans,
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
    await hub.listen(
      { kind: 'rows', ...about, related: new Set<string>(), rows },
      listener,
      undefined,
    );
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
  return { hub, reads, tell, tellOfRecord };
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
});
