/**
 * The first process of a container (pid 1) inherits every process whose parent has gone, and has to
 * collect it when it ends. Node does not; a shell that waits does. So as pid 1 this process becomes
 * such a shell, and what it was becomes the shell's child.
 */
import { existsSync } from 'node:fs';

const SHELL = '/bin/sh';

/** Passes signals on; `wait` also collects what was inherited. Exits as the child does. */
const script = `
exec 3<&0
"$@" <&3 &
child=$!
exec 3<&-
for signal in TERM INT HUP; do trap "kill -$signal $child 2>/dev/null" $signal; done
while :; do
  wait $child; status=$?
  kill -0 $child 2>/dev/null || exit $status
done
`;

/** Does not return when this is pid 1 and can become the shell. */
export function leaveFirstProcess() {
  if (process.pid !== 1 || typeof process.execve !== 'function' || !existsSync(SHELL)) return;
  process.execve(
    SHELL,
    [
      SHELL,
      '-c',
      script,
      'penstock-init',
      process.execPath,
      ...process.execArgv,
      ...process.argv.slice(1),
    ],
    process.env,
  );
}
