import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cutText, isStorable, shortened, storable, withoutEnd } from './text.ts';

describe('texts of others', () => {
  it('are cut between characters', () => {
    expect(cutText('ab😀', 4)).toBe('ab😀');
    expect(cutText('ab😀', 3)).toBe('ab');
    expect(cutText('😀', 1)).toBe('');
    expect(cutText('abc', 0)).toBe('');
    expect(shortened('ab😀c', 3)).toBe('ab...');
    expect(shortened('abc', 3)).toBe('abc');
  });

  it('stay a well-formed beginning, at most one unit shorter than asked for', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 30 }), fc.nat(40), (text, max) => {
        const cut = cutText(text, max);
        expect(text.startsWith(cut) && cut.isWellFormed()).toBe(true);
        expect(cut.length).toBeGreaterThanOrEqual(Math.min(text.length, max - 1));
        expect(cut.length).toBeLessThanOrEqual(max);
      }),
    );
  });

  it('lose what is repeated at their end', () => {
    for (const [text, bare] of [
      ['a//', 'a'],
      ['a', 'a'],
      ['//', ''],
      ['', ''],
      ['/a/b', '/a/b'],
    ] as const)
      expect(withoutEnd(text, '/')).toBe(bare);
  });

  it('can be stored when they are cleaned', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => isStorable(storable(text))));
    expect(storable('a\0b\ud800c')).toBe('ab\ufffdc');
    expect(storable('a😀')).toBe('a😀');
  });
});
