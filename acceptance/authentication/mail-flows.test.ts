/** What goes by way of a mailbox, as clients and their users see it: verification, recovery, change of address, sign-in. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { createMailbox, type Mailbox } from '../../test/support/mailbox.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { resolveReferences } from '../openapi.ts';
import { closeClients, listen } from '../realtime/clients.ts';

let platform: TestPlatform;
let mailbox: Mailbox;
beforeAll(async () => {
  platform = await createTestPlatform();
  mailbox = createMailbox(platform.admin);
});
afterAll(() => platform.close());

const password = 'correct horse battery staple';
const another = 'seven purple elephants dancing';
const defaults = {
  local: {
    verification: {
      required: false,
      send_email: false,
      method: 'link',
      redirect_uri: '',
      resend_threshold: 60_000,
    },
    username_auth_enabled: false,
    forgot_password_redirect_uri: '',
  },
  magic_link: { enabled: false, redirect_uri: '', link_uri: '' },
  email_code: { enabled: false },
  redirectUris: { allowAny: false, whitelistedUris: [], tokenDelivery: 'query' },
};
const configure = async (config: object) => {
  const answer = await platform.admin.patch('/config/authentication', { config });
  expect(answer.status, answer.text).toBe(200);
};
beforeEach(() => configure(defaults));

const post = (path: string, body: object = {}, token?: string) =>
  platform.client.post(path, body, token === undefined ? {} : { token });
const register = (email: string, more: object = {}) =>
  post('/authentication/local/new', { email, password, ...more });
const login = (email: string, given = password) =>
  post('/authentication/local', { email, password: given });
const userOf = async (accessToken: string) =>
  (await platform.client.get('/authentication/user', { token: accessToken })).body;

test('a link verifies the address, a repeated click leads to the same page, a wrong one to 404', async () => {
  await configure({
    local: {
      verification: {
        required: true,
        send_email: true,
        redirect_uri: 'https://app.example/welcome?from=mail',
      },
    },
  });
  const { body } = await register('link@example.com');
  expect(body.user).toMatchObject({ email: 'link@example.com', isVerified: false });
  expect(await login('link@example.com', 'a wrong password')).toMatchObject({
    status: 401,
    body: { code: 'CREDENTIALS_INVALID' },
  });
  expect(await login('link@example.com')).toMatchObject({
    status: 403,
    body: { code: 'EMAIL_NOT_VERIFIED' },
  });

  const link = await mailbox.link('link@example.com', 'EmailVerification');
  expect(link.origin).toBe(platform.addresses.client);
  for (let click = 0; click < 2; click += 1) {
    const answer = await platform.client.get(link.pathname);
    expect(answer.status).toBe(302);
    expect(answer.headers.get('location')).toBe('https://app.example/welcome?from=mail');
  }
  expect((await login('link@example.com')).status).toBe(200);
  const wrong = await platform.client.get(`/hook/authentication/verify-email/${'x'.repeat(43)}`);
  expect(wrong).toMatchObject({ status: 404, body: { code: 'LINK_NOT_FOUND' } });
});

test('the page of the request goes before the configured one; without any there is one of ours', async () => {
  await configure({
    local: { verification: { send_email: true, redirect_uri: 'https://app.example/configured' } },
    redirectUris: { whitelistedUris: ['https://app.example/own'] },
  });
  await register('own@example.com', { redirectUri: 'https://app.example/own?step=2' });
  await mailbox.mail('own@example.com', 'EmailVerification');
  await post('/authentication/local/resend-verification', { email: 'own@example.com' });
  const again = await mailbox.link('own@example.com', 'EmailVerification', 2);
  expect((await platform.client.get(again.pathname)).headers.get('location')).toBe(
    'https://app.example/own?step=2',
  );

  await configure({ local: { verification: { redirect_uri: '' } } });
  await register('plain@example.com');
  const plain = await platform.client.get(
    (await mailbox.link('plain@example.com', 'EmailVerification')).pathname,
  );
  expect(plain.status).toBe(200);
  expect(plain.headers.get('content-type')).toContain('text/html');
  expect(plain.headers.get('referrer-policy')).toBe('no-referrer');
});

test('a code verifies the address, once, and five wrong ones use it up', async () => {
  await configure({
    local: { verification: { required: true, send_email: true, method: 'code' } },
  });
  const verify = (email: string, code: string) =>
    post('/authentication/local/verify-email', { email, code });
  await register('code@example.com');
  const { code = '', subject } = await mailbox.mail(
    'code@example.com',
    'EmailVerificationWithCode',
  );
  expect(code).toMatch(/^\d{6}$/);
  expect(subject).toContain(code);
  expect(await verify('CODE@example.com', code)).toMatchObject({
    status: 200,
    body: { result: 'OK' },
  });
  expect((await login('code@example.com')).status).toBe(200);
  expect(await verify('code@example.com', code)).toMatchObject({
    status: 400,
    body: { code: 'LINK_INVALID' },
  });

  await register('guessed@example.com');
  const { code: right = '' } = await mailbox.mail(
    'guessed@example.com',
    'EmailVerificationWithCode',
  );
  const wrong = right === '000000' ? '111111' : '000000';
  const answers = [];
  for (let i = 0; i < 5; i += 1) answers.push(await verify('guessed@example.com', wrong));
  answers.push(
    await verify('guessed@example.com', right),
    await verify('nobody@example.com', '123456'),
  );
  expect(answers.map(({ status, body }) => [status, body.code])).toEqual(
    Array(7).fill([400, 'LINK_INVALID']),
  );
});

test('the verification mail is sent again, not more often than the threshold allows, and replaces the one before', async () => {
  await configure({ local: { verification: { send_email: true } } });
  await register('again@example.com');
  const first = await mailbox.link('again@example.com', 'EmailVerification');
  const resend = () =>
    post('/authentication/local/resend-verification', { email: 'again@example.com' });
  expect((await resend()).status).toBe(200);
  const second = await mailbox.link('again@example.com', 'EmailVerification', 2);
  expect(second.pathname).not.toBe(first.pathname);
  const soon = await resend();
  expect(soon).toMatchObject({ status: 429, body: { code: 'MESSAGE_TOO_SOON' } });
  expect(Number(soon.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await platform.client.get(first.pathname)).status).toBe(404);
  expect((await platform.client.get(second.pathname)).status).toBe(200);
});

test('a forgotten password: the mail leads to the page with the token, which works once and ends all sessions', async () => {
  await configure({
    local: { forgot_password_redirect_uri: 'https://app.example/reset?theme=dark' },
  });
  const user = await platform.registerUser({ email: 'forgot@example.com', password });
  expect(
    (await post('/authentication/forgot-password', { email: 'FORGOT@example.com' })).status,
  ).toBe(200);
  const link = await mailbox.link('forgot@example.com', 'ForgotPassword');
  expect(`${link.origin}${link.pathname}`).toBe('https://app.example/reset');
  expect(link.searchParams.get('theme')).toBe('dark');
  const passwordResetToken = link.searchParams.get('reset_token') ?? '';
  const reset = (given: string) =>
    post('/authentication/reset-password', { passwordResetToken, password: given });

  expect(await reset('short')).toMatchObject({
    status: 400,
    body: { code: 'PASSWORD_WEAK', errors: [{ path: 'password' }] },
  });
  expect(await reset(password)).toMatchObject({
    status: 403,
    body: { code: 'PASSWORD_UNCHANGED' },
  });
  expect((await reset(another)).status).toBe(200);
  expect(await reset('yet another good password')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'passwordResetToken' }] },
  });

  expect((await user.api.get('/authentication/user')).status).toBe(401);
  expect((await login('forgot@example.com')).status).toBe(401);
  const { accessToken } = (await login('forgot@example.com', another)).body;
  expect(await userOf(accessToken)).toMatchObject({ isVerified: true });
  await mailbox.mail('forgot@example.com', 'PasswordChanged');
});

test('without a page the mail holds the token itself; a later mail ends the earlier one', async () => {
  await platform.registerUser({ email: 'token@example.com', password });
  await post('/authentication/forgot-password', { email: 'token@example.com' });
  const { text } = await mailbox.mail('token@example.com', 'ForgotPassword');
  const token = /[A-Za-z0-9_-]{43}/.exec(text)?.[0] ?? '';
  expect(
    (await post('/authentication/reset-password', { passwordResetToken: token, password: another }))
      .status,
  ).toBe(200);
});

test('another address: proven first, told to the old one, and taken back from there', async () => {
  const user = await platform.registerUser({ email: 'old@example.com', password });
  const other = await platform.login('old@example.com', password);
  const change = (newEmail: string) =>
    user.api.post('/authentication/local/change-email', { newEmail });
  expect(await change('old@example.com')).toMatchObject({
    status: 400,
    body: { code: 'EMAIL_UNCHANGED', errors: [{ path: 'newEmail' }] },
  });
  expect(await change('not an address')).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'newEmail' }] },
  });
  expect(await change('New@Example.com')).toMatchObject({
    status: 200,
    body: { result: 'Verification mail sent to the new address' },
  });
  expect((await login('new@example.com')).status).toBe(401);

  const confirm = await mailbox.link('new@example.com', 'ChangeEmailVerification');
  expect((await platform.client.get(confirm.pathname)).status).toBe(200);
  expect((await platform.client.get(confirm.pathname)).status).toBe(404);
  expect(await userOf(user.accessToken)).toMatchObject({
    email: 'new@example.com',
    isVerified: true,
  });
  expect((await other.api.get('/authentication/user')).status).toBe(401);
  expect((await login('old@example.com')).status).toBe(401);

  const undo = await mailbox.link('old@example.com', 'EmailChanged');
  const page = await platform.client.get(undo.pathname);
  expect(page.text).toContain('<form method="post">');
  expect(await userOf(user.accessToken)).toMatchObject({ email: 'new@example.com' });
  expect((await platform.client.send('POST', undo.pathname)).status).toBe(200);
  expect((await platform.client.send('POST', undo.pathname)).status).toBe(404);
  expect((await user.api.get('/authentication/user')).status).toBe(401);
  for (const email of ['old@example.com', 'new@example.com'])
    expect((await login(email)).status).toBe(401);
  await mailbox.mail('old@example.com', 'ForgotPassword');
});

test('who listens to what compares with their address does not go on with the old one', async () => {
  const user = await platform.registerUser({ email: 'first@example.com', password });
  const { _id: selectedSchema } = await platform.createSchema({
    name: 'Letter',
    fields: { to: { type: 'String' } },
  });
  const mine = await platform.admin.post('/database/customEndpoints', {
    ...{ name: 'myLetters', operation: 0, selectedSchema, authentication: true, inputs: [] },
    query: {
      AND: [
        {
          ...{ schemaField: 'to', operation: 0 },
          comparisonField: { type: 'Context', value: 'user.email' },
        },
      ],
    },
  });
  expect(mine.status).toBe(200);
  const list = await listen(platform, user, { endpoint: 'myLetters' });
  await user.api.post('/authentication/local/change-email', { newEmail: 'second@example.com' });
  const confirm = await mailbox.link('second@example.com', 'ChangeEmailVerification');
  expect((await platform.client.get(confirm.pathname)).status).toBe(200);
  await waitFor(() => list.told.includes('gap changed'));
  closeClients();
});

test('an address that was taken meanwhile is not taken over', async () => {
  const user = await platform.registerUser({ email: 'mover@example.com', password });
  await user.api.post('/authentication/local/change-email', { newEmail: 'wanted@example.com' });
  const confirm = await mailbox.link('wanted@example.com', 'ChangeEmailVerification');
  await register('wanted@example.com');
  expect(await platform.client.get(confirm.pathname)).toMatchObject({
    status: 409,
    body: { code: 'USER_EXISTS' },
  });
  expect(await userOf(user.accessToken)).toMatchObject({ email: 'mover@example.com' });
});

test('a magic link signs in after a click, not when it is looked at', async () => {
  await configure({ magic_link: { enabled: true, redirect_uri: 'https://app.example/in?x=1' } });
  const { userId } = await platform.registerUser({ email: 'magic@example.com', password });
  await post('/authentication/magic-link', { email: 'magic@example.com' });
  const link = await mailbox.link('magic@example.com', 'MagicLink');
  for (let scan = 0; scan < 3; scan += 1) {
    const page = await platform.client.get(link.pathname);
    expect(page.status).toBe(200);
    expect(page.headers.get('content-security-policy')).toContain(
      "form-action 'self' https://app.example",
    );
    expect(page.text).not.toContain('eyJ');
  }
  const answer = await platform.client.send('POST', link.pathname);
  expect(answer.status).toBe(302);
  const target = new URL(answer.headers.get('location') ?? '');
  expect([target.origin, target.pathname, target.searchParams.get('x')]).toEqual([
    'https://app.example',
    '/in',
    '1',
  ]);
  expect(await userOf(target.searchParams.get('accessToken') ?? '')).toMatchObject({
    _id: userId,
    isVerified: true,
  });
  expect(target.searchParams.get('refreshToken')).toMatch(/^[\w-]{43}$/);
  expect((await platform.client.send('POST', link.pathname)).status).toBe(404);
  expect((await platform.client.get(link.pathname)).status).toBe(404);
});

test('a magic link that leads to the app is exchanged there; without a page the tokens are the answer', async () => {
  await configure({ magic_link: { enabled: true, link_uri: 'https://app.example/magic?lang=en' } });
  await platform.registerUser({ email: 'app@example.com', password });
  await post('/authentication/magic-link', { email: 'app@example.com' });
  const link = await mailbox.link('app@example.com', 'MagicLink');
  expect(`${link.origin}${link.pathname}?lang=${link.searchParams.get('lang')}`).toBe(
    'https://app.example/magic?lang=en',
  );
  const path = `/authentication/magic-link/${link.searchParams.get('magicToken')}`;
  expect((await platform.client.send('POST', path)).body).toMatchObject({
    userId: expect.any(String),
    accessToken: expect.any(String),
  });
  expect((await platform.client.send('POST', path)).status).toBe(404);

  await configure({ magic_link: { link_uri: '' } });
  expect((await platform.client.send('POST', path)).status).toBe(404);
  await platform.registerUser({ email: 'json@example.com', password });
  await post('/authentication/magic-link', { email: 'json@example.com' });
  const plain = await mailbox.link('json@example.com', 'MagicLink');
  expect((await platform.client.send('POST', plain.pathname)).body).toMatchObject({
    accessToken: expect.any(String),
  });
});

test('tokens go behind the # or by a code, where the configuration says so', async () => {
  await configure({
    magic_link: { enabled: true, redirect_uri: 'https://app.example/in' },
    redirectUris: { tokenDelivery: 'fragment' },
  });
  const use = async (email: string) => {
    await platform.registerUser({ email, password });
    await post('/authentication/magic-link', { email });
    const answer = await platform.client.send(
      'POST',
      (await mailbox.link(email, 'MagicLink')).pathname,
    );
    return new URL(answer.headers.get('location') ?? '');
  };
  const fragment = await use('fragment@example.com');
  expect(fragment.search).toBe('');
  expect(
    await userOf(new URLSearchParams(fragment.hash.slice(1)).get('accessToken') ?? ''),
  ).toMatchObject({
    email: 'fragment@example.com',
  });

  await configure({ redirectUris: { tokenDelivery: 'exchange' } });
  const exchange = await use('exchange@example.com');
  expect([...exchange.searchParams.keys()]).toEqual(['code']);
  const code = exchange.searchParams.get('code') ?? '';
  const { status, body } = await post('/authentication/exchange', { code });
  expect(status).toBe(200);
  expect(await userOf(body.accessToken)).toMatchObject({ email: 'exchange@example.com' });
  expect(await post('/authentication/exchange', { code })).toMatchObject({
    status: 400,
    body: { code: 'LINK_INVALID' },
  });
});

test('six digits sign in, and an account that was never verified loses what somebody else may know', async () => {
  await configure({ email_code: { enabled: true } });
  const squatter = await platform.registerUser({ email: 'owner@example.com', password });
  const { token } = (await post('/authentication/email-code', { email: 'owner@example.com' })).body;
  const { code = '' } = await mailbox.mail('owner@example.com', 'LoginCode');
  const verify = (given: string, handle = token) =>
    post('/authentication/email-code/verify', { token: handle, code: given });
  const wrong = code === '000000' ? '111111' : '000000';
  expect(await verify(wrong)).toMatchObject({ status: 401, body: { code: 'CREDENTIALS_INVALID' } });
  const { status, body } = await verify(code);
  expect(status).toBe(200);
  expect(await userOf(body.accessToken)).toMatchObject({
    email: 'owner@example.com',
    isVerified: true,
  });
  expect((await verify(code)).status).toBe(401);
  expect((await squatter.api.get('/authentication/user')).status).toBe(401);
  expect((await login('owner@example.com')).status).toBe(401);
});

test('a code belongs to whoever asked for it: others can neither use it nor use it up', async () => {
  await configure({
    email_code: { enabled: true },
    local: { verification: { resend_threshold: 1000 } },
  });
  await platform.registerUser({ email: 'mine@example.com', password });
  const mine = (await post('/authentication/email-code', { email: 'mine@example.com' })).body.token;
  const { code = '' } = await mailbox.mail('mine@example.com', 'LoginCode');
  const verify = (token: string, given: string) =>
    post('/authentication/email-code/verify', { token, code: given });
  const theirs = await waitFor(
    async () =>
      (await post('/authentication/email-code', { email: 'mine@example.com' })).body.token,
    {
      everyMs: 200,
    },
  );
  await mailbox.mail('mine@example.com', 'LoginCode', 2);
  for (let i = 0; i < 6; i += 1)
    expect((await verify(theirs, code === '000000' ? '111111' : '000000')).status).toBe(401);
  expect((await verify(theirs, code)).status).toBe(401);
  expect((await verify(mine, code)).status).toBe(200);
});

test('a mail that is dropped because there were too many leaves the one before as it was', async () => {
  const limit = (maxPerRecipient: number) =>
    platform.admin.patch('/config/communications', { config: { email: { maxPerRecipient } } });
  await configure({
    local: {
      forgot_password_redirect_uri: 'https://app.example/reset',
      verification: { resend_threshold: 1000 },
    },
  });
  await platform.registerUser({ email: 'flooded@example.com', password });
  await limit(1);
  await post('/authentication/forgot-password', { email: 'flooded@example.com' });
  const link = await mailbox.link('flooded@example.com', 'ForgotPassword');
  await waitFor(
    async () =>
      (await post('/authentication/forgot-password', { email: 'flooded@example.com' })).status ===
      200,
    {
      everyMs: 200,
    },
  );
  await platform.registerUser({ email: 'sentinel2@example.com', password });
  await post('/authentication/forgot-password', { email: 'sentinel2@example.com' });
  await mailbox.mail('sentinel2@example.com', 'ForgotPassword');
  await limit(20);
  expect(await mailbox.count('flooded@example.com', 'ForgotPassword')).toBe(1);
  const passwordResetToken = link.searchParams.get('reset_token');
  expect(
    (await post('/authentication/reset-password', { passwordResetToken, password: another }))
      .status,
  ).toBe(200);
});

test('a blocked user gets no mail and no session', async () => {
  await configure({ magic_link: { enabled: true }, email_code: { enabled: true } });
  const { userId } = await platform.registerUser({ email: 'blocked@example.com', password });
  await post('/authentication/magic-link', { email: 'blocked@example.com' });
  const link = await mailbox.link('blocked@example.com', 'MagicLink');
  await platform.admin.post(`/authentication/users/${userId}/block`);
  expect(await platform.client.send('POST', link.pathname)).toMatchObject({
    status: 403,
    body: { code: 'USER_BLOCKED' },
  });
  await post('/authentication/email-code', { email: 'blocked@example.com' });
  await post('/authentication/forgot-password', { email: 'blocked@example.com' });
  await platform.registerUser({ email: 'sentinel@example.com', password });
  await post('/authentication/forgot-password', { email: 'sentinel@example.com' });
  await mailbox.mail('sentinel@example.com', 'ForgotPassword');
  expect(await mailbox.count('blocked@example.com', 'LoginCode')).toBe(0);
  expect(await mailbox.count('blocked@example.com', 'ForgotPassword')).toBe(0);
});

test('without the mail channel its routes are gone; a change of address then holds at once, unproven', async () => {
  const channel = (active: boolean) =>
    platform.admin.patch('/config/communications', { config: { email: { active } } });
  await configure({ magic_link: { enabled: true }, local: { verification: { send_email: true } } });
  expect((await channel(false)).status).toBe(200);
  for (const path of [
    '/authentication/forgot-password',
    '/authentication/magic-link',
    '/authentication/local/resend-verification',
  ]) {
    expect((await post(path, { email: 'x@example.com' })).status).toBe(404);
  }
  const user = await platform.registerUser({ email: 'quiet@example.com', password });
  const changed = await user.api.post('/authentication/local/change-email', {
    newEmail: 'silent@example.com',
  });
  expect(changed).toMatchObject({ status: 200, body: { result: 'E-mail address changed' } });
  expect(await userOf(user.accessToken)).toMatchObject({
    email: 'silent@example.com',
    isVerified: false,
  });
  expect((await channel(true)).status).toBe(200);
  expect((await post('/authentication/forgot-password', { email: 'x@example.com' })).status).toBe(
    200,
  );
});

test('a user name signs in, in any case, and its password changes after a fresh login', async () => {
  await platform.admin.post('/authentication/users', { username: 'grace.hopper', password });
  const byName = (username: string, given = password) =>
    post('/authentication/username', { username, password: given });
  expect((await byName('grace.hopper')).status).toBe(404);
  await configure({ local: { username_auth_enabled: true } });
  const { status, body } = await byName('Grace.Hopper');
  expect(status).toBe(200);
  expect(await byName('grace.hopper', 'a wrong password')).toMatchObject({
    status: 401,
    body: { code: 'CREDENTIALS_INVALID' },
  });
  expect(await byName('nobody.here')).toMatchObject({
    status: 401,
    body: { code: 'CREDENTIALS_INVALID' },
  });
  const change = (newPassword: string) =>
    post('/authentication/username/change-password', { newPassword }, body.accessToken);
  expect(await change('grace.hopper1')).toMatchObject({
    status: 400,
    body: { code: 'PASSWORD_WEAK', errors: [{ path: 'newPassword' }] },
  });
  expect((await change(another)).status).toBe(200);
  expect((await byName('grace.hopper', another)).status).toBe(200);
});

test('answers name the fields by which the user was extended', async () => {
  const { body: list } = await platform.admin.get('/database/schemas', {
    query: { search: 'User' },
  });
  const { _id } = list.schemas.find(({ name }: { name: string }) => name === 'User');
  const extended = await platform.admin.post(`/database/schemas/${_id}/extensions`, {
    fields: { nickname: { type: 'String', access: { write: 'user' } } },
  });
  expect(extended.status, extended.text).toBe(200);
  const { paths } = resolveReferences((await platform.client.get('/swagger.json')).body);
  for (const route of [
    paths['/authentication/user'].get,
    paths['/authentication/local/new'].post,
  ]) {
    expect(JSON.stringify(route.responses['200'])).toContain('nickname');
    expect(JSON.stringify(route.responses['200'])).not.toContain('hashedPassword');
  }
  const { body } = await register('extended@example.com', { userData: { nickname: 'Ada' } });
  expect(body.user).toMatchObject({ nickname: 'Ada' });
});
