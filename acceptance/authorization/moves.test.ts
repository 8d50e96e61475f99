/** Records that go elsewhere: by a field through which rights come, and to another owner (docs/guides/permissions.md). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const rowAuthorised = { authorization: { enabled: true } } as const;
const owners = { owner: ['User', 'Team'] };

describe('records that go elsewhere', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;
  const [teamA, teamB] = [`Team:${randomUUID()}`, `Team:${randomUUID()}`] as const;
  let projects: { readonly a: string; readonly b: string };

  const newProject = async (scope: string): Promise<string> =>
    expectStatus(
      await ada.api.post('/database/Project', { title: scope }, { query: { scope } }),
      200,
      scope,
    ).body._id;
  const newTask = async (body: object = {}): Promise<string> =>
    expectStatus(
      await bob.api.post('/database/Task', { title: 'x', project: projects.a, ...body }),
      200,
      'task',
    ).body._id;
  const projectOf = async (id: string): Promise<string | null> =>
    (await platform.admin.get(`/database/schemas/Task/docs/${id}`)).body.project;
  const may = (who: TestUser, action: string, id: string): Promise<boolean> =>
    permissions.can(`User:${who.userId} ${action} Task:${id}`);

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    ada = await platform.registerUser();
    bob = await platform.registerUser();
    await permissions.relate(
      `User:${ada.userId} owner ${teamA}`,
      `User:${ada.userId} owner ${teamB}`,
      `User:${bob.userId} editAll ${teamA}`,
      `User:${bob.userId} readAll ${teamB}`,
    );
    await platform.createSchema({
      name: 'Project',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Task',
      fields: {
        title: 'String',
        tags: ['String'],
        project: { type: 'Relation', model: 'Project' },
        others: [{ type: 'Relation', model: 'Project' }],
      },
      conduitOptions: {
        ...rowAuthorised,
        history: {},
        cms: { crudOperations: { update: { operators: true, upsert: true } } },
      },
    });
    await permissions.define({
      name: 'Project',
      version: 1,
      relations: owners,
      permissions: {
        read: ['owner', 'owner->read'],
        edit: ['owner->edit'],
        delete: ['owner->edit'],
      },
    });
    await permissions.define({
      name: 'Task',
      version: 1,
      relations: { ...owners, project: { from: 'project' }, others: { from: 'others' } },
      permissions: {
        create: ['project->edit', 'others->edit'],
        read: ['owner', 'project->read', 'others->read'],
        edit: ['owner', 'project->edit'],
        delete: ['project->edit'],
        move: ['project->edit'],
      },
    });
    projects = { a: await newProject(teamA), b: await newProject(teamB) };
  });
  afterAll(() => platform.close());

  const doors: Record<string, (id: string, project: string | null) => Promise<Answer<Json>>> = {
    PATCH: (id, project) => bob.api.patch(`/database/Task/${id}`, { project }),
    PUT: (id, project) => bob.api.put(`/database/Task/${id}`, { title: 'put', project }),
    'PATCH many': (_id, project) =>
      bob.api.patch('/database/Task/many', { docs: [{ _id, project }] }),
    'PUT many': (_id, project) =>
      bob.api.put('/database/Task/many', { docs: [{ _id, title: 'many', project }] }),
    operators: (id, project) =>
      bob.api.patch(`/database/Task/${id}`, { project, $push: { tags: 'moved' } }),
    upsert: (id, project) =>
      bob.api.put(`/database/Task/${id}`, { project }, { query: { upsert: 'true' } }),
    batch: (id, project) =>
      bob.api.post('/database/batch', {
        operations: [{ op: 'update', schema: 'Task', id, data: { project } }],
      }),
  };

  it.each(Object.keys(doors))(
    '%s asks `create` again, of what the field leads to',
    async (door) => {
      const go = doors[door] ?? expect.unreachable();
      const id = await newTask();
      // Bob may read the project of the other team, and make nothing there.
      expect((await go(id, projects.b)).status).toBe(403);
      expect((await go(id, null)).status).toBe(403);
      expect(await projectOf(id)).toBe(projects.a);
      // What stays where it is needs nothing more.
      expectStatus(await go(id, projects.a), 200, 'the same again');
      await permissions.relate(`User:${bob.userId} editAll ${teamB}`);
      expectStatus(await go(id, projects.b), 200, 'moved');
      expect(await projectOf(id)).toBe(projects.b);
      await permissions.unrelate(`User:${bob.userId} editAll ${teamB}`);
    },
  );

  it('is asked of what GraphQL changes', async () => {
    const id = await newTask();
    const change = (project: string) =>
      bob.api.post('/graphql', {
        query:
          'mutation ($id: String!, $project: ID) { patchDatabaseTaskId(id: $id, params: { project: $project }) { _id } }',
        variables: { id, project },
      });
    expect(JSON.stringify((await change(projects.b)).body.errors)).toContain('FORBIDDEN');
    expect(await projectOf(id)).toBe(projects.a);
    expect((await change(projects.a)).body.errors).toBeUndefined();
  });

  it('is asked of every row that a custom endpoint changes, and none is changed when one is refused', async () => {
    expectStatus(
      await platform.admin.post('/database/customEndpoints', {
        name: 'send',
        operation: operation.patch,
        selectedSchemaName: 'Task',
        authentication: true,
        inputs: [
          input('title', 'String', location.body),
          input('project', 'String', location.body),
        ],
        query: { AND: [compare('title', 0, ['Input', 'title'])] },
        assignments: [assign('project', 0, 'Input', 'project')],
      }),
      200,
      'endpoint',
    );
    const ids = await Promise.all([newTask({ title: 'sent' }), newTask({ title: 'sent' })]);
    const send = (project: string) =>
      bob.api.patch('/database/function/send', { title: 'sent', project });
    expect((await send(projects.b)).status).toBe(403);
    expect(await Promise.all(ids.map(projectOf))).toEqual([projects.a, projects.a]);
    await permissions.relate(`User:${bob.userId} editAll ${teamB}`);
    expectStatus(await send(projects.b), 200, 'sent');
    await permissions.unrelate(`User:${bob.userId} editAll ${teamB}`);
    expect(await Promise.all(ids.map(projectOf))).toEqual([projects.b, projects.b]);
  });

  it('is asked of lists of references and of earlier versions that come back', async () => {
    const id = await newTask({ others: [projects.a] });
    expect((await bob.api.patch(`/database/Task/${id}`, { others: [projects.b] })).status).toBe(
      200,
    );
    // Now `project` alone lets them be there.
    expect((await bob.api.patch(`/database/Task/${id}`, { project: projects.b })).status).toBe(403);
    const elsewhere = await newTask();
    expectStatus(
      await platform.admin.put(`/database/schemas/Task/docs/${elsewhere}`, {
        changedDocument: { project: projects.b },
      }),
      200,
      'by an operator',
    );
    expectStatus(
      await platform.admin.put(`/database/schemas/Task/docs/${elsewhere}`, {
        changedDocument: { project: projects.a },
      }),
      200,
      'back',
    );
    const back = (version: number) =>
      bob.api.post(`/database/Task/${elsewhere}/history/${version}/restore`, {});
    expect((await back(1)).status).toBe(403);
    expect((await back(0)).status).toBe(200);
    // In another order, twice, or as nothing instead of an empty list, references lead nowhere else.
    const path = `/database/Task/${id}`;
    const far = [projects.b, await newProject(teamB)];
    const put = (changedDocument: object) =>
      platform.admin.put(`/database/schemas/Task/docs/${id}`, { changedDocument });
    expectStatus(await put({ project: null, others: far }), 200, 'far away');
    for (const others of [far.toReversed(), [...far, ...far]])
      for (const [way, body] of [
        [path, { others }],
        [path, { others, $push: { tags: 'x' } }],
        ['/database/Task/many', { docs: [{ _id: id, others: others.toReversed() }] }],
      ] as const)
        expectStatus(await bob.api.patch(way, body), 200, way);
    expect((await bob.api.patch(path, { others: far.slice(1) })).status).toBe(403);
    await put({ others: [] });
    expectStatus(await bob.api.patch(path, { others: null }), 200, 'nothing');
  });

  it('gives records another owner for whoever may move them', async () => {
    const id = await newTask();
    const move = (who: TestUser, body: object, query = {}) =>
      who.api.post(`/database/Task/${id}/move`, body, { query });
    expect(await may(bob, 'edit', id)).toBe(true);
    // They may not make anything for that team.
    const stranger = await platform.registerUser();
    expect((await move(stranger, {})).status).toBe(404);
    expect((await move(bob, { to: `User:${ada.userId}` })).status).toBe(403);
    expect((await move(bob, { to: 'nobody' })).status).toBe(400);
    // A misspelt owner must not mean oneself.
    expect((await move(bob, { too: teamB })).status).toBe(400);
    const moved = expectStatus(await move(bob, { to: teamB }), 200, 'moved').body;
    expect([moved._id, moved.__v]).toEqual([id, 1]);
    const list = await platform.admin.get('/authorization/relations', {
      query: { resource: `Task:${id}`, relation: 'owner' },
    });
    // The record says its new owner as it said the old one: nothing is stored.
    expect(list.body.relations.map(({ subject, source }: Json) => [subject, source])).toEqual([
      [teamB, 'record'],
    ]);
    expectStatus(await move(ada, {}), 200, 'to themselves');
    const version = (await ada.api.get(`/database/Task/${id}`)).headers.get('etag') ?? '';
    expect(
      (
        await ada.api.post(
          `/database/Task/${id}/move`,
          { to: teamB },
          { headers: { 'if-match': '"0"' } },
        )
      ).status,
    ).toBe(412);
    expect(version).not.toBe('');
  });

  it('says by its name what is wrong with the new owner, and gives nothing to nobody', async () => {
    const id = await newTask();
    const place = (path: string) => ({ status: 400, body: { errors: [{ path }] } });
    const ghost = `User:${randomUUID()}`;
    const byOperator = (to: string) =>
      platform.admin.post('/database/schemas/Task/docs/move', { ids: [id], to });
    for (const to of ['', 'nobody', '*', `Team:${'x'.repeat(1_025)}`]) {
      for (const [way, body] of [
        [`/database/Task/${id}/move`, { to }],
        ['/database/Task/move', { ids: [id], to }],
      ] as const)
        expect(await bob.api.post(way, body), `${way} ${to}`).toMatchObject(place('to'));
      const operations = [{ op: 'move', schema: 'Task', id, data: { to } }];
      expect(await bob.api.post('/database/batch', { operations }), `batch ${to}`).toMatchObject(
        place('operations.0.data.to'),
      );
      expect(await byOperator(to), `operator ${to}`).toMatchObject(place('to'));
    }
    for (const to of [ghost, 'User:nobody'])
      expect(await byOperator(to), to).toMatchObject(place('to'));
    expect((await bob.api.get(`/database/Task/${id}`)).body.__v).toBe(0);
    const rows = (owner: string) =>
      platform.admin.post('/database/schemas/Task/docs/import', 'title\nnew\n', {
        query: { owner },
        headers: { 'content-type': 'text/csv' },
      });
    for (const owner of ['', 'nobody', ghost])
      expect(await rows(owner), owner).toMatchObject(place('owner'));
    expectStatus(await rows(`User:${bob.userId}`), 200, 'import');
  });

  it('moves many or none, in batches, by operators, and not without the action', async () => {
    const ids = [await newTask(), await newTask()];
    const foreign = expectStatus(
      await ada.api.post('/database/Task', { project: projects.b }),
      200,
      'foreign',
    ).body._id as string;
    const many = (records: string[]) =>
      bob.api.post('/database/Task/move', { ids: records, to: teamA });
    expect((await many([...ids, foreign])).status).toBe(403);
    expect((await many([...ids, randomUUID()])).status).toBe(404);
    expect((await many([ids[0] ?? '', ids[0] ?? ''])).status).toBe(400);
    expectStatus(await many(ids), 200, 'many');
    for (const id of ids) expect(await permissions.can(`${teamA} edit Task:${id}`)).toBe(true);
    const batch = (to: string) =>
      bob.api.post('/database/batch', {
        operations: ids.map((id) => ({ op: 'move', schema: 'Task', id, data: { to } })),
      });
    expect((await batch(`User:${ada.userId}`)).status).toBe(403);
    expectStatus(await batch(`User:${bob.userId}`), 200, 'batch');
    const byOperator = (to: string) =>
      platform.admin.post('/database/schemas/Task/docs/move', { ids, to });
    expect((await byOperator('Nothing:x')).status).toBe(403);
    expectStatus(await byOperator(teamB), 200, 'operator');
    await platform.createSchema({
      name: 'Still',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    const still = expectStatus(await bob.api.post('/database/Still', {}), 200, 'still').body._id;
    expect((await bob.api.post(`/database/Still/${still}/move`, {})).status).toBe(403);
  });

  it('creates by rules over what the record says, and moves by them', async () => {
    await platform.createSchema({
      name: 'Post',
      fields: { status: 'String', project: { type: 'Relation', model: 'Project' } },
      conduitOptions: rowAuthorised,
    });
    await permissions.define({
      name: 'Post',
      version: 1,
      relations: { ...owners, project: { from: 'project' } },
      permissions: {
        create: { intersection: ['project->edit', { rule: "record.status == 'draft'" }] },
        read: ['owner', 'project->read'],
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    const create = (body: object) => bob.api.post('/database/Post', body);
    const { body: post } = expectStatus(
      await create({ status: 'draft', project: projects.a }),
      200,
      'a draft',
    );
    expect((await create({ status: 'published', project: projects.a })).status).toBe(403);
    expect((await create({ project: projects.a })).status).toBe(403);
    expect((await create({ status: 'draft', project: projects.b })).status).toBe(403);
    const docs = [
      { status: 'draft', project: projects.a },
      { status: 'published', project: projects.a },
    ];
    expect((await bob.api.post('/database/Post/many', { docs })).status).toBe(403);
    expect((await platform.admin.get('/database/schemas/Post/docs')).body.count).toBe(1);
    // What is not about the place needs `edit` alone.
    expect(
      (await bob.api.patch(`/database/Post/${post._id}`, { status: 'published' })).status,
    ).toBe(200);
  });
});
