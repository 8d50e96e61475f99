/** What a run is asked for, and what it answers. */
import type { Caller } from '../../../kernel/caller.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { LogLine, ReplyOptions, SourceForm } from '../engine/protocol.ts';
import type { HostCall } from './host-calls.ts';

export interface RunRequest {
  /** Of a stored function; or `name`. */
  readonly functionId?: string;
  readonly name?: string;
  /** Another version than the one in force. */
  readonly version?: number;
  /** What the code gets as `req`. */
  readonly req?: Readonly<Record<string, unknown>>;
  /** In whose name `ctx` acts. */
  readonly caller: Caller;
  /** What started the run, as records and `ctx.trigger` name it: `request`, `event`, `cron`, `invoke`, ... */
  readonly trigger: string;
  readonly attempt?: number;
  readonly idempotencyKey?: string;
  /** Milliseconds that the run may take, where that is less than the function's own time. */
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
  readonly requestId?: string;
  /** When what starts it began to wait. */
  readonly queuedAt?: Date;
  /** Calls of the code (`step.begin`, `step.sleep`, ...) that the starter answers, by name. */
  readonly calls?: ReadonlyMap<string, HostCall>;
  /** Reads and writes records alone, in a transaction that is taken back. Whatever else it asks for is refused. */
  readonly dryRun?: boolean;
  /** Runs although it is switched off. */
  readonly evenIfDisabled?: boolean;
  /** Keeps the input with the record of a failed run, so that it can be run again. */
  readonly keepInput?: boolean;
  /** Reads the result before the run counts as done. What it throws is the failure of the run. */
  readonly accept?: (answer: RunAnswer) => void;
}

/** What the code answered. */
export type RunAnswer = Pick<RunResult, 'text' | 'reply'>;

export interface RunResult {
  /** Of the record of this run. */
  readonly executionId: string;
  /** JSON; empty: undefined. */
  readonly text: string;
  /** Parsed from `text` at each use. */
  readonly result: unknown;
  readonly reply: ReplyOptions | undefined;
  readonly logs: readonly LogLine[];
  readonly durationMs: number;
  readonly cpuMs: number;
  /** Bytes. */
  readonly memoryPeak: number;
}

/** A function at one version, ready to run. */
export interface Target {
  readonly definition: StoredFunction;
  readonly version: number;
  readonly key: string;
  readonly form: SourceForm;
  readonly file: string;
}
