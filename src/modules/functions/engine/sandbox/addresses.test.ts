/** Hosts that would keep the parser busy, in all the ways in which the parser finds one. */
import { expect, it } from 'vitest';
import { hasLongHost, urlOf } from './addresses.ts';

const long = '\u4e00\u4e8c'.repeat(1_500);

it.each([
  `http://${long}/`,
  `HTTPS:${long}?a`,
  `\0 h\tt\ntp:/\\\r/${long}`,
  `//${long}#a`,
  `\\\\${long}`,
  `ws://user:secret@${long}`,
])('finds the long host, way %#', (text) => expect(hasLongHost(text)).toBe(true));

it.each([
  `https://a.example/${long}`,
  `https://a.example?${long}`,
  long,
  `data:text/plain,${long}`,
])('leaves long addresses alone whose host is none, way %#', (text) =>
  expect(hasLongHost(text)).toBe(false),
);

it('parses what has a usual host, and neither reads nor sets a long one', () => {
  expect(urlOf({ href: '/b', base: 'https://a.example/' })).toMatchObject({ host: 'a.example' });
  const href = 'https://a.example/';
  for (const asked of [
    { href: `//${long}`, base: href },
    { href, base: `http:${long}` },
    { href, set: ['hostname', long] },
    { href, set: ['host', long] },
    { href, set: ['href', `http://${long}`] },
  ] as const)
    expect(() => urlOf(asked)).toThrow('too long');
});
