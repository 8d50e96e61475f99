/** Who may create records, and rules of owners beside rules of teams (docs/guides/permissions.md). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const rowAuthorised = { authorization: { enabled: true } } as const;
const owners = { owner: ['User', 'Team'] };

describe('who may create', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let [ada, bob, cyd]: TestUser[] = [];
  const team = `Team:${randomUUID()}`;
  let project: Json;

  const user = (who: TestUser | undefined): TestUser =>
    who ?? expect.unreachable('a user is missing');
  const create = (
    who: TestUser | undefined,
    schema: string,
    body: object,
    query: Record<string, string> = {},
  ): Promise<Answer<Json>> => user(who).api.post(`/database/${schema}`, body, { query });

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob, cyd] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    await permissions.relate(
      `User:${ada.userId} owner ${team}`,
      `User:${bob.userId} readAll ${team}`,
    );
    await platform.createSchema({
      name: 'Project',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Task',
      fields: { title: 'String', project: { type: 'Relation', model: 'Project' } },
      conduitOptions: rowAuthorised,
    });
    await permissions.define({
      name: 'Project',
      version: 1,
      relations: owners,
      permissions: {
        create: ['owner->manageSubTeams'],
        read: ['owner', 'owner->read'],
        edit: ['owner->edit'],
        delete: ['owner->edit'],
      },
    });
    await permissions.define({
      name: 'Task',
      version: 1,
      relations: { ...owners, project: { from: 'project' } },
      permissions: {
        create: ['project->edit'],
        read: ['owner', 'project->read'],
        edit: ['owner', 'project->edit'],
        delete: ['project->edit'],
      },
    });
    project = expectStatus(
      await create(ada, 'Project', { title: 'ours' }, { scope: team }),
      200,
      'project',
    ).body;
  });
  afterAll(() => platform.close());

  it('is a matter of the scope for which it is created', async () => {
    expect((await create(bob, 'Project', {}, { scope: team })).status).toBe(403);
    expect((await create(cyd, 'Project', {}, { scope: team })).status).toBe(403);
    const alone = await create(ada, 'Project', {});
    expect([alone.status, alone.body.name]).toEqual([403, 'FORBIDDEN']);
  });

  it('is a matter of the record that it refers to', async () => {
    const task = { title: 'x', project: project._id };
    expect((await create(ada, 'Task', task)).status).toBe(200);
    expect((await create(bob, 'Task', task)).status).toBe(403);
    expect((await create(ada, 'Task', { title: 'nowhere' })).status).toBe(403);
    // What somebody cannot see is not there, whatever they may create.
    expect((await create(cyd, 'Task', task)).status).toBe(400);
    await permissions.relate(`User:${bob?.userId} editAll ${team}`);
    expect((await create(bob, 'Task', task)).status).toBe(200);
    await permissions.unrelate(`User:${bob?.userId} editAll ${team}`);
    expect((await create(bob, 'Task', task)).status).toBe(403);
  });

  it('is asked of each of many records, and none is there when one is refused', async () => {
    const before = (await user(ada).api.get('/database/Task')).body.count;
    const good = { title: 'many', project: project._id };
    const many = (docs: object[]): Promise<Answer<Json>> =>
      user(ada).api.post('/database/Task/many', { docs });
    const refused = await many([good, { title: 'nowhere' }, good, { title: 'nowhere' }]);
    expect(refused.status).toBe(403);
    expect(refused.body.errors.map(({ path }: Json) => path)).toEqual(['docs.1', 'docs.3']);
    expect((await user(ada).api.get('/database/Task')).body.count).toBe(before);
    expectStatus(await many(Array.from({ length: 60 }, () => good)), 200, 'many');
    expect((await user(ada).api.get('/database/Task')).body.count).toBe(before + 60);
  });

  it('is decided by lists of references, however many these are', async () => {
    await platform.createSchema({ name: 'Label', fields: { title: 'String' } });
    await permissions.define({
      name: 'Label',
      relations: { user: ['User'] },
      permissions: { use: ['user'] },
    });
    await platform.createSchema({
      name: 'Labelled',
      fields: { labels: [{ type: 'Relation', model: 'Label' }] },
      conduitOptions: rowAuthorised,
    });
    await permissions.define({
      name: 'Labelled',
      version: 1,
      relations: { owner: ['User'], label: { from: 'labels' } },
      permissions: { create: ['label->use'], read: ['owner'], edit: ['owner'], delete: ['owner'] },
    });
    const docs = Array.from({ length: 120 }, (_, i) => ({ title: String(i) }));
    const made = await platform.admin.post('/database/schemas/Label/docs/many', {
      inputDocuments: docs,
    });
    const labels: string[] = expectStatus(made, 200, 'labels').body.docs.map(
      ({ _id }: Json) => _id,
    );
    await permissions.relate(`User:${ada?.userId} user Label:${labels.at(-1)}`);
    expect((await create(ada, 'Labelled', { labels: labels.slice(0, -1) })).status).toBe(403);
    expect((await create(ada, 'Labelled', { labels })).status).toBe(200);
    expect((await create(bob, 'Labelled', { labels })).status).toBe(403);
  });

  it('does not concern operators, nor types without the action', async () => {
    const made = await platform.admin.post('/database/schemas/Task/docs', {
      inputDocument: { title: 'by an operator' },
    });
    expect(made.status).toBe(200);
    await platform.createSchema({
      name: 'Free',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    expect((await create(cyd, 'Free', { title: 'mine' })).status).toBe(200);
    expect((await create(cyd, 'Free', {}, { scope: team })).status).toBe(403);
  });

  it('nobody creates by what they may do to themselves alone', async () => {
    await permissions.define({
      name: 'User',
      version: 1_000,
      relations: { manager: ['User'] },
      permissions: { supervise: ['manager'] },
    });
    await platform.createSchema({
      name: 'Review',
      fields: { text: 'String', about: { type: 'Relation', model: 'User' } },
      conduitOptions: rowAuthorised,
    });
    await permissions.define({
      name: 'Review',
      version: 1,
      relations: { ...owners, about: { from: 'about' } },
      permissions: {
        create: ['about->supervise'],
        read: ['owner'],
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    const [boss, worker] = [user(ada).userId, user(bob).userId];
    await permissions.relate(`User:${boss} manager User:${worker}`);
    const about = (id: string) => ({ text: 'good', about: id });
    expect([
      (await create(ada, 'Review', about(worker))).status,
      (await create(ada, 'Review', about(boss))).status,
      (await create(bob, 'Review', about(worker))).status,
    ]).toEqual([200, 403, 403]);
  });

  it('owner rules and team rules combine as declared', async () => {
    for (const combine of ['or', 'and'] as const) {
      const name = combine === 'or' ? 'Remark' : 'Draft';
      await platform.createSchema({
        name,
        fields: { text: 'String', author: { type: 'Relation', model: 'User' } },
        conduitOptions: {
          ...rowAuthorised,
          owner: { field: 'author', limit: ['update', 'delete'], combine },
        },
      });
      await permissions.define({
        name,
        version: 1,
        relations: owners,
        permissions: {
          create: ['owner->read'],
          read: ['owner', 'owner->read'],
          edit: ['owner->edit'],
          delete: ['owner->edit'],
        },
      });
      const { body: remark } = expectStatus(
        await create(bob, name, { text: 'by bob' }, { scope: team }),
        200,
        name,
      );
      const path = `/database/${name}/${remark._id}`;
      const expected = combine === 'or' ? 200 : 403;
      expect((await user(bob).api.patch(path, { text: 'again' })).status).toBe(expected);
      expect((await user(ada).api.patch(path, { text: 'by ada' })).status).toBe(expected);
      expect((await user(bob).api.delete(path)).status).toBe(expected);
    }
  });
});
