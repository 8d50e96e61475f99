/**
 * Ties the server's life to ours. A small shell stands between: it holds one
 * end of a pipe from us, and when that closes for whatever reason (also kill -9)
 * it shuts the server down cleanly and removes the socket's folder.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { ServerIdentity } from './identity.ts';
import { serverEnvironment } from './server-settings.ts';

/** Marks our shells in the list of processes. */
export const LIFELINE = 'penstock-lifeline';

/** $1 is the socket's folder, the rest the server's command line. */
const script = `
sockets=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ cat <&3 >/dev/null; kill -INT $server 2>/dev/null; } &
watcher=$!
exec 3<&-
trap 'kill -INT $server 2>/dev/null' TERM INT HUP
wait $server; status=$?
while kill -0 $server 2>/dev/null; do wait $server; status=$?; done
kill $watcher 2>/dev/null
rm -rf "$sockets" 2>/dev/null
exit $status
`;

export interface LifelineOptions {
  readonly command: readonly string[];
  readonly socketFolder: string;
  /** Working directory: the data folder. */
  readonly cwd: string;
  readonly identity: ServerIdentity;
  /** Open file for everything the server prints. */
  readonly logFd: number;
}

/** Starts the server. Closing the child's stdin stops it: new connections are refused, open ones ended, all is written. */
export function spawnWithLifeline({ command, socketFolder, cwd, identity, logFd }: LifelineOptions): ChildProcess {
  return spawn('/bin/sh', ['-c', script, LIFELINE, socketFolder, ...command], {
    cwd,
    ...identity,
    env: serverEnvironment(),
    stdio: ['pipe', logFd, logFd],
    // A session of its own: Ctrl-C in the terminal is for us, we stop the server when we no longer need it.
    detached: true,
  });
}
