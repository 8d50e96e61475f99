/** `GET /listen`: the same lists as over sockets, as server-sent events. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { applyChanges, create, createSchemas, grant } from './clients.ts';
import { readEvents } from './streams.ts';

describe('event streams', () => {
  let platform: TestPlatform;
  let owner: TestUser;
  let reader: TestUser;
  const open: AbortController[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    [owner, reader] = await Promise.all([platform.registerUser(), platform.registerUser()]);
    await createSchemas(platform);
  });
  afterEach(() => {
    for (const one of open.splice(0)) one.abort();
  });
  afterAll(() => platform?.close());

  const request = (user: TestUser | undefined, query: Record<string, string>, since?: string) => {
    const abort = new AbortController();
    open.push(abort);
    return fetch(`${platform.addresses.client}/listen?${new URLSearchParams(query)}`, {
      signal: abort.signal,
      headers: {
        ...(user && { authorization: `Bearer ${user.accessToken}` }),
        ...(since !== undefined && { 'last-event-id': since }),
      },
    });
  };
  const stream = async (
    user: TestUser | undefined,
    query: Record<string, string>,
    since?: string,
  ) => {
    const answer = await request(user, query, since);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    const events: { event: string; data: Json }[] = [];
    const records: Json[] = [];
    const heard = { events, records, id: '', ended: false };
    void readEvents(answer, ({ id, event, data }) => {
      heard.id = id ?? heard.id;
      if (event === undefined) return;
      events.push({ event, data });
      if (event === 'list') records.splice(0, records.length, ...data.records);
      if (event === 'records') applyChanges(records, data.changes);
    }).finally(() => {
      heard.ended = true;
    });
    await waitFor(() => heard.id !== '');
    return heard;
  };

  it('keep a list current, with rights', async () => {
    const id = await create(owner, 'Task', { title: 'one' });
    const heard = await stream(reader, { schema: 'Task' });
    expect(heard.events[0]).toMatchObject({ event: 'list', data: { records: [] } });
    const revoke = await grant(platform, reader, `Task:${id}`);
    await waitFor(() => heard.records.length === 1);
    expect(heard.records[0].title).toBe('one');
    await revoke();
    await waitFor(() => heard.records.length === 0);
  });

  it('keep the list of a visitor current: what becomes public comes, and what does no more goes', async () => {
    const read = { enabled: true, authenticated: false };
    await platform.createSchema({
      name: 'Page',
      fields: { title: 'String' },
      conduitOptions: { authorization: { enabled: true }, cms: { crudOperations: { read } } },
    });
    await permissionsApi(platform.admin).define({
      name: 'Page',
      version: 1,
      relations: { owner: ['User'], viewer: ['User', '*'] },
      permissions: { read: ['viewer', 'owner'], edit: ['owner'], delete: ['owner'] },
    });
    const id = await create(owner, 'Page', { title: 'one' });
    const heard = await stream(undefined, { schema: 'Page' });
    const tuple = { subject: '*', relation: 'viewer', resource: `Page:${id}` };
    const { body } = expectStatus(
      await platform.admin.post('/authorization/relations', tuple),
      200,
      'publish',
    );
    await waitFor(() => heard.records.length === 1);
    expect(heard.records[0].title).toBe('one');
    expectStatus(await platform.admin.delete(`/authorization/relations/${body._id}`), 200, 'close');
    await waitFor(() => heard.records.length === 0);
  });

  it('go on from the last event, and begin anew where they cannot', async () => {
    const query = { schema: 'Post', query: JSON.stringify({ state: 'streamed' }) };
    const first = await stream(reader, query);
    await create(owner, 'Post', { title: 'a', state: 'streamed' });
    await waitFor(() => first.records.length === 1);
    open.pop()?.abort();
    await create(owner, 'Post', { title: 'b', state: 'streamed' });
    const witness = await stream(reader, query);
    await waitFor(() => witness.records.length === 2);
    const again = await stream(reader, query, first.id);
    await waitFor(() => again.events.length === 1);
    expect(again.events[0]).toMatchObject({ event: 'records', data: { changes: [{ index: 1 }] } });
    const anew = await stream(reader, query, 'elsewhere.3');
    expect(anew.events[0]).toMatchObject({ event: 'list', data: { gap: true, records: [{}, {}] } });
  });

  it('tell nothing by the id of another list, nor by that of another user (CWE-639)', async () => {
    const secret = await create(owner, 'Task', { title: 'theirs' });
    const theirs = await stream(owner, { schema: 'Task' });
    await create(owner, 'Task', { title: 'theirs too' });
    await waitFor(() => theirs.events.length > 1);
    const [id = '', version = '0'] = theirs.id.split('.');
    for (const since of [theirs.id, `${id}.0`, `${id}.-1`, `${id}.${Number(version) - 1}`]) {
      const own = await stream(reader, { schema: 'Task' }, since);
      expect(own.events).toMatchObject([{ event: 'list', data: { gap: true } }]);
      expect(JSON.stringify(own.events)).not.toContain(secret);
      const other = await stream(reader, { schema: 'Post', query: '{"state":"none"}' }, since);
      expect(other.events).toMatchObject([{ event: 'list', data: { gap: true, records: [] } }]);
      for (const one of open.splice(-2)) one.abort();
    }
  });

  it('end with the session', async () => {
    const user = await platform.registerUser();
    const heard = await stream(user, { schema: 'Post' });
    await user.api.post('/authentication/logout');
    await waitFor(() => heard.ended);
    expect(heard.events.at(-1)).toMatchObject({ event: 'error', data: { status: 401 } });
  });

  it('are bounded for each caller', async () => {
    const user = await platform.registerUser();
    for (let n = 0; n < 20; n += 1) await stream(user, { schema: 'Post' });
    const refused = await request(user, { schema: 'Post' });
    expect([refused.status, ((await refused.json()) as Json).code]).toEqual([
      409,
      'SUBSCRIPTION_LIMIT_EXCEEDED',
    ]);
    for (const one of open.splice(0)) one.abort();
    await waitFor(async () => (await request(user, { schema: 'Post' })).status === 200);
  });

  it('hold nothing open for who asks for the head alone', async () => {
    const user = await platform.registerUser();
    const head = () =>
      fetch(`${platform.addresses.client}/listen?schema=Post`, {
        method: 'HEAD',
        headers: { authorization: `Bearer ${user.accessToken}` },
      });
    for (let n = 0; n < 21; n += 1) expect((await head()).status).toBe(200);
    expect((await request(user, { schema: 'Post' })).status).toBe(200);
  });

  it.each([
    [{}, 400],
    [{ schema: 'Absent' }, 404],
    [{ schema: 'Post', query: '{' }, 400],
    [{ schema: 'Post', query: '[]' }, 400],
    [{ schema: 'Post', limit: '5000' }, 400],
    [{ schema: 'Task', scope: 'Team:1' }, 403],
  ])('answer %j with %i', async (query, status) => {
    expect((await request(reader, query as Record<string, string>)).status).toBe(status);
  });

  it('answer visitors as the routes do', async () => {
    expect((await request(undefined, { schema: 'Post' })).status).toBe(401);
    const read = { enabled: true, authenticated: false };
    await platform.createSchema({
      name: 'News',
      fields: { title: { type: 'String' } },
      conduitOptions: { cms: { enabled: true, crudOperations: { read } } },
    });
    expect((await request(undefined, { schema: 'News' })).status).toBe(200);
    const description = await platform.client.get('/asyncapi.json');
    expectStatus(description, 200, 'the description of sockets');
    expect(Object.keys(description.body.channels)).toEqual(
      expect.arrayContaining(['database', 'communications', 'chat']),
    );
    expect(Object.keys(description.body.channels.database.messages)).toContain('take_watch');
    expect(Object.keys(description.body.channels.chat.messages)).toContain('send_message-edited');
  });
});
