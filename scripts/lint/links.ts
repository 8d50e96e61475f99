/** Links between pages of the repository: the file must be there, the heading that is named in it, and a way to each page. */
import { dirname, join, normalize, relative } from 'node:path/posix';
import type { Problem, TextFile } from './house-rules.ts';

/** What a heading is called in a link to it. */
const anchorOf = (heading: string): string =>
  heading
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const anchorsOf = (text: string): ReadonlySet<string> =>
  new Set(
    text
      .split('\n')
      .filter((line) => /^#{1,6} /.test(line))
      .map((line) => anchorOf(line.replace(/^#+ /, ''))),
  );

/** `read` answers the text of a page, nothing where there is none; `exists` is asked of other files and of folders. */
export interface Repository {
  read(path: string): string | undefined;
  exists(path: string): boolean;
}

export function brokenLinks({ path, text }: TextFile, repository: Repository): Problem[] {
  if (!path.endsWith('.md')) return [];
  return text.split('\n').flatMap((line, index) =>
    [...line.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, link = '']) => link)
      .filter((link) => !/^[a-z]+:/.test(link) && !leadsSomewhere(path, link, repository))
      .map((link) => ({ path: `${path}:${index + 1}`, message: `links to ${link}` })),
  );
}

/** Pages that are the table of contents of the folder they stand in, with the folders below that have none of their own. */
const indexPages = ['docs/decisions/README.md', 'docs/README.md'];

/** A page of the documentation that its index does not name is found by nobody. Of a decision the index says the title too. */
export function unlistedPage({ path, text }: TextFile, repository: Repository): Problem[] {
  const index = indexPages.find((page) => path !== page && path.startsWith(`${dirname(page)}/`));
  if (index === undefined || !path.endsWith('.md') || indexPages.includes(path)) return [];
  const link = `](${relative(dirname(index), path)})`;
  const title = /^# (.*)$/m.exec(text)?.[1] ?? '';
  const entry = index.startsWith('docs/decisions/') ? `[${title}${link}` : link;
  if (repository.read(index)?.includes(entry)) return [];
  return [{ path, message: `is not listed in ${index}: it should have ${entry}` }];
}

function leadsSomewhere(from: string, link: string, { read, exists }: Repository): boolean {
  const [file = '', anchor] = link.split('#');
  const target = file === '' ? from : normalize(join(dirname(from), file));
  const page = target.endsWith('.md') ? read(target) : undefined;
  if (page === undefined) return exists(target);
  return anchor === undefined || anchorsOf(page).has(anchor);
}
