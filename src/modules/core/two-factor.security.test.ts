/**
 * One-time codes are good once, also for many at once.
 * Races on single-use secrets: https://cwe.mitre.org/data/definitions/362.html;
 * guessing of codes: https://cwe.mitre.org/data/definitions/307.html
 */
import { generateSync } from 'otplib';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type CoreFixture, coreMasterKey, openCore } from '../../../test/support/core.ts';

const masterKey = coreMasterKey;
const stepMs = 30_000;

/** Code of a step before (-1), now (0) or after (1). */
const codeOf = (secret: string, offset = 0): string =>
  generateSync({ secret, epoch: Math.floor((Date.now() + offset * stepMs) / 1000) });

describe('the second factor of admins', () => {
  let fixture: CoreFixture;
  let serial = 0;
  const call: CoreFixture['node']['call'] = (...args) => fixture.node.call(...args);
  const statuses = (answers: readonly { status: number }[]) => answers.map(({ status }) => status);

  beforeAll(async () => {
    // The clock stands in the middle of a step, so that no code grows old between its making and its use.
    vi.useFakeTimers({
      toFake: ['Date'],
      now: Math.floor(Date.now() / stepMs) * stepMs + stepMs / 2,
    });
    fixture = await openCore({ nodes: 2 });
  });
  afterAll(async () => {
    vi.useRealTimers();
    await fixture.close();
  });

  const newAdmin = async () => {
    serial += 1;
    const username = `second${serial}`;
    const password = `password of ${username}`;
    const { body } = await call('core.admins.create', { masterKey, body: { username, password } });
    return {
      id: body.admin._id as string,
      username,
      password,
      bearer: await fixture.login(username, password),
    };
  };
  /** An admin whose factor is on; the code of the step before was used to prove it. */
  const enrolled = async () => {
    const admin = await newAdmin();
    const begun = await call('core.secondFactor.toggle', {
      bearer: admin.bearer,
      body: { enableTwoFa: true },
    });
    const secret = begun.body.secret as string;
    const confirmed = await call('core.secondFactor.confirm', {
      bearer: admin.bearer,
      body: { code: codeOf(secret, -1) },
    });
    const { token, backupCodes } = confirmed.body as { token: string; backupCodes: string[] };
    return {
      ...admin,
      secret,
      token,
      backupCodes,
      partial: () => fixture.login(admin.username, admin.password),
    };
  };
  const verify = (bearer: string, code: string, node = fixture.node) =>
    node.call('core.session.verifySecondFactor', { bearer, body: { code } });

  it('is shown as an image, a URI and a secret that never leave the machine otherwise, and is encrypted at rest', async () => {
    const { bearer, id } = await newAdmin();
    const { body } = await call('core.secondFactor.toggle', {
      bearer,
      body: { enableTwoFa: true },
    });
    expect(body.result).toMatch(/^data:image\/png;base64,/);
    expect(body.uri).toContain(`secret=${body.secret}`);
    const { rows } = await fixture.database.query<{ secret: string }>({
      text: 'select secret from penstock.admin_two_factor where admin_id = $1',
      values: [id],
    });
    expect(rows[0]?.secret).not.toContain(body.secret);
    expect((await call('core.admins.get', { bearer, params: { id: 'me' } })).body.hasTwoFA).toBe(
      false,
    );
  });

  it('counts only after its code was proven; then every session of before is over', async () => {
    const admin = await newAdmin();
    expect(
      (await call('core.secondFactor.confirm', { bearer: admin.bearer, body: { code: '123456' } }))
        .status,
    ).toBe(404);
    const { body } = await call('core.secondFactor.toggle', {
      bearer: admin.bearer,
      body: { enableTwoFa: true },
    });
    expect(
      (await call('core.secondFactor.confirm', { bearer: admin.bearer, body: { code: 'abcdef' } }))
        .status,
    ).toBe(401);
    const confirmed = await call('core.secondFactor.confirm', {
      bearer: admin.bearer,
      body: { code: codeOf(body.secret) },
    });
    expect(confirmed.body.backupCodes).toHaveLength(10);
    for (const node of fixture.nodes) {
      expect(
        (await node.call('core.admins.get', { bearer: admin.bearer, params: { id: 'me' } })).status,
      ).toBe(401);
      expect(
        (await node.call('core.admins.get', { bearer: confirmed.body.token, params: { id: 'me' } }))
          .body.hasTwoFA,
      ).toBe(true);
    }
    const again = await call('core.secondFactor.toggle', {
      bearer: confirmed.body.token,
      body: { enableTwoFa: true },
    });
    expect(again.body).toEqual({ result: '2FA already enabled' });
  });

  it('is needed after the password: the first token opens nothing else', async () => {
    const { partial, secret } = await enrolled();
    const bearer = await partial();
    expect(await call('core.config.list', { bearer })).toMatchObject({
      status: 401,
      body: { message: 'Two FA required' },
    });
    expect(JSON.parse(Buffer.from(bearer.split('.')[1]!, 'base64url').toString())).toMatchObject({
      twoFaRequired: true,
      id: expect.any(String),
    });
    const { body } = await verify(bearer, codeOf(secret));
    expect(body.result).toBe(body.token);
    expect((await call('core.config.list', { bearer: body.token })).status).toBe(200);
  });

  it('takes one of 50 uses of one code at the same time', async () => {
    const { partial, secret } = await enrolled();
    const tokens = [await partial()];
    await fixture.node.call('core.config.change', {
      masterKey,
      params: { module: 'admin' },
      body: { rateLimit: { codeFailures: 100 } },
    });
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        verify(tokens[0]!, codeOf(secret), fixture.nodes[i % 2]),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    await fixture.node.call('core.config.change', {
      masterKey,
      params: { module: 'admin' },
      body: { rateLimit: null },
    });
  });

  it('does not take the code again, nor an earlier one', async () => {
    const { partial, secret } = await enrolled();
    const code = codeOf(secret);
    expect((await verify(await partial(), code)).status).toBe(200);
    const bearer = await partial();
    expect(
      statuses([await verify(bearer, code), await verify(bearer, codeOf(secret, -1))]),
    ).toEqual([401, 401]);
    expect((await verify(bearer, codeOf(secret, 1))).status).toBe(200);
  });

  it('does not take the code that proved it', async () => {
    const admin = await newAdmin();
    const { body } = await call('core.secondFactor.toggle', {
      bearer: admin.bearer,
      body: { enableTwoFa: true },
    });
    const code = codeOf(body.secret);
    await call('core.secondFactor.confirm', { bearer: admin.bearer, body: { code } });
    expect((await verify(await fixture.login(admin.username, admin.password), code)).status).toBe(
      401,
    );
  });

  it('voids the short token after five wrong codes, the right one included', async () => {
    const { partial, secret } = await enrolled();
    const bearer = await partial();
    const wrong = await Promise.all(Array.from({ length: 20 }, () => verify(bearer, '000000')));
    expect(new Set(statuses(wrong))).toEqual(new Set([401]));
    expect(wrong.filter(({ body }) => body.code === 'CODE_INVALID').length).toBeLessThanOrEqual(5);
    expect(await verify(bearer, codeOf(secret))).toMatchObject({
      status: 401,
      body: { code: 'SECOND_FACTOR_EXHAUSTED' },
    });
    expect((await verify(await partial(), codeOf(secret))).status).toBe(200);
  });

  it('takes each recovery code once, also of many at the same time', async () => {
    const { partial, backupCodes } = await enrolled();
    const bearer = await partial();
    const uses = await Promise.all(
      Array.from({ length: 5 }, () => verify(bearer, backupCodes[0]!)),
    );
    expect(uses.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(
      (await verify(await partial(), backupCodes[1]!.toUpperCase().replace('-', ' '))).status,
    ).toBe(200);
    expect((await verify(await partial(), backupCodes[0]!)).status).toBe(401);
  });

  it('refuses session tokens and nonsense where the short token is due', async () => {
    const { token, secret } = await enrolled();
    expect((await verify(token, codeOf(secret))).status).toBe(401);
    expect((await verify('nonsense', codeOf(secret))).status).toBe(401);
    expect((await verify('cdt_nonsense', codeOf(secret))).status).toBe(401);
  });

  it('goes off with a code only, and ends the sessions', async () => {
    const { token, secret, id, partial } = await enrolled();
    const off = (body: object) =>
      call('core.secondFactor.toggle', { bearer: token, body: { enableTwoFa: false, ...body } });
    expect(await off({})).toMatchObject({ status: 400, body: { errors: [{ path: 'code' }] } });
    expect((await off({ code: '000000' })).status).toBe(401);
    const done = await off({ code: codeOf(secret) });
    expect(done.body).toEqual({ message: 'OK', token: expect.any(String) });
    expect((await call('core.admins.get', { bearer: token, params: { id: 'me' } })).status).toBe(
      401,
    );
    expect(
      (await call('core.admins.get', { bearer: done.body.token, params: { id } })).body.hasTwoFA,
    ).toBe(false);
    expect((await call('core.config.list', { bearer: await partial() })).status).toBe(200);
  });

  it('is taken by a super admin from somebody who lost it', async () => {
    const { token, id, partial } = await enrolled();
    const { body } = await call('core.admins.update', {
      masterKey,
      params: { id },
      body: { hasTwoFA: false },
    });
    expect(body.admin.hasTwoFA).toBe(false);
    expect((await call('core.admins.get', { bearer: token, params: { id } })).status).toBe(401);
    expect((await call('core.config.list', { bearer: await partial() })).status).toBe(200);
  });

  it('is no matter for API tokens', async () => {
    const { bearer } = await newAdmin();
    const { body } = await call('core.apiTokens.create', { bearer, body: { name: 'x' } });
    for (const id of [
      'core.secondFactor.toggle',
      'core.secondFactor.confirm',
      'core.session.logout',
    ]) {
      expect(
        (await call(id, { bearer: body.token, body: { enableTwoFa: true, code: '123456' } }))
          .status,
      ).toBe(403);
    }
  });
});
