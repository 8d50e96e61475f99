/**
 * Fails when a regular expression of src/ could take more than linear time for some text (recheck), and when one is
 * made at run time. Verdicts are kept in node_modules/.cache by the text of the expression: a run without new ones
 * takes a second.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { check } from 'recheck';
import { type FoundRegex, regexesOf } from './regexes.ts';

/** Expressions that recheck does not call safe, by their text, and why they are harmless where they stand. */
const harmless: ReadonlyMap<string, string> = new Map([]);

/** Files that make expressions at run time, and what they make them from. */
const makers: ReadonlyMap<string, string> = new Map([
  [
    'src/data/schema/language/pattern/character-classes.ts',
    'a name out of a list in the same file',
  ],
  ['src/data/rules/network.ts', 'constants of the same file, tested on at most 50 characters'],
  ['src/modules/database/services/transfer/csv.ts', 'one of three delimiters'],
]);

/** Milliseconds for one expression. The slowest takes 15 s on a slow machine; not being sure in time counts as unsafe. */
const TIMEOUT_MS = 90_000;

/**
 * Milliseconds for a text that may prove an expression slow: one that takes longer counts as proof. With the second that is
 * usual, expressions that take linear time were refused on a busy machine.
 */
const ATTACK_TIMEOUT_MS = 30_000;

const root = join(import.meta.dirname, '../..');
const cacheFile = join(root, 'node_modules/.cache/penstock-regexes.json');

interface Verdict {
  readonly status: 'safe' | 'vulnerable' | 'unknown';
  readonly why: string;
}

const files = execFileSync(
  'git',
  ['ls-files', '-z', '--cached', '--others', '--exclude-standard', 'src'],
  { cwd: root, encoding: 'utf8' },
)
  .split('\0')
  .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'));
const read = files.flatMap((path) => {
  try {
    return [regexesOf(path, readFileSync(join(root, path), 'utf8'))];
  } catch (error) {
    // A file that was deleted and not committed yet.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
});
const keyOf = ({ pattern, flags }: FoundRegex): string => `/${pattern}/${flags}`;
const found = new Map(read.flatMap((one) => one.found).map((one) => [keyOf(one), one]));

const before = readCache();
const verdicts = new Map(
  [...found.keys()].flatMap((key) =>
    before[digest(key)] ? [[key, before[digest(key)] as Verdict]] : [],
  ),
);
const waiting = [...found.values()].filter((one) => !verdicts.has(keyOf(one)));
await Promise.all(Array.from({ length: Math.min(4, availableParallelism()) }, judgeWaiting));
writeCache();

const problems = [
  ...[...found].flatMap(([key, { path, line }]) => {
    const { status, why } = verdicts.get(key) ?? { status: 'unknown', why: '' };
    return status === 'safe' || harmless.has(key)
      ? []
      : [`${path}:${line} may take more than linear time (${why}): ${key}`];
  }),
  ...read
    .flatMap(({ made }) => made)
    .filter((place) => !makers.has(place.replace(/:\d+$/, '')))
    .map(
      (place) =>
        `${place} makes a regular expression at run time: use src/data/schema/language/pattern, or no expression`,
    ),
  ...[...harmless.keys()]
    .filter((key) => !found.has(key))
    .map((key) => `${key} is excused and not there any more`),
];
for (const problem of problems) console.log(problem);
// recheck leaves its helper process running.
process.exit(problems.length > 0 ? 1 : 0);

async function judgeWaiting(): Promise<void> {
  for (let one = waiting.shift(); one; one = waiting.shift()) {
    const verdict = await check(one.pattern, one.flags, {
      timeout: TIMEOUT_MS,
      attackTimeout: ATTACK_TIMEOUT_MS,
      // Part of the search is random: with a seed, what passes once passes again.
      randomSeed: 1,
    });
    const why =
      verdict.status === 'unknown'
        ? `recheck could not tell: ${verdict.error.kind}`
        : verdict.complexity.summary;
    verdicts.set(keyOf(one), { status: verdict.status, why });
  }
}

function digest(key: string): string {
  return createHash('sha256').update(key).digest('base64url').slice(0, 22);
}

function readCache(): Readonly<Record<string, Verdict>> {
  try {
    return JSON.parse(readFileSync(cacheFile, 'utf8'));
  } catch {
    return {};
  }
}

/** What ran out of time is tried again. */
function writeCache(): void {
  const kept = [...verdicts]
    .filter(([, { status }]) => status !== 'unknown')
    .map(([key, verdict]) => [digest(key), verdict] as const);
  mkdirSync(join(cacheFile, '..'), { recursive: true });
  writeFileSync(cacheFile, JSON.stringify(Object.fromEntries(kept)));
}
