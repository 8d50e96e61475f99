import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type CoreFixture,
  coreAdminPassword,
  coreMasterKey,
  openCore,
} from '../../../test/support/core.ts';
import { silentLog } from '../../../test/support/quiet.ts';
import { bootstrapAdmin } from './services/admins.ts';

const masterKey = coreMasterKey;

describe('admins', () => {
  let fixture: CoreFixture;
  const call: CoreFixture['node']['call'] = (...args) => fixture.node.call(...args);
  const create = (username: string, isSuperAdmin = false) =>
    call('core.admins.create', {
      masterKey,
      body: { username, password: `password of ${username}`, isSuperAdmin },
    });
  const idOf = async (username: string): Promise<string> => {
    const { rows } = await fixture.database.query<{ id: string }>({
      text: 'select id from penstock.admins where username = $1',
      values: [username],
    });
    return rows[0]?.id ?? '';
  };

  beforeAll(async () => {
    fixture = await openCore({ nodes: 2 });
  });
  afterAll(() => fixture.close());

  it('start with one super admin, made once for all nodes', async () => {
    const { body } = await call('core.admins.list', { masterKey });
    expect(body.count).toBe(1);
    expect(body.admins[0]).toMatchObject({
      username: 'admin',
      isSuperAdmin: true,
      hasTwoFA: false,
      active: true,
      mustChangePassword: true,
    });
    expect(fixture.node.madePassword).toBeUndefined();
  });

  it('show the master key as an operator without an account', async () => {
    const { body } = await call('core.admins.get', { masterKey, params: { id: 'me' } });
    expect(body).toMatchObject({ _id: 'masterkey', username: 'masterkey', isSuperAdmin: true });
    for (const id of [
      'core.session.logout',
      'core.secondFactor.toggle',
      'core.admins.changeOwnPassword',
    ]) {
      const answer = await call(id, {
        masterKey,
        body: { enableTwoFa: true, oldPassword: 'x', newPassword: 'y' },
      });
      expect(answer).toMatchObject({ status: 400, body: { code: 'STORED_ADMIN_REQUIRED' } });
    }
  });

  it('are created, read, listed in pages and in an order', async () => {
    const created = await create('Bob');
    expect(created.body).toMatchObject({
      message: 'OK',
      admin: { username: 'Bob', isSuperAdmin: false, lastLoginAt: null },
    });
    expect(JSON.stringify(created.body)).not.toMatch(/password_?hash|argon2/i);
    await create('alice');
    const names = async (query: object) =>
      (await call('core.admins.list', { masterKey, query: { ...query } })).body.admins.map(
        (a: { username: string }) => a.username,
      );
    expect(await names({ sort: 'username' })).toEqual(['admin', 'alice', 'Bob']);
    expect(await names({ sort: '-username', limit: 2 })).toEqual(['Bob', 'alice']);
    expect(await names({ sort: 'username', skip: 2 })).toEqual(['Bob']);
    expect(
      (await call('core.admins.list', { masterKey, query: { sort: 'password_hash' } })).body
        .errors[0].path,
    ).toBe('sort');
    expect(
      (await call('core.admins.get', { masterKey, params: { id: created.body.admin._id } })).body
        .username,
    ).toBe('Bob');
  });

  it('refuse names and passwords that are none, naming the field', async () => {
    const bad = async (body: object, path: string) => {
      const answer = await call('core.admins.create', {
        masterKey,
        body: { username: 'carol', password: 'a good password', ...body },
      });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ path }] } });
    };
    await bad({ username: '   ' }, 'username');
    await bad({ username: 'a\u0007b' }, 'username');
    await bad({ username: 'a\u202eb' }, 'username');
    await bad({ username: 'MasterKey' }, 'username');
    await bad({ password: 'short' }, 'password');
    await bad({ password: 'Password123' }, 'password');
    await bad({ username: 'caroline-x', password: 'CAROLINE-X' }, 'password');
    await bad({ password: 'x'.repeat(1_025) }, 'password');
  });

  it('answer 400 to an id that is none, and 404 to one of nobody', async () => {
    const nobody = '01900000-0000-7000-8000-000000000000';
    for (const [operation, param] of [
      ['core.admins.get', 'id'],
      ['core.admins.delete', 'id'],
      ['core.admins.update', 'id'],
      ['core.admins.setPassword', 'adminId'],
    ] as const) {
      const body = { newPassword: 'a good password', active: true };
      expect(
        (await call(operation, { masterKey, params: { [param]: "x'; drop table" }, body })).status,
      ).toBe(400);
      expect((await call(operation, { masterKey, params: { [param]: nobody }, body })).status).toBe(
        404,
      );
    }
  });

  it('have one account per name, whatever the case and however many try', async () => {
    const names = Array.from({ length: 30 }, (_, i) => (i % 2 ? 'dave' : ' DAVE '));
    const answers = await Promise.all(
      names.map((name, i) =>
        fixture.nodes[i % 2]!.call('core.admins.create', {
          masterKey,
          body: { username: name, password: 'a good password' },
        }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(
      answers.filter(({ status, body }) => status === 409 && body.message === 'Already exists'),
    ).toHaveLength(29);
  });

  it('are managed by super admins only', async () => {
    const bearer = await fixture.login('Bob', 'password of Bob');
    const id = await idOf('alice');
    expect(
      (
        await call('core.admins.create', {
          bearer,
          body: { username: 'eve', password: 'a good password' },
        })
      ).status,
    ).toBe(403);
    expect((await call('core.admins.delete', { bearer, params: { id } })).status).toBe(403);
    expect(
      (await call('core.admins.update', { bearer, params: { id }, body: { isSuperAdmin: true } }))
        .status,
    ).toBe(403);
    expect(
      (
        await call('core.admins.setPassword', {
          bearer,
          params: { adminId: id },
          body: { newPassword: 'a good password' },
        })
      ).status,
    ).toBe(403);
    expect((await call('core.admins.get', { bearer, params: { id: 'me' } })).body.username).toBe(
      'Bob',
    );
  });

  it('never lose the last active super admin, also when all are removed at once', async () => {
    await Promise.all(['root1', 'root2', 'root3'].map((name) => create(name, true)));
    const supers = await Promise.all(['admin', 'root1', 'root2', 'root3'].map(idOf));
    const attempts = supers.flatMap((id, i) => [
      fixture.nodes[i % 2]!.call('core.admins.update', {
        masterKey,
        params: { id },
        body: { isSuperAdmin: false },
      }),
      fixture.nodes[(i + 1) % 2]!.call('core.admins.update', {
        masterKey,
        params: { id },
        body: { active: false },
      }),
      fixture.nodes[i % 2]!.call('core.admins.delete', { masterKey, params: { id } }),
    ]);
    const statuses = (await Promise.all(attempts)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 409).length).toBeGreaterThan(0);
    const { rows } = await fixture.database.query<{ n: number }>({
      text: 'select count(*)::int as n from penstock.admins where is_super_admin and active',
    });
    expect(rows[0]?.n).toBe(1);
  });

  it('cannot delete themselves', async () => {
    await create('suicidal', true);
    const bearer = await fixture.login('suicidal', 'password of suicidal');
    const own = await idOf('suicidal');
    for (const id of [own, own.toUpperCase()])
      expect(await call('core.admins.delete', { bearer, params: { id } })).toMatchObject({
        status: 400,
        body: { code: 'SELF_DELETION_FORBIDDEN' },
      });
  });
});

describe('the first admin', () => {
  it('is made once, however many nodes start at the same time', async () => {
    const fixture = await openCore({ nodes: 2 });
    try {
      await fixture.database.query({ text: 'delete from penstock.admins' });
      const made: string[] = [];
      const keep = async ({ password }: { password: string }) => void made.push(password);
      const starts = Array.from({ length: 10 }, (_, i) => {
        const { database, passwords } = fixture.nodes[i % 2]!.kernel;
        return bootstrapAdmin({
          database,
          passwords,
          log: silentLog,
          initialPassword: undefined,
          keep,
        });
      });
      await Promise.all(starts);
      expect(made).toHaveLength(1);
      expect(await fixture.login('admin', made[0])).toMatch(/^ey/);
    } finally {
      await fixture.close();
    }
  });

  it('gets a password that is handed over once when none is given', async () => {
    const fixture = await openCore({ nodes: 1, env: { ADMIN_INITIAL_PASSWORD: '' } });
    try {
      const { madePassword } = fixture.node;
      expect(madePassword).toMatch(/^([a-z2-9]{5}-){3}[a-z2-9]{5}$/);
      expect(await fixture.login('ADMIN', madePassword)).toMatch(/^ey/);
    } finally {
      await fixture.close();
    }
  });

  it('is not made when its password could not be kept: the next start makes it', async () => {
    const fixture = await openCore({ nodes: 1 });
    try {
      const { database, passwords } = fixture.node.kernel;
      await database.query({ text: 'delete from penstock.admins' });
      const made: string[] = [];
      const start = (keep: (admin: { password: string }) => Promise<void>) =>
        bootstrapAdmin({ database, passwords, log: silentLog, initialPassword: undefined, keep });
      await expect(start(() => Promise.reject(new Error('The disk is full')))).rejects.toThrow(
        'full',
      );
      await start(async ({ password }) => void made.push(password));
      expect(await fixture.login('admin', made[0])).toMatch(/^ey/);
    } finally {
      await fixture.close();
    }
  });

  it('must change a given password before anything else, outside of development', async () => {
    const fixture = await openCore();
    const { call, kernel } = fixture.node;
    try {
      const bearer = await fixture.login();
      expect(await authenticate(fixture, bearer)).not.toHaveProperty('mustChangePassword');
      await call('core.config.change', {
        masterKey,
        params: { module: 'core' },
        body: { env: 'production' },
      });
      expect(await authenticate(fixture, bearer)).toMatchObject({ mustChangePassword: true });
      const body = { oldPassword: coreAdminPassword, newPassword: 'a second password' };
      const changed = await call('core.admins.changeOwnPassword', { bearer, body });
      expect(await authenticate(fixture, changed.body.token)).not.toHaveProperty(
        'mustChangePassword',
      );
      expect(kernel.config.definition('core')).toBeDefined();
    } finally {
      await fixture.close();
    }
  });
});

const authenticate = async ({ node }: CoreFixture, bearer: string) =>
  node.kernel.identity.admin?.authenticate({
    bearer,
    masterKey: undefined,
    apiToken: undefined,
    cookies: {},
    address: '192.0.2.1',
  });
