import { describe, expect, it } from 'vitest';
import { type Cookie, serializeCookie } from './reply.ts';

describe('a cookie', () => {
  it('is safe unless told otherwise', () => {
    expect(serializeCookie({ name: 'accessToken', value: 'a.b-c_d' })).toBe(
      'accessToken=a.b-c_d; Path=/; HttpOnly; Secure; SameSite=Lax',
    );
  });

  it('says what it was told', () => {
    const cookie: Cookie = {
      name: 'a',
      value: '',
      maxAge: 1_999,
      httpOnly: false,
      secure: false,
      sameSite: 'strict',
      domain: 'example.org',
      path: '/x',
    };
    expect(serializeCookie(cookie)).toBe(
      'a=; Path=/x; Domain=example.org; Max-Age=1; SameSite=Strict',
    );
    expect(serializeCookie({ name: 'a', value: 'b', maxAge: 0, sameSite: 'none' })).toBe(
      'a=b; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=None',
    );
  });

  const bad: readonly [string, Partial<Cookie>][] = [
    ['a line break in the value', { value: 'a\r\nset-cookie: b=c' }],
    ['another attribute in the value', { value: 'a; Domain=evil.example' }],
    ['a space in the value', { value: 'a b' }],
    ['text that is no ASCII', { value: 'ä' }],
    ['a value without end', { value: 'x'.repeat(4_097) }],
    ['no name', { name: '' }],
    ['a name with an equals sign', { name: 'a=b' }],
    ['a name with a line break', { name: 'a\nb' }],
    ['an attribute in the path', { path: '/; Secure' }],
    ['a path that is none', { path: 'x' }],
    ['an attribute in the domain', { domain: 'a.example; Path=/' }],
    ['an age below zero', { maxAge: -1 }],
    ['an age that is no number', { maxAge: Number.NaN }],
    ['none without secure', { sameSite: 'none', secure: false }],
    ['__Host- with a domain', { name: '__Host-a', domain: 'a.example' }],
    ['__Host- with a path', { name: '__Host-a', path: '/x' }],
    ['__Secure- without secure', { name: '__Secure-a', secure: false }],
  ];
  it.each(bad)('with %s is refused', (_name, part) => {
    expect(() => serializeCookie({ name: 'a', value: 'b', ...part })).toThrow(/^Cookie "/);
  });
});
