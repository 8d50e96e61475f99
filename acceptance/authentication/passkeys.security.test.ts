/**
 * Passkeys with an authenticator in a real browser: what is signed works once, for one purpose, one session
 * and one page (https://www.w3.org/TR/webauthn-3/#sctn-security-considerations;
 * https://cwe.mitre.org/data/definitions/294.html).
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  describeWithChromium,
  startChromium,
  type TestBrowser,
} from '../../test/support/chromium.ts';
import { createMailbox } from '../../test/support/mailbox.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  addVirtualAuthenticator,
  type BrowserCredential,
  type PasskeyPage,
  startPasskeyPage,
  type VirtualAuthenticator,
} from '../../test/support/virtual-authenticator.ts';

await describeWithChromium('passkeys', () => {
  let platform: TestPlatform;
  let browser: TestBrowser;
  let page: PasskeyPage;

  beforeAll(async () => {
    [platform, browser, page] = await Promise.all([
      createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } }),
      startChromium(),
      startPasskeyPage(),
    ]);
    await configure({
      twoFa: { enabled: true },
      passkeys: { enabled: true, rpId: 'localhost', origins: [page.origin] },
    });
  }, 300_000);
  afterAll(async () => {
    await Promise.all([platform?.close(), browser?.close(), page?.close()]);
  });

  const configure = async (config: object) => {
    const answer = await platform.admin.patch('/config/authentication', { config });
    expect(answer, answer.text).toMatchObject({ status: 200 });
  };
  const authenticator = () => addVirtualAuthenticator(browser, page.origin);
  const signInOptions = async () =>
    (
      await platform.client.post(
        '/authentication/passkeys/authenticate/options',
        undefined,
        elsewhere(),
      )
    ).body;
  let places = 0;
  /** Each from another network, so that only what is asked for decides. */
  const elsewhere = () => ({
    headers: { 'x-forwarded-for': `10.9.${++places >> 8}.${places % 256}` },
  });
  const signIn = (credential: unknown) =>
    platform.client.post(
      '/authentication/passkeys/authenticate/verify',
      { credential },
      elsewhere(),
    );
  /** A user with one passkey on a new authenticator. */
  const withPasskey = async () => {
    const user = await platform.registerUser();
    const device = await authenticator();
    const options = (await user.api.post('/authentication/passkeys/register/options')).body;
    const credential = await device.create(options);
    const added = await user.api.post('/authentication/passkeys/register/verify', {
      credential,
      name: 'My phone',
    });
    expect(added, added.text).toMatchObject({ status: 200 });
    return { user, device, options, credential, passkey: added.body };
  };
  const passkeyOf = async (device: VirtualAuthenticator) => {
    const [held] = await device.credentials();
    if (!held) throw new Error('The authenticator holds no passkey');
    return held;
  };

  test('is added, signs in for both factors without a name, and is listed, named and told by mail', async () => {
    const { user, device, options, passkey } = await withPasskey();
    expect(options).toMatchObject({
      rp: { id: 'localhost', name: 'Penstock' },
      user: { name: user.email },
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    });
    // The name under which authenticators know a user tells nothing about them.
    expect(options.user.id).not.toContain(user.userId);
    expect(Buffer.from(options.user.id, 'base64url')).toHaveLength(32);
    expect(passkey).toMatchObject({ name: 'My phone', transports: ['internal'], lastUsedAt: null });

    const request = await signInOptions();
    expect(request).toMatchObject({
      rpId: 'localhost',
      userVerification: 'required',
      allowCredentials: [],
    });
    const answer = await signIn(await device.get(request));
    expect(answer, answer.text).toMatchObject({
      status: 200,
      body: { userId: user.userId, refreshToken: expect.any(String) },
    });
    expect(
      (await platform.client.get('/authentication/user', { token: answer.body.accessToken }))
        .status,
    ).toBe(200);

    const renamed = await user.api.patch(`/authentication/passkeys/${passkey._id}`, {
      name: 'Old phone',
    });
    expect(renamed.body).toMatchObject({
      _id: passkey._id,
      name: 'Old phone',
      lastUsedAt: expect.any(String),
    });
    expect((await user.api.get('/authentication/passkeys')).body).toEqual({
      passkeys: [renamed.body],
      count: 1,
    });
    expect((await createMailbox(platform.admin).mail(user.email, 'PasskeyAdded')).text).toContain(
      'My phone',
    );
  });

  test('what was signed once opens nothing again, of 50 parallel uses one', async () => {
    const { device } = await withPasskey();
    const credential = await device.get(await signInOptions());
    const answers = await Promise.all(Array.from({ length: 50 }, () => signIn(credential)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);
  });

  test('a challenge of another purpose, another session or nobody is refused', async () => {
    const { user, device, credential } = await withPasskey();
    const other = await platform.registerUser();
    const register = (api: typeof user.api, given: unknown) =>
      api.post('/authentication/passkeys/register/verify', { credential: given });
    expect(await register(user.api, credential)).toMatchObject({
      status: 400,
      body: { code: 'PASSKEY_REFUSED' },
    });
    const theirs = (await other.api.post('/authentication/passkeys/register/options')).body;
    const made = await (await authenticator()).create(theirs);
    expect(await register(user.api, made)).toMatchObject({ status: 400 });
    // It was used up by the attempt.
    expect((await register(other.api, made)).status).toBe(400);
    const step = await device.get(
      (await user.api.post('/authentication/twoFa/passkey/options')).body,
    );
    expect(await signIn(step)).toMatchObject({ status: 401, body: { code: 'PASSKEY_INVALID' } });
    const invented = {
      ...(await signInOptions()),
      challenge: Buffer.alloc(32, 7).toString('base64url'),
    };
    expect((await signIn(await device.get(invented))).status).toBe(401);
  });

  test('changed signatures, other users, other pages and missing verification are refused', async () => {
    const { device, user } = await withPasskey();
    const change = async (change: (credential: BrowserCredential) => object) =>
      signIn(change(await device.get(await signInOptions())));
    const response = (part: object) => (credential: BrowserCredential) => ({
      ...credential,
      response: { ...credential.response, ...part },
    });
    expect(
      (await change(response({ signature: Buffer.alloc(70, 1).toString('base64url') }))).status,
    ).toBe(401);
    expect(
      (await change(response({ userHandle: Buffer.alloc(32, 1).toString('base64url') }))).status,
    ).toBe(401);
    expect((await change(response({ userHandle: undefined }))).status).toBe(401);
    expect(
      (await change((credential) => ({ ...credential, id: 'dW5rbm93bg', rawId: 'dW5rbm93bg' })))
        .status,
    ).toBe(401);
    expect((await signIn({ id: 'x' })).status).toBe(400);

    await device.setUserVerified(false);
    const unverified = { ...(await signInOptions()), userVerification: 'discouraged' };
    expect((await signIn(await device.get(unverified))).status).toBe(401);
    await device.setUserVerified(true);

    const foreign = await startPasskeyPage();
    try {
      const there = await addVirtualAuthenticator(browser, foreign.origin);
      await there.addCredential(await passkeyOf(device));
      expect((await signIn(await there.get(await signInOptions()))).status).toBe(401);
    } finally {
      await foreign.close();
    }
    expect((await user.api.get('/authentication/user')).status).toBe(200);
  });

  test('a copy whose counter does not rise is refused and written down', async () => {
    const { device, user } = await withPasskey();
    const stolen = await passkeyOf(device);
    for (let i = 0; i < 2; i += 1)
      expect((await signIn(await device.get(await signInOptions()))).status).toBe(200);
    const thief = await authenticator();
    await thief.addCredential(stolen);
    expect((await signIn(await thief.get(await signInOptions()))).status).toBe(401);
    const { body } = await platform.admin.get('/audit-logs', {
      query: { action: 'authentication.passkeyCloned' },
    });
    expect(JSON.stringify(body)).toContain(user.userId);
  });

  test('makes a session fresh, once, and that of its owner only', async () => {
    const { user, device } = await withPasskey();
    const other = await withPasskey();
    const credential = await device.get(
      (await user.api.post('/authentication/twoFa/passkey/options')).body,
    );
    expect((await other.user.api.post('/authentication/sudo', { credential })).status).toBe(401);
    const again = await device.get(
      (await user.api.post('/authentication/twoFa/passkey/options')).body,
    );
    const fresh = await user.api.post('/authentication/sudo', { credential: again });
    expect(fresh, fresh.text).toMatchObject({
      status: 200,
      body: { accessToken: expect.any(String) },
    });
    expect(
      (await platform.client.get('/authentication/user', { token: fresh.body.accessToken })).status,
    ).toBe(200);
    expect((await user.api.post('/authentication/sudo', { credential: again })).status).toBe(401);
  });

  test('proves the second factor of a partial session, with the own passkeys only', async () => {
    const { user, device } = await withPasskey();
    const stranger = await withPasskey();
    await platform.admin.patch(`/authentication/users/${user.userId}`, {
      hasTwoFA: true,
      twoFaMethod: 'sms',
      phoneNumber: `+3069${String(Date.now()).slice(-8)}`,
    });
    const first = (
      await platform.client.post('/authentication/local', {
        email: user.email,
        password: user.password,
      })
    ).body;
    expect(first).toMatchObject({ twoFaRequired: true });
    const partial = platform.client.with({ authorization: `Bearer ${first.accessToken}` });
    const options = async () => (await partial.post('/authentication/twoFa/passkey/options')).body;
    const verify = (credential: unknown) =>
      partial.post('/authentication/twoFa/passkey/verify', { credential });
    expect((await partial.post('/authentication/twoFa/authorize')).body).toMatchObject({
      method: 'sms',
      alternatives: ['passkey'],
    });
    expect(await options()).toMatchObject({ allowCredentials: [{ type: 'public-key' }] });
    expect(
      (await verify(await stranger.device.get({ ...(await options()), allowCredentials: [] })))
        .status,
    ).toBe(401);
    const answer = await verify(await device.get(await options()));
    expect(answer, answer.text).toMatchObject({
      status: 200,
      body: { userId: user.userId, refreshToken: expect.any(String) },
    });
    expect((await partial.post('/authentication/twoFa/authorize')).status).toBe(401);
  });

  test('one more than are allowed is refused before the device makes it', async () => {
    const { user } = await withPasskey();
    await configure({ passkeys: { maxPerUser: 1 } });
    const refused = await user.api.post('/authentication/passkeys/register/options');
    expect(refused).toMatchObject({ status: 409, body: { code: 'KEY_LIMIT_EXCEEDED' } });
    await configure({ passkeys: { maxPerUser: 20 } });
  });

  test('is the second factor of an account where its owner wants that, whatever is switched off later', async () => {
    const without = await platform.registerUser();
    const choice = { method: 'passkey' };
    expect(await without.api.post('/authentication/twoFa/enable', choice)).toMatchObject({
      status: 400,
      body: { code: 'SECOND_FACTOR_METHOD_UNAVAILABLE' },
    });

    const { user, device, passkey } = await withPasskey();
    expect((await user.api.post('/authentication/twoFa/enable', choice)).body).toEqual({
      result: '2FA enabled',
    });
    const remove = await user.api.delete(`/authentication/passkeys/${passkey._id}`);
    expect(remove).toMatchObject({ status: 409, body: { code: 'PASSKEY_IN_USE' } });
    await configure({ passkeys: { enabled: false }, twoFa: { enabled: false } });
    const first = (
      await platform.client.post('/authentication/local', {
        email: user.email,
        password: user.password,
      })
    ).body;
    expect(first).toMatchObject({ twoFaRequired: true, twoFaMethod: 'passkey' });
    const partial = platform.client.with({ authorization: `Bearer ${first.accessToken}` });
    expect((await partial.post('/authentication/twoFa/authorize')).body).toMatchObject({
      method: 'passkey',
      alternatives: [],
    });
    expect((await partial.post('/authentication/twoFa/verify', { code: '123456' })).status).toBe(
      401,
    );
    const credential = await device.get(
      (await partial.post('/authentication/twoFa/passkey/options')).body,
    );
    expect(
      (await partial.post('/authentication/twoFa/passkey/verify', { credential })).status,
    ).toBe(200);
    await configure({ passkeys: { enabled: true }, twoFa: { enabled: true } });
  });

  test('is the first factor of somebody who must have one, where there is no other way to have one', async () => {
    const user = await platform.registerUser();
    const methods = { authenticator: false, sms: false, passkey: true };
    await configure({ twoFa: { methods } });
    await platform.admin.patch(`/authentication/users/${user.userId}`, { requiresTwoFA: true });
    const { email, password } = user;
    const first = (
      await platform.client.post('/authentication/local', { email, password }, elsewhere())
    ).body;
    expect(first).toMatchObject({ twoFaEnrolment: true });
    const partial = (path: string, body?: object) =>
      platform.client.post(`/authentication/${path}`, body, { token: first.accessToken });
    const device = await authenticator();
    const credential = await device.create((await partial('passkeys/register/options')).body);
    const added = await partial('passkeys/register/verify', { credential });
    expect(added, added.text).toMatchObject({ status: 200 });
    // One only: whoever knows the password alone adds nothing beside it.
    expect(await partial('passkeys/register/options')).toMatchObject({
      status: 403,
      body: { code: 'PASSKEY_REQUIRED' },
    });
    expect((await partial('twoFa/enable', { method: 'passkey' })).body).toEqual({
      result: '2FA enabled',
    });
    const step = await device.get((await partial('twoFa/passkey/options')).body);
    const whole = await partial('twoFa/passkey/verify', { credential: step });
    expect(whole, whole.text).toMatchObject({
      status: 200,
      body: { userId: user.userId, refreshToken: expect.any(String) },
    });
    await configure({ twoFa: { methods: { ...methods, authenticator: true } } });
  });

  test('is removed after a fresh sign-in, is nobody else’s to touch, and the last way in stays', async () => {
    const { user, device, passkey } = await withPasskey();
    const other = await platform.registerUser();
    expect((await other.api.delete(`/authentication/passkeys/${passkey._id}`)).status).toBe(404);
    expect(
      (await other.api.patch(`/authentication/passkeys/${passkey._id}`, { name: 'mine' })).status,
    ).toBe(404);
    await configure({ local: { enabled: false } });
    expect(await user.api.delete(`/authentication/passkeys/${passkey._id}`)).toMatchObject({
      status: 409,
      body: { code: 'LAST_SIGN_IN_METHOD_PROTECTED' },
    });
    await configure({ local: { enabled: true } });
    expect((await user.api.delete(`/authentication/passkeys/${passkey._id}`)).status).toBe(200);
    expect((await signIn(await device.get(await signInOptions()))).status).toBe(401);
    await configure({ passkeys: { enabled: false } });
    expect((await user.api.get('/authentication/passkeys')).status).toBe(404);
    await configure({ passkeys: { enabled: true } });
  });
});
