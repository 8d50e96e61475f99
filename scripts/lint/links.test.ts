import { expect, it } from 'vitest';
import { brokenLinks, unlistedPage } from './links.ts';

const pages: Readonly<Record<string, string>> = {
  'docs/guides/lists.md': '# Lists\n\n## Offset and cursor pagination (both)\n',
};
const repository = {
  read: (path: string) => pages[path],
  exists: (path: string) => path in pages || path === 'docs/guides',
};
const broken = (text: string): string[] =>
  brokenLinks({ path: 'docs/README.md', text }, repository).map(({ message }) => message);

it('takes links to pages, headings, folders and other sites', () => {
  const links = [
    '[a](guides/lists.md)',
    '[b](guides/lists.md#offset-and-cursor-pagination-both)',
    '[c](guides)',
    '[d](https://example.com/x)',
  ];
  expect(broken(links.join(' '))).toEqual([]);
});

it.each(['guides/gone.md', 'guides/lists.md#cursors', '../elsewhere'])('refuses %s', (link) => {
  expect(broken(`see [it](${link})`)).toEqual([`links to ${link}`]);
});

const indexes: Readonly<Record<string, string>> = {
  'docs/README.md': '- [Lists](guides/lists.md)\n',
  'docs/decisions/README.md': '- [007: Chosen](007-chosen.md)\n',
};
const unlisted = (path: string, text: string) =>
  unlistedPage({ path, text }, { read: (page) => indexes[page], exists: () => true });

it.each([
  ['docs/guides/lists.md', '# Filtering and lists\n'],
  ['docs/decisions/007-chosen.md', '# 007: Chosen\n'],
  ['docs/README.md', '# Documentation\n'],
  ['docs/decisions/README.md', '# Decisions\n'],
  ['bench/RESULTS.md', '# Measured\n'],
])('takes %s, which its index lists or which needs none', (path, text) => {
  expect(unlisted(path, text)).toEqual([]);
});

it('refuses a guide that the index leaves out, and a decision under another title', () => {
  expect(unlisted('docs/guides/gone.md', '# Gone\n')).toHaveLength(1);
  expect(unlisted('docs/decisions/007-chosen.md', '# 007: Renamed\n')).toHaveLength(1);
});
