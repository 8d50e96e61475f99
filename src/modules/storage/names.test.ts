import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  aliasOf,
  containerOf,
  fileNameOf,
  folderOf,
  isContainerName,
  levelsOf,
  mediaTypeOf,
  parentOf,
  partsOf,
  requirePathLength,
  suffixed,
} from './names.ts';

/** Each of them means something else to a file system, a proxy, a URL parser or a reader. */
const misleading = [
  '.',
  '..',
  '../x',
  '..\\x',
  'a/b',
  'a\\b',
  '/etc/passwd',
  'C:\\x',
  'a\0b',
  'a\nb',
  'a\u0085b',
  '\u202egnp.exe',
  'a\u2066b',
  '%2e%2e%2fx',
  '%2E%2E/x',
  '%252e%252e%252fx',
  '%25252Fx',
  '..%5cx',
  'x%00.png',
  ' a',
  'a ',
  '\u00a0a',
  'e\u0301',
  '\ud800',
  'x'.repeat(256),
  'ä'.repeat(128),
  '',
];

const code = 'INVALID_NAME';

describe('names of files', () => {
  it.each(misleading)('%j is refused', (name) => {
    expect(() => fileNameOf(name)).toThrow(expect.objectContaining({ code, status: 400 }));
  });

  it.each(['a', 'a b.txt', '.htaccess', 'ä'.repeat(127), '100%.txt', 'a%20b', 'CON', '~', 'a..b'])(
    '%j is taken as it is',
    (name) => expect(fileNameOf(name)).toBe(name),
  );

  it('say which field is wrong', () => {
    expect(() => fileNameOf('a/b')).toThrow(
      expect.objectContaining({ errors: [expect.objectContaining({ path: 'name' })] }),
    );
  });

  it('never leave their folder, whatever they are', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        let name: string;
        try {
          name = fileNameOf(text);
        } catch {
          return;
        }
        const url = new URL(`http://host/folder/${encodeURIComponent(name)}`);
        expect(url.pathname.startsWith('/folder/')).toBe(true);
        expect(name).toBe(text);
      }),
    );
  });
});

describe('folders', () => {
  it.each([
    ['', '/'],
    ['/', '/'],
    ['a', 'a/'],
    ['/a/b', 'a/b/'],
    ['a/b/', 'a/b/'],
  ])('%j is %j', (given, folder) => expect(folderOf(given)).toBe(folder));

  it.each(['..', '..', 'a/../b', 'a//b', '//', 'a/./b', 'a/%2e%2e/b', '\\', 'a/ b', 'a/\0'])(
    '%j is refused',
    (given) => expect(() => folderOf(given)).toThrow(expect.objectContaining({ code })),
  );

  it('have levels and parents', () => {
    expect(levelsOf('/')).toEqual([]);
    expect(levelsOf('a/b/c/')).toEqual(['a/', 'a/b/', 'a/b/c/']);
    expect(parentOf('a/b/')).toBe('a/');
    expect(parentOf('a/')).toBe('/');
  });

  it('leave room for names', () => {
    const long = folderOf(Array.from({ length: 4 }, () => 'x'.repeat(250)).join('/'));
    expect(() => requirePathLength(long, 'y'.repeat(20))).not.toThrow();
    expect(() => requirePathLength(long, 'y'.repeat(21))).toThrow(
      expect.objectContaining({ code }),
    );
    expect(() => folderOf(`${long}${'y'.repeat(24)}`)).toThrow(expect.objectContaining({ code }));
  });
});

describe('containers', () => {
  it.each(['..', 'a..b', 'A', 'ab', '-ab', 'ab-', 'a/b', 'x'.repeat(64), 'ä'.repeat(5), ''])(
    '%j is refused',
    (name) => {
      expect(isContainerName(name)).toBe(false);
      expect(() => containerOf(name)).toThrow(expect.objectContaining({ code }));
    },
  );

  it.each(['abc', 'a-b.c_d', '123', 'x'.repeat(63)])('%j is taken', (name) =>
    expect(containerOf(name)).toBe(name),
  );
});

describe('media types', () => {
  it.each([
    ['image/png', 'image/png'],
    ['Text/HTML; charset=utf-8', 'text/html'],
    ['image/svg+xml;x=', 'image/svg+xml'],
    ['application/vnd.ms-excel', 'application/vnd.ms-excel'],
  ])('%j is %j', (given, type) => expect(mediaTypeOf(given)).toBe(type));

  it.each(['', 'png', 'text/', '/png', 'a/b/c', 'text/html\r\nx: y', 'te xt/html', 'ü/x'])(
    '%j is refused',
    (given) => expect(() => mediaTypeOf(given)).toThrow(expect.objectContaining({ status: 400 })),
  );
});

describe('suffixes', () => {
  it('stand before the end of the name', () => {
    expect(suffixed(partsOf('a.tar.gz'), 2)).toBe('a.tar (2).gz');
    expect(suffixed(partsOf('.env'), 1)).toBe('.env (1)');
    expect(suffixed(partsOf('plain'), 10)).toBe('plain (10)');
  });

  it('make a name that is no longer than a name may be', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 120 }), (base) => {
        const made = suffixed({ base, end: '.pdf' }, 12_345);
        expect(Buffer.byteLength(made)).toBeLessThanOrEqual(255);
        expect(made.endsWith(' (12345).pdf')).toBe(true);
      }),
    );
  });
});

it('an alias is one line', () => {
  expect(aliasOf('Report: "2026/11"')).toBe('Report: "2026/11"');
  expect(() => aliasOf('a\r\nb')).toThrow(expect.objectContaining({ code }));
});
