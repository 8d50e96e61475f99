/**
 * Completes package-lock.json after a change of dependencies: `npm ci` refuses a
 * lock file that lacks an entry for an optional platform package, and npm leaves
 * such entries out when the registry in use does not carry them. Adds the entry
 * (version, os, cpu, libc as the package name tells) for each one that is missing.
 * With --check it only says what is missing, and exits with 1.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const file = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(file, 'utf8'));

const candidates = (path, name) =>
  path === '' ? [`node_modules/${name}`] : [`${path}/node_modules/${name}`, `node_modules/${name}`];

const missing = Object.entries(lock.packages).flatMap(([path, entry]) =>
  Object.entries(entry.optionalDependencies ?? {})
    .filter(([name]) => !candidates(path, name).some((place) => lock.packages[place]))
    .map(([name, version]) => ({ name, version, owner: entry })),
);

function entryOf({ name, version, owner }) {
  const [, os, cpu] =
    /-(android|darwin|freebsd|linux|win32|openharmony|aix|sunos|netbsd|openbsd)-(\w+)/.exec(name) ??
    [];
  const libc = name.includes('-musl') ? 'musl' : name.includes('-gnu') ? 'glibc' : undefined;
  return {
    version: version.replace(/^[\^~]/, ''),
    ...(cpu ? { cpu: [cpu] } : {}),
    ...(owner.dev ? { dev: true } : {}),
    ...(libc ? { libc: [libc] } : {}),
    license: owner.license,
    optional: true,
    ...(os ? { os: [os] } : {}),
  };
}

for (const each of missing) console.log(`${each.name} ${each.version}`);
if (process.argv.includes('--check')) process.exit(missing.length > 0 ? 1 : 0);
for (const each of missing) lock.packages[`node_modules/${each.name}`] = entryOf(each);
lock.packages = Object.fromEntries(
  Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : 1)),
);
writeFileSync(file, `${JSON.stringify(lock, undefined, 2)}\n`);
