/**
 * Sign-in with a wallet: what was signed for another place, another address or another time opens nothing,
 * and requests for a nonce make nothing (spec/authentication.md W23; https://eips.ethereum.org/EIPS/eip-4361;
 * replay: https://cwe.mitre.org/data/definitions/294.html; malleable signatures: https://eips.ethereum.org/EIPS/eip-2).
 */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';
import { createTestWallet, type TestWallet } from '../../../test/support/wallet.ts';
import { authErrors } from './errors.ts';

const password = 'correct horse battery staple';

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
});
beforeEach(() => configure({}));
afterAll(() => fixture.close());

const configure = (metamask: object) =>
  fixture.node.configure((config) => ({
    ...config,
    anonymousUsers: { ...config.anonymousUsers, enabled: true },
    metamask: { ...config.metamask, enabled: true, origin: 'https://app.example.com', ...metamask },
  }));
const call = (id: string, request: TestRequest = {}): Promise<TestAnswer> =>
  fixture.node.call(`authentication.${id}`, request);
const users = async () =>
  (await fixture.database.query({ text: 'select 1 from "app"."User"' })).rows.length;

interface Challenge {
  readonly nonce: string;
  readonly message: string;
}
const ask = async ({ address }: Pick<TestWallet, 'address'>) =>
  (await call('metamask.nonce', { body: { ethPublicAddress: address } }))
    .body as unknown as Challenge;
const present = ({ address }: TestWallet, proof: object, bearer?: string) =>
  call('metamask.authenticate', { body: { ethPublicAddress: address, ...proof }, bearer });
const signIn = async (wallet: TestWallet, more: object = {}, bearer?: string) => {
  const { nonce, message } = await ask(wallet);
  return present(wallet, { signature: wallet.sign(message), nonce, ...more }, bearer);
};
let serial = 0;
const register = async () => {
  const email = `wallet${++serial}@example.com`;
  await call('local.register', { body: { email, password } });
  return {
    email,
    ...((await call('local.login', { body: { email, password } })).body as {
      userId: string;
      accessToken: string;
    }),
  };
};
const refused = { status: 401, body: { code: 'WALLET_REFUSED' } };

test('a new address makes an account, a known one signs in to it, however it is written', async () => {
  const wallet = createTestWallet();
  const first = await signIn(wallet);
  expect(first).toMatchObject({
    status: 200,
    body: { userId: expect.any(String), refreshToken: expect.any(String) },
  });
  const user = (await call('user.get', { bearer: first.body.accessToken as string })).body;
  expect(user).toMatchObject({ email: null, isAnonymous: false, isVerified: false });
  expect((await signIn(wallet)).body.userId).toBe(first.body.userId);
  const signed = (await ask(wallet)).message.split('\n')[1] as string;
  expect(signed).not.toBe(wallet.address);
  expect((await signIn({ ...wallet, address: signed })).body.userId).toBe(first.body.userId);
});

test('the text names the place, the chain, the nonce and its end', async () => {
  await configure({ chainId: 137, nonceLifetime: 60_000 });
  const wallet = createTestWallet();
  const { nonce, message } = await ask(wallet);
  expect(nonce).toMatch(/^[0-9a-f]{32}$/);
  const lines = message.split('\n');
  expect(lines[0]).toBe('app.example.com wants you to sign in with your Ethereum account:');
  expect(lines[1]?.toLowerCase()).toBe(wallet.address);
  expect(lines.slice(5, 9)).toEqual([
    'URI: https://app.example.com',
    'Version: 1',
    'Chain ID: 137',
    `Nonce: ${nonce}`,
  ]);
  const [issued = 0, end = 0] = lines
    .slice(9)
    .map((line) => Date.parse(line.slice(line.indexOf(': ') + 2)));
  expect(end - issued).toBe(60_000);
  await configure({ origin: '' });
  expect((await ask(wallet)).message).toContain('URI: https://api.example.com\n');
});

test('a request for a nonce makes no user and looks the same for known and unknown addresses', async () => {
  const wallet = createTestWallet();
  await signIn(wallet);
  const before = await users();
  const answers = await Promise.all([ask(wallet), ask(createTestWallet())]);
  for (const answer of answers) {
    expect(Object.keys(answer)).toEqual(['nonce', 'message']);
    expect(answer.nonce).toMatch(/^[0-9a-f]{32}$/);
    expect(answer.message).toHaveLength(answers[0]?.message.length ?? 0);
  }
  const stranger = createTestWallet();
  await ask(stranger);
  expect(
    await present(stranger, { signature: wallet.sign((await ask(stranger)).message) }),
  ).toMatchObject(refused);
  expect(await users()).toBe(before);
});

test('of 50 parallel uses of one signature one succeeds; later ones are refused', async () => {
  const wallet = createTestWallet();
  const { nonce, message } = await ask(wallet);
  const proof = { signature: wallet.sign(message), nonce };
  const before = await users();
  const answers = await Promise.all(Array.from({ length: 50 }, () => present(wallet, proof)));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(49);
  expect(await present(wallet, proof)).toMatchObject(refused);
  expect(await users()).toBe(before + 1);
});

test('two first sign-ins of one wallet at the same time make one account', async () => {
  const wallet = createTestWallet();
  const answers = await Promise.all(Array.from({ length: 6 }, () => signIn(wallet)));
  expect(answers.map(({ status }) => status)).toEqual(Array(6).fill(200));
  expect(new Set(answers.map(({ body }) => body.userId)).size).toBe(1);
});

test('the signature of another wallet, over another text, and of another address is refused and uses nothing up', async () => {
  const [wallet, other] = [createTestWallet(), createTestWallet()];
  const { nonce, message } = await ask(wallet);
  const theirs = await ask(other);
  const wrong = [
    { signature: other.sign(message), nonce },
    { signature: wallet.sign(message), nonce: theirs.nonce },
    { signature: wallet.sign(theirs.message), nonce: theirs.nonce },
    { signature: wallet.sign(message), nonce: 'unknown' },
    { signature: wallet.sign(message.replaceAll('app.example.com', 'evil.example.net')), nonce },
    { signature: wallet.sign(message.replace('Chain ID: 1', 'Chain ID: 5')), nonce },
    {
      signature: wallet.sign(message.replace(/Expiration Time: \d{4}/, 'Expiration Time: 2999')),
      nonce,
    },
    // What existing clients sign: a sentence that names no place, and the nonce.
    { signature: wallet.sign(`I am signing my one-time nonce: ${nonce}`), nonce },
    { signature: wallet.sign(nonce), nonce },
  ];
  for (const proof of wrong) expect(await present(wallet, proof)).toMatchObject(refused);
  expect(await present(other, { signature: wallet.sign(message), nonce })).toMatchObject(refused);
  expect((await present(wallet, { signature: wallet.sign(message), nonce })).status).toBe(200);
});

test('without a nonce the text that was asked for last counts; with it nobody gets in between', async () => {
  const wallet = createTestWallet();
  const first = await ask(wallet);
  const second = await ask(wallet);
  expect(await present(wallet, { signature: wallet.sign(first.message) })).toMatchObject(refused);
  expect((await present(wallet, { signature: wallet.sign(second.message) })).status).toBe(200);
  expect(
    (await present(wallet, { signature: wallet.sign(first.message), nonce: first.nonce })).status,
  ).toBe(200);
  expect(await present(wallet, { signature: wallet.sign(first.message) })).toMatchObject(refused);
});

test('a text that is too old is refused', async () => {
  const wallet = createTestWallet();
  const { nonce, message } = await ask(wallet);
  await fixture.database.query({
    text: `update penstock.one_time_tokens set expires_at = now() - interval '1 second' where data->>'nonce' = $1`,
    values: [nonce],
  });
  expect(await present(wallet, { signature: wallet.sign(message), nonce })).toMatchObject(refused);
  expect(await present(wallet, { signature: wallet.sign(message) })).toMatchObject(refused);
});

test('v may be 27, 28, 0 or 1; any other form of a signature is refused', async () => {
  const wallet = createTestWallet();
  const { nonce, message } = await ask(wallet);
  const right = wallet.sign(message);
  const v = Number.parseInt(right.slice(-2), 16);
  const withV = (value: number): string => right.slice(0, -2) + value.toString(16).padStart(2, '0');
  const s = BigInt(`0x${right.slice(66, 130)}`);
  const highS = (secp256k1.Point.Fn.ORDER - s).toString(16).padStart(64, '0');
  const malformed = [
    withV(27 + 28 - v),
    ...[2, 3, 26, 29, 37, 255].map(withV),
    `${right.slice(0, 66)}${highS}${(27 + 28 - v).toString(16)}`,
    `0x${'0'.repeat(128)}1b`,
    `0x${'f'.repeat(128)}1b`,
    right.slice(2),
    right.slice(0, -2),
    `${right}00`,
    '',
  ];
  for (const signature of malformed)
    expect(await present(wallet, { signature, nonce }), signature).toMatchObject(refused);
  expect((await present(wallet, { signature: withV(v - 27), nonce })).status).toBe(200);
  expect((await signIn(wallet, {})).status).toBe(200);
});

test('an address with a wrong checksum is refused', async () => {
  const ethPublicAddress = '0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
  for (const [id, body] of [
    ['nonce', { ethPublicAddress }],
    ['authenticate', { ethPublicAddress, signature: '0x' }],
  ] as const)
    expect(await call(`metamask.${id}`, { body })).toMatchObject({
      status: 400,
      body: { code: 'WALLET_ADDRESS_INVALID', errors: [{ path: 'ethPublicAddress' }] },
    });
});

test('blocked users stay out, and who has a second factor is asked for it', async () => {
  const wallet = createTestWallet();
  const { userId } = (await signIn(wallet)).body as { userId: string };
  const factor = { hasTwoFA: true, twoFaMethod: 'sms', phoneNumber: '+306900000077' };
  await call('users.update', { params: { id: userId }, body: factor });
  expect((await signIn(wallet)).body).toMatchObject({ twoFaRequired: true, twoFaMethod: 'sms' });
  await call('users.block', { params: { id: userId } });
  expect(await signIn(wallet)).toMatchObject({ status: 403, body: { code: 'USER_BLOCKED' } });
});

test('where registration needs an invitation, an address alone makes no account', async () => {
  const known = createTestWallet();
  await signIn(known);
  const stop = fixture.node.service.onRegistration(
    async (_transaction, _caller, { invitationToken }) => {
      if (invitationToken === undefined) throw authErrors.INVITATION_REQUIRED();
      return undefined;
    },
  );
  const wallet = createTestWallet();
  const { nonce, message } = await ask(wallet);
  const proof = { signature: wallet.sign(message), nonce };
  try {
    const before = await users();
    expect(await present(wallet, proof)).toMatchObject({
      status: 403,
      body: { code: 'INVITATION_REQUIRED' },
    });
    // An invitation is asked about as at any registration: this one there is not.
    expect(await present(wallet, { ...proof, invitationToken: 'made up' })).toMatchObject({
      body: { code: 'INVALID_INVITATION' },
    });
    expect(await users()).toBe(before);
    expect((await signIn(known)).status).toBe(200);
  } finally {
    stop();
  }
  // What was refused has not used the text up.
  expect((await present(wallet, proof)).status).toBe(200);
});

test('an anonymous user becomes the account in place; their earlier sessions end', async () => {
  const anonymous = (await call('local.registerAnonymous')).body as {
    userId: string;
    accessToken: string;
  };
  const answer = await signIn(createTestWallet(), {}, anonymous.accessToken);
  expect(answer).toMatchObject({ status: 200, body: { userId: anonymous.userId } });
  expect(
    (await call('user.get', { bearer: answer.body.accessToken as string })).body,
  ).toMatchObject({ isAnonymous: false });
  expect((await call('user.get', { bearer: anonymous.accessToken })).status).toBe(401);
});

test('a signed-in user links an address that is nobody else’s, is told, and removes it again', async () => {
  const wallet = createTestWallet();
  const owner = await register();
  expect(await signIn(wallet, {}, owner.accessToken)).toMatchObject({
    status: 200,
    body: { userId: owner.userId },
  });
  expect((await signIn(wallet)).body.userId).toBe(owner.userId);
  const listed = (await call('identities.list', { bearer: owner.accessToken })).body as {
    identities: { _id: string }[];
  };
  expect(listed.identities).toMatchObject([{ provider: 'metamask', subject: wallet.address }]);

  const other = await register();
  const foreign = await signIn(wallet, {}, other.accessToken);
  expect(foreign).toMatchObject({ status: 409, body: { code: 'IDENTITY_EXISTS' } });
  expect((await signIn(wallet)).body.userId).toBe(owner.userId);

  const id = listed.identities[0]?._id;
  expect(
    (await call('identities.unlink', { bearer: owner.accessToken, params: { id } })).status,
  ).toBe(200);
  expect((await signIn(wallet)).body.userId).not.toBe(owner.userId);
  const mails = fixture.node.mails.flatMap((mail) =>
    mail.to === owner.email && 'template' in mail ? [mail.template] : [],
  );
  expect(mails).toEqual(['IdentityLinked', 'IdentityUnlinked']);
});

test('the wallet stays while it is the last way into the account', async () => {
  const { accessToken: bearer } = (await signIn(createTestWallet())).body as {
    accessToken: string;
  };
  const { identities } = (await call('identities.list', { bearer })).body as {
    identities: { _id: string }[];
  };
  expect(
    await call('identities.unlink', { bearer, params: { id: identities[0]?._id } }),
  ).toMatchObject({
    status: 409,
    body: { code: 'LAST_SIGN_IN_METHOD_PROTECTED' },
  });
});

test('the routes are there only while they are requested', async () => {
  await configure({ enabled: false });
  for (const id of ['metamask.nonce', 'metamask.authenticate', 'identities.list'])
    expect((await call(id)).status).toBe(404);
});
