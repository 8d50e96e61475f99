/** Runs of the pool: what one needs, what it answers, and how its end is judged. */
import { PenstockError } from '../../../kernel/errors.ts';
import type { CheckedText } from './pool-checks.ts';
import {
  type FromSandbox,
  type LoadedSource,
  type LogLine,
  logLevels,
  outcomes,
  type RunEnd,
  type RunLimits,
  type SourceForm,
  type UserError,
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
  /** What the code has asked for until now has only read, and all of it may be asked again. Unless given, it is not so. */
  mayBeginAgain?(): boolean;
  /** Told what the code logs, a moment later, while the run goes on. */
  onLines?(lines: readonly LogLine[]): void;
  readonly signal?: AbortSignal | undefined;
}

export type PoolEnd = Omit<RunEnd, 't' | 'id' | 'outcome'> & {
  /** `unavailable`: there was no process for it, or no time in one, and nothing has run. */
  readonly outcome: RunEnd['outcome'] | 'crashed';
  /** JSON; empty: undefined. */
  readonly text: string;
};

export interface Pool {
  /**
   * What a run waits for before anything is made for it; nothing where it begins at once. A function of which nobody
   * knows that it behaves begins when it alone does in a turn of the event loop: a hundred come together, and again
   * when they were ended together.
   */
  turn(key: string): Promise<void> | undefined;
  run(run: PoolRun): Promise<PoolEnd>;
  /** What a text is, and the text that runs: without types. Rejects with `SandboxUnavailable`. */
  check(code: string, file: string): Promise<CheckedText>;
  /** Forgets a version everywhere. */
  drop(key: string): void;
  figures(): {
    readonly processes: number;
    readonly running: number;
    /** Of these, those that wait for room. */
    readonly waiting: number;
    readonly pids: readonly number[];
  };
  close(): void;
}

/** A run that goes on. */
export interface Active {
  readonly id: number;
  readonly run: PoolRun;
  readonly resolve: (end: PoolEnd) => void;
  process: SandboxProcess | undefined;
  /** Calls of the platform: a run that has made one is not run again. */
  calls: number;
  /** Calls that are not answered yet. */
  openCalls: number;
  /** Its process has said whether it is at rest, whatever calls are open. */
  rests: boolean | undefined;
  again: boolean;
  /** When it began, nobody knew that its function behaves. */
  isUnknown: boolean;
  /** What is known of its log while it goes on. */
  lines: readonly LogLine[];
  overdue: NodeJS.Timeout | undefined;
  /** Until when it waits for a process where the system has none; on the clock of `performance.now()`. */
  patientUntil: number | undefined;
  /** Gives it up. */
  readonly cancel: () => void;
}

type NewActive = Pick<Active, 'id' | 'run' | 'resolve' | 'cancel'>;

/** A run that has not begun. */
export const newActive = (given: NewActive): Active => ({
  ...given,
  process: undefined,
  calls: 0,
  openCalls: 0,
  rests: undefined,
  again: false,
  isUnknown: false,
  lines: [],
  overdue: undefined,
  patientUntil: undefined,
});

/** Its code waits for a call, or for a timer. */
export const isWaiting = ({ openCalls, rests }: Active): boolean => rests ?? openCalls > 0;

/** It is in a process, and does not wait. */
export const isComputing = (active: Active): boolean =>
  active.process !== undefined && !isWaiting(active);

/** Milliseconds of processor time of a run that ran out of its time because it computes. */
const COMPUTED_MS = 150;

/** The code has ended its run itself, in whatever way. */
export const endsOfCode: ReadonlySet<PoolEnd['outcome']> = new Set(['ok', 'error', 'rejected']);

/**
 * It had to be ended because of what it cost. Who dies with a process of others has done nothing. `isExcused`: it had only
 * turns of the processor, and may have needed no more than its time; or its function behaves, and was there when the
 * process was left to those that cost much.
 */
export function isOffence(
  { outcome, cpuMs }: PoolEnd,
  active: Active,
  { slow }: Pick<SandboxProcess, 'slow'>,
  isExcused: boolean,
): boolean {
  if (outcome === 'cpu' || outcome === 'memory') return true;
  if (outcome === 'timeout' && cpuMs > COMPUTED_MS) return true;
  if (!slow || isExcused) return false;
  return outcome === 'crashed' || (outcome === 'timeout' && !isWaiting(active));
}

/** Its process has died, and as far as is known not of it. `behaves`: its function does, so that others were meant. */
export const mayRunAgain = (
  { again, calls }: Pick<Active, 'again' | 'calls'>,
  { slow }: Pick<SandboxProcess, 'slow'>,
  behaves: boolean,
): boolean => !again && calls === 0 && (!slow || behaves);

/* What a process says is written by the code of others as soon as that has found a way out of its isolate. */

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const levels: ReadonlySet<unknown> = new Set(logLevels);
const ends: ReadonlySet<unknown> = new Set(outcomes);

const areLines = (lines: unknown): lines is readonly LogLine[] =>
  Array.isArray(lines) &&
  lines.every(
    (line: unknown) =>
      isObject(line) &&
      levels.has(line.level) &&
      typeof line.text === 'string' &&
      typeof line.at === 'number',
  );

const errorTexts = ['name', 'message', 'stack', 'code'] as const;
const errorNumbers = ['status', 'line', 'column'] as const;

function isUserError(error: unknown): error is UserError {
  if (!isObject(error) || error.name === undefined || error.message === undefined) return false;
  const is = (kind: string) => (name: string) =>
    error[name] === undefined || typeof error[name] === kind;
  const isWhole = errorTexts.every(is('string')) && errorNumbers.every(is('number'));
  return isWhole && (error.cause === undefined || isUserError(error.cause));
}

const isEnd = ({ outcome, error, reply, logs, cpuMs, memoryBytes }: RunEnd): boolean =>
  ends.has(outcome) &&
  (error === undefined || isUserError(error)) &&
  (reply === undefined || isObject(reply)) &&
  areLines(logs) &&
  Number.isFinite(cpuMs) &&
  Number.isSafeInteger(memoryBytes);

/** Whether a message about a run is one of the protocol. */
export function isOfProtocol(message: FromSandbox): boolean {
  switch (message.t) {
    case 'end':
      return isEnd(message);
    case 'lines':
      return areLines(message.lines);
    case 'rest':
      return typeof message.rests === 'boolean';
    case 'call':
      return typeof message.call === 'number' && typeof message.name === 'string';
    default:
      return true;
  }
}

export const lost: PoolEnd = { outcome: 'crashed', text: '', logs: [], cpuMs: 0, memoryBytes: 0 };

/** The end of a run whose text could not be read: nothing has run, and later it may. */
export function notLoaded(error: unknown): PoolEnd {
  const { message, status } = (
    error instanceof Error ? error : new Error(String(error))
  ) as Error & {
    readonly status?: unknown;
  };
  if (typeof status === 'number' && status >= 500) return { ...lost, outcome: 'unavailable' };
  return { ...lost, outcome: 'error', error: { name: 'Error', message } };
}

/** Milliseconds before the end of a run from which on a call has no other time than the run. */
const END_MS = 100;

/** Whether a call was given up because the time of its run is over. */
export const isOutOfTime = (error: unknown, { deadlineAt }: Pick<PoolRun, 'deadlineAt'>): boolean =>
  (error as { readonly status?: unknown } | undefined)?.status === 504 &&
  performance.now() >= deadlineAt - END_MS;

/** What the code sees of an error of the platform: as much as a client would. */
export function errorText(error: unknown): string {
  const { name, message, code, status, retryAfter } = (
    error instanceof Error ? error : new Error('The call failed')
  ) as Error & { code?: unknown; status?: unknown; retryAfter?: unknown };
  // What a catalogue says is for clients, whatever its status: that a database is busy is no secret, and passes.
  const isPublic = error instanceof PenstockError || (typeof status === 'number' && status < 500);
  return JSON.stringify({
    name: isPublic ? name : 'Error',
    message: isPublic ? message : 'The platform could not do this',
    ...(typeof code === 'string' && isPublic && { code }),
    ...(typeof status === 'number' && { status }),
    ...(typeof retryAfter === 'number' && isPublic && { retryAfter }),
  });
}
