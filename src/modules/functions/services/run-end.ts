/** The end of a run: what became of it, its record, and what its caller is told. */
import { callerKey } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import type { FunctionsConfig } from '../config.ts';
import type { FunctionKind } from '../definition/definition.ts';
import { ReturnError } from '../definition/inputs.ts';
import type { PoolEnd } from '../engine/pool.ts';
import type { UserError } from '../engine/protocol.ts';
import { functionErrors, UserCodeError } from '../errors.ts';
import type { ExecutionWriter } from './executions.ts';
import { type RunScope, RunSuspended } from './host-calls.ts';
import type { RunRequest, RunResult, Target } from './run-request.ts';

/** A result that nobody can use is the failure of its run. */
export function accepted(
  end: PoolEnd,
  { accept }: RunRequest,
  { definition: { functionType } }: Target,
): PoolEnd {
  if (end.outcome !== 'ok') return end;
  try {
    if (!answersClients.has(functionType)) requireNoRefusal(functionType, end);
    accept?.({ text: end.text, reply: end.reply });
    return end;
  } catch (error) {
    const { name, message } = error as Error;
    const facts =
      error instanceof ReturnError ? { name: 'ReturnError', code: error.code } : { name };
    return { ...end, outcome: 'error', error: { ...facts, message } };
  }
}

/** The kinds whose answer is sent to a client, with the status that they name. */
const answersClients: ReadonlySet<FunctionKind> = new Set(['request', 'webhook']);

const FIRST_STATUS_BEYOND_SUCCESS = 300;

/** Where no client is answered, `res(data, {status: 403})` would be dropped: what was refused would go on. */
function requireNoRefusal(kind: FunctionKind, end: PoolEnd): void {
  const { redirect } = end.reply ?? {};
  const status = statusOf(end);
  if (redirect === undefined && status < FIRST_STATUS_BEYOND_SUCCESS) return;
  const what = redirect === undefined ? `a status of ${status}` : 'a redirection';
  throw new TypeError(
    `A function of the kind ${kind} does not answer a client, so ${what} is lost: refuse by ctx.reject or a throw`,
  );
}

interface RecordParts {
  readonly executions: ExecutionWriter;
  readonly config: () => FunctionsConfig;
}

export interface EndedRun {
  readonly executionId: string;
  readonly target: Target;
  readonly request: RunRequest;
  readonly scope: RunScope;
  readonly end: PoolEnd;
  readonly durationMs: number;
}

export const outcomeOf = ({ end, scope }: EndedRun): string =>
  scope.suspended ? 'suspended' : end.outcome;

export function conclude(parts: RecordParts, one: EndedRun): RunResult {
  const { executionId, end, scope, durationMs } = one;
  const failure = scope.suspended ?? failureOf(one);
  record(parts, one, failure);
  if (failure) throw failure;
  return {
    executionId,
    text: end.text,
    get result() {
      return end.text === '' ? undefined : parseBoundedJson(end.text, 'The result');
    },
    reply: end.reply,
    logs: end.logs,
    durationMs,
    cpuMs: end.cpuMs,
    memoryPeak: end.memoryBytes,
  };
}

const reasons: Readonly<Partial<Record<PoolEnd['outcome'], string>>> = {
  cpu: 'used more processor time than it may',
  memory: 'used more memory than it may',
  crashed: 'ended its process',
  timeout: 'took longer than it may',
  unavailable: 'had no process to run in',
  cancelled: 'was given up by its caller',
};

export const userErrorOfEnd = ({ error, outcome }: PoolEnd): UserError =>
  error ?? {
    name: 'RunError',
    code: outcome.toUpperCase(),
    message: `The function ${reasons[outcome] ?? 'failed'}`,
  };

function failureOf({ end, scope, executionId, durationMs }: EndedRun): PenstockError | undefined {
  if (end.outcome === 'ok') return undefined;
  const user = userErrorOfEnd(end);
  const { logs, cpuMs, memoryBytes: memoryPeak } = end;
  const run = { logs, executionId, duration: durationMs, cpuMs, memoryPeak };
  const cause = new UserCodeError(user, run);
  if (end.outcome === 'timeout') return functionErrors.FUNCTION_TIMEOUT({ cause });
  if (end.outcome === 'unavailable')
    return functionErrors.FUNCTION_BUSY({
      message: 'No process had room for this function in its time: try again shortly',
      retryAfter: 1,
      cause,
    });
  if (end.outcome === 'rejected') {
    const code = codeShape.test(user.code ?? '') ? user.code : undefined;
    return new PenstockError(
      code ?? functionErrors.FUNCTION_REFUSED.code,
      isRefusal(user.status) ? user.status : 400,
      user.message,
      { cause },
    );
  }
  const refusal = scope.refusalBehind(user);
  if (refusal) {
    const { code, status, message, retryAfter } = refusal;
    return new PenstockError(code, status, message, { cause, ...(retryAfter && { retryAfter }) });
  }
  return functionErrors.FUNCTION_FAILED({ cause });
}

/** The code may have changed what `ctx.reject` threw. */
const isRefusal = (status: number | undefined): status is number =>
  status !== undefined && Number.isInteger(status) && status >= 400 && status <= 599;

/** What the code gave as status may be anything. */
function statusOf({ reply }: PoolEnd): number {
  const status: unknown = reply?.status;
  const isStatus = Number.isInteger(status) && Number(status) >= 100 && Number(status) <= 599;
  return isStatus ? Number(status) : 200;
}

const codeShape = /^[A-Z][A-Z0-9_]{2,63}$/;

function record(parts: RecordParts, one: EndedRun, failure: Error | undefined): void {
  const { end, target, request, executionId, durationMs } = one;
  const success = failure === undefined || failure instanceof RunSuspended;
  const { successSample } = parts.config().retention;
  if (success && successSample < 1 && Math.random() >= successSample) return;
  const { caller, req, keepInput = false } = request;
  parts.executions.add({
    id: executionId,
    functionId: target.definition._id,
    functionName: target.definition.name,
    version: target.version,
    trigger: request.trigger,
    success,
    outcome: outcomeOf(one),
    statusCode: failure instanceof PenstockError ? failure.status : statusOf(end),
    durationMs,
    cpuMs: end.cpuMs,
    memoryPeak: end.memoryBytes,
    attempt: request.attempt ?? 1,
    requestId: request.requestId ?? executionId,
    userId: caller.kind === 'user' ? caller.userId : null,
    error: success ? null : userErrorOfEnd(end),
    logs: end.logs,
    input: success || !keepInput ? null : { req: req ?? {}, caller: callerKey(caller) },
    createdAt: new Date(Date.now() - durationMs).toISOString(),
  });
}
