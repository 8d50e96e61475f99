import { expect, it } from 'vitest';
import { brokenLinks } from './links.ts';

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
