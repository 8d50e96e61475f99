import { existsSync } from 'node:fs';
import { glob, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { projectRoot } from './routes.ts';

it('links between the pages of the repository lead somewhere', async () => {
  const broken: string[] = [];
  for await (const page of glob('{*.md,{docs,acceptance,bench,examples,test}/**/*.md}', {
    cwd: projectRoot,
    exclude: ['**/node_modules/**'],
  })) {
    const text = await readFile(join(projectRoot, page), 'utf8');
    for (const [, target = ''] of text.matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)) {
      if (!/^[a-z]+:/.test(target) && !existsSync(join(projectRoot, dirname(page), target)))
        broken.push(`${page}: ${target}`);
    }
  }
  expect(broken).toEqual([]);
});

it('no page tells people to fetch the package that somebody else has under our name', async () => {
  const wrong: string[] = [];
  for await (const page of glob('{*.md,{docs,acceptance,bench,examples}/**/*.md}', {
    cwd: projectRoot,
    exclude: ['**/node_modules/**', 'docs/decisions/**', 'CHANGELOG.md'],
  })) {
    const text = await readFile(join(projectRoot, page), 'utf8');
    for (const [line] of text.matchAll(
      /.*\b(?:npx|npm (?:install|i|exec)) (?:-\S+ )*penstock\b.*/g,
    ))
      wrong.push(`${page}: ${line}`);
  }
  expect(wrong).toEqual([]);
});
