/**
 * Malformed addresses, passwords, codes, tokens and redirect addresses: a 4xx that names the field, on every
 * route that takes one, and never a 5xx (OWASP ASVS 5.0 section 2.2; prototype pollution CWE-1321; CWE-601).
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { switchOn } from '../switched-on.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await switchOn(platform.admin);
});
afterAll(() => platform.close());

const good = { email: 'fine@example.com', password: 'correct horse battery staple' };
const long = 'x'.repeat(4096);

const emails: readonly unknown[] = [
  undefined,
  null,
  7,
  {},
  { $ne: '' },
  ['a@example.com'],
  '',
  'a',
  'a@b',
  `${'a'.repeat(300)}@example.com`,
  'a@example.com\r\nBcc: x',
  'a@exa mple.com',
  'a\u0000@example.com',
  '\u0430da@example.com',
  'ada\uff20evil.com@example.com',
  '"a b"@example.com',
  'a@127.0.0.1',
];
const passwords: readonly unknown[] = [
  undefined,
  null,
  7,
  {},
  [],
  '',
  'short',
  long,
  'aaaaaaaaaaaa',
  'password123',
];
const redirects: readonly unknown[] = [
  7,
  {},
  '',
  'x',
  '//evil.example',
  'https:evil.example',
  'javascript:alert(1)',
  'https://a@evil.example',
  'https://evil.example\\@app',
  long,
];
const tokens: readonly unknown[] = [undefined, null, 7, {}, '', long];
const codes: readonly unknown[] = [undefined, null, 123_456, {}, '', long];

interface Case {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly field: string;
  readonly values: readonly unknown[];
  readonly signedIn?: boolean;
}

const cases: readonly Case[] = [
  { path: '/authentication/local/new', body: good, field: 'email', values: emails },
  {
    path: '/authentication/local/new',
    body: { ...good, email: 'new@example.com' },
    field: 'password',
    values: passwords,
  },
  {
    path: '/authentication/local/new',
    body: { ...good, email: 'new@example.com' },
    field: 'redirectUri',
    values: redirects,
  },
  {
    path: '/authentication/local/new',
    body: { ...good, email: 'new@example.com' },
    field: 'invitationToken',
    values: [7, {}, '', long],
  },
  { path: '/authentication/local', body: good, field: 'email', values: emails },
  {
    path: '/authentication/local',
    body: good,
    field: 'password',
    values: [undefined, null, 7, {}, '', long],
  },
  {
    path: '/authentication/username',
    body: { username: 'ada.l', password: good.password },
    field: 'username',
    values: [undefined, 7, '', 'a', 'a b c', long],
  },
  { path: '/authentication/forgot-password', body: good, field: 'email', values: emails },
  { path: '/authentication/forgot-password', body: good, field: 'redirectUri', values: redirects },
  {
    path: '/authentication/reset-password',
    body: { passwordResetToken: 'x'.repeat(43), password: good.password },
    field: 'passwordResetToken',
    values: [...tokens, 'x', 'x'.repeat(43)],
  },
  { path: '/authentication/magic-link', body: good, field: 'email', values: emails },
  { path: '/authentication/magic-link', body: good, field: 'redirectUri', values: redirects },
  { path: '/authentication/email-code', body: good, field: 'email', values: emails },
  {
    path: '/authentication/email-code/verify',
    body: { token: 'x'.repeat(43), code: '123456' },
    field: 'token',
    values: tokens,
  },
  {
    path: '/authentication/email-code/verify',
    body: { token: 'x'.repeat(43), code: '123456' },
    field: 'code',
    values: codes,
  },
  { path: '/authentication/local/resend-verification', body: good, field: 'email', values: emails },
  {
    path: '/authentication/local/verify-email',
    body: { ...good, code: '123456' },
    field: 'email',
    values: emails,
  },
  {
    path: '/authentication/local/verify-email',
    body: { ...good, code: '123456' },
    field: 'code',
    values: [...codes, 'abcdef', '12345', '\u0661\u0662\u0663\u0664\u0665\u0666'],
  },
  { path: '/authentication/exchange', body: {}, field: 'code', values: tokens },
  {
    path: '/authentication/local/change-password',
    body: { oldPassword: 'Battery-Staple-17', newPassword: 'x' },
    field: 'newPassword',
    values: passwords,
    signedIn: true,
  },
  {
    path: '/authentication/local/change-email',
    body: {},
    field: 'newEmail',
    values: emails,
    signedIn: true,
  },
  {
    path: '/authentication/local/change-email',
    body: { newEmail: 'other@example.com' },
    field: 'redirectUri',
    values: redirects,
    signedIn: true,
  },
];

describe.each(cases)('POST $path: $field', ({ path, body, field, values, signedIn = false }) => {
  test.each(values.map((value) => [JSON.stringify(value)?.slice(0, 40), value] as const))(
    '%s',
    async (_name, value) => {
      const answer = await platform.client.post(
        path,
        { ...body, [field]: value },
        signedIn ? { token: (await platform.registerUser()).accessToken } : {},
      );
      expect(answer.status, answer.text).toBe(400);
      expect(
        answer.body.errors?.map((problem: { path: string }) => problem.path),
        answer.text,
      ).toContain(field);
      expect(answer.text.length).toBeLessThan(2_000);
    },
  );
});

test('a redirect address that is not on the list is 403 on every route that takes one', async () => {
  for (const path of [
    '/authentication/local/new',
    '/authentication/forgot-password',
    '/authentication/magic-link',
  ]) {
    const answer = await platform.client.post(path, {
      ...good,
      redirectUri: 'https://evil.example/x',
    });
    expect(answer).toMatchObject({
      status: 403,
      body: { code: 'REDIRECT_NOT_ALLOWED', errors: [{ path: 'redirectUri' }] },
    });
  }
});

test('a link that is none is 404 and shows nothing of what was sent', async () => {
  const hooks = ['verify-email', 'verify-change-email', 'magic-link', 'undo-change-email'];
  for (const hook of hooks) {
    for (const value of [
      'x',
      'x'.repeat(43),
      '<script>alert(1)</script>',
      '..%2f..%2fadmin',
      '%00',
      "' or 1=1 --",
    ]) {
      const answer = await platform.client.get(
        `/hook/authentication/${hook}/${encodeURIComponent(decodeURIComponent(value))}`,
      );
      expect([400, 404], `${hook} ${value}`).toContain(answer.status);
      expect(answer.text).not.toContain('alert(1)');
    }
    expect(
      (await platform.client.get(`/hook/authentication/${hook}/${'x'.repeat(5000)}`)).status,
    ).toBeLessThan(500);
  }
});

test('a name of an object that everything has is no field of the user', async () => {
  for (const name of [
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hashedPassword',
    'isVerified',
    '_id',
  ]) {
    const body = `{"email":"proto@example.com","password":"correct horse battery staple","userData":{"${name}":"x"}}`;
    const answer = await platform.client.post('/authentication/local/new', body);
    expect(answer, name).toMatchObject({ status: 400 });
  }
  expect(
    (await platform.client.post('/authentication/local', { ...good, email: 'proto@example.com' }))
      .status,
  ).toBe(401);
});
