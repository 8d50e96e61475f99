/**
 * Where pages may come from is compared label by label. The reference compared ends of texts, so that
 * `evilexample.com` passed for `*.example.com` (spec/authentication.md W35; CWE-183, permissive list of allowed
 * inputs, https://cwe.mitre.org/data/definitions/183.html).
 */
import { expect, test } from 'vitest';
import { canonicalDomain, hostMatches, hostOfHeader, hostOfOrigin } from './services/gate.ts';

test.each([
  ['app.example.com', 'app.example.com', true],
  ['app.example.com', 'x.app.example.com', false],
  ['app.example.com', 'example.com', false],
  ['*.example.com', 'a.example.com', true],
  ['*.example.com', 'a.b.example.com', true],
  ['*.example.com', 'example.com', false],
  ['*.example.com', 'evilexample.com', false],
  ['*.example.com', '.example.com', false],
  ['*.example.com', 'a.example.com.evil.net', false],
  ['*', 'anything.example', true],
])('%s and %s: %s', (pattern, host, expected) => {
  expect(hostMatches(host, pattern)).toBe(expected);
});

test.each([
  ['App.Example.COM', 'app.example.com'],
  ['*.Bücher.example', '*.xn--bcher-kva.example'],
  ['localhost', 'localhost'],
  ['*', '*'],
])('%s is kept as %s', (given, kept) => {
  expect(canonicalDomain(given)).toBe(kept);
});

test.each([
  '',
  ' ',
  '*.',
  '**',
  '*.*.example.com',
  'a.*.com',
  'https://example.com',
  'example.com/path',
  'example.com:443',
  'user@example.com',
  '-a.com',
  'a..com',
])('%j is no domain', (text) => {
  expect(() => canonicalDomain(text)).toThrow();
});

test.each([
  ['https://a.example.com', 'a.example.com'],
  ['https://a.example.com:8443', 'a.example.com'],
  ['HTTPS://A.example.com', 'a.example.com'],
  ['null', undefined],
  ['file://a.example.com', undefined],
  ['https://a.example.com/', undefined],
  ['https://user@a.example.com', undefined],
  ['https://a.example.com#b.example.com', undefined],
])('the origin %s has the host %s', (origin, host) => {
  expect(hostOfOrigin(origin)).toBe(host);
});

test('the host header has a host without its port', () => {
  expect([hostOfHeader('a.example.com:8080'), hostOfHeader('a b')]).toEqual([
    'a.example.com',
    undefined,
  ]);
});
