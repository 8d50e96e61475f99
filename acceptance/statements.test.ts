/** What requests cost the database, counted at the driver: one statement more in each of them is felt by everybody. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { SharedTransaction } from '../src/kernel/database/shared-statement.ts';
import { StatementSender } from '../src/kernel/database/statement-sender.ts';
import type { Json } from '../test/support/api.ts';
import type { TestUser } from '../test/support/node.ts';
import { bearer, readContent, sendForm } from './storage/requests.ts';
import { openBench, owned, type WeakSpotBench } from './weak-spots/bench.ts';

describe('statements of a request', () => {
  let bench: WeakSpotBench;
  let user: TestUser;
  const alone = vi.spyOn(pg.Client.prototype, 'query');
  const together = vi.spyOn(StatementSender.prototype, 'send');
  /** Statements that went out so far. Short ones of one turn go to the driver as one. */
  const sent = (): number =>
    together.mock.calls.length +
    alone.mock.calls.filter(([query]) => !((query as unknown) instanceof SharedTransaction)).length;

  beforeAll(async () => {
    bench = await openBench();
    user = await bench.platform.registerUser();
  });
  afterAll(async () => {
    alone.mockRestore();
    together.mockRestore();
    await bench.close();
  });

  /**
   * The fewest of several times: jobs and the delivery of events send theirs in between, and a node that heard nothing for a
   * second, as on a machine that is busy, asks for versions.
   */
  const costOf = async (request: () => Promise<{ readonly status: number }>): Promise<number> => {
    let fewest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 8 || (fewest > 1 && i < 40); i += 1) {
      const before = sent();
      expect((await request()).status).toBe(200);
      fewest = Math.min(fewest, sent() - before);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    return fewest;
  };

  test('records that everybody may read and write cost one each', async () => {
    const schema = await bench.schema({ title: 'String', n: 'Number' });
    const [record] = (await bench.fill(schema, [{ title: 'a', n: 1 }])) as [Json];
    const path = `/database/${schema.name}`;
    for (const api of [bench.platform.client, user.api]) {
      expect(await costOf(() => api.post(path, { title: 'b', n: 2 })), 'create').toBe(1);
      expect(
        await costOf(() => api.post(`${path}/many`, { docs: [{ title: 'b' }, { title: 'c' }] })),
        'create many',
      ).toBe(1);
      expect(await costOf(() => api.get(path)), 'list').toBe(1);
      expect(await costOf(() => api.get(`${path}/${record._id}`)), 'read').toBe(1);
      expect(await costOf(() => api.patch(`${path}/${record._id}`, { title: 'd' })), 'change').toBe(
        1,
      );
      expect(await costOf(() => api.put(`${path}/${record._id}`, { title: 'd' })), 'replace').toBe(
        1,
      );
    }
  });

  test('an account that reads itself costs what a record costs, until a field asks for a role', async () => {
    const self = () => user.api.get('/authentication/user');
    expect(await costOf(self)).toBe(1);
    const asked = { type: 'String', access: { read: 'role:editor' } };
    const schemas = (await bench.platform.admin.get('/database/schemas?limit=100')).body.schemas;
    const { _id: id } = schemas.find(({ name }: Json) => name === 'User');
    const extended = await bench.platform.admin.post(`/database/schemas/${id}/extensions`, {
      fields: { salary: asked },
    });
    expect(extended.status, extended.text).toBe(200);
    expect(await costOf(self)).toBeGreaterThan(1);
  });

  test('a link to such records costs nothing more: its foreign key holds it', async () => {
    const target = await bench.schema({ a: 'String' });
    const [{ _id: to }] = (await bench.fill(target, [{ a: 'x' }])) as [Json];
    const schema = await bench.schema({ to: { type: 'Relation', model: target.name } });
    expect(await costOf(() => user.api.post(`/database/${schema.name}`, { to }))).toBe(1);
    expect(await costOf(() => user.api.get(`/database/${schema.name}?populate=to`))).toBe(1);
  });

  test('permissions cost one statement beside reads by id, all else none', async () => {
    const schema = await bench.schema({ a: 'String' }, owned);
    const path = `/database/${schema.name}`;
    const { _id: id } = (await user.api.post(path, { a: 'x' })).body;
    // Whose it is, and whether the definition still says nothing about who may create, stands in the statement.
    expect(await costOf(() => user.api.post(path, { a: 'y' })), 'create').toBe(1);
    expect(await costOf(() => user.api.get(`${path}/${id}`)), 'read').toBeLessThanOrEqual(2);
    // Whether what is remembered still holds is asked by the statement that writes.
    expect(await costOf(() => user.api.patch(`${path}/${id}`, { a: 'z' })), 'change').toBe(1);
    expect(await costOf(() => user.api.put(`${path}/${id}`, { a: 'z' })), 'replace').toBe(1);
    const ids: string[] = [];
    while (ids.length < 40) ids.push((await user.api.post(path, { a: 'x' })).body._id);
    expect(await costOf(() => user.api.delete(`${path}/${ids.pop()}`)), 'delete').toBe(1);
    expect(await costOf(() => user.api.get(path)), 'list').toBe(1);
  });

  test('a check that a relation of the resource decides costs one, whether it is allowed or denied', async () => {
    const { admin } = bench.platform;
    const definition = {
      name: 'CountedDoc',
      relations: { owner: ['User'], viewer: ['User'] },
      permissions: { edit: ['owner'], see: ['viewer'] },
    };
    expect((await admin.post('/authorization/resources', definition)).status).toBe(200);
    const subject = `User:${user.userId}`;
    const [resource, other] = ['CountedDoc:1', 'CountedDoc:2'];
    expect(
      (await admin.post('/authorization/relations', { subject, relation: 'owner', resource }))
        .status,
    ).toBe(200);
    const can = (query: Record<string, string>) => () =>
      admin.get('/authorization/permissions/can', { query: { subject, ...query } });
    const allowed = can({ permission: 'edit', resource });
    expect((await allowed()).body).toEqual({ allowed: true });
    expect(await costOf(allowed), 'allowed').toBe(1);
    const denied = can({ permission: 'edit', resource: other });
    expect((await denied()).body).toEqual({ allowed: false });
    expect(await costOf(denied), 'denied').toBe(1);
    // A page of them, with what may be done to each.
    const checks = Array.from({ length: 20 }, (_, i) => ({
      ...{ subject, resource: `CountedDoc:${i}` },
      permission: i % 2 === 0 ? 'edit' : 'see',
    }));
    const many = () => admin.post('/authorization/permissions/check', { checks });
    expect((await many()).body.results[1]).toEqual({ allowed: false });
    expect(await costOf(many), 'twenty').toBe(1);
    const withContext = () =>
      admin.post('/authorization/permissions/can', {
        subject,
        permission: 'edit',
        resource,
        context: { place: 'home' },
      });
    expect(await costOf(withContext), 'with a context').toBe(1);
  });

  test('fields of a role cost four beside: which roles the caller holds and whether that is known still, before and after', async () => {
    const schema = await bench.schema({
      a: 'String',
      secret: { type: 'String', access: { read: 'role:editor' } },
    });
    const [{ _id: id }] = (await bench.fill(schema, [{ a: 'x' }])) as [Json];
    expect(await costOf(() => user.api.get(`/database/${schema.name}/${id}`))).toBeLessThanOrEqual(
      5,
    );
  });

  test('what is known about a file costs what a record costs, its content at most that', async () => {
    const schema = await bench.schema({ a: 'String' });
    const [{ _id: record }] = (await bench.fill(schema, [{ a: 'x' }])) as [Json];
    const fields = { isPublic: 'true' };
    const open = await sendForm(bench.platform, user, ['a.txt', '0123456789'], { fields });
    const own = await sendForm(bench.platform, user, ['b.txt', '0123456789']);
    const costOfRecord = await costOf(() => user.api.get(`/database/${schema.name}/${record}`));
    expect(costOfRecord).toBe(1);
    const { client } = bench.platform;
    expect(await costOf(() => user.api.get(`/storage/file/${own.body.id}`)), 'own').toBe(1);
    expect(await costOf(() => client.get(`/storage/file/${open.body.id}`)), 'public').toBe(1);
    expect(
      await costOf(() => user.api.get(`/storage/getFileUrl/${own.body.id}`)),
      'url',
    ).toBeLessThanOrEqual(1);
    const part = async (path: string) => {
      const headers = { ...bearer(user), range: 'bytes=2-5' };
      const { status, bytes } = await readContent(bench.platform, path, { headers });
      expect([status, bytes.toString()]).toEqual([206, '2345']);
      return { status: 200 };
    };
    expect(
      await costOf(() => part(`/storage/download/${own.body.id}`)),
      'range',
    ).toBeLessThanOrEqual(1);
    expect(
      await costOf(() => part(`/storage/blob/${open.body.id}`)),
      'public range',
    ).toBeLessThanOrEqual(1);
  });

  test('an upload costs no more with a quota of its owner than without', async () => {
    const upload = () => sendForm(bench.platform, user, [crypto.randomUUID(), '0123456789']);
    // The container is looked at once in a while.
    const least = async () => Math.min(await costOf(upload), await costOf(upload));
    await upload();
    const without = await least();
    const limits = { perUserQuota: 1_000_000 };
    await bench.platform.admin.patch('/config/storage', { limits });
    expect(await least()).toBe(without);
    await bench.platform.admin.patch('/config/storage', { limits: { perUserQuota: 0 } });
  });
});
