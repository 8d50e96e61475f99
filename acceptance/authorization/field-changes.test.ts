/** Relations that are fields of records, in the changelog: told with each write of the record, like stored relations. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { expectStatus } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const rowAuthorised = { authorization: { enabled: true } } as const;

describe('fields of records in the changelog', () => {
  let platform: TestPlatform;
  let [a, b, c] = ['', '', ''];

  const docs = (schema: string): string => `/database/schemas/${schema}/docs`;
  const newDoc = async (schema: string, inputDocument: object): Promise<string> =>
    expectStatus(await platform.admin.post(docs(schema), { inputDocument }), 200, schema).body._id;
  const position = async (): Promise<number> =>
    (await platform.admin.get('/authorization/changes')).body.next;

  /** What the changelog tells of a task, as `+project:<id>` and `-others:<id>`, once it is so many lines. */
  async function told(
    task: string,
    after: number,
    lines: number,
    schema = 'Task',
  ): Promise<readonly string[]> {
    const read = async (): Promise<readonly string[]> => {
      const { body } = await platform.admin.get('/authorization/changes', { query: { after } });
      return body.changes
        .filter(
          ({ payload }: Json) =>
            payload.resource === `${schema}:${task}` && payload.source === 'record',
        )
        .map(
          ({ topic, payload }: Json) =>
            `${topic.includes(':create:') ? '+' : '-'}${payload.relation}:${payload.subject.replace('Project:', '')}`,
        )
        .sort();
    };
    await waitFor(async () => (await read()).length >= lines);
    return read();
  }

  beforeAll(async () => {
    platform = await createTestPlatform();
    const permissions = permissionsApi(platform.admin);
    await platform.createSchema({
      name: 'Project',
      fields: { title: 'String' },
      conduitOptions: rowAuthorised,
    });
    await platform.createSchema({
      name: 'Task',
      fields: {
        title: 'String',
        project: { type: 'Relation', model: 'Project' },
        others: [{ type: 'Relation', model: 'Project' }],
        next: { type: 'Relation', model: 'Project' },
      },
      conduitOptions: {
        ...rowAuthorised,
        history: {},
        cms: { crudOperations: { update: { operators: true } } },
      },
    });
    await permissions.define({
      name: 'Task',
      version: 1,
      relations: { owner: ['User'], project: { from: 'project' }, other: { from: 'others' } },
      permissions: {
        read: ['owner', 'project->read', 'other->read'],
        edit: ['owner'],
        delete: ['owner'],
      },
    });
    [a, b, c] = [
      await newDoc('Project', {}),
      await newDoc('Project', {}),
      await newDoc('Project', {}),
    ];
  });
  afterAll(() => platform.close());

  it('are told when a record comes, changes and goes', async () => {
    let after = await position();
    const task = await newDoc('Task', { title: 'x', project: a, others: [a, b], next: c });
    expect(await told(task, after, 3)).toEqual(
      [`+other:${a}`, `+other:${b}`, `+project:${a}`].sort(),
    );
    const put = async (changedDocument: object): Promise<void> => {
      after = await position();
      expectStatus(
        await platform.admin.put(`${docs('Task')}/${task}`, { changedDocument }),
        200,
        'put',
      );
    };
    await put({ project: b, others: [b, c] });
    expect(await told(task, after, 4)).toEqual(
      [`+other:${c}`, `+project:${b}`, `-other:${a}`, `-project:${a}`].sort(),
    );
    // What says the same, or is no relation, is no news.
    await put({ project: b, title: 'y', next: a });
    await put({ project: null });
    expect(await told(task, after, 1)).toEqual([`-project:${b}`]);
    after = await position();
    await platform.admin.delete(`${docs('Task')}/${task}`);
    expect(await told(task, after, 2)).toEqual([`-other:${b}`, `-other:${c}`].sort());
  });

  it('are told of many records, of operators and of custom endpoints', async () => {
    let after = await position();
    const many = expectStatus(
      await platform.admin.post(`${docs('Task')}/many`, {
        inputDocuments: [{ title: 'm', project: a }, { title: 'm', project: b }, { title: 'm' }],
      }),
      200,
      'many',
    ).body.docs.map(({ _id }: Json) => _id);
    expect(await told(many[0], after, 1)).toEqual([`+project:${a}`]);
    expect(await told(many[1], after, 1)).toEqual([`+project:${b}`]);
    after = await position();
    expectStatus(
      await platform.admin.put(docs('Task'), {
        changedDocuments: [
          { _id: many[0], project: c },
          { _id: many[1], project: b },
        ],
      }),
      200,
      'change many',
    );
    expect(await told(many[0], after, 2)).toEqual([`+project:${c}`, `-project:${a}`].sort());
    await platform.admin.post('/database/customEndpoints', {
      name: 'gather',
      operation: operation.patch,
      selectedSchemaName: 'Task',
      authentication: true,
      inputs: [input('project', 'String', location.body)],
      query: { AND: [compare('title', 0, ['Custom', 'mine'])] },
      assignments: [assign('project', 0, 'Input', 'project')],
    });
    const user = await platform.registerUser();
    const own = expectStatus(await user.api.post('/database/Task', { title: 'mine' }), 200, 'own');
    await permissionsApi(platform.admin).relate(`User:${user.userId} owner Project:${a}`);
    after = await position();
    expectStatus(
      await user.api.patch(`/database/Task/${own.body._id}`, { $push: { others: a } }),
      200,
      'operators',
    );
    expect(await told(own.body._id, after, 1)).toEqual([`+other:${a}`]);
    after = await position();
    expectStatus(await user.api.patch('/database/function/gather', { project: a }), 200, 'gather');
    expect(await told(own.body._id, after, 1)).toEqual([`+project:${a}`]);
    expect(await told(many[1], after, 0)).toEqual([]);
  });

  it('are told where what they lead to goes, of records in the trash and of schemas that ask nobody too', async () => {
    const link = { type: 'Relation', model: 'Project', onDelete: 'setNull' };
    const names = { Note: { ...rowAuthorised, softDelete: {} }, Plan: rowAuthorised, Branch: {} };
    for (const [name, conduitOptions] of Object.entries(names)) {
      await platform.createSchema({ name, fields: { project: link as never }, conduitOptions });
      const owner = { owner: ['User'] };
      await permissionsApi(platform.admin).define({
        name,
        version: 1,
        relations: { project: { from: 'project' }, ...(name !== 'Branch' && owner) },
        permissions: { read: ['project'], edit: ['project'], delete: ['project'] },
      });
      const project = await newDoc('Project', {});
      let after = await position();
      const [alive, other] = [await newDoc(name, { project }), await newDoc(name, { project: a })];
      expect(await told(alive, after, 1, name)).toEqual([`+project:${project}`]);
      expect(await told(other, after, 1, name)).toEqual([`+project:${a}`]);
      after = await position();
      const changedDocument = { project };
      await platform.admin.put(`${docs(name)}/${other}`, { changedDocument });
      expect(await told(other, after, 2, name)).toEqual([`+project:${project}`, `-project:${a}`]);
      if (name === 'Note') await platform.admin.delete(`${docs(name)}/${other}`);
      after = await position();
      expectStatus(await platform.admin.delete(`${docs('Project')}/${project}`), 200, 'project');
      for (const one of [alive, other])
        expect(await told(one, after, 1, name)).toEqual([`-project:${project}`]);
    }
  });
});
