/**
 * One thread or process with a memory of its own, for work that must not hold up the event loop. It starts with the first
 * call and ends when nobody has called for a while, so that a part that is not used costs no memory.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { type TransferListItem, Worker } from 'node:worker_threads';

interface LinkOptions {
  /** File of the other end; it calls `serveCalls`. */
  readonly file: URL;
  /** Milliseconds without a call after which it ends; 0: never. */
  readonly idleMs: number | (() => number);
  /** Megabytes of its heap; beyond them it ends, and with it the calls that run. */
  readonly heapMegabytes: number;
  /** What it remembered is gone: it ended, for whatever reason. */
  readonly onEnd?: () => void;
}

export interface WorkerLink {
  /** Runs `name` at the other end. Throws what it throws, and when it ends before it has answered. */
  call<T>(name: string, input: unknown, transfer?: readonly TransferListItem[]): Promise<T>;
  close(): Promise<void>;
}

/** What the other end is sent. */
export interface Call {
  readonly id: number;
  readonly name: string;
  readonly input: unknown;
}

/** What it answers. */
export interface CallAnswer {
  readonly id: number;
  readonly result?: unknown;
  /** Message of what was thrown. */
  readonly error?: string;
}

/** The other end, whatever it runs in. */
interface Remote {
  post(call: Call, transfer: readonly TransferListItem[]): void;
  /** Whether the platform waits for it before it ends. */
  hold(isHeld: boolean): void;
  terminate(): Promise<void>;
}

interface RemoteEvents {
  answered(answer: CallAnswer): void;
  ended(reason: string): void;
}

/** A thread of the platform: what it is given is handed over without a copy. */
export const createWorkerLink = (options: LinkOptions): WorkerLink =>
  createLink(options, (events) => {
    const worker = new Worker(options.file, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: options.heapMegabytes },
    });
    worker.on('message', events.answered);
    worker.on('error', (error) => events.ended(error.message));
    worker.on('exit', () => events.ended('The thread has ended'));
    return {
      post: (call, transfer) => worker.postMessage(call, [...transfer]),
      hold: (isHeld) => (isHeld ? worker.ref() : worker.unref()),
      async terminate() {
        await worker.terminate();
      },
    };
  });

const isLinux = process.platform === 'linux';

/**
 * A process: for long computations. It shares no memory, and so no locks, with the platform, and on Linux it is a session
 * of its own, so that its priority counts beside PostgreSQL too.
 */
export const createProcessLink = (options: LinkOptions): WorkerLink =>
  createLink(options, (events) => {
    const child = fork(fileURLToPath(options.file), {
      // Nothing of the platform's: no secrets, and no flags.
      env: {},
      execArgv: ['--no-warnings', `--max-old-space-size=${options.heapMegabytes}`],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      detached: isLinux,
    });
    child.on('message', (answer: CallAnswer) => events.answered(answer));
    child.on('error', (error) => events.ended(error.message));
    const exited = new Promise<void>((resolve) => {
      child.once('exit', (code, signal) => {
        events.ended(`The process has ended (${signal ?? `code ${code}`})`);
        resolve();
      });
    });
    return {
      // What cannot be sent is told by `exit`.
      post: (call) => void child.send(call, () => undefined),
      hold(isHeld) {
        for (const handle of [child, child.channel]) isHeld ? handle?.ref() : handle?.unref();
      },
      async terminate() {
        if (child.pid === undefined) return;
        child.ref();
        child.kill('SIGKILL');
        await exited;
      },
    };
  });

interface Started {
  readonly remote: Remote;
  readonly calls: Map<number, PromiseWithResolvers<unknown>>;
}

function createLink(options: LinkOptions, start: (events: RemoteEvents) => Remote): WorkerLink {
  let running: Started | undefined;
  let idle: NodeJS.Timeout | undefined;
  let lastId = 0;

  const ended = (gone: Started, reason: string): void => {
    if (running === gone) {
      running = undefined;
      options.onEnd?.();
    }
    for (const { reject } of gone.calls.values()) reject(new Error(reason));
    gone.calls.clear();
  };

  const open = (): Started => {
    const remote = start({
      answered: (answer) => complete(opened, answer),
      ended: (reason) => ended(opened, reason),
    });
    const opened: Started = { remote, calls: new Map() };
    remote.hold(false);
    return opened;
  };

  const complete = (from: Started, { id, result, error }: CallAnswer): void => {
    const call = from.calls.get(id);
    from.calls.delete(id);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(error));
    if (from.calls.size === 0) rest();
  };

  const rest = (): void => {
    running?.remote.hold(false);
    clearTimeout(idle);
    const idleMs = typeof options.idleMs === 'number' ? options.idleMs : options.idleMs();
    if (idleMs > 0) idle = setTimeout(() => void close(), idleMs).unref();
  };

  const close = async (): Promise<void> => {
    clearTimeout(idle);
    const closing = running;
    if (!closing) return;
    ended(closing, 'It was ended');
    await closing.remote.terminate();
  };

  return {
    call<T>(name: string, input: unknown, transfer: readonly TransferListItem[] = []) {
      running ??= open();
      clearTimeout(idle);
      const { remote, calls } = running;
      const call = Promise.withResolvers<unknown>();
      const id = ++lastId;
      calls.set(id, call);
      remote.hold(true);
      remote.post({ id, name, input }, transfer);
      return call.promise as Promise<T>;
    },
    close,
  };
}
