/**
 * The pool: runs in sandbox processes. A run that breaks its bounds loses its isolate; a process that does not answer is
 * killed, and what ran beside is run again where nothing of it can have had an effect. Which process a run gets is the
 * business of `SandboxProcesses`.
 */
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { type PoolSettings, SandboxProcesses } from './processes.ts';
import type {
  CheckedFacts,
  FromSandbox,
  LoadedSource,
  LogLine,
  RunEnd,
  RunLimits,
  SourceForm,
} from './protocol.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** What a run needs. */
export interface PoolRun {
  /** Names the function and its version. */
  readonly key: string;
  readonly file: string;
  readonly form: SourceForm;
  readonly limits: RunLimits;
  /** On the clock of `performance.now()`. */
  readonly deadlineAt: number;
  /** The input as JSON. */
  readonly input: string;
  /** Asked for when a process does not know the function yet. */
  source(): Promise<LoadedSource>;
  /** A call of the platform by the code. Answers JSON, or throws. */
  call(name: string, args: string): Promise<string>;
  /** Told what the code logs, a moment later, while the run goes on. */
  onLines?(lines: readonly LogLine[]): void;
  readonly signal?: AbortSignal | undefined;
}

export type PoolEnd = Omit<RunEnd, 't' | 'id' | 'outcome'> & {
  readonly outcome: RunEnd['outcome'] | 'crashed';
  /** JSON; empty: undefined. */
  readonly text: string;
};

interface Active {
  readonly id: number;
  readonly run: PoolRun;
  readonly resolve: (end: PoolEnd) => void;
  process: SandboxProcess | undefined;
  /** Calls of the platform: a run that has made one is not run again. */
  calls: number;
  /** Calls that are not answered yet. */
  openCalls: number;
  again: boolean;
  /** What is known of its log while it goes on. */
  lines: readonly LogLine[];
  overdue: NodeJS.Timeout | undefined;
}

export interface Pool {
  run(run: PoolRun): Promise<PoolEnd>;
  /** What a text is, and the text that runs: without types. */
  check(code: string, file: string): Promise<CheckedFacts & { readonly text: string }>;
  /** Forgets a version everywhere. */
  drop(key: string): void;
  figures(): {
    readonly processes: number;
    readonly running: number;
    /** Of these, costly ones that wait for the end of others. */
    readonly waiting: number;
    readonly pids: readonly number[];
  };
  close(): void;
}

/** How long after its time a run may take to end before its process counts as stuck. */
const GRACE_MS = 1_000;
/** Lines that a process is believed while a run goes on; it bounds them itself. */
const MOST_LINES = 100_000;

/** Milliseconds of processor time of a run that ran out of its time because it computes. */
const COMPUTED_MS = 150;

/** It had to be ended because of what it cost. Who dies with a process of others has done nothing. */
const isOffence = ({ outcome, cpuMs }: PoolEnd, { slow }: SandboxProcess): boolean =>
  outcome === 'cpu' ||
  outcome === 'memory' ||
  (outcome === 'crashed' && slow) ||
  (outcome === 'timeout' && cpuMs > COMPUTED_MS);

const lost: PoolEnd = { outcome: 'crashed', text: '', logs: [], cpuMs: 0, memoryBytes: 0 };

export function createPool(settings: () => PoolSettings, log: Logger): Pool {
  return new ProcessPool(settings, log);
}

class ProcessPool implements Pool {
  readonly #log: Logger;
  readonly #processes: SandboxProcesses;
  readonly #active = new Map<number, Active>();
  readonly #checks = new Map<number, (facts: CheckedFacts & { readonly text: string }) => void>();
  /** Costly runs that wait for the end of others. */
  readonly #line = new Set<Active>();
  #lastId = 0;

  constructor(settings: () => PoolSettings, log: Logger) {
    this.#log = log;
    this.#processes = new SandboxProcesses({
      ...{ settings, log },
      onMessage: (from, message, text) => this.#receive(from, message, text),
      onExit: (from) => this.#gone(from),
    });
  }

  run(run: PoolRun): Promise<PoolEnd> {
    return new Promise((resolve) => {
      this.#lastId += 1;
      const active: Active = {
        id: this.#lastId,
        run,
        resolve,
        process: undefined,
        calls: 0,
        openCalls: 0,
        again: false,
        lines: [],
        overdue: undefined,
      };
      this.#active.set(active.id, active);
      run.signal?.addEventListener('abort', () => this.#cancel(active), { once: true });
      if (run.signal?.aborted) this.#finish(active, { ...lost, outcome: 'cancelled' });
      else this.#start(active);
    });
  }

  check(code: string, file: string): ReturnType<Pool['check']> {
    return new Promise((resolve) => {
      this.#lastId += 1;
      const id = this.#lastId;
      this.#checks.set(id, resolve);
      this.#processes.take('').send({ t: 'check', id, file }, code);
    });
  }

  drop(key: string): void {
    this.#processes.drop(key);
  }

  figures(): ReturnType<Pool['figures']> {
    const { pids } = this.#processes;
    return { processes: pids.length, running: this.#active.size, waiting: this.#line.size, pids };
  }

  close(): void {
    this.#processes.close();
  }

  #start(active: Active): void {
    const { run } = active;
    const waitMs = this.#processes.waitMs(run.key);
    if (waitMs > 0) {
      active.overdue ??= this.#overdueTimer(active);
      setTimeout(() => this.#active.has(active.id) && this.#start(active), waitMs).unref();
      return;
    }
    active.overdue ??= this.#overdueTimer(active);
    if (this.#processes.isFull(run.key)) {
      this.#line.add(active);
      return;
    }
    const process = this.#processes.take(run.key);
    active.process = process;
    process.running += 1;
    this.#processes.weigh();
    if (process.loaded.has(run.key)) this.#send(active, process);
    else void this.#load(active, process);
  }

  #overdueTimer(active: Active): NodeJS.Timeout {
    const leftMs = active.run.deadlineAt - performance.now();
    return setTimeout(() => this.#stuck(active), leftMs + GRACE_MS);
  }

  #send({ id, run }: Active, process: SandboxProcess): void {
    const leftMs = Math.max(1, run.deadlineAt - performance.now());
    process.send({ t: 'run', id, key: run.key, leftMs, limits: run.limits }, run.input);
  }

  async #load(active: Active, process: SandboxProcess): Promise<void> {
    const { key, form, file, source } = active.run;
    try {
      const text = JSON.stringify(await source());
      process.loaded.add(key);
      process.send({ t: 'load', key, form, file }, text);
      if (active.process === process && this.#active.has(active.id)) this.#send(active, process);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#finish(active, { ...lost, outcome: 'error', error: { name: 'Error', message } });
    }
  }

  #receive(from: SandboxProcess, message: FromSandbox, text: string): void {
    if (message.t === 'ready') return;
    if (message.t === 'checked') {
      this.#checks.get(message.id)?.({ ...message.facts, text });
      this.#checks.delete(message.id);
      this.#restIfIdle();
      return;
    }
    const active = this.#active.get(message.id);
    // A process speaks for the runs that it was given, and for no others.
    if (!active || active.process !== from) return;
    if (message.t === 'call') this.#call(active, from, message, text);
    else if (message.t === 'lines') this.#lines(active, message.lines);
    else if (message.t === 'hog') this.#processes.slowDown(active.run.key, from);
    else if (message.t === 'missing') {
      from.loaded.delete(active.run.key);
      void this.#load(active, from);
    } else if (message.t === 'end') {
      const { t: _t, id: _id, ...end } = message;
      this.#finish(active, { ...end, text });
    }
  }

  #lines(active: Active, lines: readonly LogLine[]): void {
    if (active.lines.length > MOST_LINES) return;
    active.lines = [...active.lines, ...lines];
    active.run.onLines?.(lines);
  }

  #call(
    active: Active,
    from: SandboxProcess,
    { id, call, name }: Extract<FromSandbox, { t: 'call' }>,
    args: string,
  ): void {
    active.calls += 1;
    active.openCalls += 1;
    if (active.openCalls === 1) from.waiting += 1;
    if (this.#line.size > 0) this.#serveLine();
    const answer = (ok: boolean, text: string): void => {
      // What has ended waits for nothing.
      if (this.#active.has(active.id)) {
        active.openCalls -= 1;
        if (active.openCalls === 0) from.waiting -= 1;
      }
      from.send({ t: 'answer', id, call, ok }, text);
    };
    active.run.call(String(name), args).then(
      (text) => answer(true, text),
      (error: unknown) => answer(false, errorText(error)),
    );
  }

  #cancel(active: Active): void {
    if (!this.#active.has(active.id)) return;
    active.process?.send({ t: 'cancel', id: active.id });
    if (!active.process) this.#finish(active, { ...lost, outcome: 'cancelled' });
  }

  #stuck(active: Active): void {
    if (active.process) {
      this.#log.warn(
        { function: active.run.file },
        'A sandbox process does not answer and is killed',
      );
      active.process.kill();
    }
    this.#finish(active, { ...lost, outcome: 'timeout', logs: active.lines });
  }

  #gone(process: SandboxProcess): void {
    for (const [id, resolve] of this.#checks) {
      this.#checks.delete(id);
      const error = { name: 'Error', message: 'The code could not be examined' };
      resolve({ form: 'body', language: 'javascript', packages: [], error, text: '' });
    }
    for (const active of [...this.#active.values()]) {
      if (active.process !== process) continue;
      if (active.calls === 0 && !active.again && !this.#processes.closed && !process.slow) {
        active.again = true;
        active.lines = [];
        this.#start(active);
      } else this.#finish(active, { ...lost, logs: active.lines });
    }
  }

  /** Texts that are only checked start a process too. */
  #restIfIdle(): void {
    if (this.#active.size === 0 && this.#checks.size === 0) this.#processes.rest();
  }

  #finish(active: Active, end: PoolEnd): void {
    if (!this.#active.delete(active.id)) return;
    clearTimeout(active.overdue);
    this.#line.delete(active);
    const { process } = active;
    if (process) {
      process.running -= 1;
      if (active.openCalls > 0) process.waiting -= 1;
      if (isOffence(end, process)) this.#processes.offended(active.run.key);
    }
    active.resolve(end);
    this.#processes.weigh();
    if (this.#line.size > 0) this.#serveLine();
    this.#restIfIdle();
  }

  /** Those who behaved come before those who had to be ended, each in their order. */
  #serveLine(): void {
    let next: Active | undefined;
    for (const one of this.#line)
      if (!next || this.#offencesOf(one) < this.#offencesOf(next)) next = one;
    if (!next || this.#processes.isFull(next.run.key)) return;
    this.#line.delete(next);
    this.#start(next);
  }

  #offencesOf = ({ run }: Active): number => this.#processes.offences(run.key);
}

/** What the code sees of an error of the platform: as much as a client would. */
function errorText(error: unknown): string {
  const { name, message, code, status } = (
    error instanceof Error ? error : new Error('The call failed')
  ) as Error & { code?: unknown; status?: unknown };
  const isPublic = typeof status === 'number' && status < 500;
  return JSON.stringify({
    name: isPublic ? name : 'Error',
    message: isPublic ? message : 'The platform could not do this',
    ...(typeof code === 'string' && isPublic && { code }),
    ...(typeof status === 'number' && { status }),
  });
}
