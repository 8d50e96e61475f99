/**
 * Programs beside the platform that talk with it through one socket. Under a supervisor it is the supervisor that starts
 * them: to start one, the system copies the page tables of whoever starts it, which takes a large process 15 to 30 ms, in
 * which nobody is answered. Without one (tests, a start of `src/main.ts` by hand) this process does it itself.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ProgramStart {
  readonly program: string;
  readonly args: readonly string[];
  /** The descriptor at which the program has its end of the socket. */
  readonly channel: 0 | 3;
}

export interface ProgramEnd {
  /** The name of a signal, or a code. */
  readonly how: string;
  /** The end of what it has written to its standard error; of one with channel 0 nothing is kept. */
  readonly said: string;
}

export interface RunningProgram {
  readonly pid: number;
  readonly socket: Socket;
  /** Resolves once, however it ended. */
  readonly ended: Promise<ProgramEnd>;
  /** Does nothing when it has ended. */
  kill(signal: NodeJS.Signals): void;
  /** Lets the process of the platform end while the program runs. */
  unref(): void;
}

/**
 * Starts a program in a session of its own, without environment. Rejects when the system has no process or no socket for
 * it.
 */
export type StartProgram = (start: ProgramStart) => Promise<RunningProgram>;

/**
 * The file of a program that Node runs: its sources in one file where the platform runs from such files itself
 * (scripts/bundle.mjs), which begins in a third of the time; else the source.
 */
export function programFile(name: string, source: URL): string {
  const [, platform = ''] = process.argv;
  const bundled = join(dirname(platform), `${name}.mjs`);
  return platform.endsWith('main.mjs') && existsSync(bundled) ? bundled : fileURLToPath(source);
}

/** Characters of what it says before it dies. */
const LAST_WORDS = 2_000;

/** The program as a child of this process. */
export const startProgramHere: StartProgram = async ({ program, args, channel }) => {
  const child = spawn(program, args, {
    ...{ env: {}, cwd: '/', detached: process.platform !== 'win32' },
    stdio: channel === 0 ? ['pipe', 'ignore', 'ignore'] : ['ignore', 'ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid === undefined) throw await failureOf(child);
  const socket = child.stdio[channel] as Socket;
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString('utf8')).slice(-LAST_WORDS);
  });
  const ended = new Promise<ProgramEnd>((resolve) => {
    child.once('error', ({ message }) => resolve({ how: message, said }));
    child.once('exit', (code, signal) => resolve({ how: signal ?? `code ${code}`, said }));
  });
  return {
    ...{ pid, socket, ended },
    kill: (signal) => void child.kill(signal),
    unref() {
      child.unref();
      socket.unref();
    },
  };
};

/** Node tells of some failures by an event, and of others at once. */
function failureOf(child: ChildProcess): Promise<Error> {
  // Without any pipe there is no list of them.
  for (const stream of (child.stdio as ChildProcess['stdio'] | undefined) ?? []) stream?.destroy();
  return new Promise((resolve) => child.once('error', resolve));
}

/** Messages between a worker and its supervisor (scripts/supervisor/programs.mjs). */
export type ProgramMessage =
  | { readonly type: 'program.started'; readonly id: number; readonly pid: number }
  | { readonly type: 'program.failed'; readonly id: number; readonly error: string }
  | ({ readonly type: 'program.ended'; readonly id: number } & ProgramEnd);

/** Milliseconds that a program whose socket is closed has for its end to be told. */
const END_TOLD_MS = 1_000;

interface Asked {
  resolve(program: RunningProgram): void;
  reject(error: Error): void;
}

/** Programs as children of the supervisor. `tell` sends it a message; what it says about programs is given to `hear`. */
export function createSupervisedPrograms(tell: (message: object) => void) {
  const asked = new Map<number, Asked>();
  const ends = new Map<number, (end: ProgramEnd) => void>();
  let lastId = 0;

  const begin = (id: number, pid: number, socket: Socket): RunningProgram => {
    const ended = new Promise<ProgramEnd>((resolve) => ends.set(id, resolve));
    socket.once('close', () => {
      // Who has lost the supervisor hears of no end.
      setTimeout(() => end(id, { how: 'closed its socket', said: '' }), END_TOLD_MS).unref();
    });
    return {
      ...{ pid, socket, ended },
      kill: (signal) => void (ends.has(id) && signalTo(pid, signal)),
      unref: () => void socket.unref(),
    };
  };
  const end = (id: number, how: ProgramEnd): void => {
    ends.get(id)?.(how);
    ends.delete(id);
  };

  const start: StartProgram = (program) => {
    if (!process.connected) return startProgramHere(program);
    return new Promise((resolve, reject) => {
      lastId += 1;
      asked.set(lastId, { resolve, reject });
      tell({ type: 'program.start', id: lastId, ...program });
    });
  };
  process.once('disconnect', () => {
    for (const { reject } of asked.values()) reject(new Error('The supervisor has gone'));
    asked.clear();
  });

  return {
    start,
    hear(message: ProgramMessage, socket: Socket | undefined): void {
      const { id } = message;
      if (message.type === 'program.ended') {
        end(id, message);
        return;
      }
      const waiting = asked.get(id);
      asked.delete(id);
      if (message.type === 'program.failed') waiting?.reject(new Error(message.error));
      else if (socket) waiting?.resolve(begin(id, message.pid, socket));
      else waiting?.reject(new Error('The socket of the program was lost'));
    },
  };
}

function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended in this moment.
  }
}
