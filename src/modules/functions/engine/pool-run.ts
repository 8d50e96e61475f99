/** What a run needs of the pool and what becomes of it. */
import type { CheckedFacts, LoadedSource, RunEnd, RunLimits, SourceForm } from './protocol.ts';
import type { SandboxProcess } from './sandbox-process.ts';
import type { Lane } from './standing.ts';

/** What a run needs. */
export interface PoolRun {
  /** Names the function and its version. */
  readonly key: string;
  /** What is known of it counts for all of its versions. */
  readonly functionId: string;
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
  readonly signal?: AbortSignal | undefined;
}

export type PoolEnd = Omit<RunEnd, 't' | 'id' | 'outcome'> & {
  readonly outcome: RunEnd['outcome'] | 'crashed';
  /** JSON; empty: undefined. */
  readonly text: string;
};

export type Checked = CheckedFacts & { readonly text: string };

export interface Pool {
  run(run: PoolRun): Promise<PoolEnd>;
  /** What a text is, and the text that runs: without types. */
  check(code: string, file: string): Promise<Checked>;
  /** Forgets a version everywhere. */
  drop(key: string): void;
  /** Whether the function costs much, and too many of that kind wait already. */
  isCrowded(functionId: string): boolean;
  figures(): {
    readonly running: number;
    readonly pids: readonly number[];
    readonly lanes: Readonly<Record<Lane, readonly number[]>>;
  };
  close(): void;
}

/** A run between its start and its end. */
export interface ActiveRun {
  readonly id: number;
  readonly run: PoolRun;
  readonly resolve: (end: PoolEnd) => void;
  readonly overdue: NodeJS.Timeout;
  /** None: it stands in line. */
  process: SandboxProcess | undefined;
  /** Calls of the platform: a run that has made one is not run again. */
  calls: number;
  /** Those that are not answered: it needs no processor meanwhile. */
  waitingCalls: number;
  /** Its process died while it ran. */
  again: boolean;
  moves: number;
}

/** A text that is looked at before it is stored. */
export interface Check {
  readonly process: SandboxProcess;
  readonly resolve: (checked: Checked) => void;
}

/** What the code sees of an error of the platform: as much as a client would. */
export function publicErrorText(error: unknown): string {
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
