/** Checks rest on what is stored now, also on a node that hears of no change, and cost no more than they need. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { openTestDatabase } from '../../../../test/support/database.ts';
import { noMetrics, silentLog } from '../../../../test/support/quiet.ts';
import type { Bus } from '../../../kernel/events/bus.ts';
import { alwaysFresh } from '../../../kernel/freshness/freshness.ts';
import { newId } from '../../../kernel/ids.ts';
import { migrations } from '../migrations.ts';
import { type Checks, createChecks } from './checks.ts';
import { createModels } from './definitions/models.ts';
import { createPermissionEngine } from './permission-engine.ts';

const deafBus: Bus = {
  nodeId: 'test',
  publish: async () => undefined,
  announce: async () => ({ replicas: 1, failed: [] }),
  subscribe: () => () => undefined,
  connected: () => true,
  freshness: alwaysFresh,
  onReconnect: () => undefined,
};

describe('checks', () => {
  let opened: Awaited<ReturnType<typeof openTestDatabase>>;
  let checks: Checks;
  let permissions: ReturnType<typeof createPermissionEngine>;
  beforeAll(async () => {
    opened = await openTestDatabase({ migrations: [{ owner: 'authorization', migrations }] });
    const { database } = opened;
    const models = createModels({ database, bus: deafBus, log: silentLog, metrics: noMetrics });
    checks = createChecks({ database, models });
    const asked = { database, models, checks };
    permissions = createPermissionEngine(asked as Parameters<typeof createPermissionEngine>[0]);
    await define('User', {}, {});
  });
  afterAll(() => opened.close());

  /** As another node does it. */
  async function define(name: string, relations: object, permissions: object): Promise<void> {
    const { database } = opened;
    await database.query({
      text: `insert into penstock.resource_definitions (id, name, relations, permissions) values ($1, $2, $3::jsonb, $4::jsonb)
        on conflict (name) do update set relations = excluded.relations, permissions = excluded.permissions`,
      values: [newId(), name, JSON.stringify(relations), JSON.stringify(permissions)],
    });
    const text = `insert into penstock.resource_definition_versions (name, changed_by) values ($1, 'test')`;
    await database.query({ text, values: [name] });
  }
  const relate = (id: string, relation: string, type: string, resource = '1') =>
    opened.database.query({
      text: `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id) values ($1, 'User', $2, $3, $4, $5)`,
      values: [newId(), id, relation, type, resource],
    });
  const can = (id: string, type: string): Promise<boolean> =>
    checks.can({
      subject: { type: 'User', id, relation: '' },
      action: 'read',
      resource: { type, id: '1' },
    });

  it('rest on all relations that went with a record, however many these were', async () => {
    const relations = { reader: ['User'], banned: ['User'] };
    const read = { exclusion: { base: ['reader'], subtract: ['banned'] } };
    await define('Gone', relations, { read });
    const lost = (relation: string, id: string) => ({
      subject: `User:${id}`,
      relation,
      resource: 'Gone:1',
    });
    const others = Array.from({ length: 150 }, (_, i) => lost('reader', `u${i}`));
    const all = [lost('reader', '*'), ...others, lost('banned', 'b'), lost('reader', 'last')];
    const could = (userId: string) =>
      permissions.could(
        { kind: 'user', userId, sessionId: 's', authenticatedAt: 0, complete: true, clientId: '' },
        'read',
        'Gone:1',
        all,
      );
    expect([await could('a'), await could('b'), await could('last')]).toEqual([true, false, true]);
  });

  it('follow each definition and each tuple at once', async () => {
    await expect(can('a', 'Doc')).rejects.toMatchObject({ status: 400 });
    const relations = { owner: ['User'], banned: ['User'] };
    await define('Doc', relations, { read: [] });
    expect(await can('a', 'Doc')).toBe(false);
    await relate('a', 'owner', 'Doc');
    expect(await can('a', 'Doc')).toBe(false);
    await define('Doc', relations, { read: ['owner'] });
    expect(await can('a', 'Doc')).toBe(true);
    await define('Doc', relations, {
      read: { exclusion: { base: ['owner'], subtract: ['banned'] } },
    });
    expect(await can('a', 'Doc')).toBe(true);
    await relate('a', 'banned', 'Doc');
    expect(await can('a', 'Doc')).toBe(false);
    await define('Doc', relations, { read: ['owner'] });
    expect(await can('a', 'Doc')).toBe(true);
    await opened.database.query({
      text: `delete from penstock.tuples where resource_type = 'Doc' and relation = 'owner'`,
    });
    expect(await can('a', 'Doc')).toBe(false);
  });

  it('see in a transaction what it wrote, and nobody else does', async () => {
    await define('Note', { owner: ['User'] }, { read: ['owner'] });
    const undone = opened.database.transaction(async () => {
      await relate('b', 'owner', 'Note');
      expect(await can('b', 'Note')).toBe(true);
      expect(await opened.database.outside(() => can('b', 'Note'))).toBe(false);
      await define('Note', { owner: ['User'] }, { read: [] });
      expect(await can('b', 'Note')).toBe(false);
      throw new Error('undo');
    });
    await expect(undone).rejects.toThrow('undo');
    expect(await can('b', 'Note')).toBe(false);
    await relate('b', 'owner', 'Note');
    expect(await can('b', 'Note')).toBe(true);
  });

  it('ask one short statement where what is written about the object decides, and one more where that leads on', async () => {
    await define('Shelf', { owner: ['User'] }, { read: ['owner'] });
    await define('Book', { owner: ['User'], shelf: ['Shelf'] }, { read: ['owner', 'shelf->read'] });
    await relate('c', 'owner', 'Book');
    await can('c', 'Book');
    const query = vi.spyOn(opened.database, 'query');
    const cost = async (id: string): Promise<readonly (string | undefined)[]> => {
      query.mockClear();
      await can(id, 'Book');
      return query.mock.calls.map(([statement]) => statement.class ?? 'pooled');
    };
    expect(await cost('c')).toEqual(['short']);
    expect(await cost('d')).toEqual(['short']);
    await opened.database.query({
      text: `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id) values ($1, 'Shelf', 's', 'shelf', 'Book', '1')`,
      values: [newId()],
    });
    expect(await cost('c')).toEqual(['short']);
    expect(await cost('d')).toEqual(['short', 'short']);
    for (let i = 0; i < 100; i += 1) await can('d', 'Book');
    expect(await cost('d')).toEqual(['short']);
    // Whoever asks often: from what they are known to reach, until that changes.
    expect(query.mock.calls[0]?.[0].text).toContain('penstock.tuple_changes');
    await relate('d', 'owner', 'Shelf', 's');
    expect(await can('d', 'Book')).toBe(true);
    await opened.database.query({
      text: `delete from penstock.tuples where resource_type = 'Shelf'`,
    });
    expect(await can('d', 'Book')).toBe(false);
    query.mockRestore();
  });
});
