import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type CoreFixture, coreMasterKey, openCore } from '../../../test/support/core.ts';

const masterKey = coreMasterKey;

describe('API tokens', () => {
  let fixture: CoreFixture;
  let admin: string;
  let other: string;
  const call: CoreFixture['node']['call'] = (...args) => fixture.node.call(...args);
  const create = async (credential: { bearer?: string; masterKey?: string }, body: object = {}) =>
    (await call('core.apiTokens.create', { ...credential, body: { name: 'ci', ...body } })).body;
  const list = async (credential: { bearer?: string; masterKey?: string }, query = {}) =>
    call('core.apiTokens.list', { ...credential, query });
  const opens = async (token: string) =>
    Promise.all(
      fixture.nodes.map(
        async (node) => (await node.call('core.config.list', { bearer: token })).status,
      ),
    );

  beforeAll(async () => {
    fixture = await openCore({ nodes: 2 });
    admin = await fixture.login();
    await call('core.admins.create', {
      masterKey,
      body: { username: 'other', password: 'a good password' },
    });
    other = await fixture.login('other', 'a good password');
  });
  afterAll(() => fixture.close());

  it('are shown once, in their form, and stored as a digest', async () => {
    const { token, id, ...rest } = await create({ bearer: admin });
    expect(token).toMatch(/^cdt_[A-Za-z0-9_-]{43}$/);
    expect(rest).toEqual({
      name: 'ci',
      scopes: null,
      expiresAt: null,
      createdAt: expect.stringMatching(/Z$/),
    });
    const { body } = await list({ bearer: admin });
    expect(body.tokens[0]).toEqual({
      _id: id,
      name: 'ci',
      tokenPrefix: token.slice(0, 12),
      scopes: null,
      expiresAt: null,
      lastUsedAt: null,
      createdAt: rest.createdAt,
    });
    const { rows } = await fixture.database.query({
      text: 'select * from penstock.admin_api_tokens',
    });
    expect(JSON.stringify(rows)).not.toContain(token.slice(12));
  });

  it('act as their owner, and note when they were used', async () => {
    const { token, id } = await create({ bearer: other });
    expect(
      (await call('core.admins.get', { bearer: token, params: { id: 'me' } })).body.username,
    ).toBe('other');
    expect(
      (
        await call('core.admins.create', {
          bearer: token,
          body: { username: 'x', password: 'a good password' },
        })
      ).status,
    ).toBe(403);
    await expect
      .poll(
        async () =>
          (await list({ bearer: other })).body.tokens.find((t: { _id: string }) => t._id === id)
            .lastUsedAt,
      )
      .toMatch(/Z$/);
  });

  it('are listed newest first, and only to their owner', async () => {
    await create({ bearer: other }, { name: 'newest' });
    const { body } = await list({ bearer: other });
    expect(body.tokens[0].name).toBe('newest');
    expect(
      body.tokens.every(
        (t: { tokenPrefix: string; token?: string }) =>
          t.tokenPrefix.length === 12 && t.token === undefined,
      ),
    ).toBe(true);
    expect((await list({ bearer: other }, { all: true })).status).toBe(403);
    expect((await list({ bearer: admin }, { all: true })).status).toBe(403);
  });

  it('are revoked by their owner only, at once and on every node', async () => {
    const { token, id } = await create({ bearer: admin });
    expect(await opens(token)).toEqual([200, 200]);
    const revoke = (credential: object) =>
      call('core.apiTokens.revoke', { ...credential, params: { id } });
    expect(await revoke({ bearer: other })).toMatchObject({
      status: 404,
      body: { message: 'Token not found' },
    });
    expect((await revoke({ masterKey })).status).toBe(404);
    expect(await opens(token)).toEqual([200, 200]);
    expect((await revoke({ bearer: admin })).body).toEqual({
      message: 'Token revoked successfully',
    });
    expect(await opens(token)).toEqual([401, 401]);
    expect((await revoke({ bearer: admin })).status).toBe(404);
    expect(
      (await call('core.apiTokens.revoke', { bearer: admin, params: { id: 'x' } })).status,
    ).toBe(400);
  });

  it('with scopes take back themselves, and no others of their owner', async () => {
    const whole = await create({ bearer: admin });
    const narrow = await create({ bearer: admin }, { scopes: ['core'] });
    const revoke = (id: string) =>
      call('core.apiTokens.revoke', { bearer: narrow.token, params: { id } });
    expect(await revoke(whole.id)).toMatchObject({ status: 403, body: { code: 'SCOPE_EXCEEDED' } });
    expect(await opens(whole.token)).toEqual([200, 200]);
    expect((await revoke(narrow.id)).status).toBe(200);
    expect(await opens(narrow.token)).toEqual([401, 401]);
  });

  it('of the master key are its own; with all it sees and revokes those of everybody', async () => {
    const mine = await create({ masterKey }, { name: 'of the master key' });
    const theirs = await create({ bearer: other }, { name: 'of other' });
    expect((await list({ masterKey })).body.tokens.map((t: { name: string }) => t.name)).toEqual([
      'of the master key',
    ]);
    const everybody = (await list({ masterKey }, { all: true })).body.tokens;
    expect(
      everybody.find((t: { name: string }) => t.name === 'of the master key').adminId,
    ).toBeNull();
    expect(everybody.find((t: { name: string }) => t.name === 'of other').adminId).toEqual(
      expect.any(String),
    );
    expect(
      (await call('core.admins.get', { bearer: mine.token, params: { id: 'me' } })).body._id,
    ).toBe('masterkey');
    expect(
      (
        await call('core.apiTokens.revoke', {
          masterKey,
          params: { id: theirs.id },
          query: { all: true },
        })
      ).status,
    ).toBe(200);
    expect(await opens(theirs.token)).toEqual([401, 401]);
  });

  it('expire, also while they are cached, and those made with them do not outlive them', async () => {
    const parent = await create({ bearer: admin }, { expiresInDays: 1 });
    const child = await create({ bearer: parent.token });
    const later = await create({ bearer: parent.token }, { expiresInDays: 30 });
    expect(child.expiresAt).toBe(parent.expiresAt);
    expect(later.expiresAt).toBe(parent.expiresAt);
    expect(await opens(child.token)).toEqual([200, 200]);
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2 * 86_400_000 });
    try {
      expect(await opens(child.token)).toEqual([401, 401]);
      expect(await call('core.config.list', { bearer: parent.token })).toMatchObject({
        body: { message: 'Token has expired' },
      });
    } finally {
      vi.useRealTimers();
    }
  });

  it('end with their owner', async () => {
    const { body } = await call('core.admins.create', {
      masterKey,
      body: { username: 'leaver', password: 'a good password' },
    });
    const { token } = await create({ bearer: await fixture.login('leaver', 'a good password') });
    expect(await opens(token)).toEqual([200, 200]);
    const setActive = (active: boolean) =>
      call('core.admins.update', { masterKey, params: { id: body.admin._id }, body: { active } });
    await setActive(false);
    expect(await opens(token)).toEqual([401, 401]);
    await setActive(true);
    expect(await opens(token)).toEqual([200, 200]);
    await call('core.admins.delete', { masterKey, params: { id: body.admin._id } });
    expect(await opens(token)).toEqual([401, 401]);
  });

  it('need a name', async () => {
    expect(await call('core.apiTokens.create', { masterKey, body: { name: '  ' } })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'name' }] },
    });
  });
});
