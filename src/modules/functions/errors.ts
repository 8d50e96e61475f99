/** What can go wrong with functions. */
import { defineErrors, PenstockError, type Problem } from '../../kernel/errors.ts';
import type { LogLine, UserError } from './engine/protocol.ts';

export const functionErrors = defineErrors({
  FUNCTION_INVALID: [400, 'The function definition is not valid'],
  FUNCTION_CODE_INVALID: [400, 'Invalid function code'],
  SIGNATURE_INVALID: [401, 'The signature of this request is not valid, or too old'],
  FUNCTION_NOT_FOUND: [404, 'There is no such function'],
  EXECUTION_NOT_FOUND: [404, 'There is no such execution'],
  FUNCTION_VERSION_NOT_FOUND: [404, 'There is no such version of this function'],
  FUNCTION_SECRET_NOT_FOUND: [404, 'The function has no secret of this name'],
  FUNCTION_EXISTS: [409, 'A function with this name exists already'],
  FUNCTION_MESSAGE_REUSED: [409, 'This message was received before'],
  FUNCTION_REFUSED: [400, 'The function refused this'],
  FUNCTION_FAILED: [500, 'Execution failed'],
  FUNCTION_BUSY: [503, 'Too many functions run now: try again shortly'],
  TAIL_LIMIT_EXCEEDED: [503, 'Too many operators follow logs here: try again in a moment'],
  FUNCTION_TIMEOUT: [504, 'The function took too long and was ended'],
});

/** A run that failed, for operators. */
export interface FailedRun {
  readonly logs: readonly LogLine[];
  /** Of the record of the run. */
  readonly executionId: string;
  /** Milliseconds. */
  readonly duration: number;
  readonly cpuMs: number;
  /** Bytes. */
  readonly memoryPeak: number;
}

/** Why a run failed: the cause of what its caller is told. */
export class UserCodeError extends Error implements FailedRun {
  readonly user: UserError;
  readonly logs: readonly LogLine[];
  readonly executionId: string;
  readonly duration: number;
  readonly cpuMs: number;
  readonly memoryPeak: number;

  constructor(user: UserError, run: FailedRun) {
    const place = user.line === undefined ? '' : ` (line ${user.line}, column ${user.column})`;
    super(`${user.name}: ${user.message}${place}`);
    this.name = 'UserCodeError';
    this.stack = user.stack ?? this.message;
    this.user = user;
    this.logs = run.logs;
    this.executionId = run.executionId;
    this.duration = run.duration;
    this.cpuMs = run.cpuMs;
    this.memoryPeak = run.memoryPeak;
  }
}

/** The error of user code behind what a run threw; nothing for anything else. */
export const userErrorOf = (error: unknown): UserCodeError | undefined =>
  error instanceof PenstockError && error.cause instanceof UserCodeError ? error.cause : undefined;

/** Throws what is wrong with a definition. */
export function refuseFunction(problems: readonly Problem[]): void {
  const [first] = problems;
  if (!first) return;
  throw functionErrors.FUNCTION_INVALID({
    message: `${first.path}: ${first.message}`,
    errors: problems,
  });
}
