/** Fail closed: https://github.com/advisories/GHSA-8fpg-xm3f-6cx3, OWASP ASVS 5.0 16.5.3. */
import { expect, test } from 'vitest';
import { credentials } from '../../../../../test/support/authentication.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Events } from '../../../../kernel/events/events.ts';
import type { SigningKeys } from '../tokens/signing-keys.ts';
import { createClientIdentity } from './client-identity.ts';
import type { SessionState } from './queries.ts';
import type { SessionStates } from './sessions.ts';
import type { TokenCookies } from './token-cookies.ts';

const caller: UserCaller = {
  kind: 'user',
  userId: 'u',
  sessionId: 's',
  authenticatedAt: 0,
  complete: true,
  clientId: 'c',
};
const live: SessionState = {
  userId: 'u',
  active: true,
  revoked: false,
  endsAt: Number.MAX_SAFE_INTEGER,
};

interface Parts {
  readonly get?: SessionStates['get'];
  readonly read?: SessionStates['read'];
  readonly verify?: () => { caller: UserCaller; expiresAt: number } | 'unknownKey' | undefined;
  readonly refresh?: SigningKeys['refresh'];
}

function authenticate({
  get = () => live,
  read = async () => live,
  verify = () => ({ caller, expiresAt: 0 }),
  refresh = async () => {},
}: Parts) {
  const states: SessionStates = { get, read, dropAfter: () => undefined };
  const keys = { refresh } as unknown as SigningKeys;
  const cookies = { accessToken: () => undefined } as unknown as TokenCookies;
  const identity = createClientIdentity({
    states,
    keys,
    cookies,
    events: {} as unknown as Events,
    accessTokens: { issue: () => '', verify },
  });
  return (async () => identity.authenticate(credentials('token')))();
}

test('a token and a live session make the caller', async () => {
  await expect(authenticate({})).resolves.toBe(caller);
  await expect(authenticate({ get: async () => live })).resolves.toBe(caller);
});

test.each<[string, Parts]>([
  ['no such session', { get: async () => undefined }],
  ['a session of somebody else', { get: () => ({ ...live, userId: 'other' }) }],
  ['a revoked session', { get: () => ({ ...live, revoked: true }) }],
  ['a session that has ended', { get: async () => ({ ...live, endsAt: 1 }) }],
  [
    'a session that has ended, also when read again',
    { get: () => ({ ...live, endsAt: 1 }), read: async () => ({ ...live, endsAt: 1 }) },
  ],
  ['no valid token', { verify: () => undefined }],
  ['a key that stays unknown', { verify: () => 'unknownKey' }],
])('%s is 401', async (_name, parts) => {
  await expect(authenticate(parts)).rejects.toMatchObject({
    status: 401,
    code: 'TOKEN_INVALID',
    headers: { 'www-authenticate': expect.any(String) },
  });
});

test('a blocked user is 403', async () => {
  await expect(authenticate({ get: () => ({ ...live, active: false }) })).rejects.toMatchObject({
    status: 403,
    code: 'USER_BLOCKED',
  });
});

test('a session whose end was moved by another node goes on', async () => {
  await expect(authenticate({ get: () => ({ ...live, endsAt: 1 }) })).resolves.toBe(caller);
});

test('a key that another node has just made is found', async () => {
  let known = false;
  const parts: Parts = {
    verify: () => (known ? { caller, expiresAt: 0 } : 'unknownKey'),
    refresh: async () => {
      known = true;
    },
  };
  await expect(authenticate(parts)).resolves.toBe(caller);
});

test.each<[string, Parts]>([
  ['the session cannot be read', { get: () => Promise.reject(new Error('database gone')) }],
  [
    'the session cannot be read again',
    { get: () => ({ ...live, endsAt: 1 }), read: () => Promise.reject(new Error('database gone')) },
  ],
  [
    'the keys cannot be read',
    { verify: () => 'unknownKey', refresh: () => Promise.reject(new Error('database gone')) },
  ],
  [
    'the cache throws',
    {
      get: () => {
        throw new Error('broken');
      },
    },
  ],
])('nobody gets through when %s', async (_name, parts) => {
  await expect(authenticate(parts)).rejects.toThrow();
});
