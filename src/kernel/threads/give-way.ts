/** For threads whose work may wait: they give way to every other thread of the machine. */
import { constants, setPriority } from 'node:os';

/** Only on Linux is a thread addressed by this: elsewhere it would slow down the whole process. */
export function giveWay(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // A sandbox may forbid it; results are right at any priority.
  }
}
