/**
 * What works once works once, for one purpose and for a time: https://portswigger.net/research/smashing-the-state-machine
 * (races of single-use tokens) and OWASP ASVS 5.0 section 6.5.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  type AuthenticationFixture,
  openAuthentication,
} from '../../../../../test/support/authentication.ts';
import {
  createOneTimeTokens,
  type NewOneTimeToken,
  type OneTimeTokens,
  type Purpose,
  sixDigits,
} from './one-time-tokens.ts';
import { purgeTokens } from './queries.ts';

let fixture: AuthenticationFixture;
let tokens: OneTimeTokens;
beforeAll(async () => {
  fixture = await openAuthentication();
  tokens = createOneTimeTokens(fixture.node.kernel);
});
afterAll(() => fixture.close());

const purposes: readonly Purpose[] = [
  'verify-email',
  'change-email',
  'undo-change-email',
  'reset-password',
  'magic-link',
  'email-code',
  'login-exchange',
  'oauth-state',
  'team-invite',
  'phone-login',
  'two-factor',
];
const lifetimeMs = 60_000;
const issue = (request: Partial<NewOneTimeToken> & { purpose: Purpose }) =>
  tokens.issue(fixture.database, { lifetimeMs, ...request });
const expire = (id: string) =>
  fixture.database.query({
    text: `update penstock.one_time_tokens set expires_at = now() - interval '1 second' where id = $1`,
    values: [id],
  });

test.each(purposes)('of 50 parallel uses of a token for %s one succeeds', async (purpose) => {
  const { token } = await issue({ purpose, data: { purpose } });
  const uses = await Promise.all(
    Array.from({ length: 50 }, () =>
      fixture.database.transaction((t) => tokens.consume(t, purpose, token)),
    ),
  );
  expect(uses.filter((grant) => grant !== undefined)).toEqual([
    { userId: undefined, data: { purpose } },
  ]);
});

test.each(['token', 'subject'] as const)(
  'of 50 parallel uses of a code by %s one succeeds',
  async (by) => {
    const { token, code = '' } = await issue({
      purpose: 'email-code',
      code: sixDigits,
      ...(by === 'subject' ? { subject: 'ada@example.com' } : {}),
    });
    const key = by === 'token' ? { token } : { subject: 'ada@example.com' };
    const uses = await Promise.all(
      Array.from({ length: 50 }, () =>
        tokens.consumeCode(fixture.database, 'email-code', key, code),
      ),
    );
    expect(uses.filter((grant) => grant !== undefined)).toHaveLength(1);
  },
);

test('50 parallel guesses count, and none of them gets beyond the number of tries', async () => {
  const { code = '' } = await issue({
    purpose: 'email-code',
    subject: 'guess@example.com',
    code: sixDigits,
  });
  const wrong = String((Number(code) + 1) % 1_000_000).padStart(6, '0');
  const use = (given: string) =>
    tokens.consumeCode(fixture.database, 'email-code', { subject: 'guess@example.com' }, given);
  await Promise.all(Array.from({ length: 50 }, () => use(wrong)));
  expect(await use(code)).toBeUndefined();
  const { rows } = await fixture.database.query<{ attempts: number }>({
    text: `select attempts from penstock.one_time_tokens where purpose = 'email-code' order by attempts desc limit 1`,
  });
  expect(rows[0]?.attempts).toBe(sixDigits.attempts);
});

test('a token is worth nothing for another purpose, after its time, or in another form', async () => {
  const { id, token } = await issue({ purpose: 'reset-password' });
  for (const purpose of purposes.filter((other) => other !== 'reset-password')) {
    expect(await tokens.consume(fixture.database, purpose, token)).toBeUndefined();
    expect(await tokens.peek(fixture.database, purpose, token)).toBeUndefined();
  }
  for (const form of [
    '',
    token.slice(1),
    `${token} `,
    `${token}=`,
    token.toUpperCase(),
    `${token}\u0000`,
    "' or 1=1 --",
  ]) {
    expect(await tokens.consume(fixture.database, 'reset-password', form)).toBeUndefined();
  }
  await expire(id);
  expect(await tokens.consume(fixture.database, 'reset-password', token)).toBeUndefined();
  expect(await tokens.peek(fixture.database, 'reset-password', token)).toMatchObject({
    expired: true,
    usedAt: undefined,
  });
});

test('a code works only with its token or subject, and its token not without it', async () => {
  const { token, code = '' } = await issue({ purpose: 'phone-login', code: sixDigits });
  const other = await issue({ purpose: 'phone-login', code: sixDigits });
  expect(await tokens.consume(fixture.database, 'phone-login', token)).toBeUndefined();
  expect(
    await tokens.consumeCode(fixture.database, 'phone-login', { token: other.token }, code),
  ).toBeUndefined();
  expect(await tokens.consumeCode(fixture.database, 'phone-login', { token }, code)).toBeDefined();
});

test('a code is worth nothing after its time, the right one neither', async () => {
  const subject = 'late@example.com';
  for (const purpose of ['phone-login', 'two-factor', 'email-code'] as const) {
    const { id, token, code = '' } = await issue({ purpose, code: sixDigits });
    const typed = await issue({ purpose, subject, code: sixDigits });
    for (const late of [id, typed.id]) await expire(late);
    expect(
      await tokens.consumeCode(fixture.database, purpose, { token }, code),
      purpose,
    ).toBeUndefined();
    expect(
      await tokens.consumeCode(fixture.database, purpose, { subject }, typed.code ?? ''),
      purpose,
    ).toBeUndefined();
  }
});

test('only the newest of several codes for one subject counts', async () => {
  const first = await issue({ purpose: 'email-code', subject: 'two@example.com', code: sixDigits });
  const second = await issue({
    purpose: 'email-code',
    subject: 'two@example.com',
    code: sixDigits,
  });
  const use = (code = '') =>
    tokens.consumeCode(fixture.database, 'email-code', { subject: 'two@example.com' }, code);
  if (first.code !== second.code) expect(await use(first.code)).toBeUndefined();
  expect(await use(second.code)).toBeDefined();
});

test('one that replaces leaves one outstanding, also of 50 that are made at the same time', async () => {
  const { body } = await fixture.node.call('authentication.local.register', {
    body: { email: 'slot@example.com', password: 'correct horse' },
  });
  const userId = (body.user as { _id: string })._id;
  const made = await Promise.all(
    Array.from({ length: 50 }, () => issue({ purpose: 'reset-password', userId, replaces: true })),
  );
  const working = [];
  for (const { token } of made)
    if (await tokens.consume(fixture.database, 'reset-password', token)) working.push(token);
  expect(working).toHaveLength(1);
});

test('what is rolled back was never issued and never used', async () => {
  const { token } = await issue({ purpose: 'magic-link' });
  const failing = fixture.database.transaction(async (transaction) => {
    expect(await tokens.consume(transaction, 'magic-link', token)).toBeDefined();
    throw new Error('roll back');
  });
  await expect(failing).rejects.toThrow('roll back');
  expect(await tokens.consume(fixture.database, 'magic-link', token)).toBeDefined();
});

test('nothing that is stored opens anything', async () => {
  const { token, code = '' } = await issue({
    purpose: 'email-code',
    subject: 'stored@example.com',
    code: sixDigits,
  });
  const { rows } = await fixture.database.query({
    text: 'select to_jsonb(t)::text as row from penstock.one_time_tokens t',
  });
  const stored = JSON.stringify(rows);
  for (const secret of [token, `"${code}"`, 'stored@example.com'])
    expect(stored).not.toContain(secret);
});

test('tokens are purged a day after their end', async () => {
  const [living, ended] = [
    await issue({ purpose: 'magic-link' }),
    await issue({ purpose: 'magic-link' }),
  ];
  await fixture.database.query({
    text: `update penstock.one_time_tokens set expires_at = now() - interval '25 hours' where id = $1`,
    values: [ended.id],
  });
  await purgeTokens(fixture.database, 1000);
  expect(await tokens.peekById(fixture.database, 'magic-link', ended.id)).toBeUndefined();
  expect(await tokens.peekById(fixture.database, 'magic-link', living.id)).toBeDefined();
});
