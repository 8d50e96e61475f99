/** One sandbox process, as the platform sees it. What it says is checked: it runs the code of others. */
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  programFile,
  type RunningProgram,
  type StartProgram,
} from '../../../kernel/child-programs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { isolateNiceness, lowerCrowd, lowerNewProcess, lowerSlowProcess } from './priorities.ts';
import { encodeFrame, FrameReader, type FromSandbox, type ToSandbox } from './protocol.ts';

/** Whose runs a process takes: of functions that behave or are not known yet, that cost much, that had to be ended lately. */
export type ProcessUse = 'usual' | 'costly' | 'offenders';

export interface SandboxProcessOptions {
  /** Megabytes that the process may have. */
  readonly megabytes: number;
  readonly log: Logger;
  readonly startProgram: StartProgram;
  onMessage(from: SandboxProcess, message: FromSandbox, text: string): void;
  /** Told once, however it ended. */
  onExit(from: SandboxProcess): void;
}

const source = new URL('./sandbox/main.ts', import.meta.url);
const entry = programFile('sandbox', source);

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
  const own =
    entry === fileURLToPath(source) ? fileURLToPath(new URL('.', import.meta.url)) : entry;
  const readable = [own, ...folders];
  return [
    '--permission',
    '--allow-addons',
    ...readable.map((folder) => `--allow-fs-read=${folder}`),
    '--allow-fs-read=/etc/alpine-release',
    // The numbers of its own threads.
    '--allow-fs-read=/proc/self/task',
  ];
}

/**
 * The program of a sandbox with so many megabytes. V8 collects code of WebAssembly (the parser of TypeScript) under a
 * lock that it needs again to delete an isolate. Where an isolate of ours was held for the last time by that collection,
 * the process stood still for ever.
 */
const argumentsFor = (megabytes: number): readonly string[] => [
  ...permissions(),
  '--no-warnings',
  '--max-old-space-size=256',
  '--max-semi-space-size=8',
  '--no-wasm-code-gc',
  entry,
  String(megabytes),
  String(isolateNiceness()),
];

/** The system has no process for us now: too many of them, too many open files, no memory. It may have one in a moment. */
export class SandboxUnavailable extends Error {
  constructor() {
    super('No process for functions could be started');
    this.name = 'SandboxUnavailable';
  }
}

export class SandboxProcess {
  /** Runs on it. */
  running = 0;
  /** Runs on it that wait for a call of theirs. */
  waiting = 0;
  /** Whose runs it takes. */
  use: ProcessUse = 'usual';
  readonly startedAt = performance.now();
  /** When it said something last; it says that it is ready first. */
  heardAt = performance.now();
  /** It has loaded what it needs. Until then nobody's code has used anything of what it uses. */
  isReady = false;
  /** It examines no more texts, and takes no more runs. */
  isWorn = false;
  /** Until when it is not stopped, because it ends runs; on the clock of `performance.now()`. */
  endsUntil = Number.NEGATIVE_INFINITY;
  /** The system had no process for it. */
  isUnavailable = false;
  readonly loaded = new Set<string>();
  readonly #options: SandboxProcessOptions;
  #program: RunningProgram | undefined;
  /** What it is told once it runs. */
  #frames: Buffer[] = [];
  #corked = false;
  #ended = false;
  #isCrowded = false;
  #isKilled = false;
  #isReferenced = true;

  constructor(options: SandboxProcessOptions) {
    this.#options = options;
    void this.#start();
  }

  /** Nothing while the system starts it. */
  get pid(): number | undefined {
    return this.#program?.pid;
  }

  /** It takes no more runs: it has ended, or was killed and ends in a moment. */
  get ended(): boolean {
    return this.#ended || this.#isKilled;
  }

  send(message: ToSandbox, text = ''): void {
    if (this.#ended) return;
    const frame = encodeFrame(message, text);
    const socket = this.#program?.socket;
    if (!socket) {
      this.#frames.push(frame);
      return;
    }
    if (!this.#corked) {
      this.#corked = true;
      socket.cork();
      // With the turn of the event loop: each write wakes the process, which takes longer than writing.
      setImmediate(() => {
        this.#corked = false;
        socket.uncork();
      });
    }
    socket.write(frame);
  }

  /** It has the processor when nobody else needs it, and takes no runs of functions that behave. */
  get slow(): boolean {
    return this.use !== 'usual';
  }

  /** From now on it is for functions that cost much. */
  slowDown(use: Exclude<ProcessUse, 'usual'>): void {
    this.use = use;
    if (this.pid !== undefined) lowerSlowProcess(this.pid);
  }

  /** Many costly runs are in it, or no more. */
  crowd(isCrowded: boolean): void {
    if (this.#isCrowded === isCrowded || this.pid === undefined) return;
    if (lowerCrowd(this.pid, isCrowded)) this.#isCrowded = isCrowded;
  }

  kill(): void {
    this.#isKilled = true;
    this.#program?.kill('SIGKILL');
  }

  /** Stands still until `resume`. */
  pause(): void {
    this.#program?.kill('SIGSTOP');
  }

  resume(): void {
    this.#program?.kill('SIGCONT');
  }

  /** Lets the process of the platform end while it is there. */
  unref(): void {
    this.#isReferenced = false;
    this.#program?.unref();
  }

  async #start(): Promise<void> {
    const { megabytes, log, startProgram } = this.#options;
    // Its end is told, however soon it comes, when whoever made it knows it.
    await Promise.resolve();
    try {
      const args = argumentsFor(megabytes);
      this.#begin(await startProgram({ program: process.execPath, args, channel: 3 }));
    } catch (error) {
      log.warn({ err: error }, 'A process for functions could not be started');
      this.isUnavailable = true;
      this.#exit();
    }
  }

  #begin(program: RunningProgram): void {
    this.#program = program;
    const { socket } = program;
    const reader = new FrameReader<FromSandbox>((message, text) =>
      this.#options.onMessage(this, message, text),
    );
    socket
      .on('data', (chunk: Buffer) => this.#read(reader, chunk))
      .on('error', () => this.kill())
      .on('close', () => this.kill());
    void program.ended.then(({ how, said }) => this.#exit(how, said));
    if (this.#isKilled) program.kill('SIGKILL');
    if (!this.#isReferenced) program.unref();
    lowerNewProcess(program.pid);
    if (this.slow) lowerSlowProcess(program.pid);
    for (const frame of this.#frames.splice(0)) socket.write(frame);
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

  #exit(how?: string, said?: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#program?.socket.destroy();
    if (this.running > 0 && !this.isUnavailable)
      this.#options.log.warn(
        { how, said: said || undefined },
        'A sandbox process ended while functions ran in it',
      );
    this.#options.onExit(this);
  }
}
