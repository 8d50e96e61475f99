/** Who owns a record is said by the record: no relation is stored for it, and it is seen and changed like one that is. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

describe('owners in records', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let database: pg.Client;
  let ada: TestUser;
  let bob: TestUser;
  let number = 0;
  const rowAuthorised = { authorization: { enabled: true } };

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    ada = await platform.registerUser();
    bob = await platform.registerUser();
    database = new pg.Client({ connectionString: platform.databaseUrl });
    await database.connect();
  });
  afterAll(async () => {
    await database.end();
    await platform.close();
  });

  async function newSchema(): Promise<string> {
    number += 1;
    const name = `Owned${number}`;
    const fields = { text: 'String' } as const;
    await platform.createSchema({ name, fields, conduitOptions: rowAuthorised });
    return name;
  }
  const create = async (who: TestUser, schema: string, query = {}): Promise<string> =>
    expectStatus(await who.api.post(`/database/${schema}`, { text: 'x' }, { query }), 200, 'create')
      .body._id;
  const idsFor = async (who: TestUser, schema: string, query = {}): Promise<string[]> => {
    const answer = await who.api.get(`/database/${schema}`, { query: { limit: 100, ...query } });
    const { documents, count } = expectStatus(answer, 200, 'list').body;
    expect(count).toBe(documents.length);
    return documents.map(({ _id }: Json) => _id).sort();
  };
  const relations = async (query: Record<string, string>): Promise<Json[]> =>
    expectStatus(await platform.admin.get('/authorization/relations', { query }), 200, 'relations')
      .body.relations;
  const stored = async (id: string): Promise<number> =>
    (await database.query('select 1 from penstock.tuples where resource_id = $1', [id])).rows
      .length;
  const remove = (id: string): Promise<Answer<Json>> =>
    platform.admin.delete(`/authorization/relations/${id}`);

  it('stores no relation for a new record, and everybody who asks finds it', async () => {
    const schema = await newSchema();
    const id = await create(ada, schema);
    const { body } = await ada.api.post(`/database/${schema}/many`, { docs: [{ text: 'y' }] });
    const { _id: other } = body.docs[0];
    expect([await stored(id), await stored(other)]).toEqual([0, 0]);
    expect(await idsFor(ada, schema)).toEqual([id, other].sort());
    expect(await idsFor(ada, schema, { sort: '-createdAt' })).toEqual([id, other].sort());
    expect(await idsFor(bob, schema)).toEqual([]);
    expect((await bob.api.get(`/database/${schema}/${id}`)).status).toBe(404);
    const resource = `${schema}:${id}`;
    expect(await permissions.can(`User:${ada.userId} delete ${resource}`)).toBe(true);
    expect(await permissions.can(`User:${bob.userId} read ${resource}`)).toBe(false);
    expect(await permissions.list(`User:${ada.userId} edit ${schema}`)).toEqual(
      [id, other].sort().map((one) => `${schema}:${one}`),
    );
    expect(await permissions.who(`read ${resource}`)).toEqual([`User:${ada.userId}`]);
    const [relation] = await relations({ resource });
    expect(relation).toMatchObject({
      _id: `${schema}.owner.${id}`,
      computedTuple: `User:${ada.userId}#owner@${resource}`,
      source: 'record',
    });
    const found = await platform.admin.get(`/authorization/relations/${relation?._id}`);
    expect(found.body.computedTuple).toBe(relation?.computedTuple);
    const query = { subject: `User:${ada.userId}`, permission: 'read', resource };
    const told = await platform.admin.get('/authorization/permissions/evaluate', { query });
    expect(JSON.stringify(told.body)).toContain(`User:${ada.userId}#owner@${resource}`);
  });

  it('hands a record over by deleting one relation and writing another', async () => {
    const schema = await newSchema();
    const id = await create(ada, schema);
    expect((await remove(`${schema}.owner.${id}`)).status).toBe(200);
    expect((await remove(`${schema}.owner.${id}`)).status).toBe(404);
    expect(await idsFor(ada, schema)).toEqual([]);
    const [written] = await permissions.relate(`User:${bob.userId} owner ${schema}:${id}`);
    // One representation of one fact: the record says it, and no relation is stored.
    expect(written).toMatchObject({ _id: `${schema}.owner.${id}`, source: 'record' });
    expect(await stored(id)).toBe(0);
    expect([await idsFor(ada, schema), await idsFor(bob, schema)]).toEqual([[], [id]]);
    expect((await bob.api.patch(`/database/${schema}/${id}`, { text: 'mine' })).status).toBe(200);
    const told = async (): Promise<boolean> => {
      const { body } = await platform.admin.get('/authorization/changes', {
        query: { after: 0, limit: 1000 },
      });
      const about = body.changes?.filter(({ ids }: Json) => ids?.includes(id));
      return about?.some(({ topic }: Json) => topic.split(':')[1] === 'delete');
    };
    await waitFor(told, { what: 'the changelog to tell the deletion' });
  });

  it('owners may be several: what is stored counts beside what the record says', async () => {
    const schema = await newSchema();
    const id = await create(ada, schema);
    await permissions.relate(`User:${bob.userId} owner ${schema}:${id}`);
    expect([await idsFor(ada, schema), await idsFor(bob, schema)]).toEqual([[id], [id]]);
    expect(await relations({ resource: `${schema}:${id}` })).toHaveLength(2);
    // Said already: nothing is stored, and nothing stays when it is deleted.
    const [again] = await permissions.relate(`User:${ada.userId} owner ${schema}:${id}`);
    expect(again).toMatchObject({ _id: `${schema}.owner.${id}`, source: 'record' });
    await permissions.unrelate(`User:${ada.userId} owner ${schema}:${id}`);
    expect([await idsFor(ada, schema), await idsFor(bob, schema)]).toEqual([[], [id]]);
  });

  it('a relation that has ended takes nothing of what the record says', async () => {
    const schema = await newSchema();
    const { body } = await platform.admin.get('/database/schemas', { query: { search: schema } });
    const update = { enabled: true, upsert: true };
    const conduitOptions = { ...rowAuthorised, cms: { crudOperations: { update } } };
    const path = `/database/schemas/${body.schemas[0]._id}`;
    expectStatus(await platform.admin.patch(path, { conduitOptions }), 200, 'upsert');
    const id = '01900000-0000-7000-8000-0000000000aa';
    const tuple = { subject: `User:${ada.userId}`, relation: 'owner', resource: `${schema}:${id}` };
    const ended = { ...tuple, expiresAt: '2020-01-01T00:00:00.000Z' };
    expectStatus(await platform.admin.post('/authorization/relations', ended), 200, 'write');
    const put = await ada.api.put(`/database/${schema}/${id}`, {}, { query: { upsert: true } });
    expectStatus(put, 200, 'upsert');
    expect(await idsFor(ada, schema)).toEqual([id]);
    const checks = Array.from({ length: 2 }, () => ({ action: 'edit', resource: tuple.resource }));
    const { results } = (await ada.api.post('/authorization/check/many', { checks })).body;
    expect(results).toEqual([{ allowed: true }, { allowed: true }]);
    const { body: roles } = await ada.api.get(`/authorization/role/${tuple.resource}`);
    expect(roles).toEqual({ roles: ['owner'] });
  });

  it('of many owners each record says one, and what it cannot say is stored', async () => {
    const schema = await newSchema();
    const ids = [await create(ada, schema), await create(ada, schema)];
    const query = { subject: `User:${ada.userId}`, resourceType: schema };
    expectStatus(await platform.admin.delete('/authorization/relations', { query }), 200, 'delete');
    const resources = [...ids, '01900000-0000-7000-8000-00000000000f', 'none'].map(
      (id) => `${schema}:${id}`,
    );
    const many = { subject: `User:${bob.userId}`, relation: 'owner', resources };
    const answer = await platform.admin.post('/authorization/relations/many', many);
    const { body } = expectStatus(answer, 200, 'many');
    expect(body.map(({ source }: Json) => source)).toEqual([
      'record',
      'record',
      undefined,
      undefined,
    ]);
    expect(await Promise.all(ids.map(stored))).toEqual([0, 0]);
    await permissions.relate(`User:${ada.userId} owner ${schema}:${ids[0]}`);
    expect(await Promise.all(ids.map(stored))).toEqual([1, 0]);
    expect([await idsFor(ada, schema), await idsFor(bob, schema)]).toEqual([[ids[0]], ids.sort()]);
  });

  it('one of many who write an owner at once is said, the others are stored', async () => {
    const schema = await newSchema();
    const id = await create(ada, schema);
    await remove(`${schema}.owner.${id}`);
    const users = Array.from(
      { length: 10 },
      (_, i) => `01900000-0000-7000-8000-0000000000${10 + i}`,
    );
    await Promise.all(
      users.map((user) => permissions.relate(`User:${user} owner ${schema}:${id}`)),
    );
    expect(await stored(id)).toBe(9);
    const owners = await relations({ resource: `${schema}:${id}` });
    expect(owners.map(({ subject }) => subject).sort()).toEqual(users.map((one) => `User:${one}`));
  });

  it('a right for some time takes the place of one without end', async () => {
    const schema = await newSchema();
    const id = await create(ada, schema);
    const relation = {
      subject: `User:${ada.userId}`,
      relation: 'owner',
      resource: `${schema}:${id}`,
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    };
    expectStatus(await platform.admin.post('/authorization/relations', relation), 200, 'narrow');
    expect(await idsFor(ada, schema)).toEqual([id]);
    const [only, ...more] = await relations({ resource: relation.resource });
    expect([only?.expiresAt, more]).toEqual([relation.expiresAt, []]);
    await database.query(
      `update penstock.tuples set expires_at = now() - interval '1 minute' where resource_id = $1`,
      [id],
    );
    expect(await idsFor(ada, schema)).toEqual([]);
  });

  it('teams own what is created for them', async () => {
    const schema = await newSchema();
    const team = 'Team:01900000-0000-7000-8000-000000000001';
    await permissions.relate(
      `User:${ada.userId} owner ${team}`,
      `User:${bob.userId} readAll ${team}`,
    );
    const id = await create(ada, schema, { scope: team });
    expect(await stored(id)).toBe(0);
    const [relation] = await relations({ resource: `${schema}:${id}` });
    expect(relation).toMatchObject({ subject: team, source: 'record' });
    expect(await relations({ subject: team, resourceType: schema })).toHaveLength(1);
    expect([await idsFor(ada, schema), await idsFor(bob, schema)]).toEqual([[id], [id]]);
    expect(await idsFor(bob, schema, { scope: team })).toEqual([id]);
    expect((await bob.api.delete(`/database/${schema}/${id}`)).status).toBe(403);
    expect(
      (await ada.api.delete(`/database/${schema}/${id}`, { query: { scope: team } })).status,
    ).toBe(200);
  });

  it('a definition that no longer takes an owner is refused with what records say, or takes it from them', async () => {
    const schema = await newSchema();
    const team = 'Team:01900000-0000-7000-8000-000000000002';
    await permissions.relate(`User:${ada.userId} owner ${team}`);
    const id = await create(ada, schema, { scope: team });
    const own = await create(ada, schema);
    const { body } = await platform.admin.get(`/authorization/resources/${schema}`);
    const narrower = {
      relations: { ...body.relations, owner: ['User'] },
      permissions: { read: ['owner', 'reader'], edit: ['owner'], delete: ['owner'] },
    };
    const path = `/authorization/resources/${body._id}`;
    const refused = await platform.admin.patch(path, narrower);
    expect(refused.status).toBe(409);
    expect(refused.body.message).toContain(`${team}#owner@${schema}:${id}`);
    const forced = await platform.admin.patch(path, narrower, { query: { force: true } });
    expectStatus(forced, 200, 'force');
    expect(await relations({ resource: `${schema}:${id}` })).toEqual([]);
    expect(await idsFor(ada, schema)).toEqual([own]);
    expectStatus(
      await platform.admin.patch(path, {
        relations: body.relations,
        permissions: body.permissions,
      }),
      200,
      'widen',
    );
    expect(await idsFor(ada, schema)).toEqual([own]);
  });

  it('a create by definitions that are out of date writes nothing and is done by those in force', async () => {
    const schema = await newSchema();
    const first = await create(ada, schema);
    // What another node has done a moment ago, of which this one has not heard.
    await database.query(
      `update penstock.resource_definitions set permissions = permissions || '{"create": ["reader"]}' where name = $1`,
      [schema],
    );
    await database.query(
      `insert into penstock.resource_definition_versions (name, changed_by) values ($1, 'test')`,
      [schema],
    );
    const refused = await ada.api.post(`/database/${schema}`, { text: 'y' });
    expect(refused.status).toBe(403);
    expect(await idsFor(ada, schema)).toEqual([first]);
    await database.query(
      `update penstock.resource_definitions set permissions = permissions - 'create' where name = $1`,
      [schema],
    );
    await database.query(
      `insert into penstock.resource_definition_versions (name, changed_by) values ($1, 'test')`,
      [schema],
    );
    expect((await idsFor(ada, schema)).length).toBe(1);
    await create(ada, schema);
    expect((await idsFor(ada, schema)).length).toBe(2);
  });

  it('all that somebody owns can be taken from them at once', async () => {
    const schema = await newSchema();
    const ids = [await create(ada, schema), await create(ada, schema)];
    const others = await create(bob, schema);
    const query = { subject: `User:${ada.userId}`, resourceType: schema };
    expectStatus(await platform.admin.delete('/authorization/relations', { query }), 200, 'delete');
    expect(await idsFor(ada, schema)).toEqual([]);
    expect(await idsFor(bob, schema)).toEqual([others]);
    expect(await relations({ resource: `${schema}:${ids[0]}` })).toEqual([]);
  });

  it('those that fit a filter are listed in the order of a field, however many are owned', async () => {
    const read = { enabled: true, authenticated: true };
    await platform.createSchema({
      name: 'OwnedInOrder',
      fields: { rank: { type: 'Number', index: { type: 'Ascending' } }, text: 'String' },
      conduitOptions: {
        ...rowAuthorised,
        cms: {
          crudOperations: { read },
          query: { enabled: true, fields: ['rank'] },
          enabled: true,
        },
      },
    });
    await database.query(
      `insert into app."OwnedInOrder" (_id, rank, text, "@owner", "createdAt", "updatedAt", __v)
       select gen_random_uuid(), n, 'x', $1, now(), now(), 0 from generate_series(1, 2500) n`,
      [ada.userId],
    );
    await database.query('analyze app."OwnedInOrder"');
    const query = { rank: { $lt: 2000 } };
    for (const [options, first] of [
      [{ sort: '-rank', limit: 3, count: 'none' }, 1999],
      [{ sort: 'rank', limit: 3, skip: 5 }, 6],
      [{ sort: '-rank', limit: 3, cursor: 'start' }, 1999],
    ] as const) {
      const answer = await ada.api.post(
        '/database/OwnedInOrder/query',
        { query },
        { query: options },
      );
      const { documents, count } = expectStatus(answer, 200, 'query').body;
      const step = options.sort === 'rank' ? 1 : -1;
      const ranks = documents.map(({ rank }: Json) => rank);
      expect(ranks).toEqual([first, first + step, first + 2 * step]);
      if (!('count' in options)) expect(count).toBe(1999);
    }
    const others = await bob.api.post('/database/OwnedInOrder/query', { query }, { query: {} });
    expect(others.body).toMatchObject({ documents: [], count: 0 });
  });

  it('a schema that is destroyed takes them along, and one of its name begins anew', async () => {
    const schema = await newSchema();
    await create(ada, schema);
    const { body } = await platform.admin.get('/database/schemas', { query: { search: schema } });
    const { _id } = body.schemas.find(({ name }: Json) => name === schema);
    const query = { deleteData: true };
    expectStatus(
      await platform.admin.delete(`/database/schemas/${_id}`, { query }),
      200,
      'destroy',
    );
    const fields = { text: 'String' } as const;
    await platform.createSchema({ name: schema, fields, conduitOptions: rowAuthorised });
    expect(await idsFor(ada, schema)).toEqual([]);
    const id = await create(bob, schema);
    expect(await stored(id)).toBe(0);
    expect(await idsFor(bob, schema)).toEqual([id]);
  });
});
