/**
 * Algorithm and issuer confusion: https://github.com/advisories/GHSA-4q3h-vp4r-prv2, CVE-2026-31813; malformed
 * credentials: https://github.com/advisories/GHSA-8fpg-xm3f-6cx3; OWASP ASVS 5.0 section 9.
 */
import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  credentials,
  openAuthentication,
} from '../../../test/support/authentication.ts';

let fixture: AuthenticationFixture;
let token: string;
let header: Record<string, unknown>;
let payload: Record<string, unknown>;
let publicPem: string;

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const part = (text: string, index: number) =>
  JSON.parse(Buffer.from(text.split('.')[index] ?? '', 'base64url').toString());
const foreign = generateKeyPairSync('ed25519');

beforeAll(async () => {
  fixture = await openAuthentication();
  const body = { email: 'ada@example.com', password: 'correct horse battery staple' };
  await fixture.node.call('authentication.local.register', { body });
  token = String(
    (await fixture.node.call('authentication.local.login', { body })).body.accessToken,
  );
  header = part(token, 0);
  payload = part(token, 1);
  const { body: jwks } = await fixture.node.call('authentication.keys.list');
  const [jwk] = jwks.keys as { x: string }[];
  publicPem = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: jwk?.x ?? '' },
    format: 'jwk',
  })
    .export({ format: 'pem', type: 'spki' })
    .toString();
});
afterAll(() => fixture.close());

const status = async (bearer: string | undefined): Promise<number> => {
  try {
    await fixture.node.kernel.identity.client?.authenticate(credentials(bearer));
    return 200;
  } catch (error) {
    return (error as { status?: number }).status ?? 500;
  }
};
const signed = (head: object, body: object, key: KeyObject = foreign.privateKey): string => {
  const input = `${encode(head)}.${encode(body)}`;
  return `${input}.${sign(null, Buffer.from(input), key).toString('base64url')}`;
};
const hmac = (head: object, body: object, secret: string): string => {
  const input = `${encode(head)}.${encode(body)}`;
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`;
};

test('our own token is accepted and says what is agreed', async () => {
  expect(await status(token)).toBe(200);
  expect(header).toEqual({
    alg: 'EdDSA',
    typ: 'at+jwt',
    kid: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
  });
  expect(payload).toMatchObject({
    iss: 'penstock',
    aud: 'client',
    authorized: true,
    sudo: true,
    id: payload.sub,
  });
  expect(Number(payload.exp) - Number(payload.iat)).toBe(3600);
});

test('no algorithm but ours is accepted', async () => {
  const kid = header.kid;
  expect(await status(`${encode({ ...header, alg: 'none' })}.${encode(payload)}.`)).toBe(401);
  expect(await status(`${encode({ ...header, alg: 'none' })}.${encode(payload)}`)).toBe(401);
  expect(await status(hmac({ alg: 'HS256', typ: 'at+jwt', kid }, payload, publicPem))).toBe(401);
  expect(await status(hmac({ alg: 'HS256', typ: 'at+jwt', kid }, payload, ''))).toBe(401);
  expect(await status(hmac({ ...header }, payload, publicPem))).toBe(401);
});

test('keys are chosen among ours alone', async () => {
  const jwk = foreign.publicKey.export({ format: 'jwk' });
  expect(await status(signed(header, payload))).toBe(401);
  expect(await status(signed({ ...header, jwk }, payload))).toBe(401);
  expect(
    await status(
      signed({ ...header, jku: 'http://127.0.0.1/keys', x5u: 'http://127.0.0.1/c' }, payload),
    ),
  ).toBe(401);
  for (const kid of [
    '../../../../dev/null',
    '/dev/null',
    "' union select 1 --",
    '__proto__',
    'constructor',
    '',
    'a'.repeat(43),
    7,
    null,
    ['x'],
    {},
  ]) {
    expect(await status(signed({ ...header, kid }, payload))).toBe(401);
  }
});

test('nothing signed may be changed', async () => {
  const [head, body, signature = ''] = token.split('.');
  expect(
    await status(
      `${head}.${encode({ ...payload, sub: '00000000-0000-7000-8000-000000000000' })}.${signature}`,
    ),
  ).toBe(401);
  expect(await status(`${head}.${encode({ ...payload, exp: 4_000_000_000 })}.${signature}`)).toBe(
    401,
  );
  expect(await status(`${head}.${body}.${signature.slice(0, -2)}`)).toBe(401);
  expect(await status(`${head}.${body}.`)).toBe(401);
  expect(await status(`${head}.${body}`)).toBe(401);
  expect(await status(`${token}.${signature}`)).toBe(401);
  expect(await status(`${token}=`)).toBe(401);
  expect(await status(`${token} `)).toBe(401);
});

test.each([
  undefined,
  '',
  '.',
  '..',
  'abc',
  'null',
  '\u0000',
  '\u00e9.\u00e9.\u00e9',
  'a'.repeat(65_536),
  `${'a'.repeat(1000)}.b.c`,
  'e30.e30.e30',
])('what is no token is 401: %.20s', async (text) => {
  expect(await status(text)).toBe(401);
});

/** Signs with the key of the platform what it would never sign itself. */
async function ownSigned(body: object, head: object = header): Promise<string> {
  const { rows } = await fixture.database.query<{ sealed: string; kid: string }>({
    text: 'select private_key_sealed as sealed, kid from penstock.signing_keys where verifies_until is null',
  });
  const { createPrivateKey } = await import('node:crypto');
  const pem = fixture.node.kernel.secrets.open(
    rows[0]?.sealed ?? '',
    `authentication:signing-key:${rows[0]?.kid}`,
  );
  return signed(head, body, createPrivateKey(pem));
}

test('even signed by us, a token must be of the right kind, for the right audience, in time and complete', async () => {
  expect(await status(await ownSigned(payload))).toBe(200);
  const now = Math.floor(Date.now() / 1000);
  for (const change of [
    { exp: now - 1 },
    { nbf: now + 60 },
    { aud: 'admin' },
    { iss: 'somebody' },
    { exp: 'never' },
    { sub: 7 },
    { sid: null },
  ]) {
    expect(await status(await ownSigned({ ...payload, ...change }))).toBe(401);
  }
  for (const claim of [
    'exp',
    'aud',
    'iss',
    'sub',
    'sid',
    'jti',
    'iat',
    'auth_time',
    'authorized',
    'client_id',
  ]) {
    const { [claim]: _, ...rest } = payload;
    expect(await status(await ownSigned(rest))).toBe(401);
  }
  expect(await status(await ownSigned(payload, { ...header, typ: 'JWT' }))).toBe(401);
  expect(await status(await ownSigned(payload, { ...header, crit: ['exp'] }))).toBe(401);
  expect(
    await status(await ownSigned({ ...payload, sub: '00000000-0000-7000-8000-000000000000' })),
  ).toBe(401);
  expect(
    await status(await ownSigned({ ...payload, sid: '00000000-0000-7000-8000-000000000000' })),
  ).toBe(401);
});

test('a token that has expired while it was cached is refused', async () => {
  const now = Math.floor(Date.now() / 1000);
  const short = await ownSigned({ ...payload, exp: now + 2 });
  expect(await status(short)).toBe(200);
  const { vi } = await import('vitest');
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3000 });
  try {
    expect(await status(short)).toBe(401);
  } finally {
    vi.useRealTimers();
  }
});

test('a warm request makes neither a promise nor a query', async () => {
  expect(await status(token)).toBe(200);
  const before = fixture.database.query;
  let queries = 0;
  Object.assign(fixture.database, {
    query: (statement: Parameters<typeof before>[0]) => {
      queries += 1;
      return before(statement);
    },
  });
  const caller = fixture.node.kernel.identity.client?.authenticate(credentials(token));
  Object.assign(fixture.database, { query: before });
  expect(caller).not.toBeInstanceOf(Promise);
  expect(caller).toMatchObject({
    kind: 'user',
    userId: payload.sub,
    sessionId: payload.sid,
    complete: true,
  });
  expect(queries).toBe(0);
});
