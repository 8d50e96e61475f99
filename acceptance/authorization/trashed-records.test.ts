/** Records in the trash keep what they say, for what hangs on them too: relations and rules alike (decision 446). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

describe('records in the trash', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let bob: TestUser;

  const docs = (schema: string, rest = ''): string => `/database/schemas/${schema}/docs${rest}`;
  const newDoc = async (schema: string, inputDocument: object): Promise<string> =>
    expectStatus(await platform.admin.post(docs(schema), { inputDocument }), 200, schema).body._id;
  const seen = async (sort: string): Promise<readonly string[]> => {
    const { body } = expectStatus(
      await bob.api.get('/database/Task', { query: { sort } }),
      200,
      'list',
    );
    expect(body.count).toBe(body.documents.length);
    return body.documents.map(({ title }: Json) => title).sort();
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    bob = await platform.registerUser();
    await platform.createSchema({
      name: 'Project',
      fields: {
        archived: 'Boolean',
        open: 'Boolean',
        lead: { type: 'Relation', model: 'User', onDelete: 'setNull' },
      },
      conduitOptions: { authorization: { enabled: true }, softDelete: {} },
    });
    await platform.createSchema({
      name: 'Task',
      fields: {
        title: 'String',
        project: { type: 'Relation', model: 'Project', onDelete: 'setNull' },
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.define({
      name: 'Project',
      version: 1,
      relations: { owner: ['User'], reader: ['User'] },
      permissions: {
        read: {
          exclusion: {
            base: ['reader', { rule: 'record.open == true' }, { rule: 'record.lead == caller.id' }],
            subtract: [{ rule: 'record.archived == true' }],
          },
        },
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    await permissions.define({
      name: 'Task',
      version: 1,
      relations: { owner: ['User'], project: { from: 'project' } },
      permissions: { read: ['owner', 'project->read'], edit: ['owner'], delete: ['owner'] },
    });
  });
  afterAll(() => platform.close());

  it('open nothing that their rules closed, and close nothing that their rules opened', async () => {
    const projects = {
      archived: await newDoc('Project', { archived: true }),
      current: await newDoc('Project', { archived: false }),
      open: await newDoc('Project', { open: true }),
      led: await newDoc('Project', { lead: bob.userId }),
    };
    for (const one of ['archived', 'current'] as const)
      await permissions.relate(`User:${bob.userId} reader Project:${projects[one]}`);
    const tasks: Record<string, string> = {};
    for (const [title, project] of Object.entries(projects))
      tasks[title] = await newDoc('Task', { title, project });
    const visible = ['current', 'led', 'open'];
    const allWays = async () => {
      const checked = await Promise.all(
        Object.entries(tasks).map(async ([title, id]) =>
          (await permissions.can(`User:${bob.userId} read Task:${id}`)) ? [title] : [],
        ),
      );
      const listed = await permissions.list(`User:${bob.userId} read Task`);
      const named = await Promise.all(
        Object.entries(tasks).map(async ([title, id]) =>
          (await permissions.who(`read Task:${id}`)).some((one) =>
            [`User:${bob.userId}`, 'User:*'].includes(one),
          )
            ? [title]
            : [],
        ),
      );
      return {
        byId: await seen('_id'),
        byTitle: await seen('-title'),
        checked: checked.flat().sort(),
        listed: Object.keys(tasks)
          .filter((title) => listed.includes(`Task:${tasks[title]}`))
          .sort(),
        named: named.flat().sort(),
      };
    };
    const expected = {
      byId: visible,
      byTitle: visible,
      checked: visible,
      listed: visible,
      named: visible,
    };
    expect(await allWays()).toEqual(expected);
    for (const id of Object.values(projects))
      expectStatus(await platform.admin.delete(docs('Project', `/${id}`)), 200, 'into the trash');
    expect(await allWays()).toEqual(expected);
  });

  it('stay with their schema as long as they take rights on others away', async () => {
    const schemaOf = (name: string): Promise<string> =>
      platform
        .createSchema({
          name,
          fields: { locked: 'Boolean', title: 'String' },
          conduitOptions: { authorization: { enabled: true } },
        })
        .then(({ _id }) => _id);
    const [box, plain] = [await schemaOf('Box'), await schemaOf('Plain')];
    const actions = { edit: ['owner'], delete: ['owner'] };
    const unlocked = {
      exclusion: { base: ['owner', 'reader'], subtract: [{ rule: 'record.locked == true' }] },
    };
    const relations = { owner: ['User'], reader: ['User'] };
    const isLocked = [{ rule: 'record.locked == true' }];
    for (const [name, read] of [
      ['Box', unlocked],
      ['Plain', ['owner', ...isLocked]],
    ] as const)
      await permissions.define({ name, version: 1, relations, permissions: { read, ...actions } });
    await permissions.define({
      name: 'Thing',
      relations: { box: ['Box'], plain: ['Plain'], reader: ['User'] },
      permissions: { see: ['box->read', 'plain->read', 'reader'] },
    });
    const locked = await newDoc('Box', { locked: true });
    const subject = `User:${bob.userId}`;
    await permissions.relate(`${subject} reader Box:${locked}`, `Box:${locked} box Thing:1`);
    expect(await permissions.can(`${subject} see Thing:1`)).toBe(false);
    const remove = (id: string) => platform.admin.delete(`/database/schemas/${id}`);
    // What only gives rights may go, with the rights.
    expectStatus(await remove(plain), 200, 'plain');
    expect(await remove(box)).toMatchObject({
      status: 409,
      body: { code: 'FIELD_IN_USE', message: expect.stringContaining('"see" of Thing') },
    });
    expect(await permissions.can(`${subject} see Thing:1`)).toBe(false);
    const { relations: stored } = (await platform.admin.get('/authorization/resources/Thing')).body;
    const changed = await platform.admin.patch('/authorization/resources/Thing', {
      relations: stored,
      permissions: { see: ['plain->read', 'reader'] },
    });
    expectStatus(changed, 200, 'nothing hangs on it');
    expectStatus(await remove(box), 200, 'box');
  });

  it('say what is in them to who may read them alone, also when others bring them back or give them away', async () => {
    await platform.createSchema({
      name: 'Crate',
      fields: { title: 'String' },
      conduitOptions: { authorization: { enabled: true }, softDelete: {} },
    });
    await permissions.define({
      name: 'Crate',
      version: 1,
      relations: { owner: ['User', 'Team'], keeper: ['User'], reader: ['User'] },
      permissions: { read: ['reader'], edit: ['reader'], delete: ['keeper'], move: ['keeper'] },
    });
    const [id, other] = [await newDoc('Crate', { title: 'a' }), await newDoc('Crate', {})];
    for (const one of [id, other])
      await permissions.relate(`User:${bob.userId} keeper Crate:${one}`);
    const path = `/database/Crate/${id}`;
    const doors: Record<string, () => Promise<Answer<Json>>> = {
      restore: async () => {
        expectStatus(await bob.api.delete(path), 200, 'into the trash');
        return bob.api.post(`${path}/restore`, {});
      },
      move: () => bob.api.post(`${path}/move`, {}),
      'move many': () => bob.api.post('/database/Crate/move', { ids: [id, other] }),
      batch: () =>
        bob.api.post('/database/batch', { operations: [{ op: 'move', schema: 'Crate', id }] }),
    };
    const told = async (way: string): Promise<Json> => {
      const { body } = expectStatus((await doors[way]?.()) as Answer<Json>, 200, way);
      return body.docs?.[0] ?? body.results?.[0].document ?? body;
    };
    for (const way of Object.keys(doors))
      expect([way, await told(way)]).toEqual([way, { _id: id }]);
    await permissions.relate(`User:${bob.userId} reader Crate:${id}`);
    for (const way of Object.keys(doors))
      expect([way, await told(way)]).toMatchObject([way, { _id: id, title: 'a' }]);
  });

  it('are told, when they are given away, as whoever gave or took them may read them then', async () => {
    const byRight = (read: string) => ({ type: 'String', access: { read } }) as const;
    await platform.createSchema({
      name: 'Chest',
      fields: {
        owned: byRight('owner'),
        held: byRight('relation:owner'),
        peek: byRight('action:peek'),
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    await permissions.define({
      name: 'Chest',
      version: 1,
      relations: { owner: ['User', 'Team'], keeper: ['User'] },
      permissions: {
        read: ['owner', 'keeper'],
        edit: ['owner'],
        delete: ['owner'],
        move: ['owner', 'keeper'],
        peek: ['owner'],
      },
    });
    const eva = await platform.registerUser();
    const to = `Team:${eva.userId}`;
    await permissions.relate(`User:${eva.userId} owner ${to}`, `User:${bob.userId} owner ${to}`);
    const inside = { owned: 'a', held: 'b', peek: 'c' };
    const doors: Record<
      string,
      (who: TestUser, id: string, body: object) => Promise<Answer<Json>>
    > = {
      move: (who, id, body) => who.api.post(`/database/Chest/${id}/move`, body),
      'move many': (who, id, body) => who.api.post('/database/Chest/move', { ids: [id], ...body }),
      batch: (who, id, data) =>
        who.api.post('/database/batch', {
          operations: [{ op: 'move', schema: 'Chest', id, data }],
        }),
    };
    for (const [way, move] of Object.entries(doors)) {
      const told = async (who: TestUser, id: string, body: object): Promise<Json> => {
        const answer = expectStatus(await move(who, id, body), 200, way).body;
        const { createdAt, updatedAt, __v, ...rest } =
          answer.docs?.[0] ?? answer.results?.[0].document ?? answer;
        return [way, rest];
      };
      const created = await eva.api.post('/database/Chest', inside);
      const { _id } = expectStatus(created, 200, 'chest').body;
      await permissions.relate(`User:${bob.userId} keeper Chest:${_id}`);
      expect(await told(bob, _id, {})).toEqual([way, { _id, ...inside }]);
      // The keeper still reads it, and sees no more what its owner alone sees.
      expect(await told(bob, _id, { to })).toEqual([way, { _id }]);
      expectStatus(await eva.api.get(`/database/Chest/${_id}`), 404, 'theirs no more');
    }
  });
});
