/**
 * One thread with a memory of its own, for work that must not hold up the event loop. It starts with the first call and
 * ends when nobody has called for a while, so that a part that is not used costs no memory.
 */
import { type TransferListItem, Worker } from 'node:worker_threads';

interface WorkerLinkOptions {
  /** File of the thread; it calls `serveCalls`. */
  readonly file: URL;
  /** Milliseconds without a call after which the thread ends. */
  readonly idleMs: number;
  /** Megabytes of its heap; beyond them the thread ends, and with it the calls that run. */
  readonly heapMegabytes: number;
  /** What the thread remembered is gone: it ended, for whatever reason. */
  readonly onEnd?: () => void;
}

export interface WorkerLink {
  /** Runs `name` in the thread. Throws what it throws, and when the thread ends before it has answered. */
  call<T>(name: string, input: unknown, transfer?: readonly TransferListItem[]): Promise<T>;
  close(): Promise<void>;
}

/** What a thread is sent. */
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

interface Thread {
  readonly worker: Worker;
  readonly calls: Map<number, PromiseWithResolvers<unknown>>;
}

export function createWorkerLink(options: WorkerLinkOptions): WorkerLink {
  let thread: Thread | undefined;
  let idle: NodeJS.Timeout | undefined;
  let lastId = 0;

  const ended = (gone: Thread, reason: string): void => {
    if (thread === gone) {
      thread = undefined;
      options.onEnd?.();
    }
    for (const { reject } of gone.calls.values()) reject(new Error(reason));
    gone.calls.clear();
  };

  const open = (): Thread => {
    const worker = new Worker(options.file, {
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: options.heapMegabytes },
    });
    const opened: Thread = { worker, calls: new Map() };
    worker.on('message', (answer: CallAnswer) => settle(opened, answer));
    worker.on('error', (error) => ended(opened, error.message));
    worker.on('exit', () => ended(opened, 'The thread has ended'));
    worker.unref();
    return opened;
  };

  const settle = (from: Thread, { id, result, error }: CallAnswer): void => {
    const call = from.calls.get(id);
    from.calls.delete(id);
    if (error === undefined) call?.resolve(result);
    else call?.reject(new Error(error));
    if (from.calls.size === 0) rest();
  };

  const rest = (): void => {
    thread?.worker.unref();
    clearTimeout(idle);
    idle = setTimeout(() => void close(), options.idleMs).unref();
  };

  const close = async (): Promise<void> => {
    clearTimeout(idle);
    const closing = thread;
    if (!closing) return;
    ended(closing, 'The thread was ended');
    await closing.worker.terminate();
  };

  return {
    call<T>(name: string, input: unknown, transfer: readonly TransferListItem[] = []) {
      thread ??= open();
      clearTimeout(idle);
      const { worker, calls } = thread;
      const call = Promise.withResolvers<unknown>();
      const id = ++lastId;
      calls.set(id, call);
      worker.ref();
      worker.postMessage({ id, name, input } satisfies Call, [...transfer]);
      return call.promise as Promise<T>;
    },
    close,
  };
}
