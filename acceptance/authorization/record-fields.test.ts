/** Relations that are fields of records (docs/decisions/080): rights follow references, and no tuple is written. */
import { randomUUID } from 'node:crypto';
import { io, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const rowAuthorised = { authorization: { enabled: true } } as const;
const owners = { owner: ['User', 'Team'] };

describe('relations from fields of records', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let [ada, bob, cyd]: TestUser[] = [];
  let [one, two]: Json[] = [];
  const sockets: Socket[] = [];

  const user = (who: TestUser | undefined): TestUser =>
    who ?? expect.unreachable('a user is missing');
  const create = async (
    who: TestUser | undefined,
    schema: string,
    body: object,
    query: Record<string, string> = {},
  ): Promise<Json> =>
    expectStatus(
      await user(who).api.post(`/database/${schema}`, body, { query }),
      200,
      `create ${schema}`,
    ).body;
  const listed = async (
    who: TestUser | undefined,
    schema: string,
    query: Record<string, string | number> = {},
  ): Promise<string[]> => {
    const { body } = expectStatus(
      await user(who).api.get(`/database/${schema}`, { query: { limit: 100, ...query } }),
      200,
      `list ${schema}`,
    );
    expect(body.count).toBe(body.documents.length);
    return body.documents.map(({ _id }: Json) => _id);
  };
  const tuplesAbout = async (resource: string): Promise<Json[]> =>
    expectStatus(
      await platform.admin.get('/authorization/relations', { query: { resource } }),
      200,
      'relations',
    ).body.relations;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob, cyd] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    const toUser = { type: 'Relation', model: 'User' } as const;
    await platform.createSchema({
      name: 'Project',
      fields: { title: 'String', lead: toUser },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Task',
      fields: {
        title: 'String',
        project: { type: 'Relation', model: 'Project' },
        assignees: { type: [toUser] },
      },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Remark',
      fields: { text: 'String', task: { type: 'Relation', model: 'Task' } },
      conduitOptions: { ...rowAuthorised, softDelete: true },
    });
    await permissions.define({
      name: 'Project',
      version: 1,
      relations: { ...owners, lead: { from: 'lead' } },
      permissions: { read: ['owner', 'lead'], edit: ['owner', 'lead'], delete: ['owner'] },
    });
    await permissions.define({
      name: 'Task',
      version: 1,
      relations: { ...owners, project: { from: 'project' }, assignee: { from: 'assignees' } },
      permissions: {
        read: ['owner', 'assignee', 'project->read'],
        edit: ['owner', 'project->edit'],
        delete: ['owner', 'project->edit'],
      },
    });
    await permissions.define({
      name: 'Remark',
      version: 1,
      relations: { ...owners, task: { from: 'task' } },
      permissions: { read: ['owner', 'task->read'], edit: ['owner'], delete: ['owner'] },
    });
    [one, two] = [
      await create(ada, 'Project', { title: 'one' }),
      await create(ada, 'Project', { title: 'two', lead: bob?.userId }),
    ];
  });
  afterAll(async () => {
    for (const socket of sockets) socket.disconnect();
    await platform.close();
  });

  it('who may read the project reads its tasks, and the remarks on those, in every list', async () => {
    const task = await create(ada, 'Task', { title: 'in two', project: two?._id });
    const other = await create(ada, 'Task', { title: 'in one', project: one?._id });
    const remark = await create(ada, 'Remark', { text: 'well', task: task._id });
    expect(await listed(bob, 'Task')).toEqual([task._id]);
    expect(await listed(bob, 'Task', { sort: '-createdAt' })).toEqual([task._id]);
    expect(await listed(bob, 'Remark')).toEqual([remark._id]);
    expect(await listed(cyd, 'Task')).toEqual([]);
    expect((await user(bob).api.get(`/database/Task/${task._id}`)).status).toBe(200);
    expect((await user(bob).api.get(`/database/Task/${other._id}`)).status).toBe(404);
    expect(
      (await user(bob).api.patch(`/database/Task/${task._id}`, { title: 'changed' })).status,
    ).toBe(200);
    const names = (await tuplesAbout(`Task:${task._id}`)).map(({ computedTuple }) => computedTuple);
    expect(names).toContain(`User:${ada?.userId}#owner@Task:${task._id}`);
    const graphql = expectStatus(
      await user(bob).api.post('/graphql', {
        query: '{ getDatabaseTask { documents { _id project { title } } count } }',
      }),
      200,
      'graphql',
    ).body;
    expect(graphql).toEqual({
      data: {
        getDatabaseTask: { documents: [{ _id: task._id, project: { title: 'two' } }], count: 1 },
      },
    });
  });

  it('changing the field changes the right in the same statement', async () => {
    const task = await create(ada, 'Task', { title: 'moves', project: one?._id });
    const remark = await create(ada, 'Remark', { text: 'moves along', task: task._id });
    expect(await listed(bob, 'Task')).not.toContain(task._id);
    await user(ada).api.patch(`/database/Task/${task._id}`, { project: two?._id });
    expect(await listed(bob, 'Task')).toContain(task._id);
    expect(await listed(bob, 'Remark')).toContain(remark._id);
    await user(ada).api.patch(`/database/Task/${task._id}`, { project: null });
    expect(await listed(bob, 'Task')).not.toContain(task._id);
    expect(await listed(bob, 'Remark')).not.toContain(remark._id);
    await user(ada).api.patch(`/database/Task/${task._id}`, { assignees: [cyd?.userId] });
    expect(await listed(cyd, 'Task')).toContain(task._id);
    expect(await listed(cyd, 'Remark')).toContain(remark._id);
    await user(ada).api.patch(`/database/Project/${two?._id}`, { lead: null });
    expect(await listed(bob, 'Task')).toEqual([]);
    await user(ada).api.patch(`/database/Project/${two?._id}`, { lead: bob?.userId });
    expect(await listed(bob, 'Task')).not.toEqual([]);
  });

  it('checks, lists of resources, who-can and explanations see fields like tuples', async () => {
    const task = await create(ada, 'Task', { project: two?._id, assignees: [cyd?.userId] });
    const question = `User:${bob?.userId} edit Task:${task._id}`;
    expect(await permissions.can(question)).toBe(true);
    expect(await permissions.can(`User:${cyd?.userId} read Task:${task._id}`)).toBe(true);
    expect(await permissions.can(`User:${cyd?.userId} edit Task:${task._id}`)).toBe(false);
    expect(await permissions.list(`User:${cyd?.userId} read Task`)).toContain(`Task:${task._id}`);
    expect((await permissions.who(`read Task:${task._id}`)).sort()).toEqual(
      [ada, bob, cyd].map((who) => `User:${who?.userId}`).sort(),
    );
    const [subject, permission, resource] = question.split(' ') as [string, string, string];
    const told = expectStatus(
      await platform.admin.get('/authorization/permissions/evaluate', {
        query: { subject, permission, resource },
      }),
      200,
      'evaluate',
    ).body;
    expect(JSON.stringify(told)).toContain(`Project:${two?._id}#project@Task:${task._id}`);
    const roles = await user(cyd).api.get(`/authorization/role/Task:${task._id}`);
    expect(roles.body.roles).toEqual(['assignee']);
  });

  it('a relation from a field is changed with the record, not by tuples', async () => {
    const relation = {
      subject: `Project:${two?._id}`,
      relation: 'project',
      resource: `Task:${randomUUID()}`,
    };
    const refused = await platform.admin.post('/authorization/relations', relation);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0]).toMatchObject({ path: 'relation', rule: 'record' });
    expect(refused.body.message).toContain('"project"');
    const task = await create(ada, 'Task', { project: two?._id, assignees: [cyd?.userId] });
    const all = await tuplesAbout(`Task:${task._id}`);
    const listedAs = all.map(({ computedTuple, source }) => [computedTuple, source]);
    expect(listedAs.sort()).toEqual(
      [
        [`User:${ada?.userId}#owner@Task:${task._id}`, 'record'],
        [`User:${cyd?.userId}#assignee@Task:${task._id}`, 'record'],
        [`Project:${two?._id}#project@Task:${task._id}`, 'record'],
      ].sort(),
    );
    for (const { _id, source, computedTuple } of all) {
      const found = await platform.admin.get(`/authorization/relations/${_id}`);
      expect([found.status, found.body.computedTuple]).toEqual([200, computedTuple]);
      if (source !== 'record' || computedTuple.includes('#owner@')) continue;
      const removed = await platform.admin.delete(`/authorization/relations/${_id}`);
      expect([removed.status, removed.body.errors[0].rule]).toEqual([400, 'record']);
    }
    const pages = await Promise.all(
      [0, 2, 4].map((skip) =>
        platform.admin.get('/authorization/relations', {
          query: { resourceType: 'Task', sort: '-createdAt', skip, limit: 2 },
        }),
      ),
    );
    const ids = pages.flatMap(({ body }) => body.relations.map(({ _id }: Json) => _id));
    expect(new Set(ids).size).toBe(6);
    expect(pages[0]?.body.count).toBeGreaterThan(6);
    const bySubject = await platform.admin.get('/authorization/relations', {
      query: { subject: `User:${cyd?.userId}`, resourceType: 'Task', search: 'ASSIGNEE' },
    });
    expect(bySubject.body.relations.map(({ resource }: Json) => resource)).toContain(
      `Task:${task._id}`,
    );
    const gone = await platform.admin.delete(
      `/authorization/relations/Task.project.${randomUUID()}`,
    );
    expect(gone.status).toBe(404);
    // What is deleted by filter says where records go on to say it.
    const query = { subject: `User:${cyd?.userId}`, resource: `Task:${task._id}` };
    const deleted = () => platform.admin.delete('/authorization/relations', { query });
    expect((await deleted()).body).toEqual({ deleted: 0, inRecords: true });
    await user(ada).api.patch(`/database/Task/${task._id}`, { assignees: [] });
    expect((await deleted()).body).toEqual({ deleted: 0 });
  });

  it('definitions name fields that lead to records, and schemas keep those fields', async () => {
    const other = { name: 'Other', relations: { owner: ['User'] }, permissions: {} };
    const untyped = {
      name: 'Task',
      relations: { ...owners, x: { from: 'title' } },
      permissions: {},
    };
    expect(
      await platform.admin.post('/authorization/resources/many', { definitions: [other, untyped] }),
    ).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'definitions.1.relations.x.from' }] },
    });
    const version = 9;
    const wrong = async (relations: object, permissions: object = {}): Promise<Json> =>
      expectStatus(
        await platform.admin.post('/authorization/resources', {
          name: 'Task',
          version,
          relations: { ...owners, ...relations },
          permissions: { read: ['owner'], edit: ['owner'], delete: ['owner'], ...permissions },
        }),
        400,
        'wrong',
      ).body;
    for (const from of ['title', 'nowhere', '_id'])
      expect((await wrong({ project: { from } })).errors[0].path).toBe('relations.project.from');
    expect((await wrong({ project: { from: 7 } })).errors[0].path).toBe('relations.project');
    expect((await wrong({ project: { from: 'project', and: 1 } })).errors[0].path).toBe(
      'relations.project',
    );
    expect(
      (await wrong({ project: { from: 'project' } }, { read: ['project->nothing'] })).errors[0],
    ).toMatchObject({ rule: 'arrow' });
    const { body } = await platform.admin.get('/database/schemas', { query: { search: 'Task' } });
    const schema = body.schemas.find(({ name }: Json) => name === 'Task');
    const { project: _, ...fields } = schema.fields;
    const dropped = await platform.admin.put(`/database/schemas/${schema._id}`, { fields });
    expect(dropped.status).toBe(409);
    expect(dropped.body.message).toContain('resource definition Task');
  });

  it('who could read a record hears that it is deleted, and who reads it hears its changes', async () => {
    const task = await create(ada, 'Task', { title: 'heard', project: two?._id });
    const socket = io(`${platform.addresses.realtime}/database/`, {
      path: '/realtime',
      transports: ['websocket'],
      forceNew: true,
      auth: { token: user(bob).accessToken },
    });
    sockets.push(socket);
    const heard: string[] = [];
    socket.on('change', ({ operation, documentId }: Json) =>
      heard.push(`${operation}:${documentId}`),
    );
    await new Promise((resolve) => socket.on('connect', () => resolve(undefined)));
    const subscribe = (documentId: string): Promise<Json> =>
      socket.emitWithAck('subscribe', { schema: 'Task', documentId });
    const moved = await create(ada, 'Task', { title: 'moves away', project: two?._id });
    for (const { _id } of [task, moved]) expect(await subscribe(_id)).toMatchObject({ ok: true });
    const told = (): string[] => heard.filter((one) => !one.startsWith('insert'));
    await user(ada).api.patch(`/database/Task/${task._id}`, { title: 'x' });
    // Whether somebody may hear of a change is asked when it is told: the record must still be there.
    await waitFor(() => told().length >= 1);
    await user(ada).api.patch(`/database/Task/${moved._id}`, { project: one?._id });
    await user(ada).api.delete(`/database/Task/${moved._id}`);
    await user(ada).api.delete(`/database/Task/${task._id}`);
    await waitFor(() => told().length >= 2);
    expect(told()).toEqual([`update:${task._id}`, `delete:${task._id}`]);
  });

  it('definitions and schemas of one import may need each other', async () => {
    const cms = { enabled: true };
    const folder = {
      name: 'Folder',
      fields: { title: 'String', parent: { type: 'Relation', model: 'Folder' } },
      modelOptions: { conduit: { cms, ...rowAuthorised } },
    };
    const definition = {
      name: 'Folder',
      relations: { owner: ['User'], parent: { from: 'parent' } },
      permissions: {
        read: ['owner', 'parent->read'],
        edit: ['owner', 'parent->edit'],
        delete: ['owner'],
      },
    };
    const exported = expectStatus(await platform.admin.get('/state/export'), 200, 'export').body;
    const document = {
      ...exported,
      modules: {
        authorization: { resourceDefinitions: [definition] },
        database: { schemas: [folder] },
      },
    };
    expectStatus(await platform.admin.post('/state/import', document), 200, 'import');
    const top = await create(ada, 'Folder', { title: 'top' });
    // What operators make has no owner: it is ada's because of where it stands.
    const below = async (parent: Json): Promise<Json> =>
      expectStatus(
        await platform.admin.post('/database/schemas/Folder/docs', {
          inputDocument: { parent: parent._id },
        }),
        200,
        'folder',
      ).body;
    const middle = await below(top);
    const low = await below(middle);
    expect((await listed(ada, 'Folder')).sort()).toEqual([top._id, middle._id, low._id].sort());
    expect(await permissions.can(`User:${ada?.userId} edit Folder:${low._id}`)).toBe(true);
    expect(await listed(cyd, 'Folder')).toEqual([]);
  });
});
