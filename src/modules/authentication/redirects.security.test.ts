/** Open redirects (CWE-601, https://cwe.mitre.org/data/definitions/601.html): only listed addresses, compared as browsers read them. */
import { expect, test } from 'vitest';
import { confirmPage } from '../../kernel/operations/pages.ts';
import { allowedRedirect, withFragment, withQuery } from './redirects.ts';

const rules = {
  allowAny: false,
  whitelistedUris: [
    'https://app.example/done',
    'https://app.example/area/*',
    'http://127.0.0.1:5173/',
    'com.example.app://callback',
    'nonsense',
  ],
};
const statusOf = (address: string, given = rules): number => {
  try {
    allowedRedirect(address, given);
    return 200;
  } catch (error) {
    return (error as { status: number }).status;
  }
};

test.each([
  'https://app.example/done',
  'https://app.example/done/',
  'https://APP.example/done?next=1#top',
  'https://app.example:443/done',
  'https://app.example/area/',
  'https://app.example/area/deep/er',
  'http://127.0.0.1:5173',
  'com.example.app://callback',
])('%s is accepted', (address) => expect(statusOf(address)).toBe(200));

test.each([
  'https://app.example/',
  'https://app.example/donee',
  'https://app.example/done/more',
  'https://app.example/areas',
  'https://app.example/area/../admin',
  'https://app.example/area/%2e%2e/admin',
  'https://app.example.evil.com/done',
  'https://evilapp.example/done',
  'https://evil.com/https://app.example/done',
  'https://evil.com#https://app.example/done',
  'https://app.example:8443/done',
  'http://app.example/done',
  'http://127.0.0.1:3000/',
  'com.example.app://other',
  'com.example.evil://callback',
])('%s is on no list: 403', (address) => expect(statusOf(address)).toBe(403));

test.each([
  '',
  'done',
  '/done',
  '//app.example/done',
  'https:app.example/done',
  'https:/app.example/done',
  'https:///app.example/done',
  'https://app.example\\@evil.com/done',
  'https:\\\\app.example\\done',
  'https://app.example@evil.com/done',
  'https://user:word@app.example/done',
  ' https://app.example/done',
  'https://app.example/done\n',
  'ht\ntps://app.example/done',
  'https://app.example/\tdone',
  'https://app.example/done\u0000',
  'javascript:alert(1)//https://app.example/done',
  'JaVaScRiPt://app.example/done%0aalert(1)',
  'data:text/html,hello',
  'vbscript:x',
  'file:///etc/passwd',
  'blob:https://app.example/x',
  `https://app.example/${'a'.repeat(3000)}`,
])('%j is no address: 400', (address) => {
  expect(statusOf(address)).toBe(400);
  expect(statusOf(address, { ...rules, allowAny: true })).toBe(400);
});

test('any web address, where an operator wants that, but no other scheme', () => {
  const any = { allowAny: true, whitelistedUris: [] };
  expect(statusOf('https://anywhere.example/x', any)).toBe(200);
  expect(statusOf('com.example.app://callback', any)).toBe(403);
});

test('what is added to an address leaves what is there, and cannot break out', () => {
  expect(withQuery('https://app.example/x?a=1#top', { token: 'a&b=c#d' })).toBe(
    'https://app.example/x?a=1&token=a%26b%3Dc%23d#top',
  );
  expect(withQuery('https://app.example/x?token=old', { token: 'new' })).toBe(
    'https://app.example/x?token=new',
  );
  expect(withFragment('https://app.example/x?a=1', { token: 'a b' })).toBe(
    'https://app.example/x?a=1#token=a+b',
  );
});

test('the policy of the page names nothing but the origin of the target', () => {
  const policyFor = (target: string) =>
    confirmPage({ title: 'a', text: 'b', button: 'c', target }).headers['content-security-policy'];
  expect(policyFor("https://app.example/x;script-src 'unsafe-inline'")).toContain(
    "form-action 'self' https://app.example;",
  );
  expect(policyFor('com.example.app://callback')).toContain("form-action 'self' com.example.app:;");
});
