/** The console and the timers of user code. */
import { defineGlobal, out, runState, startTimer, stopTimer } from './core.ts';

const startOf =
  (every: boolean) =>
  (run: unknown, ms?: unknown, ...given: unknown[]): number => {
    if (typeof run !== 'function') throw new TypeError('A timer needs a function');
    return startTimer(() => run(...given), ms, every);
  };

const resolvedPromise = Promise.resolve();
defineGlobal('setTimeout', startOf(false));
defineGlobal('setInterval', startOf(true));
defineGlobal('clearTimeout', stopTimer);
defineGlobal('clearInterval', stopTimer);
defineGlobal('queueMicrotask', (run: () => void) => void resolvedPromise.then(run));

/** As it stands in a log. */
function writtenValue(value: unknown): string {
  if (typeof value === 'string') return value;
  if (value instanceof Error) return writtenError(value, maxCauses);
  if (typeof value !== 'object' || value === null) return String(value);
  try {
    return JSON.stringify(value, writtenOnce()) ?? String(value);
  } catch (error) {
    return `[cannot be written: ${String(error)}]`;
  }
}

export const maxCauses = 3;
const maxErrors = 10;

/** With what has caused it, and with what it consists of. */
function writtenError(error: Error, left: number): string {
  const { stack, cause } = error;
  const own = stack ?? String(error);
  if (left === 0) return own;
  const several = error instanceof AggregateError ? error.errors.slice(0, maxErrors) : [];
  const parts = [...(cause === undefined ? [] : [cause]), ...several];
  return [
    own,
    ...parts.map((one) => (one instanceof Error ? writtenError(one, left - 1) : String(one))),
  ].join('\n  because of ');
}

function writtenOnce(): (key: string, value: unknown) => unknown {
  const seen = new Set<unknown>();
  return (_key, value) => {
    if (typeof value === 'bigint') return `${value}n`;
    if (typeof value !== 'object' || value === null) return value;
    if (value instanceof Error) return `[${String(value)}]`;
    if (seen.has(value)) return '[seen above]';
    seen.add(value);
    return value instanceof Map || value instanceof Set ? [...value] : value;
  };
}

const mostLines = 5_000;

/** A method of the console; silent once the log of the run is full. */
const logLine =
  (level: string) =>
  (...values: unknown[]): void => {
    if (runState.logLeft <= 0 || runState.lines >= mostLines) return;
    const text = values.map(writtenValue).join(' ').slice(0, runState.logLeft);
    runState.logLeft -= text.length + 1;
    runState.lines += 1;
    out().log(level, text);
  };

export const logMethods = {
  debug: logLine('debug'),
  log: logLine('log'),
  info: logLine('info'),
  warn: logLine('warn'),
  error: logLine('error'),
} as const;

defineGlobal('console', {
  ...logMethods,
  trace: logMethods.debug,
  dir: logMethods.log,
  table: logMethods.log,
});

/** A signal that says when the run is nearly over; the platform has no other events for user code. */
export class StopSignal {
  aborted = false;
  reason: unknown;
  onabort: (() => void) | undefined;
  readonly #listeners = new Set<() => void>();

  addEventListener(_type: string, listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: () => void): void {
    this.#listeners.delete(listener);
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason ?? new Error('This was aborted');
    this.onabort?.();
    for (const listener of this.#listeners) listener();
  }
}

defineGlobal(
  'AbortController',
  class AbortController {
    readonly signal = new StopSignal();
    abort(reason?: unknown): void {
      this.signal.abort(reason);
    }
  },
);
defineGlobal('AbortSignal', StopSignal);
