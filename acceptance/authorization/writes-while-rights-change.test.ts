/** Changes that are under way while the right to them is taken back. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../src/kernel/caller.ts';
import type { PermissionEngine } from '../../src/kernel/permissions.ts';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('changes whose right is taken back meanwhile', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let bob: TestUser;
  let auditor: string;
  let database: pg.Client;
  let take: (() => Promise<unknown>) | undefined;

  const cms = { crudOperations: { update: { operators: true } } };
  const options = { conduitOptions: { authorization: { enabled: true }, cms } } as const;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
    bob = await platform.registerUser();
    await permissions.define({
      name: 'Circle',
      relations: { member: ['User'], banned: ['User'] },
      permissions: {
        edit: ['member'],
        delete: ['member'],
        see: { exclusion: { base: ['member'], subtract: ['banned'] } },
      },
    });
    for (const name of ['Letter', 'Card', 'Leaf'])
      await platform.createSchema({ name, fields: { text: 'String', n: 'Number' }, ...options });
    const read = ['owner', 'writer'];
    const relations = {
      owner: ['User', 'Circle'],
      writer: ['User', 'Circle', 'Circle#member'],
    };
    await permissions.define({
      name: 'Letter',
      relations,
      permissions: { read, edit: read, delete: read },
      version: 1,
    });
    const byRole = ['owner', { rule: "'auditor' in caller.roles" }];
    await permissions.define({
      name: 'Card',
      relations,
      permissions: { read: byRole, edit: byRole, delete: byRole },
      version: 1,
    });
    const byCircle = ['owner', 'writer->see'];
    await permissions.define({
      name: 'Leaf',
      relations,
      permissions: { read: byCircle, edit: byCircle, delete: byCircle },
      version: 1,
    });
    await platform.createSchema({
      name: 'Pay',
      fields: { text: { type: 'String', access: { write: 'role:auditor' } }, n: 'Number' },
      conduitOptions: { cms },
    });
    const role = await platform.admin.post('/authorization/roles', { name: 'auditor' });
    auditor = expectStatus(role, 200, 'role').body._id;
    holdUp(platform);
  });
  afterAll(async () => {
    await database.end();
    await platform.close();
  });

  /** The right is taken back when the platform has just asked for it. */
  function holdUp({ kernel }: TestPlatform): void {
    const { engine } = kernel.permissions;
    if (!engine) throw new Error('No engine runs');
    const thenTaken = async <T>(caller: Caller, answer: Promise<T> | T): Promise<T> => {
      const value = await answer;
      if (!take || caller.kind !== 'user') return value;
      const taking = take;
      take = undefined;
      await taking();
      return value;
    };
    const { predicate, cachedPredicate } = engine;
    const held: Partial<PermissionEngine> = {
      predicate: (caller, ...asked) => thenTaken(caller, predicate(caller, ...asked)),
      roles: (caller) => thenTaken(caller, engine.roles(caller)),
      owner: (caller, ...asked) => thenTaken(caller, engine.owner(caller, ...asked)),
      ...(cachedPredicate && {
        cachedPredicate: (caller, ...asked) => thenTaken(caller, cachedPredicate(caller, ...asked)),
      }),
    };
    kernel.permissions.engine = Object.assign(Object.create(engine) as PermissionEngine, held);
  }

  const roles = (): string => `/authorization/users/${bob.userId}/roles`;
  const member = (): string => `User:${bob.userId} member Circle:one`;
  interface Right {
    readonly schema: string;
    readonly query?: Readonly<Record<string, string>>;
    give(id: string): Promise<unknown>;
    take(id: string): Promise<unknown>;
  }
  const byRole = (schema: string): Right => ({
    schema,
    give: () => platform.admin.post(roles(), { role: 'auditor' }),
    take: () => platform.admin.delete(`${roles()}/${auditor}`),
  });
  const rights: Readonly<Record<string, Right>> = {
    'a relation': {
      schema: 'Letter',
      give: (id) => permissions.relate(`User:${bob.userId} writer Letter:${id}`),
      take: (id) => permissions.unrelate(`User:${bob.userId} writer Letter:${id}`),
    },
    'a group': {
      schema: 'Letter',
      give: (id) => permissions.relate(`Circle:one#member writer Letter:${id}`, member()),
      take: () => permissions.unrelate(member()),
    },
    'a group, on another node': {
      schema: 'Letter',
      give: (id) => permissions.relate(`Circle:one#member writer Letter:${id}`, member()),
      // This node is told nothing.
      take: () =>
        database.query(
          `delete from penstock.tuples where subject_id = '${bob.userId}' and relation = 'member'`,
        ),
    },
    'a scope': {
      schema: 'Letter',
      query: { scope: 'Circle:one' },
      give: (id) => permissions.relate(`Circle:one writer Letter:${id}`, member()),
      take: () => permissions.unrelate(member()),
    },
    'a role in a rule': byRole('Card'),
    'a role for a field': byRole('Pay'),
    'what is evaluated': {
      schema: 'Leaf',
      give: (id) => permissions.relate(member(), `Circle:one writer Leaf:${id}`),
      take: async () => {
        await permissions.relate(`User:${bob.userId} banned Circle:one`);
        await permissions.unrelate(member());
      },
    },
  };

  type Change = (path: string, query: Readonly<Record<string, string>>) => Promise<Answer<Json>>;
  const changes: Readonly<Record<string, Change>> = {
    change: (path, query) => bob.api.patch(path, { text: 'changed' }, { query }),
    increase: (path, query) => bob.api.patch(path, { text: 'changed', $inc: { n: 1 } }, { query }),
    replacement: (path, query) => bob.api.put(path, { text: 'changed', n: 1 }, { query }),
    'change of many': (path, query) => {
      const [, , schema = '', _id = ''] = path.split('/');
      const docs = [{ _id, text: 'changed' }];
      return bob.api.patch(`/database/${schema}/many`, { docs }, { query });
    },
    deletion: (path, query) => bob.api.delete(path, { query }),
  };
  const cases = Object.keys(rights).flatMap((right) =>
    Object.keys(changes)
      .filter((change) => change !== 'deletion' || right !== 'a role for a field')
      .map((change) => ({ right, change })),
  );

  it.each(cases)('are refused: $change by $right', async ({ right: name, change }) => {
    const right = rights[name];
    const ask = changes[change];
    if (!right || !ask) throw new Error('no such case');
    const { schema, query = {} } = right;
    const docs = `/database/schemas/${schema}/docs`;
    const created = await platform.admin.post(docs, { inputDocument: { text: 'first', n: 0 } });
    const id: string = expectStatus(created, 200, 'create').body._id;
    await right.give(id);
    take = () => right.take(id);
    const answer = await ask(`/database/${schema}/${id}`, query);
    const wasTaken = take === undefined;
    take = undefined;
    if (name === 'what is evaluated')
      await permissions.unrelate(`User:${bob.userId} banned Circle:one`);
    expect(wasTaken, answer.text).toBe(true);
    expect([403, 404], answer.text).toContain(answer.status);
    const now = await platform.admin.get(`${docs}/${id}`);
    expect(now.body, now.text).toMatchObject({ text: 'first', n: 0 });
  });

  it('are refused: creations for a scope', async () => {
    await permissions.relate(member());
    take = () => permissions.unrelate(member());
    const query = { scope: 'Circle:one' };
    const answer = await bob.api.post('/database/Letter', { text: 'late' }, { query });
    expect(take).toBeUndefined();
    expect(answer.status, answer.text).toBe(403);
    const filter = encodeURIComponent(JSON.stringify({ text: 'late' }));
    const found = await platform.admin.get(`/database/schemas/Letter/docs?query=${filter}`);
    expect(found.text).not.toContain('late');
  });

  it('are done by many at once', async () => {
    await permissions.relate(member());
    const query = { scope: 'Circle:one' };
    const create = async (n: number): Promise<string> => {
      const answer = await bob.api.post('/database/Letter', { text: 'first', n }, { query });
      return expectStatus(answer, 200, 'create').body._id;
    };
    const ids = await Promise.all(Array.from({ length: 40 }, (_, n) => create(n)));
    const change = (id: string) =>
      bob.api.patch(`/database/Letter/${id}`, { $inc: { n: 1 } }, { query });
    const answers = await Promise.all([...ids, ...ids].map(change));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    const listed = await platform.admin.get('/database/schemas/Letter/docs?limit=1000');
    const sum = listed.body.documents.reduce(
      (all: number, { _id, n }: Json) => (ids.includes(_id) ? all + n : all),
      0,
    );
    expect(sum).toBe((39 * 40) / 2 + 80);
  });
});
