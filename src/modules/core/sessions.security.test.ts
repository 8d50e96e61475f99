/**
 * Guessing, telling accounts apart, and sessions that outlive their reason.
 * https://cwe.mitre.org/data/definitions/307.html, https://cwe.mitre.org/data/definitions/204.html,
 * https://cwe.mitre.org/data/definitions/613.html
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CoreFixture, coreMasterKey, openCore } from '../../../test/support/core.ts';

const masterKey = coreMasterKey;

describe('login of admins', () => {
  let fixture: CoreFixture;
  const login = (username: string, password: string, address = '192.0.2.1') =>
    fixture.node.call('core.session.login', { masterKey, address, body: { username, password } });

  beforeAll(async () => {
    fixture = await openCore();
  });
  afterAll(() => fixture.close());

  it('answers the same to an unknown name and to a wrong password, after the same work', async () => {
    const verified: (string | undefined)[] = [];
    const { passwords } = fixture.node.kernel;
    const original = passwords.verify;
    passwords.verify = (hash, password) => {
      verified.push(hash);
      return original(hash, password);
    };
    const answers = [
      await login('admin', 'wrong password'),
      await login('nobody', 'wrong password'),
    ];
    passwords.verify = original;
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]).toMatchObject({
      status: 401,
      body: { message: 'Invalid username/password' },
    });
    expect(verified).toEqual([expect.stringMatching(/^\$argon2id/), undefined]);
  });

  it('lets 5 attempts per name fail, also at once and from many addresses, then answers 429', async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        login(i % 2 ? 'victim' : 'VICTIM', `guess ${i}`, `203.0.113.${i}`),
      ),
    );
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(5);
    const stopped = answers.filter(({ status }) => status === 429);
    expect(stopped).toHaveLength(45);
    expect(stopped[0]?.body).toMatchObject({
      code: 'ATTEMPTS_EXHAUSTED',
      retryAfter: expect.any(Number),
    });
  });

  it('stops an address after 20 failures, whatever the names', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 25; i += 1)
      statuses.push((await login(`name${i}`, 'a guess', '203.0.113.200')).status);
    expect(statuses).toEqual([...Array(20).fill(401), ...Array(5).fill(429)]);
  });

  it('counts a whole IPv6 network as one address', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 25; i += 1)
      statuses.push((await login(`other${i}`, 'a guess', `2001:db8:7:7::${i + 1}`)).status);
    expect(statuses).toEqual([...Array(20).fill(401), ...Array(5).fill(429)]);
  });

  it('gives the budget of the name back after a success', async () => {
    for (let round = 0; round < 3; round += 1) {
      for (let i = 0; i < 3; i += 1) await login('admin', 'wrong', `198.51.100.${round}`);
      expect(await fixture.login()).toMatch(/^ey/);
    }
  });

  it('refuses an inactive admin like a wrong password', async () => {
    const created = await fixture.node.call('core.admins.create', {
      masterKey,
      body: { username: 'gone', password: 'a good password' },
    });
    await fixture.node.call('core.admins.update', {
      masterKey,
      params: { id: created.body.admin._id },
      body: { active: false },
    });
    expect(await login('gone', 'a good password', '198.51.100.77')).toMatchObject({
      status: 401,
      body: { code: 'ADMIN_LOGIN_INVALID' },
    });
  });
});

describe('sessions of admins', () => {
  let fixture: CoreFixture;
  let serial = 0;

  beforeAll(async () => {
    fixture = await openCore({ nodes: 2 });
  });
  afterAll(() => fixture.close());

  /** A new admin with a session that both nodes have cached. */
  const warm = async () => {
    serial += 1;
    const username = `operator${serial}`;
    const password = `password of ${username}`;
    const { body } = await fixture.node.call('core.admins.create', {
      masterKey,
      body: { username, password },
    });
    const bearer = await fixture.login(username, password);
    for (const node of fixture.nodes)
      expect((await node.call('core.admins.get', { bearer, params: { id: 'me' } })).status).toBe(
        200,
      );
    return { id: body.admin._id as string, bearer, password, username };
  };
  const statusesOf = async (bearer: string) =>
    Promise.all(
      fixture.nodes.map(
        async (node) =>
          (await node.call('core.admins.get', { bearer, params: { id: 'me' } })).status,
      ),
    );

  type Warm = Awaited<ReturnType<typeof warm>>;
  const endings: Record<string, (admin: Warm) => Promise<unknown>> = {
    logout: ({ bearer }) => fixture.node.call('core.session.logout', { bearer }),
    'own password change': ({ bearer, password }) =>
      fixture.node.call('core.admins.changeOwnPassword', {
        bearer,
        body: { oldPassword: password, newPassword: 'another good one' },
      }),
    'password set by a super admin': ({ id }) =>
      fixture.node.call('core.admins.setPassword', {
        masterKey,
        params: { adminId: id },
        body: { newPassword: 'another good one' },
      }),
    deactivation: ({ id }) =>
      fixture.node.call('core.admins.update', {
        masterKey,
        params: { id },
        body: { active: false },
      }),
    deletion: ({ id }) => fixture.node.call('core.admins.delete', { masterKey, params: { id } }),
    'deactivation, with the id in capitals': ({ id }) =>
      fixture.node.call('core.admins.update', {
        masterKey,
        params: { id: id.toUpperCase() },
        body: { active: false },
      }),
  };

  it.each(Object.keys(endings))('end at once on every node: %s', async (ending) => {
    const admin = await warm();
    await endings[ending]?.(admin);
    expect(await statusesOf(admin.bearer)).toEqual([401, 401]);
  });

  it('take away a right at once on every node', async () => {
    const { id, bearer } = await warm();
    await fixture.node.call('core.admins.update', {
      masterKey,
      params: { id },
      body: { isSuperAdmin: true },
    });
    const create = (node: CoreFixture['node'], username: string) =>
      node.call('core.admins.create', { bearer, body: { username, password: 'a good password' } });
    expect((await create(fixture.nodes[1]!, 'made-by-it')).status).toBe(200);
    await fixture.node.call('core.admins.update', {
      masterKey,
      params: { id },
      body: { isSuperAdmin: false },
    });
    for (const node of fixture.nodes) expect((await create(node, 'never')).status).toBe(403);
  });

  it('go on with a new token after an own password change, and the old password is worth nothing', async () => {
    const { bearer, password, username } = await warm();
    const change = (oldPassword: string, newPassword: string, token = bearer) =>
      fixture.node.call('core.admins.changeOwnPassword', {
        bearer: token,
        body: { oldPassword, newPassword },
      });
    expect(await change('wrong password', 'another good one')).toMatchObject({
      status: 400,
      body: { message: 'Incorrect Password' },
    });
    expect(await change(password, 'short')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'newPassword' }] },
    });
    expect(await change(password, password)).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'newPassword' }] },
    });
    const { body } = await change(password, 'another good one');
    expect(body.message).toBe('OK');
    expect(await statusesOf(body.token)).toEqual([200, 200]);
    await expect(fixture.login(username, password)).rejects.toThrow(/401/);
    expect(await fixture.login(username, 'another good one')).toMatch(/^ey/);
  });

  it('cannot be used to guess the password of their admin', async () => {
    const { bearer, password } = await warm();
    const guess = (oldPassword: string) =>
      fixture.node.call('core.admins.changeOwnPassword', {
        bearer,
        body: { oldPassword, newPassword: 'another good one' },
      });
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => guess(`guess number ${i}`)),
    );
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(20);
    expect((await guess(password)).status).toBe(429);
  });

  it('change a password once of many who try at the same time', async () => {
    const { bearer, password } = await warm();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        fixture.nodes[i % 2]!.call('core.admins.changeOwnPassword', {
          bearer,
          body: { oldPassword: password, newPassword: `a new password ${i}` },
        }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });
});
