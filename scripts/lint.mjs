/**
 * `npm run lint`: every static check of the repository, side by side. Prints one line per check and,
 * for those that fail, what they said. Exits with 1 when one failed.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

const checks = [
  {
    name: 'format and lint (biome)',
    script: 'node_modules/@biomejs/biome/bin/biome',
    args: ['check', '--error-on-warnings', '--colors=off'],
  },
  { name: 'types (tsc)', script: 'node_modules/typescript/bin/tsc', args: ['--project', '.'] },
  { name: 'unused code (knip)', script: 'node_modules/knip/bin/knip.js', args: ['--no-progress'] },
  { name: 'arrows and house rules', script: 'scripts/lint/check.ts', args: [] },
  { name: 'regular expressions (recheck)', script: 'scripts/lint/check-regexes.ts', args: [] },
];

async function run({ name, script, args }) {
  const begin = performance.now();
  const child = spawn(process.execPath, [script, ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  console.log(`${code === 0 ? 'ok    ' : 'FAILED'}  ${name}  ${seconds} s`);
  if (code !== 0) console.log(`${stdout}${stderr}`.trimEnd());
  return code === 0;
}

const results = await Promise.all(checks.map(run));
process.exitCode = results.every(Boolean) ? 0 : 1;
