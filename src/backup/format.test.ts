import { expect, it } from 'vitest';
import { textPart } from './format.ts';
import { safePath } from './load.ts';

it('makes no list that is too long to be read again', () => {
  expect(textPart('manifest.json', ['a']).toString()).toBe('["a"]');
  expect(() => textPart('manifest.json', ['a'], 4)).toThrow(/more parts than its manifest.json/);
});

it.each(['../secrets.json', 'covers/../../secrets.json', '/etc/passwd', '..', 'a\0b'])(
  'refuses a file with the name %j',
  (name) => {
    expect(() => safePath(name)).toThrow(/forbidden name/);
  },
);

it.each(['..draft', '...', 'covers/..2', 'a/../b'])('takes a file with the name %j', (name) => {
  expect(safePath(name)).not.toMatch(/^\/|^\.\.\//);
});
