/** The private folder of the server's socket: whoever can enter it can log in. */
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServerIdentity } from './identity.ts';
import { SOCKET_PORT } from './server-settings.ts';

/** Longest path of a unix socket, in bytes, on the strictest platform (macOS: 104 with the end mark). */
const LONGEST_SOCKET_PATH = 103;

/** Makes the folder, with a short path: a new one, or `existing` again, where others look for a restarted server. */
export async function makeSocketFolder({ uid, gid }: ServerIdentity, existing: string | undefined): Promise<string> {
  let folder = existing;
  if (folder === undefined) {
    const fits = Buffer.byteLength(join(tmpdir(), 'penstock-XXXXXX', `.s.PGSQL.${SOCKET_PORT}.lock`)) <= LONGEST_SOCKET_PATH;
    folder = await mkdtemp(join(fits ? tmpdir() : '/tmp', 'penstock-'));
  } else {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { mode: 0o700 });
  }
  if (uid !== undefined && gid !== undefined) await chown(folder, uid, gid);
  return folder;
}
