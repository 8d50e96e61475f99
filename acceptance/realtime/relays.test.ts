/** Event relays: what operators pass on of the platform's events, to whom it may be told, and to nobody else. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Api, createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { allOperations, closeClients, connect, create, createSchemas, grant } from './clients.ts';

const path = '/router/event-relays';

describe('event relays', () => {
  let platform: TestPlatform;
  let metrics: Api;
  let owner: TestUser;
  let reader: TestUser;

  beforeAll(async () => {
    const metricsPort = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
    metrics = createApi(`http://127.0.0.1:${metricsPort}`);
    await liftLimits(platform.admin);
    [owner, reader] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    await createSchemas(platform);
  });
  afterEach(closeClients);
  afterAll(() => platform.close());

  const relay = async (given: object): Promise<Json> =>
    expectStatus(await platform.admin.post(path, given), 200, 'a relay').body;
  const listener = async (user: TestUser) => {
    const client = await connect(platform, user, { namespace: '/events/' });
    const of = (name: string): Json[] =>
      client.heard.filter(({ event }) => event === name).map(({ data }) => data);
    return { ...client, of };
  };
  const codeOf = async (answer: Promise<Json>): Promise<string> => {
    const { ok, error } = await answer;
    expect(ok).toBe(false);
    return `${error.status} ${error.code}`;
  };

  it('tells those who may read a record of its changes, and ends with their right', async () => {
    const { _id: relayId } = await relay({
      ...{ name: 'tasks', busEvent: 'database:update:Task', socketEvent: 'task-changed' },
      ...{ resourceType: 'Task', permission: 'read' },
      messageTemplate: { task: '{{id}}', what: 'Task {{id}} was changed' },
    });
    const id = await create(owner, 'Task', { title: 'one' });
    const other = await create(owner, 'Task', { title: 'other' });
    const [mine, theirs] = [await listener(owner), await listener(reader)];
    expect(await mine.ask('subscribe', { relayId, resourceId: id })).toEqual({
      ...{ ok: true, event: 'task-changed' },
    });
    expect(await codeOf(mine.ask('subscribe', { relayId }))).toBe('400 EVENT_RESOURCE_REQUIRED');
    expect(await codeOf(theirs.ask('subscribe', { relayId, resourceId: id }))).toBe(
      '403 EVENT_RELAY_FORBIDDEN',
    );
    const revoke = await grant(platform, reader, `Task:${id}`);
    expect(await theirs.ask('subscribe', { relayId, resourceId: id })).toMatchObject({ ok: true });
    await owner.api.patch(`/database/Task/${other}`, { title: 'not heard' });
    await owner.api.patch(`/database/Task/${id}`, { title: 'two' });
    await waitFor(() => mine.of('task-changed').length > 0 && theirs.of('task-changed').length > 0);
    const message = { task: id, what: `Task ${id} was changed` };
    expect(mine.of('task-changed')).toEqual([message]);
    expect(theirs.of('task-changed')).toEqual([message]);
    await revoke();
    await waitFor(() => theirs.of('ended').length === 1);
    await owner.api.patch(`/database/Task/${id}`, { title: 'three' });
    await waitFor(() => mine.of('task-changed').length === 2);
    expect(theirs.of('task-changed')).toHaveLength(1);
    expect(await mine.ask('unsubscribe', { relayId, resourceId: id })).toEqual({ ok: true });
    expect((await metrics.get('/metrics')).text).toMatch(
      /event_relay_subscriptions_denied_total[^\n]* [1-9]/,
    );
  });

  it('tells whoever is signed in where no permission is asked, until it is switched off or gone', async () => {
    const { _id: relayId } = await relay({
      ...{ name: 'posts', busEvent: 'database:create:*', socketEvent: 'created' },
    });
    const client = await listener(reader);
    expect(await client.ask('subscribe', { relayId })).toMatchObject({ ok: true });
    const id = await create(owner, 'Task', { title: 'told' });
    await waitFor(() => client.of('created').some((one) => one.id === id));
    const [message] = client.of('created');
    expect(Object.keys(message ?? {})).toEqual(['topic', 'occurredAt', 'id']);
    expectStatus(await platform.admin.patch(`${path}/${relayId}`, { active: false }), 200, 'off');
    await waitFor(() => client.of('ended').length === 1);
    expect(await codeOf(client.ask('subscribe', { relayId }))).toBe('404 EVENT_RELAY_NOT_FOUND');
    expectStatus(await platform.admin.delete(`${path}/${relayId}`), 200, 'deleted');
    expectStatus(await platform.admin.get(`${path}/${relayId}`), 404, 'gone');
  });

  it('is kept by operators: listed, changed, tried, and refused with the place of what is wrong', async () => {
    const made = await relay({
      ...{ name: 'kept', busEvent: 'chat:create:message', socketEvent: 'said', notes: 'for us' },
    });
    const { relays, count } = (await platform.admin.get(path)).body;
    expect(count).toBe(relays.length);
    expect(relays).toContainEqual(made);
    const changed = await platform.admin.patch(`${path}/${made._id}`, { socketEvent: 'spoken' });
    expect(changed.body).toMatchObject({ name: 'kept', socketEvent: 'spoken', notes: 'for us' });
    const wrong: readonly (readonly [object, number, string])[] = [
      [{ name: 'kept' }, 409, 'EVENT_RELAY_EXISTS'],
      [{ socketEvent: 'disconnect' }, 400, 'socketEvent'],
      [{ permission: 'read' }, 400, 'resourceType'],
      [{ resourceType: 'Task' }, 400, 'permission'],
      [{ resourceIdPath: 'a..b' }, 400, 'resourceIdPath'],
      [{ messageTemplate: ['{{a..b}}'] }, 400, 'messageTemplate'],
      [{ busEvent: '*' }, 400, 'busEvent'],
      [{ name: 'x'.repeat(65) }, 400, 'name'],
    ];
    for (const [given, status, place] of wrong) {
      const base = { name: 'another', busEvent: 'chat:create:message', socketEvent: 'said' };
      const refused = await platform.admin.post(path, { ...base, ...given });
      expect(refused.status, place).toBe(status);
      expect(JSON.stringify(refused.body), place).toContain(place);
    }
    const preview = await platform.admin.post(`${path}/preview`, {
      ...{ messageTemplate: { room: '{{payload.room}}' }, event: { payload: { room: 'r' } } },
    });
    expect(preview.body).toEqual({ message: { room: 'r' } });
  });

  it('passes on events of no module that a narrowed token may not touch', async () => {
    const { token } = (
      await platform.admin.post('/api-tokens', { name: 'narrow', scopes: ['router'] })
    ).body;
    const post = async (given: object): Promise<number> => {
      const answer = await fetch(`${platform.addresses.admin}${path}`, {
        ...{ method: 'POST', body: JSON.stringify(given) },
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      });
      return answer.status;
    };
    const base = { name: 'narrow', socketEvent: 'narrow' };
    expect(await post({ ...base, busEvent: 'authentication:*' })).toBe(403);
    expect(await post({ ...base, busEvent: 'router:create:client' })).toBe(200);
  });

  it('is about the records of a schema for those alone who may touch its module, by every door', async () => {
    const scopes = ['router', 'database', 'core'];
    const { token } = (await platform.admin.post('/api-tokens', { name: 'wider', scopes })).body;
    const wider = platform.adminAnonymous.with({ credential: token });
    const given = (busEvent: string) => ({ name: busEvent, busEvent, socketEvent: 'wider' });
    const statusOf = async (busEvent: string) => (await wider.post(path, given(busEvent))).status;
    for (const busEvent of ['database:create:User', 'database:create:Us*', 'database:*'])
      expect(await statusOf(busEvent), busEvent).toBe(403);
    expect(await statusOf('database:create:Post')).toBe(200);
    const theirs = given('authentication:*');
    const { _id } = await relay(theirs);
    expect((await wider.delete(`${path}/${_id}`)).status).toBe(403);
    for (const changed of [{ socketEvent: 'other' }, { name: 'new' }]) {
      const eventRelays = [{ ...theirs, ...changed }];
      const planned = await wider.post('/state/import', { modules: { router: { eventRelays } } });
      expect(planned.body.code).toBe('SCOPE_EXCEEDED');
    }
    expect((await platform.admin.delete(`${path}/${_id}`)).status).toBe(200);
  });

  it('is for who reads the record, as long as it is there, with nothing that came after the end of a right', async () => {
    await platform.createSchema({
      name: 'Paper',
      fields: { title: 'String', author: { type: 'Relation', model: 'User' } },
      conduitOptions: {
        ...{ cms: allOperations, authorization: { enabled: true }, softDelete: {} },
        owner: { field: 'author', limit: ['read'] },
      },
    });
    const about = async (schema: string, permission: string): Promise<string> =>
      (
        await relay({
          ...{ name: `${schema} ${permission}`, busEvent: `database:*`, socketEvent: permission },
          ...{ resourceType: schema, permission },
        })
      )._id;
    const papers = await about('Paper', 'read');
    const paper = await create(owner, 'Paper', { title: 'one' });
    await grant(platform, reader, `Paper:${paper}`);
    const [mine, theirs] = [await listener(owner), await listener(reader)];
    const ask = (who: typeof mine, relayId: string, resourceId = paper): Promise<Json> =>
      who.ask('subscribe', { relayId, resourceId });
    // The owner field lets the owner alone read it.
    expect((await reader.api.get(`/database/Paper/${paper}`)).status).toBe(404);
    expect(await codeOf(ask(theirs, papers))).toBe('403 EVENT_RELAY_FORBIDDEN');
    expect(await ask(mine, papers)).toMatchObject({ ok: true });
    expectStatus(await owner.api.delete(`/database/Paper/${paper}`), 200, 'into the trash');
    await waitFor(() => mine.of('ended').length === 1);
    // What happened just before somebody subscribed may be told after it.
    const heard = (who: typeof mine) => who.of('read').map(({ topic }) => topic);
    expect(heard(mine).at(-1)).toBe('database:delete:Paper');
    expect(await codeOf(ask(mine, papers))).toBe('403 EVENT_RELAY_FORBIDDEN');
    const tasks = await about('Task', 'read');
    const task = await create(owner, 'Task', { title: 'one' });
    const revoke = await grant(platform, reader, `Task:${task}`);
    expect(await ask(theirs, tasks, task)).toMatchObject({ ok: true });
    expect(await ask(mine, tasks, task)).toMatchObject({ ok: true });
    await revoke();
    await owner.api.patch(`/database/Task/${task}`, { title: 'two' });
    await waitFor(
      () => heard(mine).includes('database:update:Task') && theirs.of('ended').length === 1,
    );
    expect(heard(theirs)).not.toContain('database:update:Task');
  });

  it('ends when a change of the record itself ends the right to read it', {
    timeout: 60_000,
  }, async () => {
    const fields = { title: 'String', state: 'String' } as const;
    const conduitOptions = { cms: allOperations, authorization: { enabled: true } };
    await platform.createSchema({ name: 'Ruled', fields, conduitOptions });
    const { relations, permissions, conditions } = (
      await platform.admin.get('/authorization/resources/Ruled')
    ).body;
    const read = [...permissions.read, { rule: "record.state == 'open'" }];
    const definition = { relations, conditions, permissions: { ...permissions, read } };
    const defined = await platform.admin.patch('/authorization/resources/Ruled', definition);
    expectStatus(defined, 200, 'the rule');
    const { _id: relayId } = await relay({
      ...{ name: 'ruled', busEvent: 'database:update:Ruled', socketEvent: 'ruled' },
      ...{ resourceType: 'Ruled', permission: 'read' },
    });
    const ids = [];
    for (let i = 0; i < 8; i += 1) ids.push(await create(owner, 'Ruled', { state: 'open' }));
    const client = await listener(reader);
    for (const resourceId of ids)
      expect(await client.ask('subscribe', { relayId, resourceId })).toMatchObject({ ok: true });
    // One after the other, so that the look at everybody from time to time would not do within the time of a test.
    for (const [at, resourceId] of ids.entries()) {
      await owner.api.patch(`/database/Ruled/${resourceId}`, { state: 'closed' });
      await waitFor(() => client.of('ended').length > at, { what: 'the end' });
    }
    expect(client.of('ruled')).toHaveLength(ids.length);
  });

  it('tells of a record whose id a client writes in capitals', async () => {
    const kinds = [
      { schema: 'Post', more: {} },
      { schema: 'Task', more: { resourceType: 'Task', permission: 'read' } },
    ];
    const client = await listener(owner);
    for (const { schema, more } of kinds) {
      const { _id: relayId } = await relay({
        ...{ name: `${schema} in capitals`, busEvent: `database:update:${schema}` },
        ...{ socketEvent: schema, ...more },
      });
      const id = await create(owner, schema, { title: 'one' });
      const place = { relayId: relayId.toUpperCase(), resourceId: id.toUpperCase() };
      expect(await client.ask('subscribe', place)).toMatchObject({ ok: true });
      await owner.api.patch(`/database/${schema}/${id}`, { title: 'two' });
      await waitFor(() => client.of(schema).length === 1, { what: `the change of a ${schema}` });
      expect(client.of(schema)[0].id).toBe(id);
      await client.ask('unsubscribe', { relayId, resourceId: id });
    }
    expect(client.of('ended')).toEqual([]);
  });
});
