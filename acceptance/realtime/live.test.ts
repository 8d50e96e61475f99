/** Lists that are kept current over sockets: as `GET` would answer them at every moment, and never more. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import {
  allOperations,
  closeClients,
  connect,
  create,
  createSchemas,
  grant,
  listen,
} from './clients.ts';

describe('live lists', () => {
  let platform: TestPlatform;
  let owner: TestUser;
  let reader: TestUser;
  let postId: string;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    [owner, reader] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    postId = await createSchemas(platform);
  });
  afterEach(closeClients);
  afterAll(() => platform.close());

  const titles = (list: { readonly records: readonly { readonly title?: string }[] }) =>
    list.records.map(({ title }) => title);

  it('tells of records where permissions are on: a grant makes one appear, a revocation makes it vanish (S3, F12)', async () => {
    const id = await create(owner, 'Task', { title: 'one' });
    const mine = await listen(platform, owner, { schema: 'Task' });
    const list = await listen(platform, reader, { schema: 'Task' });
    expect(titles(mine)).toEqual(['one']);
    expect(titles(list)).toEqual([]);
    const revoke = await grant(platform, reader, `Task:${id}`);
    await waitFor(() => list.told.length === 1);
    await owner.api.patch(`/database/Task/${id}`, { title: 'two' });
    await waitFor(() => list.told.length === 2);
    await revoke();
    await waitFor(() => list.told.length === 3);
    await owner.api.delete(`/database/Task/${id}`);
    await waitFor(() => mine.told.includes('removed two'));
    expect(list.told).toEqual(['added one', 'changed two', 'removed two']);
    const own = await create(reader, 'Task', { title: 'own' });
    await waitFor(() => titles(list).includes('own'));
    expect(list.told).toEqual(['added one', 'changed two', 'removed two', 'added own']);
    expect(mine.told).toEqual(['changed two', 'removed two']);
    expect(list.records[0]).toEqual((await reader.api.get(`/database/Task/${own}`)).body);
  });

  it('follows what makes a right: the membership of a team', async () => {
    await platform.admin.patch('/config/authentication', {
      config: { teams: { enabled: true, memberAccess: 'read' } },
    });
    const { _id: team } = (await owner.api.post('/authentication/teams', { name: 'live' })).body;
    await owner.api.post(`/database/Task?scope=Team:${team}`, { title: 'of the team' });
    const list = await listen(platform, reader, {
      schema: 'Task',
      query: { title: 'of the team' },
    });
    expect(titles(list)).toEqual([]);
    const members = `/authentication/teams/${team}/members`;
    await platform.admin.post(members, { members: [reader.userId] });
    await waitFor(() => titles(list).length === 1);
    await owner.api.post(`/database/Task?scope=Team:${team}`, { title: 'of the team' });
    await waitFor(() => titles(list).length === 2);
    await platform.admin.delete(members, { query: { members: reader.userId } });
    await waitFor(() => titles(list).length === 0);
  });

  it('follows what another record says, by a rule, and its end', async () => {
    const conduitOptions = { cms: allOperations, authorization: { enabled: true } };
    const fields = { title: { type: 'String' }, status: { type: 'String' } } as const;
    await platform.createSchema({ name: 'Project', fields, conduitOptions });
    const project = { type: 'Relation', model: 'Project', required: true } as const;
    await platform.createSchema({
      name: 'Step',
      fields: { title: { type: 'String' }, project },
      conduitOptions,
    });
    const words = { edit: ['owner'], delete: ['owner'] };
    for (const [name, definition] of [
      ['Project', { permissions: { read: ['owner', { rule: "record.status == 'open'" }] } }],
      [
        'Step',
        { relations: { project: { from: 'project' } }, permissions: { read: ['project->read'] } },
      ],
    ] as const) {
      const { relations = {}, permissions } = { relations: {}, ...definition };
      expectStatus(
        await platform.admin.patch(`/authorization/resources/${name}`, {
          relations: { owner: ['User'], ...relations },
          permissions: { ...permissions, ...words },
        }),
        200,
        name,
      );
    }
    const id = await create(owner, 'Project', { title: 'site', status: 'open' });
    await create(owner, 'Step', { title: 'plan', project: id });
    const list = await listen(platform, reader, { schema: 'Step' });
    expect(titles(list)).toEqual(['plan']);
    // A look at all rights every ten seconds would see it too: so many changes would take it longer than this test has.
    for (let round = 0; round < 5; round += 1) {
      await owner.api.patch(`/database/Project/${id}`, { status: 'done' });
      await waitFor(() => titles(list).length === 0);
      await owner.api.patch(`/database/Project/${id}`, { status: 'open' });
      await waitFor(() => titles(list).length === 1);
    }
  });

  it('keeps a filter: records come into it and leave it', async () => {
    const list = await listen(platform, reader, { schema: 'Post', query: { state: 'open' } });
    const other = await listen(platform, reader, { schema: 'Post', query: { state: 'done' } });
    const a = await create(owner, 'Post', { title: 'a', state: 'open' });
    await create(owner, 'Post', { title: 'b', state: 'done' });
    await waitFor(() => titles(list).length === 1 && titles(other).length === 1);
    await owner.api.patch(`/database/Post/${a}`, { state: 'done' });
    await waitFor(() => titles(other).length === 2);
    await waitFor(() => list.told.length === 2);
    expect(list.told).toEqual(['added a', 'removed a']);
    expect(other.told).toEqual(['added b', 'added a']);
    expect(titles(other)).toEqual(['a', 'b']);
  });

  it('shows the files of records as they are', async () => {
    await platform.createSchema({
      name: 'Album',
      fields: { title: { type: 'String' }, cover: { type: 'Relation', model: 'File' } },
      conduitOptions: { cms: allOperations },
    });
    const data = Buffer.from('picture').toString('base64');
    const file = { name: 'before.txt', data, mimeType: 'text/plain', isPublic: true };
    const { _id: cover } = (await owner.api.post('/storage/file', file)).body;
    await create(owner, 'Album', { title: 'one', cover });
    const list = await listen(platform, owner, { schema: 'Album', populate: ['cover'] });
    expect(list.records).toMatchObject([{ cover: { name: 'before.txt' } }]);
    await owner.api.patch(`/storage/file/${cover}`, { name: 'after.txt' });
    await waitFor(() => list.told.length === 1);
    expect(list.records).toMatchObject([{ cover: { name: 'after.txt' } }]);
  });

  it('keeps the first records of an order, whoever comes in and goes', async () => {
    const rank = (title: string, rank: number) =>
      create(owner, 'Post', { title, rank, state: 'ranked' });
    const request = { schema: 'Post', query: { state: 'ranked' }, sort: ['-rank'], limit: 2 };
    const first = await rank('one', 1);
    await rank('three', 3);
    const list = await listen(platform, reader, request);
    expect(titles(list)).toEqual(['three', 'one']);
    await rank('two', 2);
    await waitFor(() => titles(list).join() === 'three,two');
    await owner.api.patch(`/database/Post/${first}`, { rank: 4 });
    await waitFor(() => titles(list).join() === 'one,three');
    await owner.api.delete(`/database/Post/${first}`);
    await waitFor(() => titles(list).join() === 'three,two');
    expect(list.records).toEqual(
      (
        await reader.api.post('/database/Post/query?sort=-rank&limit=2', {
          query: { state: 'ranked' },
        })
      ).body.documents,
    );
  });

  it('listens to one record, which need not be there yet', async () => {
    const id = await create(owner, 'Task', { title: 'single' });
    const list = await listen(platform, reader, { schema: 'Task', documentId: id });
    expect(titles(list)).toEqual([]);
    const revoke = await grant(platform, reader, `Task:${id}`);
    await waitFor(() => titles(list).length === 1);
    await revoke();
    await waitFor(() => titles(list).length === 0);
  });

  it('listens to endpoints, and to what they work out', async () => {
    const endpoint = (name: string, more: object) =>
      platform.admin.post('/database/customEndpoints', {
        name,
        operation: 0,
        selectedSchema: postId,
        authentication: true,
        inputs: [{ name: 'state', type: 'String', location: 1 }],
        query: {
          AND: [
            {
              schemaField: 'state',
              operation: 0,
              comparisonField: { type: 'Input', value: 'state' },
            },
          ],
        },
        ...more,
      });
    const listed = await endpoint('byState', {});
    expect(listed.text).toContain('_id');
    const counted = await endpoint('countState', {
      operation: 5,
      aggregate: { groupBy: [], values: [{ as: 'posts', function: 'count' }] },
    });
    expect(counted.text).toContain('_id');
    const input = { state: 'from an endpoint' };
    const list = await listen(platform, reader, { endpoint: 'byState', input });
    const count = await listen(platform, reader, { endpoint: 'countState', input });
    expect(count.value()).toEqual([{ posts: 0 }]);
    await create(owner, 'Post', { title: 'e', ...input });
    await waitFor(() => titles(list).length === 1);
    await waitFor(() => count.value()[0].posts === 1);
  });

  const stateIs = (value: string) => ({
    AND: [{ schemaField: 'state', operation: 0, comparisonField: { type: 'Custom', value } }],
  });

  it('asks anew once an endpoint says something else, and ends with it', async () => {
    const endpoint = {
      ...{ name: 'someState', operation: 0, selectedSchema: postId, authentication: true },
      ...{ inputs: [], query: stateIs('wide') },
    };
    const made = await platform.admin.post('/database/customEndpoints', endpoint);
    const path = `/database/customEndpoints/${expectStatus(made, 200, 'someState').body._id}`;
    const list = await listen(platform, reader, { endpoint: 'someState' });
    await create(owner, 'Post', { title: 'first', state: 'wide' });
    await waitFor(() => list.told.length === 1);
    expectStatus(
      await platform.admin.patch(path, { ...endpoint, query: stateIs('narrow') }),
      200,
      'narrow',
    );
    await waitFor(() => list.told.includes('gap changed'));
    await create(owner, 'Post', { title: 'second', state: 'wide' });
    const again = await listen(platform, reader, { endpoint: 'someState' });
    expect(titles(again)).toEqual([]);
    expectStatus(await platform.admin.delete(path), 200, 'delete');
    await waitFor(() => again.told.includes('gap changed'));
    expect([list.told, again.told]).toEqual([['added first', 'gap changed'], ['gap changed']]);
  });

  it('asks anew for each whose own fields an endpoint compares with, also where another asked the same', async () => {
    const schemas = await platform.admin.get('/database/schemas?limit=100');
    const { _id } = schemas.body.schemas.find(({ name }: Json) => name === 'User');
    const extension = { fields: { department: 'String' } };
    expectStatus(
      await platform.admin.post(`/database/schemas/${_id}/extensions`, extension),
      200,
      'a field of users',
    );
    const move = async ({ userId }: TestUser, department: string): Promise<void> =>
      void expectStatus(
        await platform.admin.put(`/database/schemas/User/docs/${userId}`, {
          changedDocument: { department },
        }),
        200,
        'a move',
      );
    const comparisonField = { type: 'Context', value: 'user.department' };
    const query = { AND: [{ schemaField: 'state', operation: 0, comparisonField }] };
    const facts = { selectedSchema: postId, authentication: true, inputs: [], query };
    const counting = { groupBy: [], values: [{ as: 'posts', function: 'count' }] };
    for (const endpoint of [
      { ...facts, name: 'ofMine', operation: 0 },
      { ...facts, name: 'countMine', operation: 5, aggregate: counting },
    ])
      expectStatus(await platform.admin.post('/database/customEndpoints', endpoint), 200, 'made');
    await Promise.all([owner, reader].map((user) => move(user, 'sales')));
    for (const endpoint of ['ofMine', 'countMine']) {
      const [stays, leaves] = [
        await listen(platform, owner, { endpoint }),
        await listen(platform, reader, { endpoint }),
      ];
      await move(reader, 'stock');
      await waitFor(() => leaves.told.includes('gap changed'));
      await create(owner, 'Post', { title: endpoint, state: 'sales' });
      await waitFor(() => stays.told.length > 0 || stays.value()?.[0].posts === 2);
      expect([titles(leaves), leaves.told]).toEqual([[], ['gap changed']]);
      expect(stays.told).not.toContain('gap changed');
      await move(reader, 'sales');
    }
  });

  it('goes on from a position, and says where it cannot', async () => {
    const request = { schema: 'Post', query: { state: 'resumed' } };
    const first = await listen(platform, reader, request);
    await create(owner, 'Post', { title: 'before', state: 'resumed' });
    await waitFor(() => first.told.length === 1);
    first.socket.disconnect();
    const id = await create(owner, 'Post', { title: 'meanwhile', state: 'resumed' });
    await waitFor(async () => (await reader.api.get(`/database/Post/${id}`)).status === 200);
    const witness = await listen(platform, reader, request);
    await waitFor(() => titles(witness).length === 2);
    const again = await listen(platform, reader, { ...request, since: first.position() });
    expect(
      again.acknowledged.missed.flatMap(
        ({ data }: never) => (data as { changes: object[] }).changes,
      ),
    ).toMatchObject([{ kind: 'added', record: { title: 'meanwhile' } }]);
    const elsewhere = await listen(platform, reader, { ...request, since: 'unknown.7' });
    expect(elsewhere.acknowledged).toMatchObject({ gap: true, records: [{}, {}] });
  });

  it('tells who comes back nothing that they may not read any more', async () => {
    const request = { schema: 'Task', query: { state: 'away' } };
    const first = await listen(platform, reader, request);
    const kept = await create(reader, 'Task', { title: 'kept', state: 'away' });
    await waitFor(() => first.told.length === 1);
    const since = first.position();
    // Somebody of the same user hears what the first one misses.
    const witness = await listen(platform, reader, request);
    first.socket.disconnect();
    const secret = await create(owner, 'Task', { title: 'secret', state: 'away' });
    const revoke = await grant(platform, reader, `Task:${secret}`);
    await waitFor(() => titles(witness).includes('secret'));
    const back = () => listen(platform, reader, { ...request, since });
    const allowed = await back();
    expect(JSON.stringify(allowed.acknowledged.missed)).toContain('secret');
    // The list need not have been read again: the answer itself is what holds.
    await revoke();
    const denied = await back();
    expect(JSON.stringify(denied.acknowledged)).not.toContain('secret');
    expect(denied.acknowledged).toMatchObject({ gap: true, records: [{ title: 'kept' }] });
    await waitFor(() => !titles(witness).includes('secret'));
    // What is read still goes on from its place, with the records as they are now.
    const place = denied.position();
    denied.socket.disconnect();
    await reader.api.patch(`/database/Task/${kept}`, { title: 'once' });
    await reader.api.patch(`/database/Task/${kept}`, { title: 'twice' });
    await waitFor(() => titles(witness).includes('twice'));
    const again = await listen(platform, reader, { ...request, since: place });
    const told = again.acknowledged.missed.flatMap(({ data }: never) => (data as Json).changes);
    expect(new Set(told.map(({ record }: Json) => record.title))).toEqual(new Set(['twice']));
  });

  it('ends when something is put before its route, and is refused while that cannot be asked', async () => {
    const query = { path: '/database/Post', action: 'GET' };
    const put = async (...added: readonly string[]) => {
      const path = '/router/patch-middleware';
      const middlewares = ['authMiddleware', ...added];
      expectStatus(await platform.admin.patch(path, { middlewares }, { query }), 200, path);
    };
    const list = await listen(platform, reader, { schema: 'Post' });
    const other = await listen(platform, reader, { schema: 'Post', query: { state: 'x' } });
    await put('rateLimit:900/1');
    await waitFor(() => list.told.includes('gap changed'));
    const { ask } = await connect(platform, reader);
    expect(await ask('watch', { schema: 'Post' })).toMatchObject({
      ok: false,
      error: { status: 403, message: expect.stringContaining('rateLimit:900/1') },
    });
    expect((await reader.api.get('/listen?schema=Post')).status).toBe(403);
    await put();
    expect(await ask('watch', { schema: 'Post' })).toMatchObject({ ok: true });
    expect(other.told).toEqual([]);
  });

  it('goes on while other schemas change, also after the module was off, and ends with that', async () => {
    const active = (active: boolean) =>
      platform.admin.patch('/config/database', { config: { active } });
    const ended = await listen(platform, reader, { schema: 'Post' });
    await active(false);
    await waitFor(() => ended.told.includes('gap changed'));
    await active(true);
    const list = await listen(platform, reader, { schema: 'Post' });
    await platform.createSchema({ name: 'Beside', fields: { title: { type: 'String' } } });
    await create(owner, 'Post', { title: 'afterwards' });
    await waitFor(() => list.told.length > 0);
    expect(list.told).toEqual(['added afterwards']);
  });

  it('ends when its schema is not offered any more', async () => {
    const fields = { title: { type: 'String' } } as const;
    const { _id } = await platform.createSchema({ name: 'Passing', fields });
    const list = await listen(platform, reader, { schema: 'Passing' });
    await platform.admin.patch(`/database/schemas/${_id}`, {
      conduitOptions: { realtime: { enabled: false } },
    });
    await waitFor(() => list.told.includes('gap changed'));
    const { ask } = await connect(platform, reader);
    expect(await ask('watch', { schema: 'Passing' })).toMatchObject({
      ok: false,
      error: { status: 404, code: 'SUBSCRIPTION_NOT_FOUND' },
    });
  });

  it.each([
    [{}, 400],
    [{ schema: 'Absent' }, 404],
    [{ schema: '__proto__' }, 404],
    [{ endpoint: 'absent' }, 404],
    [{ schema: 'Post', endpoint: 'byState' }, 400],
    [{ schema: 'Post', limit: 5_000 }, 400],
    [{ schema: 'Post', sort: ['nothing'] }, 400],
    [{ schema: 'Post', documentId: 'x' }, 400],
    [{ schema: 'Post', query: { owner: 1 } }, 400],
    [{ schema: 'Post', query: { title: { $regex: '(a+)+$' } } }, 400],
    [{ schema: 'Post', query: { $where: 'sleep(1)' } }, 400],
    [{ schema: 'Post', query: 'state' }, 400],
    [{ schema: 'Task', scope: 'Team:1' }, 403],
    [{ schema: 'Post', populate: ['title'] }, 400],
    [{ endpoint: 'byState', input: { state: 'a', other: 1 } }, 400],
    [null, 400],
    ['Post', 400],
  ])('refuses to listen to %j with %i', async (request, status) => {
    const { ask } = await connect(platform, reader);
    expect(await ask('watch', request as object)).toMatchObject({ ok: false, error: { status } });
  });
});
