/**
 * The program in few files: what takes most of the time and a fifth of the memory of a start is that Node loads 1,800
 * modules one by one (docs/decisions/285-start-from-a-bundle.md). `npm start` runs what this makes, and makes it
 * anew when the sources have changed. Tests inside one process, and `node src/main.ts`, run the sources themselves.
 *
 * Usage: node bundle.mjs <folder to make>; needs the Node and the dependencies of the platform.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, realpathSync, statSync, utimesSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const kept = join(root, 'node_modules/.cache/penstock-program');

/** Another one than ours may still run from what an earlier start made: that stays for so long after its last start. */
const KEPT_MS = 7 * 24 * 3600 * 1000;

/** Of the dependencies only this one goes in: it alone is 700 files. The others stay packages, found as usual. */
const included = 'typebox';

/**
 * The file to run: made from just these sources. Where it cannot be made (a folder that cannot be written to, a
 * system that the bundler does not know), the sources themselves.
 */
export async function findProgram(node, source, say) {
  const folder = join(kept, fingerprint());
  const file = join(folder, 'main.mjs');
  if (existsSync(file)) {
    touch(folder);
    return file;
  }
  const failure = await make(node, folder);
  if (!failure) return file;
  if (failure !== 'no bundler')
    say(`The program starts from its sources, which takes longer: ${failure}`);
  return source;
}

/** When it was last started; a folder that cannot be written to is not cleaned either. */
function touch(folder) {
  try {
    utimesSync(folder, new Date(), new Date());
  } catch {
    // See above.
  }
}

/** What the result depends on: the sources, where they are, the lock file, and this file. */
function fingerprint() {
  const hash = createHash('sha256').update(root);
  for (const path of ['package-lock.json', 'scripts/bundle.mjs'])
    hash.update(readFileSync(join(root, path)));
  const visit = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) visit(path);
      else if (entry.name.endsWith('.ts') && !entry.name.endsWith('.test.ts')) {
        const { size, mtimeMs } = statSync(path);
        hash.update(`${path} ${size} ${mtimeMs}\n`);
      }
    }
  };
  visit(join(root, 'src'));
  return hash.digest('hex').slice(0, 16);
}

/** Runs this file under the Node of the platform, which need not be that of the launcher. Answers what failed. */
async function make(node, folder) {
  if (!existsSync(join(root, 'node_modules/rolldown'))) return 'no bundler';
  const child = spawn(node, [fileURLToPath(import.meta.url), folder], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const [printed, code] = await Promise.all([
    text(child.stderr),
    new Promise((resolve) => {
      child.once('error', () => resolve(1));
      child.once('close', resolve);
    }),
  ]);
  return code === 0 ? undefined : printed.trim().split('\n').slice(-1)[0] || 'it could not be made';
}

/** Files find their neighbours (threads, texts) by their own address: it stays that of the source. */
const addressOfSources = {
  name: 'address-of-sources',
  transform: {
    filter: { code: /import\.meta\.(url|dirname)/ },
    handler: (code, id) => ({
      code: code
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(id))),
      map: null,
    }),
  },
};

/** The text that each sandbox evaluates is joined from files without their types: that is done here, once. */
const joinedPrelude = {
  name: 'joined-prelude',
  load: {
    filter: { id: /[\\/]sandbox[\\/]prelude-text\.ts$/ },
    async handler(id) {
      const { preludeText, PRELUDE_FILE } = await import(pathToFileURL(id).href);
      const [text, file] = [preludeText(), PRELUDE_FILE].map((value) => JSON.stringify(value));
      return `export const preludeText = () => ${text};\nexport const PRELUDE_FILE = ${file};`;
    },
  },
};

/** The platform, and the programs that it starts beside it (`programFile` in src/kernel/child-programs.ts). */
const programs = {
  main: 'src/main.ts',
  sandbox: 'src/modules/functions/engine/sandbox/main.ts',
};

async function bundle(folder) {
  const { rolldown } = await import('rolldown');
  // Whole or not at all: several may make it at once, and the first wins.
  const temporary = `${folder}.${process.pid}`;
  // First: where the folder cannot be written to, that is said, and nothing is made in vain at each start.
  await mkdir(temporary, { recursive: true });
  try {
    for (const [name, source] of Object.entries(programs)) {
      const made = await rolldown({
        input: join(root, source),
        platform: 'node',
        external: (id) =>
          !/^[./]/.test(id) &&
          !id.startsWith(root) &&
          id !== included &&
          !id.startsWith(`${included}/`),
        plugins: [joinedPrelude, addressOfSources],
        logLevel: 'silent',
      });
      await made.write({
        dir: temporary,
        format: 'esm',
        entryFileNames: `${name}.mjs`,
        chunkFileNames: '[name]-[hash].mjs',
      });
    }
    await rename(temporary, folder).catch((error) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
  await removeOld();
}

async function removeOld() {
  for (const name of await readdir(kept)) {
    const { mtimeMs } = await stat(join(kept, name)).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > KEPT_MS)
      await rm(join(kept, name), { recursive: true, force: true });
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    await bundle(process.argv[2]);
  } catch (error) {
    process.stderr.write(`${error.message.split('\n')[0]}\n`);
    process.exit(1);
  }
}
