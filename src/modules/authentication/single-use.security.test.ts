/**
 * Every secret in a mail succeeds exactly once, however many use it at the same time
 * (https://portswigger.net/research/smashing-the-state-machine), and what it does is done as a whole.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
  type TestAnswer,
  type TestRequest,
} from '../../../test/support/authentication.ts';
import { sql } from '../../kernel/database/sql.ts';

const password = 'correct horse battery staple';
const parallel = 50;

let fixture: AuthenticationFixture;
beforeAll(async () => {
  fixture = await openAuthentication();
  await fixture.node.configure((config) => ({
    ...config,
    local: { ...config.local, verification: { ...config.local.verification, send_email: true } },
    magic_link: { enabled: true, redirect_uri: '', link_uri: '' },
    email_code: { enabled: true },
    redirectUris: { ...config.redirectUris, tokenDelivery: 'exchange' },
  }));
});
afterAll(() => fixture.close());

const call = (id: string, request: TestRequest) => fixture.node.call(id, request);
/** The variables of the newest mail to that address. */
const mail = async (to: string, template: string): Promise<Record<string, string>> => {
  await fixture.node.jobsDone();
  const found = fixture.node.mails.findLast(
    (one) => one.to === to && 'template' in one && one.template === template,
  );
  if (!found) throw new Error(`no mail ${template} to ${to}`);
  return (found.variables ?? {}) as Record<string, string>;
};
const tokenOf = ({ link = '' }: Record<string, string>): string => link.split('/').at(-1) ?? '';
const register = async (email: string): Promise<{ userId: string; bearer: string }> => {
  await call('authentication.local.register', { body: { email, password } });
  const { body } = await call('authentication.local.login', { body: { email, password } });
  return { userId: body.userId as string, bearer: body.accessToken as string };
};
const statuses = async (use: (i: number) => Promise<TestAnswer>): Promise<Map<number, number>> => {
  const counts = new Map<number, number>();
  for (const { status } of await Promise.all(Array.from({ length: parallel }, (_, i) => use(i))))
    counts.set(status, (counts.get(status) ?? 0) + 1);
  return counts;
};
const topics = async (userId: string, topic: string): Promise<number> => {
  const { rows } = await fixture.database.query<{ count: number }>({
    text: 'select count(*)::int as count from penstock.outbox where $1 = any(ids) and topic = $2',
    values: [userId, `authentication:${topic}:user`],
  });
  return rows[0]?.count ?? 0;
};

test('the link that resets a password', async () => {
  const { userId } = await register('reset@example.com');
  await call('authentication.password.forgot', { body: { email: 'reset@example.com' } });
  const { token } = await mail('reset@example.com', 'ForgotPassword');
  const passwords = Array.from({ length: parallel }, (_, i) => `a good password number ${i}`);
  const counts = await statuses((i) =>
    call('authentication.password.reset', {
      body: { passwordResetToken: token, password: passwords[i] },
    }),
  );
  expect(counts).toEqual(
    new Map([
      [200, 1],
      [400, parallel - 1],
    ]),
  );
  expect(await topics(userId, 'resetPassword')).toBe(1);
  const logins = await Promise.all(
    passwords.map((given, i) =>
      call('authentication.local.login', {
        body: { email: 'reset@example.com', password: given },
        address: `192.0.2.${i}`,
      }),
    ),
  );
  expect(logins.filter(({ status }) => status === 200)).toHaveLength(1);
});

test('the link that signs in', async () => {
  const { userId } = await register('magic@example.com');
  const before = await topics(userId, 'login');
  await call('authentication.magicLink.request', { body: { email: 'magic@example.com' } });
  const token = tokenOf(await mail('magic@example.com', 'MagicLink'));
  const counts = await statuses(() =>
    call('authentication.hook.useMagicLink', { params: { token } }),
  );
  expect(counts).toEqual(
    new Map([
      [200, 1],
      [404, parallel - 1],
    ]),
  );
  expect(await topics(userId, 'login')).toBe(before + 1);
});

test('the code that signs in', async () => {
  await register('code@example.com');
  const { token } = (
    await call('authentication.emailCode.request', { body: { email: 'code@example.com' } })
  ).body;
  const { code } = await mail('code@example.com', 'LoginCode');
  const counts = await statuses(() =>
    call('authentication.emailCode.verify', { body: { token, code } }),
  );
  expect([...counts]).toEqual(
    expect.arrayContaining([
      [200, 1],
      [401, parallel - 1],
    ]),
  );
});

test('the link that verifies an address: each click leads on, the change is made once', async () => {
  const { userId } = await register('verify@example.com');
  const verificationToken = tokenOf(await mail('verify@example.com', 'EmailVerification'));
  const counts = await statuses(() =>
    call('authentication.hook.verifyEmail', { params: { verificationToken } }),
  );
  expect(counts).toEqual(new Map([[200, parallel]]));
  expect(await topics(userId, 'verified')).toBe(1);
});

test('the link that changes an address, and the one that takes it back', async () => {
  const { userId, bearer } = await register('before@example.com');
  await call('authentication.local.changeEmail', {
    body: { newEmail: 'after@example.com' },
    bearer,
  });
  const verificationToken = tokenOf(await mail('after@example.com', 'ChangeEmailVerification'));
  const changes = await statuses(() =>
    call('authentication.hook.verifyChangeEmail', { params: { verificationToken } }),
  );
  expect(changes).toEqual(
    new Map([
      [200, 1],
      [404, parallel - 1],
    ]),
  );
  expect(await topics(userId, 'changeEmail')).toBe(1);
  const undoToken = tokenOf(await mail('before@example.com', 'EmailChanged'));
  const undone = await statuses(() =>
    call('authentication.hook.undoChangeEmail', { params: { undoToken } }),
  );
  expect(undone).toEqual(
    new Map([
      [200, 1],
      [404, parallel - 1],
    ]),
  );
  expect(await topics(userId, 'undoChangeEmail')).toBe(1);
});

test('the code at the end of a flow in the browser', async () => {
  await register('exchange@example.com');
  await fixture.node.configure((config) => ({
    ...config,
    magic_link: { ...config.magic_link, redirect_uri: 'https://app.example/in' },
  }));
  await call('authentication.magicLink.request', { body: { email: 'exchange@example.com' } });
  const token = tokenOf(await mail('exchange@example.com', 'MagicLink'));
  const { headers } = await call('authentication.hook.useMagicLink', { params: { token } });
  const code = new URL(headers?.location ?? '').searchParams.get('code');
  const counts = await statuses(() => call('authentication.session.exchange', { body: { code } }));
  expect(counts).toEqual(
    new Map([
      [200, 1],
      [400, parallel - 1],
    ]),
  );
});

test('a request for a new password is written down, with the account where there is one', async () => {
  const { userId } = await register('asked@example.com');
  const action = 'authentication.forgotPassword';
  const ask = async (email: string, address: string) => {
    // Nothing can be written down until the answer is there: its time would tell.
    const answer = await fixture.node.kernel.database.transaction(async (transaction) => {
      await transaction.query(sql`lock table penstock.audit_log in exclusive mode`);
      return call('authentication.password.forgot', { body: { email }, address });
    });
    await fixture.node.jobsDone();
    return answer;
  };
  const answers = [
    await ask('asked@example.com', '203.0.113.31'),
    await ask('nobody-asked@example.com', '203.0.113.32'),
  ];
  expect(answers[0]).toEqual(answers[1]);
  const rows = await fixture.node.kernel.audit.list({ action }, { skip: 0, limit: 2 });
  expect(rows.map(({ ip, target, outcome }) => ({ ip, target, outcome }))).toEqual([
    { ip: '203.0.113.32', target: null, outcome: 'success' },
    { ip: '203.0.113.31', target: `User:${userId}`, outcome: 'success' },
  ]);
});

test('a new mail ends the earlier one, and a changed password or address ends them all', async () => {
  const { bearer } = await register('many@example.com');
  const forgot = (address: string) =>
    call('authentication.password.forgot', { body: { email: 'many@example.com' }, address });
  const reset = (passwordResetToken: string | undefined) =>
    call('authentication.password.reset', {
      body: { passwordResetToken, password: 'a whole new password' },
    });
  await forgot('203.0.113.1');
  const first = (await mail('many@example.com', 'ForgotPassword')).token;
  await forgot('203.0.113.2');
  const second = (await mail('many@example.com', 'ForgotPassword')).token;
  expect((await reset(first)).status).toBe(400);
  await call('authentication.magicLink.request', { body: { email: 'many@example.com' } });
  const magic = tokenOf(await mail('many@example.com', 'MagicLink'));
  await call('authentication.local.changeEmail', {
    body: { newEmail: 'moved@example.com' },
    bearer,
  });
  const moving = tokenOf(await mail('moved@example.com', 'ChangeEmailVerification'));
  expect((await reset(second)).status).toBe(200);
  expect(
    (await call('authentication.hook.useMagicLink', { params: { token: magic } })).status,
  ).toBe(404);
  expect(
    (await call('authentication.hook.verifyChangeEmail', { params: { verificationToken: moving } }))
      .status,
  ).toBe(404);
});
