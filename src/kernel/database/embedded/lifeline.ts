/**
 * Ties the server's life to ours. A small shell stands between: it holds one
 * end of a pipe from us, and when that closes for whatever reason (also kill -9)
 * it shuts the server down cleanly and removes the socket's folder.
 */
import type { ServerIdentity } from './identity.ts';
import type { ServerStart } from './keeper.ts';
import { serverEnvironment } from './server-settings.ts';

/** Marks our shells in the list of processes. */
export const LIFELINE = 'penstock-lifeline';

/**
 * $1 is the socket's folder, the rest the server's command line. Signals to the shell and its helper
 * mean nothing, so that who signals the whole service (systemd does) does not end the database before us.
 */
const script = `
trap '' TERM INT HUP
sockets=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ cat <&3 >/dev/null; kill -INT $server 2>/dev/null; } &
watcher=$!
exec 3<&-
wait $server; status=$?
while kill -0 $server 2>/dev/null; do wait $server; status=$?; done
kill -KILL $watcher 2>/dev/null
rm -rf "$sockets" 2>/dev/null
exit $status
`;

export interface LifelineOptions {
  readonly command: readonly string[];
  readonly socketFolder: string;
  /** Working directory: the data folder. */
  readonly cwd: string;
  readonly identity: ServerIdentity;
  readonly logFile: string;
}

/** How the server is started. Closing the shell's stdin stops it: new connections are refused, open ones ended, all is written. */
export const withLifeline = ({ command, socketFolder, cwd, identity, logFile }: LifelineOptions): ServerStart => ({
  shell: '/bin/sh',
  args: ['-c', script, LIFELINE, socketFolder, ...command],
  cwd,
  env: serverEnvironment(),
  ...identity,
  logFile,
  socketFolder,
});
