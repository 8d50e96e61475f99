/** Row authorization of schemas (spec/authorization.md 5.6, 5.7; interface 4.3). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

describe('records with row authorization', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let [ada, bob, cyd]: TestUser[] = [];
  const team = `Team:${randomUUID()}`;
  const rowAuthorised = { authorization: { enabled: true } };
  const user = (who: TestUser | undefined): TestUser =>
    who ?? expect.unreachable('a user is missing');
  const create = async (
    who: TestUser | undefined,
    body: object,
    query: Record<string, string> = {},
  ): Promise<Json> =>
    expectStatus(await user(who).api.post('/database/Note', body, { query }), 200, 'create').body;
  const listed = async (
    who: TestUser | undefined,
    query: Record<string, string | number> = {},
  ): Promise<{ ids: string[]; count: number }> => {
    const { body } = expectStatus(
      await user(who).api.get('/database/Note', { query: { limit: 1000, ...query } }),
      200,
      'list',
    );
    return { ids: body.documents.map(({ _id }: Json) => _id), count: body.count };
  };
  const tuplesAbout = async (resource: string): Promise<string[]> => {
    const { body } = await platform.admin.get('/authorization/relations', { query: { resource } });
    return body.relations.map(({ computedTuple }: Json) => computedTuple);
  };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob, cyd] = [
      await platform.registerUser(),
      await platform.registerUser(),
      await platform.registerUser(),
    ];
    const fields = { text: 'String', about: { type: 'Relation', model: 'Note' } } as const;
    await platform.createSchema({ name: 'Note', fields, conduitOptions: rowAuthorised });
    await permissions.relate(
      `User:${ada.userId} owner ${team}`,
      `User:${bob.userId} readAll ${team}`,
      `User:${cyd.userId} member ${team}`,
    );
  });
  afterAll(() => platform.close());

  it('a creator owns, others do not see', async () => {
    const note = await create(ada, { text: 'mine' });
    expect(await tuplesAbout(`Note:${note._id}`)).toEqual([
      `User:${ada?.userId}#owner@Note:${note._id}`,
    ]);
    expect((await user(ada).api.get(`/database/Note/${note._id}`)).status).toBe(200);
    expect((await user(bob).api.get(`/database/Note/${note._id}`)).status).toBe(404);
    expect((await platform.client.get('/database/Note')).status).toBe(401);
    for (const method of ['patch', 'put'] as const) {
      expect(
        (await user(bob).api[method](`/database/Note/${note._id}`, { text: 'x' })).status,
      ).toBe(404);
    }
    expect((await user(bob).api.delete(`/database/Note/${note._id}`)).status).toBe(404);
    expect((await listed(bob)).ids).not.toContain(note._id);
  });

  it('a reader reads but does not write: 403, not 404', async () => {
    const note = await create(ada, { text: 'shared' });
    await permissions.relate(`User:${bob?.userId} reader Note:${note._id}`);
    expect((await user(bob).api.get(`/database/Note/${note._id}`)).status).toBe(200);
    const lacks = (action: string) => ({
      status: 403,
      body: { code: 'FORBIDDEN', message: `This needs the action "${action}" on Note` },
    });
    const edited = await user(bob).api.patch(`/database/Note/${note._id}`, { text: 'x' });
    expect(edited).toMatchObject(lacks('edit'));
    expect(await user(bob).api.delete(`/database/Note/${note._id}`)).toMatchObject(lacks('delete'));
    await permissions.relate(`User:${bob?.userId} editor Note:${note._id}`);
    expect((await user(bob).api.patch(`/database/Note/${note._id}`, { text: 'x' })).status).toBe(
      200,
    );
    await permissions.unrelate(`User:${bob?.userId} editor Note:${note._id}`);
    expect((await user(bob).api.patch(`/database/Note/${note._id}`, { text: 'y' })).status).toBe(
      403,
    );
    const batch = { docs: [{ _id: note._id, text: 'z' }] };
    expect(await user(bob).api.patch('/database/Note/many', batch)).toMatchObject(lacks('edit'));
    expect((await user(ada).api.get(`/database/Note/${note._id}`)).body.text).toBe('x');
  });

  it('a field for those in a relation is set by nobody who creates the record, by whatever route, and by them afterwards', async () => {
    const text = { type: 'String', access: { write: 'relation:editor' } } as const;
    await platform.createSchema({
      name: 'Guarded',
      fields: { text, title: 'String' },
      conduitOptions: rowAuthorised,
    });
    const post = (path: string, body: object) => user(ada).api.post(`/database/${path}`, body);
    const refused = { status: 403, body: { code: 'FIELD_FORBIDDEN' } };
    expect(await post('Guarded', { text: 'x' })).toMatchObject(refused);
    expect(await post('Guarded/many', { docs: [{}, { text: 'x' }] })).toMatchObject(refused);
    expect(
      await post('batch', {
        operations: [{ op: 'create', schema: 'Guarded', data: { text: 'x' } }],
      }),
    ).toMatchObject(refused);
    const { _id } = expectStatus(await post('Guarded', { title: 't' }), 200, 'create').body;
    await permissions.relate(`User:${bob?.userId} editor Guarded:${_id}`);
    expect((await user(bob).api.patch(`/database/Guarded/${_id}`, { text: 'x' })).status).toBe(200);
  });

  it('a scope owns what is created for it; the four team roles get what the matrix says', async () => {
    const note = await create(ada, { text: 'ours' }, { scope: team });
    expect(await tuplesAbout(`Note:${note._id}`)).toEqual([`${team}#owner@Note:${note._id}`]);
    for (const who of [bob, cyd]) {
      expect(
        (await user(who).api.post('/database/Note', { text: 'no' }, { query: { scope: team } }))
          .status,
      ).toBe(403);
    }
    const path = `/database/Note/${note._id}`;
    const statuses = async (who: TestUser | undefined, query = {}) => [
      (await user(who).api.get(path, { query })).status,
      (await user(who).api.patch(path, { text: 'ours' }, { query })).status,
    ];
    expect(await statuses(ada)).toEqual([200, 200]);
    expect(await statuses(bob)).toEqual([200, 403]);
    expect(await statuses(cyd)).toEqual([404, 404]);
    expect(await statuses(ada, { scope: team })).toEqual([200, 200]);
    expect(await statuses(bob, { scope: team })).toEqual([200, 403]);
    expect(await statuses(cyd, { scope: team })).toEqual([403, 403]);
    expect((await listed(bob, { scope: team })).ids).toEqual([note._id]);
    expect((await user(cyd).api.get('/database/Note', { query: { scope: team } })).status).toBe(
      403,
    );
    expect(
      (await user(ada).api.get('/database/Note', { query: { scope: 'nonsense' } })).status,
    ).toBe(400);
    expect((await listed(ada, { scope: '' })).ids).toContain(note._id);
  });

  it('lists exactly what checks allow, with the exact count, in pages', async () => {
    const docs = Array.from({ length: 60 }, (_, i) => ({ text: `n${i}` }));
    const made: Json[] = expectStatus(
      await user(ada).api.post('/database/Note/many', { docs }),
      200,
      'many',
    ).body.docs;
    const shared = made.filter((_, i) => i % 3 === 0);
    await permissions.relate(...shared.map(({ _id }) => `User:${cyd?.userId} reader Note:${_id}`));
    for (const who of [ada, bob, cyd]) {
      const { body } = await platform.admin.get('/authorization/relations', {
        query: { resourceType: 'Note', limit: 1000 },
      });
      const all = [...new Set<string>(body.relations.map(({ resource }: Json) => resource))];
      const readable: string[] = [];
      for (const resource of all)
        if (await permissions.can(`User:${who?.userId} read ${resource}`))
          readable.push(resource.slice(5));
      const { ids, count } = await listed(who);
      expect([...ids].sort()).toEqual(readable.sort());
      expect(count).toBe(ids.length);
      const pages: string[] = [];
      for (let skip = 0; skip < count; skip += 7)
        pages.push(...(await listed(who, { skip, limit: 7 })).ids);
      expect(pages).toEqual(ids);
      expect((await permissions.list(`User:${who?.userId} read Note`)).sort()).toEqual(
        ids.map((id) => `Note:${id}`).sort(),
      );
    }
  });

  it('counts records, not relations: several to one record, and to records that are not there', async () => {
    const reader = await platform.registerUser();
    const notes = [
      await create(ada, { text: 'one' }),
      await create(ada, { text: 'two' }),
      await create(ada, { text: 'three' }),
    ];
    for (const { _id } of notes) {
      await permissions.relate(
        `User:${reader.userId} reader Note:${_id}`,
        `User:${reader.userId} editor Note:${_id}`,
      );
    }
    await permissions.relate(
      `User:${reader.userId} reader Note:${randomUUID()}`,
      `User:${reader.userId} reader Note:nowhere`,
    );
    const ids = notes.map(({ _id }) => _id).sort();
    expect(await listed(reader)).toEqual({ ids, count: 3 });
    expect(await listed(reader, { limit: 1, skip: 1 })).toEqual({ ids: [ids[1]], count: 3 });
    expect(await listed(reader, { sort: '-_id' })).toEqual({ ids: [...ids].reverse(), count: 3 });
    await user(ada).api.delete(`/database/Note/${ids[0]}`);
    expect(await listed(reader)).toEqual({ ids: ids.slice(1), count: 2 });
  });

  it('shows an invisible related record as its id only', async () => {
    const secret = await create(bob, { text: 'secret' });
    const note = await create(ada, { text: 'about', about: secret._id }).catch(() => undefined);
    // A relation to a record that one may not see is refused or kept as an id; its content never shows.
    if (note)
      expect(
        (await user(ada).api.get(`/database/Note/${note._id}?populate=about`)).body.about,
      ).toBe(secret._id);
    await permissions.relate(`User:${ada?.userId} reader Note:${secret._id}`);
    const seen = await create(ada, { text: 'about', about: secret._id });
    expect(
      (await user(ada).api.get(`/database/Note/${seen._id}?populate=about`)).body.about.text,
    ).toBe('secret');
  });

  it('deleting a record takes its relations away, on both sides', async () => {
    const note = await create(ada, { text: 'short-lived' });
    await permissions.relate(`User:${bob?.userId} reader Note:${note._id}`);
    expect((await user(ada).api.delete(`/database/Note/${note._id}`)).status).toBe(200);
    expect(await tuplesAbout(`Note:${note._id}`)).toEqual([]);
  });

  it('deleting a user takes their relations and roles away', async () => {
    const gone = await platform.registerUser();
    await create(gone, { text: 'left behind' });
    expectStatus(
      await platform.admin.post(`/authorization/users/${gone.userId}/roles`, { role: 'admin' }),
      200,
      'assign',
    );
    const about = async () =>
      (
        await platform.admin.get('/authorization/relations', {
          query: { subject: `User:${gone.userId}` },
        })
      ).body.count;
    expect(await about()).toBe(2);
    expect((await gone.api.delete('/authentication/user')).status).toBe(200);
    await waitFor(async () => (await about()) === 0);
  });

  it('never deletes records when it is switched on, and gives them owners when asked', async () => {
    const schema = await platform.createSchema({
      name: 'Old',
      fields: { text: 'String', author: { type: 'Relation', model: 'User' } },
    });
    const [mine] = await Promise.all([
      user(ada).api.post('/database/Old', { text: 'a', author: ada?.userId }),
      user(bob).api.post('/database/Old', { text: 'b', author: bob?.userId }),
      user(bob).api.post('/database/Old', { text: 'nobody' }),
    ]);
    const path = `/database/schemas/${schema._id}`;
    const refused = await platform.admin.patch(path, { conduitOptions: rowAuthorised });
    expect([refused.status, refused.body.code]).toEqual([400, 'ADOPTION_MISSING']);
    const wrong = { authorization: { enabled: true, mode: 'assignOwner', ownerField: 'nothing' } };
    expect((await platform.admin.patch(path, { conduitOptions: wrong })).status).toBe(400);
    const right = { authorization: { enabled: true, mode: 'assignOwner', ownerField: 'author' } };
    expectStatus(await platform.admin.patch(path, { conduitOptions: right }), 200, 'switch on');
    await waitFor(async () => (await user(ada).api.get('/database/Old')).body.count === 1);
    expect((await user(ada).api.get('/database/Old')).body.documents).toEqual([mine.body]);
    expect((await user(bob).api.get('/database/Old')).body.count).toBe(1);
  });

  it('destroying the table takes the definition and all relations with it', async () => {
    const schema = await platform.createSchema({
      name: 'Passing',
      fields: { text: 'String' },
      conduitOptions: rowAuthorised,
    });
    expectStatus(await user(ada).api.post('/database/Passing', { text: 'x' }), 200, 'create');
    expectStatus(
      await platform.admin.delete(`/database/schemas/${schema._id}`, {
        query: { deleteData: true },
      }),
      200,
      'destroy',
    );
    expect((await platform.admin.get('/authorization/resources/Passing')).status).toBe(404);
    expect(
      (await platform.admin.get('/authorization/relations', { query: { resourceType: 'Passing' } }))
        .body.count,
    ).toBe(0);
  });

  it('the definition by which records are served is not taken away by mistake', async () => {
    await platform.createSchema({
      name: 'Kept',
      fields: { text: 'String' },
      conduitOptions: rowAuthorised,
    });
    expectStatus(await user(ada).api.post('/database/Kept', { text: 'x' }), 200, 'create');
    const path = '/authorization/resources/Kept';
    const refused = [
      await platform.admin.delete(path),
      await platform.admin.patch(path, {
        relations: { owner: ['User'] },
        permissions: { edit: ['owner'], delete: ['owner'] },
      }),
      await platform.admin.patch(path, {
        relations: { owner: ['Team'] },
        permissions: { read: [], edit: [], delete: [] },
      }),
    ];
    expect(refused.map(({ status, body }) => [status, body.code])).toEqual(
      refused.map(() => [409, 'RESOURCE_IN_USE']),
    );
    expect(refused.map(({ body }) => body.errors?.map(({ path: lost }: Json) => lost))).toEqual([
      undefined,
      ['permissions.read'],
      ['relations.owner'],
    ]);
    expect((await user(ada).api.get('/database/Kept')).body.count).toBe(1);
    expectStatus(await platform.admin.delete(path, { query: { force: true } }), 200, 'force');
    expect((await user(ada).api.get('/database/Kept')).status).toBe(503);
  });

  it('ids in capitals mean the same record', async () => {
    const { _id } = await create(ada, { text: 'loud' });
    const resource = `Note:${_id.toUpperCase()}`;
    expect((await user(ada).api.get(`/database/${resource.replace(':', '/')}`)).status).toBe(200);
    expect(
      (await user(ada).api.get('/authorization/check', { query: { action: 'read', resource } }))
        .body,
    ).toEqual({ allowed: true });
    await permissions.relate(`User:${bob?.userId.toUpperCase()} reader ${resource}`);
    expect((await listed(bob)).ids).toContain(_id);
  });

  it('answers 503 while authorization is off, and 412 to who wants to use it', async () => {
    expectStatus(
      await platform.admin.patch('/config/authorization', { active: false }),
      200,
      'off',
    );
    try {
      const note = { text: 'x' };
      expect((await user(ada).api.get('/database/Note')).status).toBe(503);
      expect((await user(ada).api.post('/database/Note', note)).status).toBe(503);
      const asked = await user(ada).api.get('/authorization/check?action=read&resource=Note:1');
      expect(asked.body).toMatchObject({
        status: 503,
        code: 'UNAVAILABLE',
        message: expect.stringContaining('authorization'),
      });
      expect((await platform.admin.post('/authorization/relations', {})).status).toBe(503);
      const schema = { name: 'Late', fields: { text: 'String' }, conduitOptions: rowAuthorised };
      expect((await platform.admin.post('/database/schemas', schema)).status).toBe(412);
    } finally {
      expectStatus(
        await platform.admin.patch('/config/authorization', { active: true }),
        200,
        'on',
      );
    }
    expect((await user(ada).api.get('/database/Note')).status).toBe(200);
  });
});
