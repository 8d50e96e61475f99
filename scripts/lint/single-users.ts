/**
 * Files that are only a part of another one: small, and imported by one file beside them. They change together and are
 * found more easily together. `node scripts/lint/single-users.ts` lists them.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { parseSourceFile, type SourceFile } from './imports.ts';

/** Below this a file is small, in lines. */
const SMALL = 60;
/** Most lines of two files that should be one. */
const TOGETHER = 250;

/** Names that are looked for in every folder, whatever is in them. */
const standing = new Set([
  'index.ts',
  'config.ts',
  'errors.ts',
  'events.ts',
  'jobs.ts',
  'migrations.ts',
]);

export interface MeasuredFile extends SourceFile {
  readonly lines: number;
  /** Files that it imports while it runs: each is loaded for itself. */
  readonly lazy: ReadonlySet<string>;
}

export interface SingleUser {
  readonly path: string;
  readonly user: string;
}

export function measureFile(path: string, text: string): MeasuredFile {
  const lazy = [...text.matchAll(/\b(?:import|new URL)\(\s*'([^']+)'/g)].map((match) =>
    join(dirname(path), match[1] ?? ''),
  );
  return {
    ...parseSourceFile(path, text),
    lines: text.split('\n').length - 1,
    lazy: new Set(lazy),
  };
}

/** Small files with one user in the same folder, which is not too large to take them. Tests do not count. */
export function findSingleUsers(all: readonly MeasuredFile[]): SingleUser[] {
  const files = all.filter(({ path }) => !/\.test\.ts$|test-support|\/property\//.test(path));
  return files
    .filter(({ path, lines }) => lines < SMALL && !standing.has(basename(path)))
    .flatMap(({ path, lines }) => {
      const users = files.filter(({ imports, lazy }) => imports.includes(path) || lazy.has(path));
      const [user] = users;
      const isPart =
        user !== undefined &&
        users.length === 1 &&
        dirname(user.path) === dirname(path) &&
        !user.lazy.has(path) &&
        basename(user.path) !== 'index.ts' &&
        lines + user.lines <= TOGETHER;
      return isPart ? [{ path, user: user.path }] : [];
    });
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '../..');
  const paths = execFileSync('git', ['ls-files', 'src'], { cwd: root, encoding: 'utf8' })
    .split('\n')
    .filter((path) => path.endsWith('.ts') && existsSync(join(root, path)));
  const files = paths.map((path) => measureFile(path, readFileSync(join(root, path), 'utf8')));
  for (const { path, user } of findSingleUsers(files))
    console.log(`${path} is used by ${basename(user)} alone`);
}
