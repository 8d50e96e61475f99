import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, chmod, constants, mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface RunFolder {
  readonly path: string;
  remove(): Promise<void>;
}

/** Waits for the end of our pipe, gives the servers (which hang on pipes of their own) a moment, and removes the folder. */
const cleaner = `
trap "" INT HUP TERM
cat >/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf "$1" 2>/dev/null && exit 0
  sleep 0.5
done
`;

/** Where Linux has a file system in memory. */
const MEMORY = '/dev/shm';
/** What a run writes at most, and leaves for everything else: then its files may be in memory. */
const MAX_BYTES = 4 * 2 ** 30;
const LEFT_BYTES = 4 * 2 ** 30;

/**
 * Each database of PostgreSQL is a thousand files, and a run makes some hundred of them: in memory that takes a tenth of
 * the processor time. `TEST_FOLDER` names another place.
 */
async function placeOfFiles(): Promise<string> {
  const named = process.env.TEST_FOLDER;
  if (named) return named;
  const room = await access(MEMORY, constants.W_OK)
    .then(() => statfs(MEMORY))
    .then(({ bavail, bsize }) => bavail * bsize)
    .catch(() => 0);
  const isRoomy = room >= MAX_BYTES && process.availableMemory() >= MAX_BYTES + LEFT_BYTES;
  return isRoomy ? MEMORY : tmpdir();
}

/** One folder for everything that a test run writes. It goes with this process, however that ends. */
export async function createRunFolder(): Promise<RunFolder> {
  const path = await mkdtemp(join(await placeOfFiles(), 'penstock-test-'));
  // Servers run as another user and must find their own folders below.
  await chmod(path, 0o711);
  const child = spawn('sh', ['-c', cleaner, 'penstock-test-cleaner', path], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  child.unref();
  return {
    path,
    async remove() {
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}
