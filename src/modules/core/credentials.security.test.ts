/**
 * Which credential opens what, and that nothing else does.
 * Fail-open authentication: https://cwe.mitre.org/data/definitions/287.html;
 * algorithm confusion: https://cwe.mitre.org/data/definitions/347.html.
 */
import { createSigner } from 'fast-jwt';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { alteredAt } from '../../../test/support/altered.ts';
import { type CoreFixture, coreMasterKey, openCore } from '../../../test/support/core.ts';
import type { PresentedCredentials } from '../../kernel/identity.ts';

const masterKey = coreMasterKey;
const oldKey = 'the master key before this one';

/** OWASP: a known default must not open anything, https://cwe.mitre.org/data/definitions/1392.html */
describe('an earlier master key', () => {
  it.each([
    ['production', 'M4ST3RK3Y', 401],
    ['production', 'short', 401],
    ['production', oldKey, 'masterkey'],
    ['development', 'M4ST3RK3Y', 'masterkey'],
  ])('in %s, %s: %s', async (NODE_ENV, MASTER_KEY_PREVIOUS, expected) => {
    const fixture = await openCore({ env: { NODE_ENV, MASTER_KEY_PREVIOUS } });
    const address = '192.0.2.250';
    const presented = { masterKey: MASTER_KEY_PREVIOUS, address, cookies: {} };
    const nothing = { bearer: undefined, apiToken: undefined };
    const answer = await Promise.try(() =>
      fixture.node.kernel.identity.admin!.authenticate({ ...presented, ...nothing }),
    ).then(
      ({ via }) => via,
      ({ status }) => status,
    );
    expect(answer).toBe(expected);
    await fixture.close();
  });
});

describe('admin credentials', () => {
  let fixture: CoreFixture;
  let bearer: string;
  let cdt: string;
  let address = 0;

  /** Each attempt from an address of its own, so that failures do not add up. */
  const authenticate = async (given: Partial<PresentedCredentials>, node = fixture.node) => {
    address += 1;
    const credentials = {
      bearer: undefined,
      masterKey: undefined,
      apiToken: undefined,
      cookies: {},
      address: `192.0.2.${address}`,
      ...given,
    };
    try {
      return await node.kernel.identity.admin!.authenticate(credentials);
    } catch (error) {
      return error as { status: number; message: string };
    }
  };
  const refused = (message?: string) => ({ status: 401, ...(message ? { message } : {}) });

  beforeAll(async () => {
    fixture = await openCore({ nodes: 2, env: { MASTER_KEY_PREVIOUS: oldKey } });
    bearer = await fixture.login();
    cdt = (await fixture.node.call('core.apiTokens.create', { bearer, body: { name: 'ci' } })).body
      .token;
  });
  afterAll(() => fixture.close());

  it('suffice alone, each of the three', async () => {
    expect(await authenticate({ masterKey })).toMatchObject({
      via: 'masterkey',
      adminId: 'masterkey',
      isSuperAdmin: true,
    });
    expect(await authenticate({ bearer })).toMatchObject({
      via: 'jwt',
      username: 'admin',
      isSuperAdmin: true,
    });
    expect(await authenticate({ bearer: cdt })).toMatchObject({
      via: 'token',
      username: 'admin',
      tokenId: expect.any(String),
    });
    expect(await authenticate({ apiToken: cdt })).toMatchObject({
      via: 'token',
      username: 'admin',
    });
    expect(await authenticate({ masterKey: oldKey })).toMatchObject({ via: 'masterkey' });
  });

  it('answer without a promise when all is cached', async () => {
    await authenticate({ bearer });
    await authenticate({ bearer: cdt });
    for (const token of [bearer, cdt]) {
      const answer = fixture.node.kernel.identity.admin!.authenticate({
        bearer: token,
        masterKey,
        apiToken: undefined,
        cookies: {},
        address: '192.0.2.9',
      });
      expect(answer).not.toBeInstanceOf(Promise);
    }
  });

  it('are all believed or none: a wrong one beside a right one is 401', async () => {
    expect(await authenticate({ masterKey: 'wrong', bearer })).toMatchObject(
      refused('Unauthorized'),
    );
    expect(await authenticate({ masterKey, bearer: 'nonsense' })).toMatchObject(
      refused('Invalid token'),
    );
    expect(await authenticate({ masterKey, apiToken: 'nonsense' })).toMatchObject(refused());
    expect(await authenticate({ bearer, apiToken: cdt })).toMatchObject(refused());
    expect(await authenticate({ masterKey, bearer: 'cdt_garbage' })).toMatchObject(refused());
    expect(await authenticate({ masterKey, bearer })).toMatchObject({ via: 'jwt' });
  });

  it('are compared whole, also when their beginning is cached', async () => {
    await authenticate({ bearer: cdt });
    const altered = [
      alteredAt(cdt, -1),
      cdt.slice(0, 12) + 'A'.repeat(cdt.length - 12),
      alteredAt(cdt, Math.floor(cdt.length / 2)),
    ];
    for (const token of altered) {
      expect(await authenticate({ bearer: token }), token).toMatchObject(refused());
      expect(await authenticate({ apiToken: token }), token).toMatchObject(refused());
    }
    expect(await authenticate({ apiToken: cdt })).toMatchObject({ via: 'token' });
  });

  it('are asked for when there are none', async () => {
    expect(await authenticate({})).toMatchObject({
      ...refused(),
      headers: { 'www-authenticate': 'Bearer' },
    });
    expect(
      (
        await fixture.node.call('core.session.login', {
          bearer: 'cdt_garbage',
          body: { username: 'admin', password: 'x' },
        })
      ).status,
    ).toBe(401);
    expect(
      (
        await fixture.node.call('core.session.login', {
          bearer,
          body: { username: 'admin', password: 'x' },
        })
      ).status,
    ).toBe(401);
  });

  it('cannot be forged', async () => {
    const claims = {
      id: ((await authenticate({ bearer })) as { adminId: string }).adminId,
      sv: 1,
      iat: 1,
      exp: 9_999_999_999,
    };
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const forged = [
      `${encode({ alg: 'none', typ: 'JWT' })}.${encode(claims)}.`,
      createSigner({ key: 'another key', algorithm: 'HS256' })(claims),
      createSigner({ key: masterKey, algorithm: 'HS256' })(claims),
      bearer.replace(/\.[^.]+\./, `.${encode(claims)}.`),
      `${bearer}x`,
      `${bearer}\n`,
      ` ${bearer}`,
      '',
      '..',
      'a'.repeat(65_536),
      '\u00e9\u00e9',
    ];
    for (const token of forged)
      expect(await authenticate({ bearer: token }), token.slice(0, 40)).toMatchObject(refused());
    const { kernel } = fixture.node;
    const key = kernel.secrets.digest('HS256', 'core:admin-token-key');
    const sign = createSigner({ key, algorithm: 'HS256' });
    expect(await authenticate({ bearer: sign({ ...claims, exp: 1_000 }) })).toMatchObject(
      refused('Token has expired'),
    );
    expect(await authenticate({ bearer: sign({ ...claims, sv: '1' }) })).toMatchObject(
      refused('Invalid token'),
    );
    expect(await authenticate({ bearer: sign({ id: claims.id, sv: 1, iat: 1 }) })).toMatchObject(
      refused('Invalid token'),
    );
    expect(await authenticate({ bearer: sign({ ...claims, twoFaRequired: true }) })).toMatchObject(
      refused('Two FA required'),
    );
    expect(
      await authenticate({
        bearer: sign({ ...claims, id: '01900000-0000-7000-8000-000000000000' }),
      }),
    ).toMatchObject(refused('No such user exists'));
    expect(
      await authenticate({ bearer: createSigner({ key, algorithm: 'HS512' })(claims) }),
    ).toMatchObject(refused('Invalid token'));
  });

  it('stop an address that guesses the master key, before they look at the key', async () => {
    const from = '198.51.100.7';
    const statuses: number[] = [];
    for (let i = 0; i < 25; i += 1)
      statuses.push(
        ((await authenticate({ masterKey: `guess ${i}`, address: from })) as { status: number })
          .status,
      );
    expect(statuses.slice(0, 20).every((status) => status === 401)).toBe(true);
    expect(statuses.slice(20).every((status) => status === 429)).toBe(true);
    expect(await authenticate({ masterKey, address: from })).toMatchObject({
      status: 429,
      retryAfter: expect.any(Number),
    });
    expect(await authenticate({ masterKey, address: '198.51.100.8' })).toMatchObject({
      via: 'masterkey',
    });
  });

  describe('in gate mode', () => {
    const setMode = (masterkeyMode: string) =>
      fixture.node.call('core.config.change', {
        bearer,
        masterKey,
        params: { module: 'admin' },
        body: { config: { auth: { masterkeyMode } } },
      });

    it('need the master key beside an admin token, on every node at once', async () => {
      expect((await setMode('gate')).status).toBe(200);
      for (const node of fixture.nodes) {
        expect(await authenticate({ masterKey }, node)).toMatchObject(refused('No token provided'));
        expect(await authenticate({ bearer }, node)).toMatchObject(refused('Unauthorized'));
        expect(await authenticate({ masterKey, bearer }, node)).toMatchObject({ via: 'jwt' });
        expect(await authenticate({ bearer: cdt }, node)).toMatchObject({ via: 'token' });
      }
      expect(await fixture.login()).toMatch(/^ey/);
      expect((await setMode('credential')).status).toBe(200);
      expect(await authenticate({ masterKey })).toMatchObject({ via: 'masterkey' });
    });
  });
});
