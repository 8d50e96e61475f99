/**
 * Tokens that others verify, with the libraries that they would use: keys by address (`jose`), discovery
 * (`openid-client`). Neither a new key nor another algorithm or issuer logs anybody out.
 */
import {
  createRemoteJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  type JWTPayload,
  jwtVerify,
} from 'jose';
import { allowInsecureRequests, discovery } from 'openid-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
let issuer: string;
beforeAll(async () => {
  platform = await createTestPlatform();
  issuer = platform.addresses.client;
});
afterAll(() => platform?.close());

const configure = (accessTokens: object) =>
  platform.admin.patch('/config/authentication', { config: { accessTokens } });

/** As a service of somebody else does: it knows the address and reads the keys when it needs them. */
const verify = async (token: string, algorithm: string): Promise<JWTPayload> => {
  const keys = createRemoteJWKSet(new URL(`${platform.addresses.client}/.well-known/jwks.json`));
  const { payload } = await jwtVerify(token, keys, {
    algorithms: [algorithm],
    audience: 'client',
    typ: 'at+jwt',
    issuer: decodeJwt(token).iss ?? '',
  });
  return payload;
};

const isSignedIn = async (token: string): Promise<boolean> =>
  (await platform.client.get('/authentication/user', { token })).status === 200;

it('says nothing about an issuer while there is none', async () => {
  const { status } = await platform.client.get('/.well-known/openid-configuration');
  expect(status).toBe(404);
  const { accessToken } = await platform.registerUser();
  expect(await verify(accessToken, 'EdDSA')).toMatchObject({ iss: 'penstock' });
});

it.each(['ES256', 'RS256', 'EdDSA'])(
  'signs with %s, and what was signed before stays good',
  async (algorithm) => {
    const before = await platform.registerUser();
    expect((await configure({ algorithm, issuer })).status).toBe(200);

    const user = await platform.registerUser();
    expect(decodeProtectedHeader(user.accessToken)).toMatchObject({
      alg: algorithm,
      typ: 'at+jwt',
    });
    expect(await verify(user.accessToken, algorithm)).toMatchObject({
      iss: issuer,
      sub: user.userId,
    });
    expect(await isSignedIn(user.accessToken)).toBe(true);

    expect(await isSignedIn(before.accessToken)).toBe(true);
    const old = decodeProtectedHeader(before.accessToken).alg ?? '';
    expect(await verify(before.accessToken, old)).toMatchObject({ sub: before.userId });
    const renewed = await platform.client.post('/authentication/renew', undefined, {
      token: before.refreshToken,
    });
    expect(decodeProtectedHeader(renewed.body.accessToken).alg).toBe(algorithm);
    expect(await isSignedIn(renewed.body.accessToken)).toBe(true);
  },
);

it('leads libraries to its keys', async () => {
  await configure({ algorithm: 'ES256', issuer });
  const found = await discovery(new URL(issuer), 'some-client', undefined, undefined, {
    execute: [allowInsecureRequests],
  });
  const server = found.serverMetadata();
  expect(server).toMatchObject({ issuer, jwks_uri: `${issuer}/.well-known/jwks.json` });
  const { accessToken, userId } = await platform.registerUser();
  const keys = createRemoteJWKSet(new URL(server.jwks_uri ?? ''));
  const { payload } = await jwtVerify(accessToken, keys, { issuer: server.issuer });
  expect(payload.sub).toBe(userId);
  const oauth = await platform.client.get('/.well-known/oauth-authorization-server');
  expect(oauth.body).toMatchObject({ issuer });
});

it('takes no token whose algorithm or issuer is not that of its key', async () => {
  await configure({ algorithm: 'RS256', issuer });
  const { accessToken } = await platform.registerUser();
  const [header = '', payload = '', signature = ''] = accessToken.split('.');
  const changed = (part: string, change: object) =>
    Buffer.from(
      JSON.stringify({ ...JSON.parse(Buffer.from(part, 'base64url').toString()), ...change }),
    ).toString('base64url');
  for (const forged of [
    `${changed(header, { alg: 'EdDSA' })}.${payload}.${signature}`,
    `${changed(header, { alg: 'HS256' })}.${payload}.${signature}`,
    `${header}.${changed(payload, { iss: 'penstock' })}.${signature}`,
  ])
    expect(await isSignedIn(forged)).toBe(false);
});

it.each(['https://api.example.com/', 'https://API.example.com', 'api.example.com', 'https://a?b'])(
  'refuses the issuer %s',
  async (wrong) => {
    expect(await configure({ issuer: wrong })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'accessTokens.issuer' }] },
    });
  },
);
