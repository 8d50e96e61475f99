/**
 * The worker's end of the channel to the supervisor (scripts/supervisor/supervise.mjs), which
 * replaces a worker that crashes and holds the embedded server. Without a supervisor (tests, a start
 * of `src/main.ts` by hand) nothing of this is there, and the process does everything itself.
 */
import type { Socket } from 'node:net';
import {
  createSupervisedPrograms,
  type ProgramMessage,
  type StartProgram,
} from './child-programs.ts';
import type { ServerExit, ServerKeeper, ServerStart } from './database/embedded/keeper.ts';
import { currentAccount, type RunningOperation } from './request-account/request-account.ts';

/*
 * What this process is doing, for the supervisor's watchdog (scripts/supervisor/examine-stuck.mjs),
 * which asks in the middle of a piece of JavaScript that does not end.
 */

let lastBegun: RunningOperation | undefined;

/** Called when a handler begins; its account keeps what is answered. */
export function noteOperation(operation: string, requestId: string): RunningOperation {
  lastBegun = { operation, requestId };
  return lastBegun;
}

/** Lines of the stack that are told. */
const LINES = 8;

/** The operation whose code runs now, exact when its request has an account, else the last one that began. */
function whatRuns() {
  const account = currentAccount();
  const known = account?.running;
  const stack = (new Error().stack ?? '')
    .split('\n')
    .slice(3, 3 + LINES)
    .map((line) => line.trim());
  return {
    ...(known ??
      (lastBegun && { lastOperation: lastBegun.operation, requestId: lastBegun.requestId })),
    stack,
  };
}

/** A name that nothing else uses; it answers no secrets. */
Object.defineProperty(globalThis, Symbol.for('penstock.running'), { value: whatRuns });

export interface Supervisor {
  /** Of the supervising process; it lives as long as the installation runs. */
  readonly pid: number;
  /** From 0. The first worker opens the database; the others find it. */
  readonly slot: number;
  /** The same for all workers that it starts, and no other's. */
  readonly run: string;
  readonly keeper: ServerKeeper;
  /** Starts a program without the cost that a large process has of it. */
  readonly startProgram: StartProgram;
  /** Whether this worker starts on a machine where others of the same installation serve already, or did. */
  readonly isReplacement: boolean;
  /** Whether others of `workers` have the ports already. */
  joins(workers: number): boolean;
  /** The supervisor removes the lock of the data folder when the last worker has gone. */
  holdsLock(file: string): void;
  /** Says that this worker serves; from now on silence means that its event loop stands still. */
  ready(facts: { readonly workers: number; readonly watchdogMs: number }): void;
  /** Runs `listener` when the supervisor wants this worker to stop, with the name of the signal. */
  onStop(listener: (signal: string) => void): void;
}

type Message =
  | ProgramMessage
  | { readonly type: 'stop'; readonly signal: string }
  | {
      readonly type: 'database.exited';
      readonly code: number | null;
      readonly signal: string | null;
    }
  | ({ readonly type: 'database.found' | 'database.started'; readonly id: number } & ServerFacts);

interface ServerFacts {
  readonly running: boolean;
  readonly socketFolder?: string;
  readonly error?: string;
}

const isOfProgram = (message: Message): message is ProgramMessage =>
  message.type.startsWith('program.');

/** Milliseconds between signs of life. */
const ALIVE_EVERY_MS = 1_000;

/** The supervisor of this process; nothing when it was started without one. */
export function findSupervisor(): Supervisor | undefined {
  const slot = process.env.PENSTOCK_WORKER;
  if (slot === undefined || !process.connected) return undefined;
  return createSupervisor(Number(slot));
}

function createSupervisor(slot: number): Supervisor {
  const isReplacement = process.env.PENSTOCK_WORKER_AGAIN === '1';
  const waiting = new Map<number, (facts: ServerFacts) => void>();
  const stopListeners: ((signal: string) => void)[] = [];
  const exitListeners: ((exit: ServerExit) => void)[] = [];
  let lastId = 0;

  const tell = (message: object): void => {
    if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
  };
  const ask = (message: object): Promise<ServerFacts> =>
    new Promise((resolve) => {
      lastId += 1;
      waiting.set(lastId, resolve);
      tell({ ...message, id: lastId });
    });
  const programs = createSupervisedPrograms(tell);
  process.on('message', (message: Message, socket: Socket | undefined) => {
    if (message.type === 'stop') for (const listener of stopListeners) listener(message.signal);
    else if (message.type === 'database.exited') {
      for (const listener of exitListeners.splice(0))
        listener({ code: message.code, signal: message.signal });
    } else if (isOfProgram(message)) programs.hear(message, socket);
    else {
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    }
  });

  // Before it serves there is nothing to drain, and questions to the supervisor would wait for ever.
  const onLoss = (): void => process.exit(1);
  process.once('disconnect', onLoss);

  return {
    pid: process.ppid,
    slot,
    run: process.env.PENSTOCK_RUN ?? '',
    keeper: {
      opens: slot === 0,
      find: () => ask({ type: 'database.find' }),
      async start(options: ServerStart) {
        const { running, error } = await ask({ type: 'database.start', options });
        if (!running) throw new Error(error ?? 'The supervisor could not start the database');
      },
      onExit: (listener) => void exitListeners.push(listener),
      stop: () => tell({ type: 'database.stop' }),
    },
    startProgram: programs.start,
    isReplacement,
    joins: (workers) => workers > 1 && (slot > 0 || isReplacement),
    holdsLock: (file) => tell({ type: 'lock', file }),
    ready(facts) {
      process.off('disconnect', onLoss);
      tell({ type: 'ready', ...facts });
      setInterval(() => tell({ type: 'alive' }), ALIVE_EVERY_MS).unref();
    },
    onStop: (listener) => void stopListeners.push(listener),
  };
}
