/** Two processes on one database act as one, with Redis between them and without. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { io } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../test/support/node.ts';
import { describeWithPostgres15, describeWithRedis } from '../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../test/support/two-nodes.ts';
import { waitFor } from '../test/support/wait-for.ts';

function suite(redis: boolean): void {
  let nodes: TwoNodes;
  beforeAll(async () => {
    nodes = await startTwoNodes({ redis, emptyDatabase: true });
  }, 120_000);
  afterAll(() => nodes?.close(), 60_000);

  it('a schema made at one serves at the other when the call returns', async () => {
    const { first, second } = nodes;
    const { api } = await second.registerUser();
    for (let index = 0; index < 5; index += 1) {
      const name = `Shared${randomUUID().slice(0, 8)}`;
      await first.createSchema({ name, fields: { text: 'String' } });
      expectStatus(
        await api.post(`/database/${name}`, { text: 'hello' }),
        200,
        'create at the other node',
      );
    }
  });

  it('a session is worth nothing after a logout that another node had carried out, and told nobody of', async () => {
    const { first, second, databaseUrl } = nodes;
    const database = new pg.Client({ connectionString: databaseUrl });
    await database.connect();
    const ask = async (authorization: string) => {
      const clients = [first, second].map(({ client }) => client.with({ authorization }));
      const answers = await Promise.all(clients.map((one) => one.get('/authentication/user')));
      return answers.map(({ status }) => status);
    };
    for (const node of [first, second]) {
      const { accessToken, userId } = await first.registerUser();
      const authorization = `Bearer ${accessToken}`;
      expect(await ask(authorization)).toEqual([200, 200]);
      // What a node leaves behind that is killed between its commit and its announcement.
      await database.query(
        `update penstock.sessions set revoked_at = now(), revoked_reason = 'logout' where user_id = $1`,
        [userId],
      );
      const logout = node.client.with({ authorization }).post('/authentication/logout');
      expect((await logout).status).toBe(200);
      expect(await ask(authorization)).toEqual([401, 401]);
    }
    await database.end();
  });

  it('a custom endpoint, a changed schema and their end hold at the other when the call returns', async () => {
    const { first, second } = nodes;
    const user = await first.registerUser();
    const elsewhere = second.client.with({ authorization: `Bearer ${user.accessToken}` });
    for (let index = 0; index < 5; index += 1) {
      const name = `Served${randomUUID().slice(0, 8)}`;
      const { _id } = await first.createSchema({ name, fields: { text: 'String' } });
      const definition = { name: `of${name}`, operation: 0, selectedSchemaName: name, query: {} };
      const made = expectStatus(
        await first.admin.post('/database/customEndpoints', definition),
        200,
        'endpoint',
      ).body;
      // Asked once, without waiting: the other node has taken it in before the call was answered.
      expect((await elsewhere.get(`/database/function/of${name}`)).body).toEqual([]);
      expectStatus(
        await first.admin.put(`/database/schemas/${_id}`, {
          fields: { text: 'String', more: 'Number' },
        }),
        200,
        'change',
      );
      expect(
        (await elsewhere.post(`/database/${name}`, { text: 'x', more: 1 })).body,
      ).toMatchObject({ text: 'x', more: 1 });
      expectStatus(
        await first.admin.delete(`/database/customEndpoints/${made._id}`),
        200,
        'removal of the endpoint',
      );
      expect((await elsewhere.get(`/database/function/of${name}`)).status).toBe(404);
      expectStatus(
        await first.admin.delete(`/database/schemas/${_id}?deleteData=true`),
        200,
        'removal',
      );
      expect((await elsewhere.get(`/database/${name}`)).status).toBe(404);
    }
  });

  it('a session that ends at one has ended at the other', async () => {
    const { first, second } = nodes;
    const user = await first.registerUser();
    const elsewhere = second.client.with({ authorization: `Bearer ${user.accessToken}` });
    expectStatus(
      await elsewhere.get('/authentication/user'),
      200,
      'warm up the cache of the other node',
    );
    expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
    expect((await elsewhere.get('/authentication/user')).status).toBe(401);
  });

  it('a revoked api token is refused by both', async () => {
    const { first, second } = nodes;
    const { id, token } = (await first.admin.post('/api-tokens', { name: 'shared' })).body;
    const credential = { headers: { credential: token } };
    expectStatus(
      await second.adminAnonymous.get('/config', credential),
      200,
      'token at the other node',
    );
    expectStatus(await first.admin.delete(`/api-tokens/${id}`), 200, 'revocation');
    expect((await second.adminAnonymous.get('/config', credential)).status).toBe(401);
  });

  it('a configuration change holds at both when the call returns', async () => {
    const { first, second } = nodes;
    const changed = await first.admin.patch('/config/admin', {
      hostUrl: 'https://panel.example.com',
    });
    expect(changed.body.config.hostUrl).toBe('https://panel.example.com');
    expect((await second.admin.get('/config/admin')).body.config.hostUrl).toBe(
      'https://panel.example.com',
    );
    expectStatus(await first.admin.patch('/config/authentication', { active: false }), 200, 'off');
    expect(
      (await second.client.post('/authentication/local', { email: 'a@example.com', password: 'x' }))
        .status,
    ).toBe(503);
    expectStatus(await first.admin.patch('/config/authentication', { active: true }), 200, 'on');
    expect((await second.client.get('/authentication/user')).status).toBe(401);
  });

  it('teams that are switched on at one are there at the other, with the same members and the same rights', async () => {
    const { first, second } = nodes;
    const teams = { enabled: true, memberAccess: 'read', invites: { enabled: true } };
    expectStatus(
      await first.admin.patch('/config/authentication', { config: { teams } }),
      200,
      'teams on',
    );
    const [owner, guest] = [await first.registerUser(), await second.registerUser()];
    const { _id: team } = expectStatus(
      await owner.api.post('/authentication/teams', { name: randomUUID() }),
      200,
      'create',
    ).body;
    const path = `/authentication/teams/${team}`;
    expect((await guest.api.get(path)).status).toBe(403);
    const { result: invitationToken } = expectStatus(
      await owner.api.post(`${path}/invite`, { email: guest.email, role: 'readAll' }),
      200,
      'invite',
    ).body;
    const accept = (at: typeof first) =>
      at.client
        .with({ authorization: `Bearer ${guest.accessToken}` })
        .post('/authentication/teams/invite/accept', { invitationToken });
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => accept(i % 2 === 0 ? first : second)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expectStatus(await guest.api.get(path), 200, 'read as a member');
    expectStatus(await owner.api.delete(`${path}/members?members=${guest.userId}`), 200, 'remove');
    expect((await guest.api.get(path)).status).toBe(403);
    expectStatus(
      await second.admin.patch('/config/authentication', { config: { teams: { enabled: false } } }),
      200,
      'teams off',
    );
    expect((await owner.api.get(path)).status).toBe(404);
  });

  it('an app that is taken away at one is refused by the other', async () => {
    const { first, second } = nodes;
    const { body: app } = await first.admin.post('/router/security/client', { platform: 'CLI' });
    const at = (node: typeof first) =>
      node.client
        .with({ clientid: app.clientId, clientsecret: app.clientSecret })
        .get('/authentication/user');
    expectStatus(
      await second.admin.patch('/config/router', { security: { clientValidation: true } }),
      200,
      'apps told apart',
    );
    expect([(await at(first)).body.code, (await at(second)).body.code]).toEqual([
      'UNAUTHORIZED',
      'UNAUTHORIZED',
    ]);
    expectStatus(await first.admin.delete(`/router/security/client/${app._id}`), 200, 'taken away');
    expect([(await at(first)).body.code, (await at(second)).body.code]).toEqual([
      'CLIENT_REFUSED',
      'CLIENT_REFUSED',
    ]);
    expectStatus(
      await first.admin.patch('/config/router', { security: { clientValidation: false } }),
      200,
      'apps not told apart',
    );
  });

  it('a guard that an operator puts before a route holds at both at once, through ten changes of its schema, until it is taken away', async () => {
    const { first, second } = nodes;
    const name = `Guarded${randomUUID().slice(0, 8)}`;
    const fields = { text: 'String' } as const;
    const { _id } = await first.createSchema({ name, fields });
    const address = `path=/database/${name}&action=GET`;
    const guard = async (node: typeof first, added: readonly string[]) => {
      const { body } = await node.admin.get(`/router/route-middlewares?${address}`);
      const own = body.middlewares.filter((one: string) => one !== 'authMiddleware');
      const middlewares = [...own, ...added];
      const path = `/router/patch-middleware?${address}`;
      expectStatus(await node.admin.patch(path, { middlewares }), 200, 'the guard');
    };
    const statuses = async () => {
      const answers = [first, second].map(({ client }) => client.get(`/database/${name}`));
      return (await Promise.all(answers)).map(({ status }) => status);
    };
    expect(await statuses()).toEqual([200, 200]);
    await guard(first, ['authMiddleware']);
    expect(await statuses()).toEqual([401, 401]);
    for (let at = 0; at < 10; at += 1) {
      const { admin } = at % 2 === 0 ? first : second;
      const body = { fields: { ...fields, [`more${at}`]: 'String' } };
      expectStatus(await admin.patch(`/database/schemas/${_id}`, body), 200, 'a changed schema');
      expect(await statuses()).toEqual([401, 401]);
    }
    await guard(second, []);
    expect(await statuses()).toEqual([200, 200]);
  });

  it('a change at one reaches a socket at the other, until the session ends', async () => {
    const { first, second } = nodes;
    const user = await first.registerUser();
    await first.createSchema({ name: `Watched${redis}`, fields: { text: 'String' } });
    const extraHeaders = { authorization: `Bearer ${user.accessToken}` };
    const socket = io(`${second.addresses.realtime}/database/`, {
      path: '/realtime',
      transports: ['websocket'],
      reconnection: false,
      extraHeaders,
    });
    try {
      await waitFor(() => socket.connected, { what: 'the connection' });
      const changes: { documentId: string; operation: string; sequence: number }[] = [];
      socket.on('change', (change) => changes.push(change));
      expect(await socket.emitWithAck('subscribe', { schema: `Watched${redis}` })).toMatchObject({
        ok: true,
      });
      const { _id } = (await user.api.post(`/database/Watched${redis}`, { text: 'hello' })).body;
      const change = await waitFor(() => changes.find(({ documentId }) => documentId === _id), {
        what: 'the change',
      });
      expect(change).toMatchObject({
        version: 1,
        operation: 'insert',
        schema: `Watched${redis}`,
        sequence: expect.any(Number),
      });
      expect(change).not.toHaveProperty('text');

      expectStatus(await user.api.post('/authentication/logout'), 200, 'logout');
      await waitFor(() => !socket.connected, { what: 'the end of the connection' });
    } finally {
      socket.close();
    }
  });
}

await describeWithPostgres15('two nodes on PostgreSQL alone', () => suite(false));
await describeWithRedis('two nodes with Redis', () => suite(true));
