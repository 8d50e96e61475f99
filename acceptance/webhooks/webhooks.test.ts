/** Webhooks as operators and receivers meet them (docs/guides/webhooks.md). */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { assign, compare, input, location, operation } from '../../test/support/endpoints.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import {
  createEndpoint,
  deliveriesIn,
  deliveriesOf,
  expectedSignature,
  type Receiver,
  startReceiver,
} from './receiver.ts';

let platform: TestPlatform;
let receiver: Receiver;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await configure({ allowInternal: true, delivery: { pausesMs: [20, 20] } });
  for (const name of ['Order', 'Other'])
    await platform.createSchema({
      name,
      fields: { total: 'Number', note: 'String', hidden: { type: 'String', select: false } },
      conduitOptions: { cms: { enabled: true, crudOperations: crud } },
    });
});
afterAll(() => platform.close());
beforeEach(async () => {
  receiver = await startReceiver();
  return () => receiver.close();
});

const open = { enabled: true, authenticated: false };
const crud = { create: open, read: open, update: open, delete: open };
const configure = async (config: object) =>
  expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'config');
const create = async (name: string, record: object) =>
  expectStatus(await platform.client.post(`/database/${name}`, record), 200, name).body;
const remove = (id: string) => platform.admin.delete(`/webhooks/endpoints/${id}`);

describe('a delivery', () => {
  it('is signed, says what happened, and is listed with what the receiver answered', async () => {
    receiver.answer(() => ({ status: 202, body: 'thanks' }));
    const endpoint = await createEndpoint(platform.admin, {
      url: receiver.url,
      schemas: ['Order'],
    });
    const order = await create('Order', { total: 5, note: 'n', hidden: 'secret' });
    await platform.client.patch(`/database/Order/${order._id}`, { total: 6 });
    await platform.client.delete(`/database/Order/${order._id}`);
    await deliveriesIn(platform.admin, endpoint._id, { state: 'done', count: 3 });
    const { arrivals } = receiver;
    expect(arrivals.map(({ body }) => body.type).sort()).toEqual([
      'record.created',
      'record.deleted',
      'record.updated',
    ]);
    for (const arrival of arrivals) {
      expect(arrival.headers['webhook-signature']).toBe(
        expectedSignature(endpoint.secret, arrival),
      );
      expect(arrival.body.data).toMatchObject({ schema: 'Order', id: order._id });
      expect(arrival.text).not.toContain('secret');
    }
    const [listed] = await deliveriesOf(platform.admin, endpoint._id);
    expect(listed?.tries).toEqual([
      expect.objectContaining({ outcome: 'done', status: 202, answer: 'thanks' }),
    ]);
    await remove(endpoint._id);
  });

  it('is about those records only that the endpoint asks for', async () => {
    const endpoint = await createEndpoint(platform.admin, {
      ...{ url: receiver.url, schemas: ['Order'], events: ['record.created'], payload: 'ids' },
      condition: { total: { $gt: 10 } },
    });
    await create('Other', { total: 99 });
    await create('Order', { total: 10 });
    const many = await platform.client.post('/database/Order/many', {
      docs: [{ total: 11 }, { total: 3 }, { total: 12 }],
    });
    expectStatus(many, 200, 'many');
    await deliveriesIn(platform.admin, endpoint._id, { state: 'done', count: 2 });
    await create('Order', { total: 13 });
    const deliveries = await deliveriesIn(platform.admin, endpoint._id, {
      ...{ state: 'done', count: 3 },
    });
    expect(deliveries).toHaveLength(3);
    expect(receiver.arrivals.every(({ body }) => body.data.record === undefined)).toBe(true);
    await remove(endpoint._id);
  });

  it('is made for each of many records that are too large to be read together', async () => {
    const endpoint = await createEndpoint(platform.admin, {
      ...{ url: receiver.url, schemas: ['Other'], events: ['record.updated'], payload: 'ids' },
      condition: { total: { $gt: 0 } },
    });
    const docs = Array.from({ length: 90 }, () => ({ total: 77 }));
    expectStatus(await platform.client.post('/database/Other/many', { docs }), 200, 'many');
    const definition = {
      ...{ name: 'enlarge', operation: operation.patch, selectedSchemaName: 'Other' },
      inputs: [input('note', 'String', location.body)],
      query: compare('total', 0, ['Custom', 77]),
      assignments: [assign('note', 0, 'Input', 'note')],
    };
    const made = await platform.admin.post('/database/customEndpoints', definition);
    expectStatus(made, 200, 'endpoint');
    const note = 'x'.repeat(200_000);
    const changed = await platform.client.patch('/database/function/enlarge', { note });
    expect(changed.body).toEqual({ matchedCount: 90, modifiedCount: 90 });
    await waitFor(() => Promise.resolve(receiver.arrivals.length >= 90 || undefined), {
      what: '90 deliveries',
    });
    expect(new Set(receiver.arrivals.map(({ body }) => body.data.id)).size).toBe(90);
    await remove(endpoint._id);
  });

  it('is tried again with the same id, given up, and replayed', async () => {
    receiver.answer(() => ({ status: 500, body: 'broken' }));
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    const since = new Date(Date.now() - 1_000).toISOString();
    await create('Order', { total: 1 });
    const [dead] = await deliveriesIn(platform.admin, endpoint._id, { state: 'dead' });
    expect(dead?.tries.map(({ status }: { status: number }) => status)).toEqual([500, 500, 500]);
    expect(new Set(receiver.arrivals.map(({ id }) => id))).toEqual(new Set([dead?._id]));
    const failing = (await platform.admin.get(`/webhooks/endpoints/${endpoint._id}`)).body;
    expect(failing).toMatchObject({ enabled: true, failingSince: expect.any(String) });
    receiver.answer(() => ({ status: 200 }));
    const path = `/webhooks/endpoints/${endpoint._id}/replay`;
    expect((await platform.admin.post(path, { since })).body).toEqual({ replayed: 1 });
    const [done] = await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
    expect(done).toMatchObject({ _id: dead?._id, attempts: 1 });
    expect(done?.tries).toHaveLength(4);
    const well = (await platform.admin.get(`/webhooks/endpoints/${endpoint._id}`)).body;
    expect(well.failingSince).toBeNull();
    await platform.admin.post(`/webhooks/deliveries/${dead?._id}/replay`);
    await waitFor(() => receiver.arrivals.length === 5, { what: 'the replay' });
    await remove(endpoint._id);
  });

  it('waits as long as the receiver asks for', async () => {
    receiver.answer(() => ({ status: 503, headers: { 'retry-after': '3600' } }));
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    await create('Order', { total: 1 });
    const delivery = await waitFor(async () => {
      const [one] = await deliveriesOf(platform.admin, endpoint._id, { state: 'waiting' });
      return one?.tries.length > 0 ? one : undefined;
    });
    // Its own pause would be 20 ms.
    expect(Date.parse(delivery.nextTryAt) - Date.now()).toBeGreaterThan(3_000_000);
    expect(delivery.tries).toEqual([expect.objectContaining({ outcome: 'failed', status: 503 })]);
    await remove(endpoint._id);
  });

  it('keeps its order for each record where that is asked for', async () => {
    let failures = 2;
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url, ordered: true });
    receiver.answer(({ body }) => {
      const isFirst = body.type === 'record.created' && body.data.record?.note === 'slow';
      return { status: isFirst && failures-- > 0 ? 503 : 200 };
    });
    const slow = await create('Order', { total: 1, note: 'slow' });
    for (let total = 2; total < 6; total += 1)
      await platform.client.patch(`/database/Order/${slow._id}`, { total });
    const quick = await create('Order', { total: 1, note: 'quick' });
    await deliveriesIn(platform.admin, endpoint._id, { state: 'done', count: 6 });
    const types = (id: string) =>
      receiver.arrivals.filter(({ body }) => body.data.id === id).map(({ body }) => body.type);
    expect(types(slow._id)).toEqual([
      ...Array.from({ length: 3 }, () => 'record.created'),
      ...Array.from({ length: 4 }, () => 'record.updated'),
    ]);
    expect(types(quick._id)).toEqual(['record.created']);
    await remove(endpoint._id);
  });

  it('tells of other events, and of a test', async () => {
    const endpoint = await createEndpoint(platform.admin, {
      ...{ url: receiver.url, events: ['authentication.*', 'webhooks.create.endpoint'] },
    });
    const { status, body } = await platform.admin.post(`/webhooks/endpoints/${endpoint._id}/test`);
    expect([status, body.type]).toEqual([200, 'webhooks.test']);
    await platform.registerUser();
    await waitFor(
      () => receiver.arrivals.some(({ body: { type } }) => type === 'authentication.register.user'),
      { what: 'the registration' },
    );
    expect(receiver.arrivals.some(({ body: { type } }) => type === 'webhooks.test')).toBe(true);
    await remove(endpoint._id);
  });
});

describe('an endpoint', () => {
  it('is signed for by two secrets while they overlap', async () => {
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    const path = `/webhooks/endpoints/${endpoint._id}`;
    const { secret } = (await platform.admin.post(`${path}/secret`, { overlapSeconds: 60 })).body;
    await platform.admin.post(`${path}/test`);
    const first = await waitFor(() => receiver.arrivals[0]);
    expect(first.headers['webhook-signature']).toBe(
      [secret, endpoint.secret].map((one) => expectedSignature(one, first)).join(' '),
    );
    const next = (await platform.admin.post(`${path}/secret`, { overlapSeconds: 0 })).body;
    expect(next.previousUntil).toBeNull();
    await platform.admin.post(`${path}/test`);
    const second = await waitFor(() => receiver.arrivals[1]);
    expect(second.headers['webhook-signature']).toBe(expectedSignature(next.secret, second));
    expect((await platform.admin.get(path)).text).not.toContain('whsec_');
    await remove(endpoint._id);
  });

  it('is switched off when it says that it is gone, and gets what waited when it is on again', async () => {
    receiver.answer(() => ({ status: 410 }));
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url, ordered: true });
    const path = `/webhooks/endpoints/${endpoint._id}`;
    const order = await create('Order', { total: 1 });
    const stopped = await waitFor(async () => {
      const { body } = await platform.admin.get(path);
      return body.enabled === false ? body : undefined;
    });
    expect(stopped.disabledReason).toContain('410');
    const audit = await platform.admin.get('/audit-logs', {
      query: { action: 'webhooks.endpoints.disable' },
    });
    expect(audit.text).toContain(endpoint._id);
    await platform.client.patch(`/database/Order/${order._id}`, { total: 2 });
    expect((await platform.admin.post(`${path}/test`)).body.code).toBe('WEBHOOK_DISABLED');
    receiver.answer(() => ({ status: 200 }));
    expect((await platform.admin.post(`${path}/enable`)).body).toMatchObject({
      ...{ enabled: true, disabledReason: null, failingSince: null },
    });
    const [dead] = await deliveriesOf(platform.admin, endpoint._id, { state: 'dead' });
    await platform.admin.post(`/webhooks/deliveries/${dead?._id}/replay`);
    await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
    // What happened while it was off is not delivered.
    expect(receiver.arrivals.map(({ body }) => body.type)).not.toContain('record.updated');
    await remove(endpoint._id);
  });

  it('gets what is replayed while it is off once it is on again', async () => {
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    const path = `/webhooks/endpoints/${endpoint._id}`;
    await create('Order', { total: 1 });
    const [done] = await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
    await platform.admin.post(`${path}/disable`);
    const replayed = await platform.admin.post(`/webhooks/deliveries/${done?._id}/replay`);
    expectStatus(replayed, 200, 'replay');
    await deliveriesIn(platform.admin, endpoint._id, { state: 'held' });
    expect(receiver.arrivals).toHaveLength(1);
    await platform.admin.post(`${path}/enable`);
    await deliveriesIn(platform.admin, endpoint._id, { state: 'done' });
    expect(receiver.arrivals.map(({ id }) => id)).toEqual([done?._id, done?._id]);
    await remove(endpoint._id);
  });

  it('is switched off when nothing could be delivered for long', async () => {
    await configure({ disableAfterMs: 1_000, delivery: { pausesMs: [600, 600, 600] } });
    receiver.answer(() => ({ status: 500 }));
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    await create('Order', { total: 1 });
    await deliveriesIn(platform.admin, endpoint._id, { state: 'dead' });
    const { body } = await platform.admin.get(`/webhooks/endpoints/${endpoint._id}`);
    expect(body).toMatchObject({ enabled: false });
    expect(body.disabledReason).toContain('Nothing could be delivered since');
    await configure({ disableAfterMs: 432_000_000, delivery: { pausesMs: [20, 20] } });
    await remove(endpoint._id);
  });

  it.each([
    [{ url: 'ftp://example.com' }, 'url'],
    [{ url: 'https://a:b@example.com' }, 'url'],
    [{ events: [] }, 'events'],
    [{ events: ['two words'] }, 'events.0'],
    [{ events: ['record.*', 'record.create'] }, 'events.1'],
    [{ events: ['record.x*'] }, 'events.0'],
    [{ events: ['recrod.created'] }, 'events.0'],
    [{ events: ['recrod*'] }, 'events.0'],
    [{ events: ['database.create.Order'] }, 'events.0'],
    [{ schemas: ['Order'], condition: { totla: 1 } }, 'condition.totla'],
    [{ schemas: ['Order'], condition: { total: 'many' } }, 'condition.total'],
    [{ schemas: ['Nothing'] }, 'schemas.0'],
    [{ condition: { total: 1 } }, 'condition'],
    [{ schemas: ['Order'], condition: { total: { $what: 1 } } }, 'condition.total.$what'],
    [{ surprise: 1 }, 'surprise'],
  ])('is refused as %j', async (given, path) => {
    const body = { name: 'x', url: 'https://example.com/', events: ['record.*'], ...given };
    const answer = await platform.admin.post('/webhooks/endpoints', body);
    expect(answer.status).toBe(400);
    expect(answer.body.errors.map((problem: { path: string }) => problem.path)).toContain(path);
  });

  it('has a name of its own, and is 404 once it is deleted', async () => {
    const endpoint = await createEndpoint(platform.admin, { url: receiver.url });
    const again = { name: endpoint.name, url: receiver.url, events: ['*'] };
    expect((await platform.admin.post('/webhooks/endpoints', again)).body.code).toBe(
      'WEBHOOK_EXISTS',
    );
    expect((await remove(endpoint._id)).status).toBe(200);
    expect((await remove(endpoint._id)).body.code).toBe('WEBHOOK_NOT_FOUND');
    expect((await platform.admin.get('/webhooks/deliveries/none')).body.code).toBe(
      'DELIVERY_NOT_FOUND',
    );
  });

  it('goes with the state of the platform, without its secret', async () => {
    const endpoint = await createEndpoint(platform.admin, {
      ...{ url: receiver.url, schemas: ['Order'], condition: { total: { $gt: 1 } } },
    });
    const { body: state } = await platform.admin.get('/state/export', {
      query: { modules: 'webhooks' },
    });
    expect(JSON.stringify(state)).not.toContain('whsec_');
    await remove(endpoint._id);
    expectStatus(await platform.admin.post('/state/import', state), 200, 'import');
    const listed = await platform.admin.get('/webhooks/endpoints', {
      query: { search: endpoint.name },
    });
    expect(listed.body.endpoints[0]).toMatchObject({
      ...{ name: endpoint.name, schemas: ['Order'], condition: { total: { $gt: 1 } } },
    });
    await remove(listed.body.endpoints[0]._id);
  });

  it('cannot be used by a narrow token to hear what the token may not read', async () => {
    const token = async (...scopes: string[]) =>
      platform.adminAnonymous.with({
        credential: (await platform.admin.post('/api-tokens', { name: scopes.join(), scopes })).body
          .token,
      });
    const narrow = await token('webhooks', 'write');
    for (const given of [
      { events: ['*'] },
      { events: ['rec*'] },
      { events: ['record.created'] },
      { events: ['record.created'], schemas: ['Order'] },
      { events: ['authentication.*'] },
    ]) {
      const body = { name: 'narrow', url: 'https://example.com/', ...given };
      expect((await narrow.post('/webhooks/endpoints', body)).body.code).toBe('SCOPE_EXCEEDED');
    }
    const wider = await token('webhooks', 'database', 'write');
    // What was delivered holds the records.
    const other = await createEndpoint(platform.admin, { url: receiver.url, schemas: ['Order'] });
    await create('Order', { total: 5 });
    const [delivery] = await deliveriesIn(platform.admin, other._id, { state: 'done' });
    for (const path of [
      `/webhooks/endpoints/${other._id}/deliveries`,
      `/webhooks/deliveries/${delivery?._id}`,
    ]) {
      expect((await narrow.get(path)).body.code).toBe('SCOPE_EXCEEDED');
      expect((await wider.get(path)).status).toBe(200);
    }
    // Whoever has its secret signs what its receiver believes.
    const itself = `/webhooks/endpoints/${other._id}`;
    for (const answer of [
      await narrow.post(`${itself}/secret`, { overlapSeconds: 0 }),
      await narrow.patch(itself, { url: 'https://example.com/' }),
      await narrow.delete(itself),
    ])
      expect([answer.status, answer.body.code]).toEqual([403, 'SCOPE_EXCEEDED']);
    const replay = `/webhooks/deliveries/${delivery?._id}/replay`;
    expect((await narrow.post(replay, {})).body.code).toBe('SCOPE_EXCEEDED');
    const since = { since: '2020-01-01T00:00:00Z' };
    expect((await narrow.post(`${itself}/replay`, since)).body.code).toBe('SCOPE_EXCEEDED');
    expect((await wider.post(`${itself}/replay`, since)).status).toBe(200);
    await remove(other._id);
    const body = { name: 'wider', url: 'https://example.com/', events: ['record.*'] };
    const made = await wider.post('/webhooks/endpoints', { ...body, schemas: ['Order'] });
    expectStatus(made, 200, 'wider');
    await remove(made.body._id);
  });
});
