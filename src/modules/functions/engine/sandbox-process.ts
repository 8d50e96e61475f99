/** One sandbox process, as the platform sees it. What it says is checked: it runs the code of others. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { setPriority } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import {
  encodeFrame,
  FrameReader,
  type FromSandbox,
  fatalWord,
  type ToSandbox,
} from './protocol.ts';
import type { Lane } from './standing.ts';

export interface SandboxProcessOptions {
  readonly lane: Lane;
  /** Megabytes that the process may have. */
  readonly megabytes: number;
  readonly log: Logger;
  onMessage(from: SandboxProcess, message: FromSandbox, text: string): void;
  /** Told once, however it ended. `culprit` is the run that V8 could not go on with. */
  onExit(from: SandboxProcess, culprit: number | undefined): void;
}

/** Beside the platform, which waits for what behaves; what costs much has the processor when nothing else needs it. */
const niceness: Readonly<Record<Lane, number>> = { usual: 1, trial: 5, costly: 19 };
/** Of whole sessions, where the system has such: a tenth of a full processor is left to what costs much. */
const sessionNiceness: Readonly<Record<Lane, number>> = { usual: 0, trial: 3, costly: 10 };
/** Milliseconds after which the system takes another priority of a session. */
const AGAIN_MS = 200;
/** Characters of what it says before it dies. */
const LAST_WORDS = 2_000;

const entry = new URL('./sandbox/main.ts', import.meta.url);

let knownPermissions: readonly string[] | undefined;

/** What it may read: its own code, and the library. Nothing else of the file system, no processes, no workers. */
function permissions(): readonly string[] {
  knownPermissions ??= findPermissions();
  return knownPermissions;
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
  ];
}

/** Of util-linux and BusyBox: starts a program that has the processor when nothing else runs. Other systems have none. */
const idleStarter = ['/usr/bin/chrt', '/bin/chrt'].find(
  (path) => process.platform === 'linux' && existsSync(path),
);

function commandOf(lane: Lane, args: readonly string[]): readonly [string, ...string[]] {
  if (lane !== 'costly' || !idleStarter) return [process.execPath, ...args];
  return [idleStarter, '-i', '0', process.execPath, ...args];
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

export class SandboxProcess {
  /** Runs on it. */
  running = 0;
  lane: Lane;
  readonly startedAt = performance.now();
  readonly loaded = new Set<string>();
  /** Runs that were moved away and have not ended here, with what ends the process if they do not. */
  readonly leaving = new Map<number, NodeJS.Timeout>();
  readonly #child: ChildProcess;
  readonly #socket: Socket;
  readonly #options: SandboxProcessOptions;
  #corked = false;
  #lastWords = '';
  #ended = false;
  #told = false;

  constructor(options: SandboxProcessOptions) {
    this.#options = options;
    this.lane = options.lane;
    const [command, ...args] = commandOf(options.lane, [
      ...permissions(),
      '--no-warnings',
      '--max-old-space-size=256',
      '--max-semi-space-size=8',
      fileURLToPath(entry),
      String(options.megabytes),
    ]);
    this.#child = spawn(command, args, {
      env: {},
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      // A session of its own: where Linux shares the processor between sessions, priorities count within one alone. What
      // behaves is in that of the platform, with which it takes turns at every call.
      detached: options.lane !== 'usual',
    });
    this.#socket = this.#child.stdio[3] as Socket;
    const reader = new FrameReader<FromSandbox>((message, text) => {
      // It has begun as fast as any; only what runs in it is behind.
      if (message.t === 'ready') this.#nice(this.lane);
      else options.onMessage(this, message, text);
    });
    this.#socket
      .on('data', (chunk: Buffer) => this.#read(reader, chunk))
      .on('error', () => this.kill());
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#lastWords = (this.#lastWords + chunk.toString('utf8')).slice(-LAST_WORDS);
    });
    this.#child.once('error', (error) => this.#exit(error.message));
    this.#child.once('exit', () => {
      this.#ended = true;
    });
    // Told later than that: what it said before it died is read by then.
    this.#child.once('close', (code, signal) => this.#exit(signal ?? `code ${code}`));
    this.#niceThreads('usual');
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get ended(): boolean {
    return this.#ended;
  }

  send(message: ToSandbox, text = ''): void {
    if (this.#ended) return;
    if (!this.#corked) {
      this.#corked = true;
      this.#socket.cork();
      process.nextTick(() => {
        this.#corked = false;
        this.#socket.uncork();
      });
    }
    this.#socket.write(encodeFrame(message, text));
  }

  /** From now on it is behind what it was beside. */
  moveTo(lane: Lane): void {
    this.lane = lane;
    this.#nice(lane);
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Lets the process of the platform end while it is there. */
  unref(): void {
    this.#child.unref();
    this.#socket.unref();
  }

  #niceThreads(lane: Lane): void {
    for (const thread of threadsOf(this.#child.pid)) {
      try {
        setPriority(thread, niceness[lane]);
      } catch {
        // It has ended, or the system does not let us: it then has its equal part.
      }
    }
  }

  #nice(lane: Lane): void {
    this.#niceThreads(lane);
    if (this.#niceSession()) return;
    // One change in a while for all who are not root.
    setTimeout(() => this.#niceSession(), AGAIN_MS).unref();
  }

  /** The priority of the whole session; false where the system does not take it (now). */
  #niceSession(): boolean {
    if (process.platform !== 'linux' || this.#ended || this.#options.lane === 'usual') return true;
    try {
      writeFileSync(`/proc/${this.#child.pid}/autogroup`, String(sessionNiceness[this.lane]));
      return true;
    } catch {
      return false;
    }
  }

  #read(reader: FrameReader<FromSandbox>, chunk: Buffer): void {
    try {
      reader.push(chunk);
    } catch (error) {
      this.#options.log.error({ err: error }, 'A sandbox process says what makes no sense');
      this.kill();
    }
  }

  #exit(how: string): void {
    if (this.#told) return;
    this.#told = true;
    this.#ended = true;
    this.#socket.destroy();
    if (this.running > 0)
      this.#options.log.warn(
        { how, said: this.#lastWords || undefined },
        'A sandbox process ended while functions ran in it',
      );
    const [, culprit] = this.#lastWords.split(fatalWord);
    this.#options.onExit(this, culprit === undefined ? undefined : Number.parseInt(culprit, 10));
  }
}
