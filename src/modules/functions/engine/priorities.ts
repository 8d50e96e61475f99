/** Which part of the processor the processes of functions get beside the platform and PostgreSQL. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/** Behind the platform itself when both want the processor, and far behind once a run costs much. */
const USUAL_NICENESS = 3;
const SLOW_NICENESS = 19;
/** Of the threads of isolates from the beginning, where sessions share the processor, and where priorities count between all. */
const ISOLATE_NICENESS = { sessions: 19, noSessions: 8 } as const;
/** Of a whole session of a few costly runs: a tenth of an equal part, so that they go on on a full machine too. */
const SLOW_SESSION = 10;
/** Of one with many: a hundredth. They take turns of several milliseconds, for which everybody else waits. */
const CROWDED_SESSION = 19;

const isLinux = process.platform === 'linux';

/** Linux gives each thread a priority of its own; later threads take that of the one that makes them. */
function threadsOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [pid];
  }
}

/**
 * Where Linux shares the processor between sessions first (`sched_autogroup_enabled`), priorities count within a session
 * only, and PostgreSQL has sessions of its own. There the session as a whole gets the priority. False where it cannot.
 */
function lowerSession(pid: number, priority: number): boolean {
  if (!isLinux) return false;
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(priority));
    return true;
  } catch {
    // There are no such groups, or the system does not let us, or not so soon again.
    return false;
  }
}

function nice(threads: readonly number[], priority: number): void {
  for (const thread of threads) {
    try {
      setPriority(thread, priority);
    } catch {
      // It has ended, or the system does not let us: it then has its equal part.
    }
  }
}

let areSessions: boolean | undefined;

/** Whether Linux shares the processor between sessions. In control groups of the processor (containers, services) it does not. */
function haveSessions(): boolean {
  areSessions ??= isLinux && findSessions();
  return areSessions;
}

function findSessions(): boolean {
  try {
    if (readFileSync('/proc/sys/kernel/sched_autogroup_enabled', 'utf8').trim() !== '1')
      return false;
    const groups = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
    return groups.every((line) => {
      const [, controllers = '', path = '/'] = line.split(':', 3);
      if (controllers === '') return !existsSync(`/sys/fs/cgroup${path}/cpu.weight`);
      return !controllers.split(',').includes('cpu') || path === '/';
    });
  } catch {
    return false;
  }
}

/** The niceness that a process gives the threads of its isolates. */
export const isolateNiceness = (): number =>
  haveSessions() ? ISOLATE_NICENESS.sessions : ISOLATE_NICENESS.noSessions;

/** A process that begins. */
export function lowerNewProcess(pid: number): void {
  lowerSession(pid, USUAL_NICENESS);
  nice(threadsOf(pid), USUAL_NICENESS);
}

/** From now on it has the processor when nobody else needs it. */
export function lowerSlowProcess(pid: number): void {
  lowerSession(pid, SLOW_SESSION);
  // The first thread stays where it is: it ends what the others do.
  nice(
    threadsOf(pid).filter((thread) => thread !== pid),
    SLOW_NICENESS,
  );
}

/** Many costly runs are in it, or no more. False where the system does not do it, or not so soon again. */
export const lowerCrowd = (pid: number, isCrowded: boolean): boolean =>
  lowerSession(pid, isCrowded ? CROWDED_SESSION : SLOW_SESSION);
