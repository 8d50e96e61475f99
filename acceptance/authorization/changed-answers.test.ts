/** What changes answer to who may change a record and not read it: its id alone (decision 528). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FieldMap, PlatformOptions } from '../../src/data/schema/language/definition.ts';
import type { Answer, Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { upload } from '../functions/requests.ts';

const query = { enabled: true, fields: ['title'] };
const operators = { update: { operators: true } };

describe('answers of changes', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ann: TestUser;
  let bob: TestUser;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  });
  afterAll(() => platform.close());

  const schema = (name: string, conduitOptions: PlatformOptions): Promise<Json> => {
    const fields: FieldMap = {
      title: 'String',
      secret: 'String',
      count: 'Number',
      place: { city: 'String' },
      author: { type: 'Relation', model: 'User' },
    };
    const cms = { query, crudOperations: operators };
    return platform.createSchema({ name, fields, conduitOptions: { cms, ...conduitOptions } });
  };
  const newOne = async (name: string): Promise<string> => {
    const body = { title: 'a', secret: 'hidden', count: 1, place: { city: 'Bern' } };
    return expectStatus(await ann.api.post(`/database/${name}`, body), 200, name).body._id;
  };
  /** What each way of changing the record answers of it. */
  const told = async (name: string, id: string): Promise<Record<string, Json>> => {
    const path = `/database/${name}`;
    const doc = { _id: id, title: 'b' };
    const batch = { operations: [{ op: 'update', schema: name, id, data: { title: 'c' } }] };
    const field = `patchDatabase${name}Id`;
    const change = `${field}(id: "${id}", params: { title: "d" }) { _id title secret }`;
    const graphql = { query: `mutation { ${change} }` };
    const ways: Record<string, () => Promise<Answer<Json>>> = {
      patch: () => bob.api.patch(`${path}/${id}`, { title: 'b' }),
      'patch nothing': () => bob.api.patch(`${path}/${id}`, {}),
      'patch inside': () => bob.api.patch(`${path}/${id}`, { place: { city: 'Basel' } }),
      increment: () => bob.api.patch(`${path}/${id}`, { $inc: { count: 1 } }),
      put: () => bob.api.put(`${path}/${id}`, { title: 'b' }),
      'patch many': () => bob.api.patch(`${path}/many`, { docs: [doc] }),
      'put many': () => bob.api.put(`${path}/many`, { docs: [doc] }),
      batch: () => bob.api.post('/database/batch', batch),
      graphql: () => bob.api.post('/graphql', graphql),
    };
    const found: Record<string, Json> = {};
    for (const [way, ask] of Object.entries(ways)) {
      const { body } = expectStatus(await ask(), 200, way);
      const record = body.docs?.[0] ?? body.results?.[0].document ?? body.data?.[field] ?? body;
      const isThere = ([, value]: readonly [string, unknown]): boolean => value !== null;
      found[way] = Object.fromEntries(Object.entries<unknown>(record).filter(isThere));
    }
    return found;
  };
  const everyWay = async (name: string, id: string, expected: object): Promise<void> => {
    for (const [way, answer] of Object.entries(await told(name, id)))
      expect([way, answer]).toEqual([way, expected]);
  };
  const whole = expect.objectContaining({ title: expect.any(String) });

  it('say no more than the id of a record that its changer may not read', async () => {
    await schema('Sealed', { authorization: { enabled: true } });
    await permissions.define({
      name: 'Sealed',
      version: 1,
      relations: { owner: ['User'], clerk: ['User'], reader: ['User'] },
      permissions: { read: ['owner', 'reader'], edit: ['owner', 'clerk'], delete: ['owner'] },
    });
    const id = await newOne('Sealed');
    await permissions.relate(`User:${bob.userId} clerk Sealed:${id}`);
    await everyWay('Sealed', id, { _id: id });
    await permissions.relate(`User:${bob.userId} reader Sealed:${id}`);
    await everyWay('Sealed', id, whole);
  });

  it('say it too where the owner alone reads and others change', async () => {
    const { warnings } = await schema('Posted', { owner: { field: 'author', limit: ['read'] } });
    const about = (given: readonly string[]): string[] =>
      given.filter((text) => text.includes('owner.limit')).map((text) => text.split('"')[1] ?? '');
    expect(about(warnings)).toEqual(['update', 'delete']);
    const id = await newOne('Posted');
    expect((await bob.api.get(`/database/Posted/${id}`)).status).toBe(404);
    await everyWay('Posted', id, { _id: id });
    const limit = ['read', 'update', 'delete'] as const;
    const { warnings: none } = await schema('Kept', { owner: { field: 'author', limit } });
    expect(about(none)).toEqual([]);
  });

  it('say it where a change gives the record away', async () => {
    await schema('Passed', { authorization: { enabled: true } });
    await permissions.define({
      name: 'Passed',
      version: 1,
      relations: { owner: ['User'], author: { from: 'author' } },
      permissions: { read: ['author'], edit: ['owner'], delete: ['owner'] },
    });
    const id = await newOne('Passed');
    const path = `/database/Passed/${id}`;
    const mine = await ann.api.patch(path, { author: ann.userId });
    expect(mine.body).toMatchObject({ _id: id, secret: 'hidden' });
    expect((await ann.api.patch(path, { author: bob.userId })).body).toEqual({ _id: id });
  });

  const grant = async (
    permission: string,
    resource: string,
    extras: object = {},
  ): Promise<Json> => {
    const body = { subject: `User:${bob.userId}`, permission, resource, ...extras };
    const answer = await platform.admin.post('/authorization/permissions', body);
    return expectStatus(answer, 200, `grant ${permission}`).body;
  };

  it('say it where the change alone was granted directly, and the definition gives both', async () => {
    await schema('Lent', { authorization: { enabled: true } });
    const [id, other] = [await newOne('Lent'), await newOne('Lent')];
    const inTime = { expiresAt: new Date(Date.now() + 3_600_000).toISOString() };
    await grant('edit', `Lent:${id}`, inTime);
    await everyWay('Lent', id, { _id: id });
    const functionCode = `const { id } = req.params; return ctx.db.update('Lent', id, { title: 'f' });`;
    const inputs = { method: 'GET', auth: true, urlParams: { id: { type: 'String' } } };
    await upload(platform.admin, { name: 'lent', functionCode, inputs });
    const byCode = await bob.api.get(`/functions/lent/${id}`);
    expect(byCode.body).toEqual({ result: { _id: id } });
    // Whose rights are by the definition is answered as before.
    expect((await ann.api.patch(`/database/Lent/${id}`, { title: 'c' })).body).toMatchObject(whole);
    await permissions.relate(`User:${bob.userId} reader Lent:${id}`);
    await everyWay('Lent', id, whole);
    const write = { subject: `User:${bob.userId}`, permission: 'edit', resource: `Lent:${other}` };
    const writes = { writes: [write] };
    expectStatus(await platform.admin.post('/authorization/relations/write', writes), 200, 'write');
    await everyWay('Lent', other, { _id: other });
  });

  it('say it where the grant was one of two with one Idempotency-Key', async () => {
    await schema('Once', { authorization: { enabled: true } });
    const id = await newOne('Once');
    const body = { subject: `User:${bob.userId}`, permission: 'edit', resource: `Once:${id}` };
    const headers = { 'idempotency-key': 'grant-once' };
    for (const time of ['first', 'again'])
      expectStatus(
        await platform.admin.post('/authorization/permissions', body, { headers }),
        200,
        time,
      );
    await everyWay('Once', id, { _id: id });
    // A grant that is gone takes the change with it, and is no reason to answer more to others.
    const gone = await platform.admin.delete('/authorization/permissions', { query: body });
    expectStatus(gone, 200, 'revoked');
    expect((await bob.api.patch(`/database/Once/${id}`, {})).status).toBe(404);
    expect((await ann.api.patch(`/database/Once/${id}`, {})).body).toMatchObject(whole);
  });

  it('say it where an action on what leads to the record was granted directly', async () => {
    await schema('Held', { authorization: { enabled: true } });
    await permissions.define({
      name: 'Holder',
      version: 1,
      relations: { owner: ['User'] },
      permissions: { read: ['owner'], edit: ['owner'], tend: ['edit'] },
    });
    await permissions.define({
      name: 'Held',
      version: 1,
      relations: { owner: ['User'], holder: ['Holder'] },
      permissions: {
        read: ['owner', 'holder->read'],
        edit: ['owner', 'holder->tend'],
        delete: ['owner'],
      },
    });
    const id = await newOne('Held');
    await permissions.relate(`Holder:1 holder Held:${id}`, `User:${bob.userId} owner Holder:1`);
    await everyWay('Held', id, whole);
    await permissions.unrelate(`User:${bob.userId} owner Holder:1`);
    await grant('edit', 'Holder:1');
    await everyWay('Held', id, { _id: id });
  });
});
