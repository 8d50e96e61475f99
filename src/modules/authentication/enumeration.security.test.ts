/**
 * Who has an account here is nobody's business (CWE-204; CVE-2026-39321, GHSA-w54v-hf9p-8856, GHSA-h29g-q5c2-9h4f):
 * status, body and headers are the same for known and unknown addresses, and so is the work before the answer.
 * Links in mail come from the configured address and from no header (GHSA-3529-5m8x-rpv3). Times: bench/authentication.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Answer } from '../../../test/support/api.ts';
import { createMailbox, type Mailbox } from '../../../test/support/mailbox.ts';
import type { TestUser } from '../../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

const password = 'correct horse battery staple';
const states = ['fresh', 'verified', 'blocked', 'passwordless'] as const;

let platform: TestPlatform;
let mailbox: Mailbox;
let inviter: TestUser;
const configure = async (config: object) => {
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer.status, answer.text).toBe(200);
};
beforeAll(async () => {
  platform = await createTestPlatform();
  mailbox = createMailbox(platform.admin);
  inviter = await platform.registerUser({ email: 'inviter@teams.example', password });
  for (const state of states) {
    const { userId } = await platform.registerUser({ email: `${state}@known.example`, password });
    if (state === 'verified')
      await platform.admin.patch(`/authentication/users/${userId}`, { isVerified: true });
    if (state === 'blocked') await platform.admin.post(`/authentication/users/${userId}/block`);
  }
  await configure({
    local: { verification: { required: true, send_email: true, method: 'code' } },
    magic_link: { enabled: true },
    email_code: { enabled: true },
  });
});
afterAll(() => platform.close());

/** What a caller sees of an answer, without what differs between any two answers. */
const seen = ({ status, headers, text }: Answer, email: string) => ({
  status,
  headers: [...headers.keys()].filter((name) => name !== 'retry-after').sort(),
  text: text
    .replaceAll(email, '<email>')
    .replace(/"requestId":"[^"]*"/, '')
    .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, '<id>')
    .replace(/"token":"[\w-]{43}"/, '"token":"<token>"')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>'),
});

/** Asks once for each kind of account and once for nobody. */
async function answers(ask: (email: string) => Promise<Answer>) {
  const list = [];
  for (const name of [...states, 'nobody']) {
    const email = `${name}@known.example`;
    list.push([name, seen(await ask(email), email)] as const);
  }
  return new Map(list);
}

const routes = {
  'a wrong password': (email: string) =>
    platform.client.post('/authentication/local', { email, password: 'not this one' }),
  'a forgotten password': (email: string) =>
    platform.client.post('/authentication/forgot-password', { email }),
  'a magic link': (email: string) => platform.client.post('/authentication/magic-link', { email }),
  'a code to sign in': (email: string) =>
    platform.client.post('/authentication/email-code', { email }),
  'a wrong code to sign in': async (email: string) => {
    const { token } = (await platform.client.post('/authentication/email-code', { email })).body;
    return platform.client.post('/authentication/email-code/verify', {
      token: token ?? 'x'.repeat(43),
      code: '000000',
    });
  },
  'the verification mail again': (email: string) =>
    platform.client.post('/authentication/local/resend-verification', { email }),
  'a wrong verification code': (email: string) =>
    platform.client.post('/authentication/local/verify-email', { email, code: '000000' }),
  'a second mail too soon': (email: string) =>
    platform.client.post('/authentication/forgot-password', { email }),
} as const;

test.each(Object.entries(routes))('%s is answered the same for everybody', async (_name, ask) => {
  const all = await answers(ask);
  const nobody = all.get('nobody');
  expect(nobody?.status).toBeDefined();
  for (const [state, answer] of all) expect(answer, state).toEqual(nobody);
});

test('a registration is answered the same for a taken address, changes nothing, and its owner is told', async () => {
  const ask = (email: string) =>
    platform.client.post('/authentication/local/new', { email, password: 'another good password' });
  const all = await answers(ask);
  const nobody = all.get('nobody');
  expect(nobody).toMatchObject({ status: 200 });
  for (const [state, answer] of all) expect(answer, state).toEqual(nobody);
  await mailbox.mail('verified@known.example', 'AccountExists');
  await mailbox.mail('nobody@known.example', 'EmailVerificationWithCode');
  expect(await mailbox.count('nobody@known.example', 'AccountExists')).toBe(0);
  expect(
    (
      await platform.client.post('/authentication/local', {
        email: 'verified@known.example',
        password,
      })
    ).status,
  ).toBe(200);
  const { body } = await platform.admin.get('/authentication/users', {
    query: { search: 'known.example' },
  });
  expect(body.count).toBe(states.length + 1);
});

test('what a registration refuses, it refuses for a taken address too', async () => {
  const register = (email: string, more: object) =>
    platform.client.post('/authentication/local/new', {
      email,
      password: 'another good password',
      ...more,
    });
  for (const more of [
    { password: 'short' },
    { userData: { isVerified: true } },
    { redirectUri: 'https://evil.example' },
  ]) {
    const [known, unknown] = [
      await register('verified@known.example', more),
      await register('new@known.example', more),
    ];
    expect(known.status).toBeGreaterThanOrEqual(400);
    expect(seen(known, 'verified@known.example')).toEqual(seen(unknown, 'new@known.example'));
  }
});

test('an invitation to a team does not tell its inviter whether the address has an account', async () => {
  await configure({
    teams: { enabled: true, invites: { enabled: true, sendEmail: false } },
  });
  const { _id: team } = (await inviter.api.post('/authentication/teams', { name: 'guests' })).body;
  const register = async (email: string) => {
    const invited = { email, role: 'member' };
    const { result } = (await inviter.api.post(`/authentication/teams/${team}/invite`, invited))
      .body;
    return platform.client.post('/authentication/local/new', {
      email,
      password: 'another good password',
      invitationToken: result,
    });
  };
  const unknown = seen(await register('invited@known.example'), 'invited@known.example');
  expect(unknown).toMatchObject({ status: 200 });
  for (const state of states) {
    const email = `${state}@known.example`;
    expect(seen(await register(email), email), state).toEqual(unknown);
  }
});

test('30 registrations of one address at the same time are all answered alike and make one account', async () => {
  const email = 'crowd@known.example';
  await configure({ local: { verification: { method: 'link' } } });
  const register = async (): Promise<Answer> => {
    const answer = await platform.client.post('/authentication/local/new', { email, password });
    const seconds = answer.headers.get('retry-after');
    // Passwords are hashed below all other work: a busy machine sends some away, and says when to come again.
    if (answer.status !== 503 || seconds === null) return answer;
    await sleep(Number(seconds) * 1_000);
    return register();
  };
  const all = await Promise.all(Array.from({ length: 30 }, register));
  expect([...new Set(all.map(({ status }) => status))]).toEqual([200]);
  expect(
    (await platform.admin.get('/authentication/users', { query: { search: email } })).body.count,
  ).toBe(1);
});

test('a blocked or unverified state is told only to whoever knows the password', async () => {
  const login = (email: string, given: string) =>
    platform.client.post('/authentication/local', { email, password: given });
  expect((await login('blocked@known.example', password)).body.code).toBe('USER_BLOCKED');
  expect((await login('fresh@known.example', password)).body.code).toBe('EMAIL_NOT_VERIFIED');
  for (const state of states)
    expect((await login(`${state}@known.example`, 'wrong')).body.code).toBe('CREDENTIALS_INVALID');
});

test('links in mail come from the configured address, whatever the request says', async () => {
  const forged = {
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    forwarded: 'host=evil.example',
    origin: 'https://evil.example',
  };
  const ask = async (email: string) => {
    await platform.admin.post('/authentication/users', { email, password });
    await platform.client.with(forged).post('/authentication/magic-link', { email });
    return (await mailbox.link(email, 'MagicLink')).href;
  };
  expect(await ask('local@hosts.example')).toMatch(
    new RegExp(`^${platform.addresses.client}/hook/`),
  );
  await platform.admin.patch('/config/router', {
    config: { hostUrl: 'https://api.example.com/v1/' },
  });
  expect(await ask('public@hosts.example')).toMatch(/^https:\/\/api\.example\.com\/v1\/hook\//);
});
