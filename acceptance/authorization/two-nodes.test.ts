/** A grant, a revocation and a definition hold for the very next request on every node: with Redis, and on PostgreSQL alone. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits, permissionsApi, vectorDefinitions } from '../../test/support/permissions.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';

describe.each([{ redis: true }, { redis: false }])('two nodes (%o)', ({ redis }) => {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis });
    await liftLimits(nodes.first.admin);
    for (const definition of vectorDefinitions)
      await permissionsApi(nodes.first.admin).define(definition);
  });
  afterAll(() => nodes.close());

  it('agree about relations at once', async () => {
    const [first, second] = [permissionsApi(nodes.first.admin), permissionsApi(nodes.second.admin)];
    await first.relate('User:a owner Team:p', 'Team:p owner Team:c');
    for (let round = 0; round < 10; round += 1) {
      const doc = `Doc:${round}`;
      await first.relate(`Team:c owner ${doc}`);
      expect(await second.can(`User:a read ${doc}`)).toBe(true);
      await second.unrelate(`Team:c owner ${doc}`);
      expect(await first.can(`User:a read ${doc}`)).toBe(false);
    }
  });

  it('agree about lists that hang on teams, however often both were asked before', async () => {
    const name = `Listed${randomUUID().slice(0, 8)}`;
    await nodes.first.createSchema({
      name,
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const [owner, reader] = [await nodes.first.registerUser(), await nodes.first.registerUser()];
    const [top, low] = [randomUUID(), randomUUID()];
    const [first, second] = [permissionsApi(nodes.first.admin), permissionsApi(nodes.second.admin)];
    await first.relate(`User:${owner.userId} owner Team:${low}`, `Team:${top} owner Team:${low}`);
    for (const text of ['a', 'b', 'c']) {
      expectStatus(
        await owner.api.post(`/database/${name}`, { text }, { query: { scope: `Team:${low}` } }),
        200,
        'create',
      );
    }
    const counts = async (): Promise<readonly unknown[]> => {
      const there = nodes.second.client.with({ authorization: `Bearer ${reader.accessToken}` });
      const answers = await Promise.all(
        [reader.api, there].map((api) => api.get(`/database/${name}`, { query: { limit: 2 } })),
      );
      return answers.map(({ body }) => [
        (body as { documents: unknown[] }).documents.length,
        (body as { count: number }).count,
      ]);
    };
    const links = [`User:${reader.userId} readAll Team:${top}`, `Team:${top} owner Team:${low}`];
    for (let round = 0; round < 8; round += 1) {
      const [here, link] = [round % 2 === 0 ? first : second, links[round % 3 === 0 ? 1 : 0] ?? ''];
      await first.relate(...links);
      expect([round, await counts(), await counts()]).toEqual([
        round,
        [
          [2, 3],
          [2, 3],
        ],
        [
          [2, 3],
          [2, 3],
        ],
      ]);
      await here.unrelate(link);
      expect([round, await counts(), await counts()]).toEqual([
        round,
        [
          [0, 0],
          [0, 0],
        ],
        [
          [0, 0],
          [0, 0],
        ],
      ]);
    }
  });

  it('let nobody change or delete what another node took from them a moment ago', async () => {
    const name = `Changed${randomUUID().slice(0, 8)}`;
    await nodes.first.createSchema({
      name,
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const [owner, editor] = [await nodes.first.registerUser(), await nodes.first.registerUser()];
    const [top, low] = [randomUUID(), randomUUID()];
    const [first, second] = [permissionsApi(nodes.first.admin), permissionsApi(nodes.second.admin)];
    await first.relate(`User:${owner.userId} owner Team:${low}`, `Team:${top} owner Team:${low}`);
    const create = async (): Promise<string> => {
      const query = { scope: `Team:${low}` };
      const made = await owner.api.post(`/database/${name}`, { text: 'first' }, { query });
      return `/database/${name}/${(expectStatus(made, 200, 'create').body as { _id: string })._id}`;
    };
    const path = await create();
    const there = nodes.second.client.with({ authorization: `Bearer ${editor.accessToken}` });
    const membership = `User:${editor.userId} editAll Team:${top}`;
    for (let round = 0; round < 8; round += 1) {
      const [granting, changing] = round % 2 === 0 ? [first, there] : [second, editor.api];
      await granting.relate(membership);
      const text = `round ${round}`;
      expectStatus(await changing.patch(path, { text }), 200, text);
      expectStatus(await editor.api.put(path, { text }), 200, text);
      await granting.unrelate(membership);
      // In turns: the one that changed it last, and the one that did not.
      const refused = round % 4 < 2 ? changing : editor.api;
      expect((await refused.patch(path, { text: 'taken' })).status).toBe(404);
      expect((await refused.put(path, { text: 'taken' })).status).toBe(404);
      expect((await refused.delete(path)).status).toBe(404);
      expect((await owner.api.get(path)).body).toMatchObject({ text });
    }
    await second.relate(membership);
    expectStatus(await editor.api.delete(path), 200, 'delete');
    expect((await owner.api.get(path)).status).toBe(404);
  });

  it('answer the id alone to whom another node has just granted a change for the first time', async () => {
    for (let round = 0; round < 3; round += 1) {
      const name = `Lent${randomUUID().slice(0, 8)}`;
      const conduitOptions = { authorization: { enabled: true } };
      await nodes.first.createSchema({ name, fields: { text: 'String' }, conduitOptions });
      const [owner, editor] = [await nodes.first.registerUser(), await nodes.first.registerUser()];
      const made = await owner.api.post(`/database/${name}`, { text: 'first' });
      const { _id } = expectStatus(made, 200, 'create').body as { readonly _id: string };
      const path = `/database/${name}/${_id}`;
      const as = (token: string) => nodes.second.client.with({ authorization: `Bearer ${token}` });
      // Both know the definition as it was.
      for (const api of [owner.api, as(owner.accessToken)])
        expect((await api.patch(path, { text: 'both' })).body).toMatchObject({ text: 'both' });
      const grant = { subject: `User:${editor.userId}`, permission: 'edit' };
      const resource = `${name}:${_id}`;
      const { admin } = round === 1 ? nodes.second : nodes.first;
      expectStatus(
        await admin.post('/authorization/permissions', { ...grant, resource }),
        200,
        'grant',
      );
      for (const api of [as(editor.accessToken), editor.api])
        expect((await api.patch(path, { text: 'changed' })).body).toEqual({ _id });
    }
  });

  it('agree about definitions at once', async () => {
    const [first, second] = [permissionsApi(nodes.first.admin), permissionsApi(nodes.second.admin)];
    const relations = { a: ['User'], b: ['User'] };
    await first.define({ name: 'Live', relations, permissions: { read: [] } });
    await second.relate('User:x a Live:1');
    for (let round = 0; round < 6; round += 1) {
      const [here, there] = round % 2 === 0 ? [nodes.first, second] : [nodes.second, first];
      const read = round % 2 === 0 ? ['a'] : ['b'];
      expectStatus(
        await here.admin.patch('/authorization/resources/Live', {
          relations,
          permissions: { read },
        }),
        200,
        'patch',
      );
      expect(await there.can('User:x read Live:1')).toBe(round % 2 === 0);
    }
  });

  it('agree about records and their owners', async () => {
    const name = `Shared${randomUUID().slice(0, 8)}`;
    await nodes.first.createSchema({
      name,
      fields: { text: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    const [owner, other] = [await nodes.first.registerUser(), await nodes.first.registerUser()];
    const elsewhere = (token: string) =>
      nodes.second.client.with({ authorization: `Bearer ${token}` });
    const { body } = expectStatus(
      await owner.api.post(`/database/${name}`, { text: 'x' }),
      200,
      'create',
    );
    const path = `/database/${name}/${(body as { _id: string })._id}`;
    expect((await elsewhere(owner.accessToken).get(path)).status).toBe(200);
    expect((await elsewhere(other.accessToken).get(path)).status).toBe(404);
    const tuple = `User:${other.userId} reader ${name}:${(body as { _id: string })._id}`;
    await permissionsApi(nodes.first.admin).relate(tuple);
    expect((await elsewhere(other.accessToken).get(path)).status).toBe(200);
    await permissionsApi(nodes.second.admin).unrelate(tuple);
    expect((await other.api.get(path)).status).toBe(404);
    expect((await elsewhere(owner.accessToken).delete(path)).status).toBe(200);
    const left = await nodes.first.admin.get('/authorization/relations', {
      query: { resourceType: name },
    });
    expect((left.body as { count: number }).count).toBe(0);
  });
});
