/** The part of `npm run lint` that is our own: prints what breaks the rules of the house and exits with 1 when something does. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { findViolations } from './arrows.ts';
import { findCircles } from './circles.ts';
import { checkFile } from './house-rules.ts';
import { readSourceFile } from './imports.ts';
import { brokenLinks, unlistedPage } from './links.ts';
import { checkNames, checkSizes } from './shape.ts';

const root = join(import.meta.dirname, '../..');
const largestTextFile = 2_000_000;

/** Everything that is or would be committed. */
const files = execFileSync(
  'git',
  ['ls-files', '-z', '--cached', '--others', '--exclude-standard'],
  { cwd: root, encoding: 'utf8' },
)
  .split('\0')
  .filter((path) => path !== '' && statSync(join(root, path), { throwIfNoEntry: false })?.isFile());

const readText = (path: string): string | undefined => {
  if (statSync(join(root, path)).size > largestTextFile) return undefined;
  const text = readFileSync(join(root, path), 'utf8');
  return text.includes('\0') ? undefined : text;
};

const repository = {
  read: (path: string): string | undefined =>
    existsSync(join(root, path)) ? readText(path) : undefined,
  exists: (path: string): boolean => existsSync(join(root, path)),
};

const sources = files
  .filter((path) => /^src\/.*\.ts$/.test(path))
  .map((path) => readSourceFile(root, path));
const arrows = findViolations(sources);
const circles = findCircles(sources);
const problems = [
  ...sources.flatMap((source) => [...checkNames(source), ...checkSizes(source)]),
  ...files.flatMap((path) => {
    const text = readText(path);
    if (text === undefined) return [];
    const page = { path, text };
    return [
      ...checkFile(page, root),
      ...brokenLinks(page, repository),
      ...unlistedPage(page, repository),
    ];
  }),
];

for (const { from, to, rule } of arrows) console.log(`${from} imports ${to}: ${rule}`);
for (const { folder, members, imports } of circles) {
  console.log(`${folder}: ${members.join(', ')} go in a circle: ${imports.join('; ')}`);
}
for (const { path, message } of problems) console.log(`${path} ${message}`);
if (arrows.length + circles.length + problems.length > 0) process.exitCode = 1;
