/** One sandbox process, as the platform sees it. What it says is checked: it runs the code of others. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { encodeFrame, FrameReader, type FromSandbox, type ToSandbox } from './protocol.ts';

export interface SandboxProcessOptions {
  /** Megabytes that the process may have. */
  readonly megabytes: number;
  readonly log: Logger;
  onMessage(from: SandboxProcess, message: FromSandbox, text: string): void;
  /** Told once, however it ended. */
  onExit(from: SandboxProcess): void;
}

/** Behind the platform itself when both want the processor, and far behind once a run costs much. */
const USUAL_NICENESS = 3;
const SLOW_NICENESS = 19;
/** Of the threads of isolates from the beginning, where sessions share the processor, and where priorities count between all. */
const ISOLATE_NICENESS = { sessions: 19, noSessions: 8 } as const;
/** Of a whole session of a few costly runs: a tenth of an equal part, so that they go on on a full machine too. */
const SLOW_SESSION = 10;
/** Of one with many: a hundredth. They take turns of several milliseconds, for which everybody else waits. */
const CROWDED_SESSION = 19;
/** Characters of what it says before it dies. */
const LAST_WORDS = 2_000;

/** In which Linux tells times of processes, on every processor. */
const TICK_MS = 10;

const isLinux = process.platform === 'linux';

const entry = new URL('./sandbox/main.ts', import.meta.url);

let known: readonly string[] | undefined;

/** What it may read: its own code, and the library. Nothing else of the file system, no processes, no workers. */
function permissions(): readonly string[] {
  known ??= findPermissions();
  return known;
}

function findPermissions(): readonly string[] {
  const require = createRequire(import.meta.url);
  const folders = ['isolated-vm', 'node-gyp-build'].map((name) =>
    dirname(require.resolve(`${name}/package.json`)),
  );
  const readable = [fileURLToPath(new URL('.', import.meta.url)), ...folders];
  return [
    '--permission',
    '--allow-addons',
    ...readable.map((folder) => `--allow-fs-read=${folder}`),
    '--allow-fs-read=/etc/alpine-release',
    // The numbers of its own threads.
    '--allow-fs-read=/proc/self/task',
  ];
}

/** Linux gives each thread a priority of its own; later threads take that of the one that makes them. */
function threadsOf(pid: number | undefined): readonly number[] {
  if (pid === undefined) return [];
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
function lowerSession(pid: number | undefined, priority: number): boolean {
  if (!isLinux || pid === undefined) return false;
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(priority));
    return true;
  } catch {
    // There are no such groups, or the system does not let us, or not so soon again.
    return false;
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

/** The system has no process for us now: too many of them, too many open files, no memory. It may have one in a moment. */
export class SandboxUnavailable extends Error {
  constructor() {
    super('No process for functions could be started');
    this.name = 'SandboxUnavailable';
  }
}

/** Throws `SandboxUnavailable`. Node tells of some failures by an event, and of others at once. */
function startChild(megabytes: number, log: Logger): ChildProcess {
  const failed = (error: unknown): void =>
    log.warn({ err: error }, 'A process for functions could not be started');
  let child: ChildProcess;
  try {
    const program = [
      ...permissions(),
      '--no-warnings',
      '--max-old-space-size=256',
      '--max-semi-space-size=8',
      fileURLToPath(entry),
      String(megabytes),
      String(haveSessions() ? ISOLATE_NICENESS.sessions : ISOLATE_NICENESS.noSessions),
    ];
    // A session of its own, so that Linux shares the processor between it and the platform by their priorities.
    const stdio = ['ignore', 'ignore', 'pipe', 'pipe'] as const;
    child = spawn(process.execPath, program, {
      ...{ env: {}, cwd: '/', stdio: [...stdio], detached: isLinux },
    });
  } catch (error) {
    failed(error);
    throw new SandboxUnavailable();
  }
  if (child.pid !== undefined) return child;
  child.once('error', failed);
  // Without any pipe there is no list of them.
  for (const stream of (child.stdio as ChildProcess['stdio'] | undefined) ?? []) stream?.destroy();
  throw new SandboxUnavailable();
}

export class SandboxProcess {
  /** Runs on it. */
  running = 0;
  /** Runs on it that wait for a call of theirs. */
  waiting = 0;
  /** Takes no new runs of functions that behave. */
  slow = false;
  /** What it had used when many runs of strangers were first seen to compute in it. */
  usedBefore: number | undefined;
  /** The most that have computed in it at once since then. */
  strangers = 0;
  readonly startedAt = performance.now();
  /** When it said something last; it says that it is ready first. */
  heardAt = performance.now();
  /** It has loaded what it needs. Until then nobody's code has used anything of what it uses. */
  isReady = false;
  readonly loaded = new Set<string>();
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  readonly #options: SandboxProcessOptions;
  #corked = false;
  #lastWords = '';
  #ended = false;
  #isCrowded = false;
  #isKilled = false;

  /** Throws `SandboxUnavailable`. */
  constructor(options: SandboxProcessOptions) {
    this.#options = options;
    this.#child = startChild(options.megabytes, options.log);
    this.#socket = this.#child.stdio[3] as Socket;
    const reader = new FrameReader<FromSandbox>((message, text) =>
      options.onMessage(this, message, text),
    );
    this.#socket
      .on('data', (chunk: Buffer) => this.#read(reader, chunk))
      .on('error', () => this.kill());
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#lastWords = (this.#lastWords + chunk.toString('utf8')).slice(-LAST_WORDS);
    });
    this.#child.once('error', (error) => this.#exit(error.message));
    this.#child.once('exit', (code, signal) => this.#exit(signal ?? `code ${code}`));
    lowerSession(this.pid, USUAL_NICENESS);
    this.#nice(threadsOf(this.pid), USUAL_NICENESS);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** It takes no more runs: it has ended, or was killed and ends in a moment. */
  get ended(): boolean {
    return this.#ended || this.#isKilled;
  }

  send(message: ToSandbox, text = ''): void {
    if (this.#ended) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      // With the turn of the event loop: each write wakes the process, which takes longer than writing.
      setImmediate(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(encodeFrame(message, text));
  }

  /** From now on it has the processor when nobody else needs it. */
  slowDown(): void {
    this.slow = true;
    lowerSession(this.pid, SLOW_SESSION);
    // The first thread stays where it is: it ends what the others do.
    this.#nice(
      threadsOf(this.pid).filter((thread) => thread !== this.pid),
      SLOW_NICENESS,
    );
  }

  /** Many costly runs are in it, or no more. */
  crowd(isCrowded: boolean): void {
    if (this.#isCrowded === isCrowded) return;
    if (lowerSession(this.pid, isCrowded ? CROWDED_SESSION : SLOW_SESSION))
      this.#isCrowded = isCrowded;
  }

  kill(): void {
    this.#isKilled = true;
    this.#child.kill('SIGKILL');
  }

  /** Milliseconds of processor time that it has used, of all its threads; nothing where the system does not say. */
  usedMs(): number | undefined {
    if (!isLinux) return undefined;
    try {
      const text = readFileSync(`/proc/${this.pid}/stat`, 'utf8');
      const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
      return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
    } catch {
      return undefined;
    }
  }

  /** Stands still until `resume`. */
  pause(): void {
    if (!this.#ended) this.#child.kill('SIGSTOP');
  }

  resume(): void {
    if (!this.#ended) this.#child.kill('SIGCONT');
  }

  /** Lets the process of the platform end while it is there. */
  unref(): void {
    this.#child.unref();
    this.#socket.unref();
  }

  #nice(threads: readonly number[], priority: number): void {
    for (const thread of threads) {
      try {
        setPriority(thread, priority);
      } catch {
        // It has ended, or the system does not let us: it then has its equal part.
      }
    }
  }

  #read(reader: FrameReader<FromSandbox>, chunk: Buffer): void {
    this.heardAt = performance.now();
    this.isReady = true;
    try {
      reader.push(chunk);
    } catch (error) {
      this.#options.log.error({ err: error }, 'A sandbox process says what makes no sense');
      this.kill();
    }
  }

  #exit(how: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#socket.destroy();
    if (this.running > 0)
      this.#options.log.warn(
        { how, said: this.#lastWords || undefined },
        'A sandbox process ended while functions ran in it',
      );
    this.#options.onExit(this);
  }
}
