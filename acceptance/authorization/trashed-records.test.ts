/** Records in the trash keep what they say, for what hangs on them too: relations and rules alike (decision 446). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
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
});
