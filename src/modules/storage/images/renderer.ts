/** Processes that render pictures: as many as there are processors, each for one picture at a time, and only while there are some. */
import { type ChildProcess, fork } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { errors } from '../../../kernel/errors.ts';
import type { RenderAnswer, RenderTask } from './render-task.ts';

export interface RendererLimits {
  /** Milliseconds for one picture. */
  readonly timeMs: number;
  /** Bytes of memory of one process (Linux). */
  readonly memoryBytes: number;
  /** Requests that may wait. */
  readonly waiting: number;
  readonly processes: number;
  /** Milliseconds after which a process without work ends. */
  readonly idleMs: number;
}

export const usualRendererLimits: RendererLimits = {
  timeMs: 15_000,
  memoryBytes: 768 * 1_048_576,
  waiting: 64,
  processes: Math.max(1, availableParallelism() - 1),
  idleMs: 30_000,
};

export interface Renderer {
  /**
   * Renders when it is this picture's turn; `source` is asked for only then. A picture that takes too long or too much
   * memory is `refused`, with its process. Throws 503 when too many wait, and what `source` throws.
   */
  render(
    source: () => Promise<Uint8Array>,
    request: Omit<RenderTask, 'id' | 'source'>,
  ): Promise<RenderAnswer>;
  close(): void;
}

interface Worker {
  readonly child: ChildProcess;
  idle: NodeJS.Timeout | undefined;
}

/** Milliseconds between looks at the memory of a process. */
const LOOK_MS = 50;
const RETRY_SECONDS = 5;

export function createRenderer(limits: RendererLimits = usualRendererLimits): Renderer {
  const pool = createPool(limits.idleMs);
  const turns = createTurns(limits);
  let next = 0;
  return {
    async render(source, request) {
      await turns.enter();
      try {
        const task = { ...request, id: ++next, source: await source() };
        const worker = pool.take();
        const answer = await ask(worker.child, task, limits);
        pool.give(worker);
        return answer;
      } finally {
        turns.leave();
      }
    },
    close: pool.close,
  };
}

/** Processes without work wait for some, and end after a while. */
function createPool(idleMs: number) {
  const free: Worker[] = [];
  const all = new Set<ChildProcess>();

  const start = (): Worker => {
    const child = fork(join(import.meta.dirname, 'render-child.ts'), [], {
      serialization: 'advanced',
      // Nothing of our environment: there are secrets in it.
      env: { VIPS_BLOCK_UNTRUSTED: '1', MALLOC_ARENA_MAX: '2' },
      execArgv: ['--max-old-space-size=128', '--disable-warning=ExperimentalWarning'],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    all.add(child);
    child.once('exit', () => all.delete(child));
    child.on('error', () => child.kill('SIGKILL'));
    return { child, idle: undefined };
  };

  return {
    take(): Worker {
      let worker = free.pop();
      while (worker && !worker.child.connected) worker = free.pop();
      if (!worker) return start();
      clearTimeout(worker.idle);
      return worker;
    },
    give(worker: Worker): void {
      if (!worker.child.connected) return;
      const end = (): void => {
        const place = free.indexOf(worker);
        // One that has died was taken out already.
        if (place >= 0) free.splice(place, 1);
        worker.child.kill('SIGKILL');
      };
      worker.idle = setTimeout(end, idleMs).unref();
      worker.child.unref();
      worker.child.channel?.unref();
      free.push(worker);
    },
    close(): void {
      for (const child of all) child.kill('SIGKILL');
    },
  };
}

/** As many at a time as there are processes; the others wait in order. */
function createTurns({ processes, waiting }: Pick<RendererLimits, 'processes' | 'waiting'>) {
  const turns: (() => void)[] = [];
  let busy = 0;
  return {
    /** Throws 503 when too many wait. */
    async enter(): Promise<void> {
      if (busy < processes) {
        busy += 1;
        return;
      }
      if (turns.length >= waiting)
        throw errors.UNAVAILABLE({
          message: 'Too many pictures wait to be made: try again',
          retryAfter: RETRY_SECONDS,
        });
      await new Promise<void>((resolve) => turns.push(resolve));
    },
    leave(): void {
      const first = turns.shift();
      if (first) first();
      else busy -= 1;
    },
  };
}

/** Never rejects: whoever breaks its process was no picture. */
function ask(child: ChildProcess, task: RenderTask, limits: RendererLimits): Promise<RenderAnswer> {
  const { promise, resolve } = Promise.withResolvers<RenderAnswer>();
  const refused: RenderAnswer = { id: task.id, outcome: 'refused' };
  const kill = (): void => void child.kill('SIGKILL');
  const late = setTimeout(kill, limits.timeMs);
  const look = setInterval(() => {
    void residentBytes(child.pid).then((bytes) => {
      if (bytes > limits.memoryBytes) kill();
    });
  }, LOOK_MS);
  const onMessage = (answer: RenderAnswer): void => {
    if (answer.id === task.id) resolve(answer);
  };
  const onExit = (): void => resolve(refused);
  child.on('message', onMessage).once('exit', onExit).once('error', onExit);
  child.send(task, (error) => {
    if (error) onExit();
  });
  return promise.finally(() => {
    clearTimeout(late);
    clearInterval(look);
    child.off('message', onMessage).off('exit', onExit).off('error', onExit);
  });
}

/** Zero where the system does not tell. */
async function residentBytes(pid: number | undefined): Promise<number> {
  try {
    const [, pages = '0'] = (await readFile(`/proc/${pid}/statm`, 'utf8')).split(' ');
    return Number(pages) * 4_096;
  } catch {
    return 0;
  }
}
