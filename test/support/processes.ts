/** Processes of this machine (Linux). */
import { readFile } from 'node:fs/promises';

export interface RunningProcess {
  readonly pid: number;
  readonly command: string;
}

/** Everything that a process has started, directly or not (Linux). */
export async function descendants(pid: number): Promise<RunningProcess[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  const own = children.split(' ').filter(Boolean).map(Number);
  const found = await Promise.all(
    own.map(async (child) => [
      { pid: child, command: await commandOf(child) },
      ...(await descendants(child)),
    ]),
  );
  return found.flat();
}

/** The processes that serve, among those that a launcher has started. */
export const workersOf = async (launcher: number): Promise<readonly number[]> =>
  (await descendants(launcher))
    .filter(({ command }) => /\/main\.(?:ts|mjs) start$/.test(command))
    .map(({ pid }) => pid);

/** Whether a process still runs; a zombie that waits for its parent does not. */
export async function isRunning(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return stat !== undefined && !/\) Z /.test(stat);
}

const commandOf = async (pid: number): Promise<string> =>
  (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim();
