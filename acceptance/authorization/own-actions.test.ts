/** Actions of one's own: what custom endpoints and fields ask for beside read, edit and delete. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

const rowAuthorised = { authorization: { enabled: true } } as const;

describe("actions of one's own", () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let author: TestUser;
  let approver: TestUser;
  let reader: TestUser;
  let report: string;
  let other: string;

  const endpoint = (body: Json) =>
    platform.admin.post('/database/customEndpoints', {
      selectedSchemaName: 'Report',
      authentication: true,
      inputs: [],
      ...body,
    });
  const byId = { AND: [compare('_id', 0, ['Input', 'id'])] };
  const idInput = [input('id', 'String', location.body)];
  const statusOf = async (id: string): Promise<string> =>
    (await platform.admin.get(`/database/schemas/Report/docs/${id}`)).body.status;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    author = await platform.registerUser();
    approver = await platform.registerUser();
    reader = await platform.registerUser();
    await platform.createSchema({
      name: 'Report',
      fields: {
        title: 'String',
        status: 'String',
        verdict: { type: 'String', access: { write: 'action:approve' } },
      },
      conduitOptions: { ...rowAuthorised, softDelete: true },
    });
    await platform.createSchema({ name: 'Line', fields: { report: 'String', text: 'String' } });
    await permissions.define({
      name: 'Report',
      version: 1,
      relations: { owner: ['User'], approver: ['User'], reader: ['User'] },
      permissions: {
        read: ['owner', 'approver', 'reader'],
        edit: ['owner'],
        delete: ['owner'],
        approve: { exclusion: { base: ['approver'], subtract: ['owner'] } },
      },
    });
    const create = async (title: string): Promise<string> =>
      expectStatus(
        await author.api.post('/database/Report', { title, status: 'draft' }),
        200,
        title,
      ).body._id;
    [report, other] = [await create('one'), await create('two')];
    await permissions.relate(
      `User:${approver.userId} approver Report:${report}`,
      `User:${author.userId} approver Report:${report}`,
      `User:${reader.userId} reader Report:${report}`,
      `User:${approver.userId} reader Report:${other}`,
    );
    await platform.admin.post('/database/schemas/Line/docs', {
      inputDocument: { report, text: 'of one' },
    });
  });
  afterAll(() => platform.close());

  it('are asked about like any other', async () => {
    const may = async (who: TestUser) =>
      (
        await who.api.get('/authorization/check', {
          query: { action: 'approve', resource: `Report:${report}` },
        })
      ).body.allowed;
    expect([await may(author), await may(approver), await may(reader)]).toEqual([
      false,
      true,
      false,
    ]);
  });

  it('stand in the place of edit where an endpoint changes records', async () => {
    expectStatus(
      await endpoint({
        name: 'approve',
        operation: operation.patch,
        inputs: idInput,
        query: byId,
        assignments: [assign('status', 0, 'Custom', 'approved')],
        requires: { action: 'approve' },
      }),
      200,
      'endpoint',
    );
    const approve = async (who: TestUser, id: string): Promise<number> =>
      expectStatus(await who.api.patch('/database/function/approve', { id }), 200, 'call').body
        .modifiedCount;
    expect(await approve(author, report)).toBe(0);
    expect(await approve(reader, report)).toBe(0);
    expect(await approve(approver, other)).toBe(0);
    expect(await statusOf(report)).toBe('draft');
    expect(await approve(approver, report)).toBe(1);
    expect([await statusOf(report), await statusOf(other)]).toEqual(['approved', 'draft']);
    // Nothing else is changed by it.
    expect((await approver.api.patch(`/database/Report/${report}`, { title: 'x' })).status).toBe(
      403,
    );
  });

  it('are asked of every row of a result, beside read', async () => {
    for (const [name, more] of [
      ['toApprove', {}],
      ['toApprovePaged', { paginated: true, sorted: true }],
    ] as const)
      expectStatus(
        await endpoint({
          name,
          operation: operation.get,
          query: {},
          requires: { action: 'approve' },
          ...more,
        }),
        200,
        name,
      );
    expectStatus(
      await endpoint({
        name: 'howMany',
        operation: operation.aggregate,
        query: {},
        aggregate: { values: [{ as: 'all', function: 'count' }] },
        requires: { action: 'approve' },
      }),
      200,
      'howMany',
    );
    const ids = async (who: TestUser) =>
      (await who.api.get('/database/function/toApprove')).body.map(({ _id }: Json) => _id);
    expect(await ids(approver)).toEqual([report]);
    expect(await ids(author)).toEqual([]);
    const paged = await approver.api.get('/database/function/toApprovePaged', {
      query: { sort: '-title', skip: 0, limit: 1 },
    });
    expect([paged.body.documents.length, paged.body.count]).toEqual([1, 1]);
    expect((await approver.api.get('/database/function/howMany')).body).toEqual([{ all: 1 }]);
    expect((await reader.api.get('/database/function/howMany')).body).toEqual([{ all: 0 }]);
  });

  it('are asked of the record that an input names, for records of any schema', async () => {
    const record = { schema: 'Report', input: 'report' };
    const inputs = [input('report', 'String', location.query)];
    expectStatus(
      await endpoint({
        name: 'lines',
        operation: operation.get,
        selectedSchemaName: 'Line',
        inputs,
        query: { AND: [compare('report', 0, ['Input', 'report'])] },
        requires: { action: 'approve', record },
      }),
      200,
      'lines',
    );
    expectStatus(
      await endpoint({
        name: 'addLine',
        operation: operation.post,
        selectedSchemaName: 'Line',
        inputs: [input('report', 'String', location.body)],
        assignments: [assign('report', 0, 'Input', 'report')],
        requires: { action: 'approve', record },
      }),
      200,
      'addLine',
    );
    const lines = (who: TestUser, of: string) =>
      who.api.get('/database/function/lines', { query: { report: of } });
    expect((await lines(approver, report)).body.map(({ text }: Json) => text)).toEqual(['of one']);
    const refused = await lines(author, report);
    expect([refused.status, refused.body.code]).toEqual([403, 'FORBIDDEN']);
    expect((await lines(approver, other)).status).toBe(403);
    expect((await lines(approver, 'nothing')).status).toBe(403);
    for (const wrong of ['a b', ''])
      expect(await lines(approver, wrong)).toMatchObject({
        status: 400,
        body: { errors: [{ path: 'report' }] },
      });
    expect(
      (await platform.client.get('/database/function/lines', { query: { report } })).status,
    ).toBe(401);
    const add = (who: TestUser) => who.api.post('/database/function/addLine', { report });
    expect((await add(reader)).status).toBe(403);
    expect((await add(approver)).status).toBe(200);
  });

  it('are told apart when an endpoint is stored', async () => {
    const problemPaths = async (body: Json) =>
      (
        await endpoint({ name: 'wrong', operation: operation.get, query: {}, ...body })
      ).body.errors.map(({ path }: Json) => path);
    expect(await problemPaths({ requires: { action: 'aprove' } })).toEqual(['requires.action']);
    expect(
      await problemPaths({ requires: { action: 'approve' }, selectedSchemaName: 'Line' }),
    ).toEqual(['requires']);
    expect(
      await problemPaths({
        requires: { action: 'approve', record: { schema: 'Line', input: 'x' } },
      }),
    ).toEqual(['requires.record.schema']);
    expect(
      await problemPaths({
        requires: { action: 'approve', record: { schema: 'Report', input: 'x' } },
      }),
    ).toEqual(['requires.record.input']);
    expect(
      await problemPaths({
        requires: { action: 'approve' },
        selectedSchemaName: 'Line',
        authentication: false,
      }),
    ).toContain('requires');
  });

  it('are told apart when an endpoint is imported', async () => {
    const exported = expectStatus(await platform.admin.get('/state/export'), 200, 'export').body;
    const imported = (action: string, definitions: readonly Json[] = []) =>
      platform.admin.post('/state/import', {
        ...exported,
        modules: {
          authorization: { resourceDefinitions: definitions },
          database: {
            customEndpoints: [
              {
                name: 'approveByImport',
                selectedSchemaName: 'Report',
                operation: operation.patch,
                authentication: true,
                inputs: idInput,
                query: byId,
                assignments: [assign('status', 0, 'Custom', 'approved')],
                requires: { action },
              },
            ],
          },
        },
      });
    const refused = await imported('aprove');
    expect([refused.status, refused.body.errors[0].path]).toEqual([
      400,
      'modules.database.customEndpoints.0.requires.action',
    ]);
    const { body: current } = await platform.admin.get('/authorization/resources/Report');
    const { name, relations, permissions: actions } = current;
    const withAction = { name, relations, permissions: { ...actions, archive: ['owner'] } };
    expect((await imported('archive')).status).toBe(400);
    expectStatus(await imported('archive', [withAction]), 200, 'with its definition');
    const without = { name, relations, permissions: actions };
    expectStatus(await imported('approve', [without]), 200, 'one that is there');
    expect((await imported('archive', [without])).status).toBe(400);
  });

  it('are asked of the record that a parameter of a function names', async () => {
    const requires = { action: 'approve', schema: 'Report', param: 'report' };
    const upload = (inputs: Json, name = 'verdict') =>
      platform.admin.post('/functions/upload', {
        name,
        functionType: 'request',
        functionCode: 'return req.params.report',
        inputs: { method: 'GET', auth: true, urlParams: { report: 'String' }, requires, ...inputs },
      });
    expectStatus(await upload({}), 200, 'function');
    const call = (who: TestUser, id: string) => who.api.get(`/functions/verdict/${id}`);
    expect((await call(approver, report)).body).toEqual({ result: report });
    for (const [who, id] of [
      [author, report],
      [reader, report],
      [approver, other],
      [approver, 'nothing'],
    ] as const)
      expect([id, (await call(who, id)).status]).toEqual([id, 403]);
    expect(await call(approver, 'a%20b')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'report' }] },
    });
    expect((await platform.client.get(`/functions/verdict/${report}`)).status).toBe(401);
    // Relations about what lies in the trash stay, but it is not there.
    const { _id: gone } = (await author.api.post('/database/Report', { title: 'gone' })).body;
    await permissions.relate(`User:${approver.userId} approver Report:${gone}`);
    expect((await call(approver, gone)).status).toBe(200);
    expectStatus(await author.api.delete(`/database/Report/${gone}`), 200, 'to the trash');
    expect((await call(approver, gone)).status).toBe(403);
    expectStatus(
      await platform.admin.post(`/database/schemas/Report/docs/${gone}/restore`, {}),
      200,
      'from the trash',
    );
    expect((await call(approver, gone)).status).toBe(200);
    for (const [wrong, path] of [
      [{ requires: { ...requires, action: 'aprove' } }, 'inputs.requires.action'],
      [{ requires: { ...requires, param: 'other' } }, 'inputs.requires.param'],
      [{ urlParams: {}, queryParams: { report: 'String' } }, 'inputs.requires.param'],
      [{ auth: false }, 'inputs.requires'],
    ] as const) {
      const { status, body } = await upload(wrong, 'wrong');
      expect([status, body.errors[0].path]).toEqual([400, path]);
    }
  });

  it('are not taken away from what needs them', async () => {
    const { body: current } = await platform.admin.get('/authorization/resources/Report');
    const { name, relations, permissions: actions } = current;
    const { approve: _, ...fewer } = actions;
    const without = { name, relations, permissions: fewer };
    const exported = expectStatus(await platform.admin.get('/state/export'), 200, 'export').body;
    const imported = (modules: Json) =>
      platform.admin.post('/state/import', {
        ...exported,
        modules: { authorization: { resourceDefinitions: [without] }, ...modules },
      });
    const refused = await imported({});
    expect([refused.status, refused.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    expect(refused.body.errors[0].path).toMatch(/resourceDefinitions\.0\.permissions\.approve$/);
    const told = refused.body.errors.map(({ message }: Json) => message).join('\n');
    expect(told).toContain('the custom endpoint "approve" needs the action "approve" of Report');
    expect(told).toContain('the function "verdict" needs the action "approve" of Report');
    expect(told).toContain('the field "verdict" of Report needs the action "approve" of Report');
    const changed = await platform.admin.patch('/authorization/resources/Report', without);
    expect([changed.status, changed.body.code]).toEqual([409, 'RESOURCE_IN_USE']);
    expect((await platform.admin.get('/authorization/resources/Report')).body.permissions).toEqual(
      actions,
    );
  });

  it('say who may set a field', async () => {
    const set = (who: TestUser, body: object) => who.api.patch(`/database/Report/${report}`, body);
    await permissions.relate(`User:${author.userId} approver Report:${other}`);
    expect((await set(author, { title: 'again' })).status).toBe(200);
    const refused = await set(author, { verdict: 'good' });
    expect([refused.status, refused.body.code]).toEqual([403, 'FIELD_FORBIDDEN']);
    // Who may set the field, and not change the record.
    const withoutEdit = await set(approver, { verdict: 'good' });
    expect([withoutEdit.status, withoutEdit.body.code]).toEqual([403, 'FORBIDDEN']);
  });

  it('decide about their field alone where somebody acts for a team that cannot do this', async () => {
    const teams = { enabled: true };
    expectStatus(await platform.admin.patch('/config/authentication', { teams }), 200, 'teams');
    const team = (await author.api.post('/authentication/teams', { name: 'Ward' })).body._id;
    const members = { members: [reader.userId], role: 'editAll' };
    await platform.admin.post(`/authentication/teams/${team}/members`, members);
    await platform.createSchema({
      name: 'Case',
      fields: {
        title: 'String',
        verdict: { type: 'String', access: { read: 'action:judge', write: 'action:judge' } },
        mine: { type: 'String', access: { read: 'owner' } },
      },
      conduitOptions: rowAuthorised,
    });
    await permissions.define({
      name: 'Case',
      version: 2,
      relations: { owner: ['User', 'Team'], judge: ['User'] },
      permissions: {
        read: ['owner', 'owner->read'],
        edit: ['owner', 'owner->edit'],
        delete: ['owner'],
        judge: ['judge'],
      },
    });
    const query = { scope: `Team:${team}` };
    const made = await reader.api.post('/database/Case', { title: 'a' }, { query });
    const path = `/database/Case/${expectStatus(made, 200, 'create for the team').body._id}`;
    await platform.admin.put(path.replace('Case', 'schemas/Case/docs'), {
      changedDocument: { verdict: 'guilty', mine: 'of the team' },
    });
    const listed = expectStatus(await reader.api.get('/database/Case', { query }), 200, 'list');
    expect(listed.body.documents).toMatchObject([{ title: 'a' }]);
    expect(listed.body.documents[0]).not.toHaveProperty('verdict');
    const change = (body: Json) => reader.api.patch(path, body, { query });
    expect((await change({ title: 'b' })).body.title).toBe('b');
    expect((await change({ verdict: 'free' })).body.code).toBe('FIELD_FORBIDDEN');
    // Who is the owner of the team stands with it in the relation "owner" to the record.
    expect((await author.api.get(path, { query })).body.mine).toBe('of the team');
    expect((await reader.api.get(path, { query })).body).not.toHaveProperty('mine');
  });

  it("are nobody's for a field while the definition does not know them", async () => {
    await platform.createSchema({
      name: 'Draft',
      fields: {
        title: 'String',
        rank: { type: 'Number', access: { read: 'action:rank' } },
        state: { type: 'String', access: { write: 'relation:editors' } },
      },
      conduitOptions: rowAuthorised,
    });
    const made = await author.api.post('/database/Draft', { title: 'a', rank: 3 });
    const path = `/database/Draft/${expectStatus(made, 200, 'create').body._id}`;
    const { body } = expectStatus(await author.api.get(path), 200, 'read');
    expect(body).not.toHaveProperty('rank');
    expect((await author.api.patch(path, { state: 'x' })).body.code).toBe('FIELD_FORBIDDEN');
    expect((await author.api.patch(path, { title: 'b' })).body.title).toBe('b');
    await permissions.define({
      name: 'Draft',
      version: 2,
      relations: { owner: ['User'] },
      permissions: { read: ['owner'], edit: ['owner'], delete: ['owner'], rank: ['owner'] },
    });
    expect((await author.api.get(path)).body.rank).toBe(3);
    // Who creates a record is told what they may see of it, and not what they could see before it was there.
    const [one, many] = [{ title: 'b', rank: 4 }, { docs: [{ rank: 5 }, { rank: 6 }] }];
    expect((await author.api.post('/database/Draft', one)).body.rank).toBe(4);
    const { docs } = (await author.api.post('/database/Draft/many', many)).body;
    expect(docs.map(({ rank }: Json) => rank)).toEqual([5, 6]);
  });

  it('a change that gives or takes a right answers by the right of after it', async () => {
    await platform.createSchema({
      name: 'Sheet',
      fields: {
        title: 'String',
        helpers: { type: [{ type: 'Relation', model: 'User' }] },
        rank: { type: 'Number', access: { read: 'relation:helper' } },
      },
      conduitOptions: {
        authorization: { enabled: true },
        cms: { crudOperations: { update: { operators: true } } },
      },
    });
    await permissions.define({
      name: 'Sheet',
      version: 5,
      relations: { owner: ['User'], helper: { from: 'helpers' } },
      permissions: { read: ['owner'], edit: ['owner'], delete: ['owner'] },
    });
    const { _id } = (await author.api.post('/database/Sheet', { title: 'a', rank: 4 })).body;
    const path = `/database/Sheet/${_id}`;
    const seen: [unknown, unknown][] = [];
    for (const helpers of [[author.userId], []]) {
      const { body } = await author.api.patch(path, { helpers });
      seen.push([body.rank, (await author.api.get(path)).body.rank]);
    }
    for (const helpers of [[author.userId], []]) {
      const docs = [{ _id, helpers }];
      const { body } = await author.api.patch('/database/Sheet/many', { docs });
      seen.push([body.docs[0].rank, (await author.api.get(path)).body.rank]);
    }
    for (const operator of ['$push', '$pull']) {
      const changed = await author.api.patch(path, { [operator]: { helpers: author.userId } });
      const { body } = expectStatus(changed, 200, operator);
      seen.push([body.rank, (await author.api.get(path)).body.rank]);
    }
    const [given, taken] = [
      [4, 4],
      [undefined, undefined],
    ];
    expect(seen).toEqual([given, taken, given, taken, given, taken]);
  });

  it('later parts of a batch go by the rights that earlier ones gave or took', async () => {
    await platform.createSchema({
      name: 'Room',
      fields: {
        title: 'String',
        helpers: { type: [{ type: 'Relation', model: 'User' }] },
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    await platform.createSchema({
      name: 'Desk',
      fields: { title: 'String', room: { type: 'Relation', model: 'Room' } },
      conduitOptions: { authorization: { enabled: true } },
    });
    const own = ['owner'];
    await permissions.define({
      name: 'Room',
      version: 5,
      relations: { owner: ['User'], helper: { from: 'helpers' } },
      permissions: { read: own, edit: own, delete: own, furnish: ['helper'] },
    });
    await permissions.define({
      name: 'Desk',
      version: 5,
      relations: { owner: ['User'], room: { from: 'room' } },
      permissions: {
        ...{ create: ['room->furnish'], read: ['owner', 'room->furnish'] },
        ...{ edit: ['room->furnish'], delete: ['room->furnish'] },
      },
    });
    const room = (await author.api.post('/database/Room', { title: 'a' })).body._id;
    const help = (helpers: readonly unknown[]) => ({
      ...{ op: 'update', schema: 'Room', id: room, data: { helpers } },
    });
    const make = { op: 'create', schema: 'Desk', data: { title: 'x', room } };
    const batch = (...operations: object[]) => author.api.post('/database/batch', { operations });
    const count = async () => (await author.api.get('/database/Desk')).body.count;
    const me = [author.userId];
    expect((await batch(make)).status).toBe(403);
    expect((await batch(make, help(me))).status).toBe(403);
    expect((await batch(help(me), make, help([]))).status).toBe(200);
    expect((await batch(help(me), help([]), make)).status).toBe(403);
    expect((await batch(help(me), make)).status).toBe(200);
    expect((await batch(help([]), make)).status).toBe(403);
    expect(await count()).toBe(2);
    const id = (await author.api.get('/database/Desk')).body.documents[0]._id;
    const rename = { op: 'update', schema: 'Desk', id, data: { title: 'y' } };
    expect((await batch(help([]), rename)).status).toBe(403);
    expect((await batch(rename, help([]))).status).toBe(200);
    expect((await author.api.patch(`/database/Desk/${id}`, { title: 'z' })).status).toBe(403);
  });
});
