import { expect, test } from 'vitest';
import { fillDefaults, type SchemaNode } from '../../../kernel/config/tree.ts';
import { type AuthenticationConfig, authenticationConfig } from '../config.ts';
import { factorsProblems } from './factors.ts';

const defaults = fillDefaults(
  authenticationConfig.schema as SchemaNode,
  {},
) as AuthenticationConfig;
const paths = (passkeys: object, twoFa: object = {}) =>
  factorsProblems({
    passkeys: { ...defaults.passkeys, ...passkeys },
    twoFa: { ...defaults.twoFa, ...twoFa },
  }).map(({ path }) => path);

test.each([
  ['https://app.example.com', 'example.com'],
  ['https://example.com', 'example.com'],
  ['http://localhost:5173', 'localhost'],
  ['https://app.example.com', ''],
  [`android:apk-key-hash:${'a'.repeat(43)}`, 'example.com'],
])('%s may use passkeys of %s', (origin, rpId) => {
  expect(paths({ origins: [origin], rpId })).toEqual([]);
});

test.each([
  ['http://app.example.com', 'example.com'],
  ['https://evilexample.com', 'example.com'],
  ['https://app.example.com/path', 'example.com'],
  ['https://app.example.com/', 'example.com'],
  ['app.example.com', 'example.com'],
  ['*', 'example.com'],
  ['null', ''],
])('%s may not use passkeys of %s', (origin, rpId) => {
  expect(
    paths({ origins: ['https://example.com', origin].slice(rpId === '' ? 1 : 0), rpId }),
  ).toEqual([rpId === '' ? 'passkeys.origins.0' : 'passkeys.origins.1']);
});

test.each(['https://example.com', 'example.com:443', '127.0.0.1', 'EXAMPLE.com', 'a b'])(
  '%s is no domain',
  (rpId) => {
    expect(paths({ rpId })).toEqual(['passkeys.rpId']);
  },
);

test('a second factor that everybody needs must be one that everybody can have', () => {
  expect(paths({}, { required: true })).toEqual(['twoFa.required']);
  expect(
    paths({}, { required: true, enabled: true, methods: { authenticator: false, sms: false } }),
  ).toEqual(['twoFa.methods']);
  expect(paths({}, { required: true, enabled: true })).toEqual([]);
  const onlyPasskeys = {
    required: true,
    enabled: true,
    methods: { authenticator: false, sms: false, passkey: true },
  };
  expect(paths({}, onlyPasskeys)).toEqual(['twoFa.methods']);
  expect(paths({ enabled: true }, onlyPasskeys)).toEqual([]);
});
