/**
 * Runs functions: bounds, the way into a sandbox, calls of the platform on behalf of the caller, one record for each run.
 * Everything that starts a function (routes, events, schedules, hooks, operators) goes through `FunctionRunner`.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { defaultRequestSettings } from '../../../kernel/pipeline/request-limits.ts';
import {
  currentAccount,
  onAccount,
  RequestAccount,
} from '../../../kernel/request-account/request-account.ts';
import type { FunctionsConfig } from '../config.ts';
import type { StoredFunction } from '../definition/definition.ts';
import type { Pool } from '../engine/pool.ts';
import type { LoadedSource } from '../engine/protocol.ts';
import { functionErrors } from '../errors.ts';
import { versionOf } from '../queries/functions.ts';
import type { ExecutionWriter } from './executions.ts';
import { fileOf } from './functions.ts';
import { type HostCalls, RunScope } from './host-calls.ts';
import type { FunctionMetrics } from './measure.ts';
import { createPlaces } from './places.ts';
import { accepted, conclude, type EndedRun, outcomeOf, userErrorOfEnd } from './run-end.ts';
import type { RunRequest, RunResult, Target } from './run-request.ts';
import { type FunctionStore, versionKey } from './store.ts';
import { type RunTail, tellRun } from './tail.ts';

export interface FunctionRunner {
  /**
   * Throws FUNCTION_NOT_FOUND, FUNCTION_BUSY, FUNCTION_TIMEOUT, FUNCTION_FAILED (its cause is a `UserCodeError`), the
   * status and code of `ctx.reject`, and `RunSuspended` where a call of the code said so.
   */
  run(request: RunRequest): Promise<RunResult>;
  /** Runs of a function on this node. */
  active(functionId: string): number;
}

export interface RunnerParts {
  readonly store: FunctionStore;
  readonly database: Database;
  readonly pool: Pool;
  readonly calls: HostCalls;
  readonly executions: ExecutionWriter;
  readonly metrics: FunctionMetrics;
  readonly tail: RunTail;
  readonly config: () => FunctionsConfig;
}

/** What a dry run causes is part of it: the hooks of what it writes, and other functions that it calls. */
const insideDryRun = new AsyncLocalStorage<true>();

export function createRunner(parts: RunnerParts): FunctionRunner {
  const places = createPlaces(parts.config);
  const run = async (request: RunRequest): Promise<RunResult> => {
    const target = await findTarget(parts, request);
    return places.inPlace(target.definition._id, timeOf(parts, target, request), (deadlineMs) =>
      onOwnAccount(parts, target, { ...request, deadlineMs }),
    );
  };
  return {
    active: places.active,
    run: (request) =>
      request.dryRun || insideDryRun.getStore()
        ? insideDryRun.run(true, () => run({ ...request, dryRun: true }))
        : run(request),
  };
}

async function findTarget(
  { store, database }: RunnerParts,
  { functionId, name, version, evenIfDisabled = false }: RunRequest,
): Promise<Target> {
  const found = functionId === undefined ? store.byName(name ?? '') : store.byId(functionId);
  if (!found || !(found.enabled || evenIfDisabled)) throw functionErrors.FUNCTION_NOT_FOUND();
  const target = (definition: StoredFunction, at: number): Target => ({
    definition,
    version: at,
    key: versionKey(found._id, at),
    form: definition.facts.form,
    file: fileOf(found.name, definition.facts.language),
  });
  if (version === undefined || version === found.version) return target(found, found.version);
  const older = await versionOf(database, found._id, version);
  if (!older) throw functionErrors.FUNCTION_VERSION_NOT_FOUND();
  return target({ ...found, ...older.definition }, version);
}

/**
 * On the account of the request where there is one; what starts by itself gets one of its own. Its time is that of the
 * run, so that statements of the run end with it.
 */
function onOwnAccount(parts: RunnerParts, target: Target, request: RunRequest): Promise<RunResult> {
  const milliseconds = timeOf(parts, target, request);
  const whole = currentAccount();
  if (whole)
    return onAccount(whole.until(performance.now() + milliseconds), () =>
      runTarget(parts, target, request),
    );
  const account = new RequestAccount({ ...defaultRequestSettings, milliseconds });
  return onAccount(account, () => runTarget(parts, target, request).finally(() => account.close()));
}

function timeOf(
  { config }: RunnerParts,
  { definition }: Target,
  { deadlineMs }: RunRequest,
): number {
  const own = Math.min(definition.timeout, config().limits.maxTimeoutMs);
  return deadlineMs === undefined ? own : Math.min(own, deadlineMs);
}

/** The platform ended the run, not its code: what it still asks of the database is for nobody. */
const givenUp: ReadonlySet<string> = new Set(['cancelled', 'timeout', 'cpu', 'memory', 'crashed']);

async function runTarget(
  parts: RunnerParts,
  target: Target,
  request: RunRequest,
): Promise<RunResult> {
  const { pool, calls, config, metrics } = parts;
  const { limits } = config();
  const { inputs, name } = target.definition;
  const startedAt = performance.now();
  const account = currentAccount();
  const deadlineAt =
    startedAt + Math.min(timeOf(parts, target, request), account?.remainingMs ?? Infinity);
  const turn = pool.turn(target.key);
  if (turn) await turn;
  const leftMs = Math.max(1, deadlineAt - performance.now());
  const executionId = newId();
  const scope = new RunScope({
    executionId,
    function: target.definition,
    version: target.version,
    caller: request.caller,
    extra: request.calls,
    dryRun: request.dryRun,
  });
  const flow = new AsyncResource('functions.run');
  const done = metrics.begin(name);
  const telling = tellingOf(parts, target, request, executionId);
  const { queuedAt } = request;
  if (queuedAt) metrics.lag(name, Math.max(0, Date.now() - queuedAt.getTime()) / 1_000);
  const finished = await pool.run({
    key: target.key,
    file: target.file,
    form: target.form,
    limits: {
      cpuMs: Math.min(inputs.cpuMs ?? limits.cpuMs, limits.cpuMs),
      memoryMb: Math.min(inputs.memoryMb ?? limits.memoryMb, limits.memoryMb),
      maxResultBytes: limits.maxResultBytes,
      maxLogBytes: limits.maxLogBytes,
    },
    deadlineAt,
    input: inputText(target, request, { leftMs, limits, executionId }),
    // Whoever makes room for this run asks: the end of another one, or a message of a process.
    source: () => flow.runInAsyncScope(() => sourceOf(parts, target)),
    call: (callName, args) => flow.runInAsyncScope(() => calls.call(scope, callName, args)),
    mayBeginAgain: () => scope.hasOnlyRead,
    onLines: (lines) => telling.lines(scope.maskedLines(lines)),
    signal: scope.signalWith(request.signal),
  });
  const end = accepted(finished, request, target);
  if (givenUp.has(finished.outcome) && !scope.suspended) account?.giveUp();
  await scope.close();
  const durationMs = performance.now() - startedAt;
  const one = { executionId, target, request, scope, end: scope.masked(end), durationMs };
  done(target.definition.functionType, outcomeOf(one), durationMs, end.memoryBytes);
  telling.end(one.end.logs, toldEnd(one));
  return conclude(parts, one);
}

function tellingOf(
  { tail }: RunnerParts,
  { definition, version }: Target,
  { trigger, attempt = 1 }: RunRequest,
  executionId: string,
) {
  const { _id: functionId, name: functionName } = definition;
  return tellRun(tail, { executionId, functionId, functionName }, { version, trigger, attempt });
}

function toldEnd(one: EndedRun) {
  const { end, durationMs: duration } = one;
  const { cpuMs, memoryBytes: memoryPeak, outcome } = end;
  const error = outcome === 'ok' ? null : userErrorOfEnd(end);
  return { outcome: outcomeOf(one), duration, cpuMs, memoryPeak, error };
}

async function sourceOf(
  { database }: RunnerParts,
  { definition, version }: Target,
): Promise<LoadedSource> {
  const found = await database.outside(() => versionOf(database, definition._id, version));
  if (!found) throw functionErrors.FUNCTION_VERSION_NOT_FOUND();
  return { code: found.running, packages: found.packages };
}

function inputText(
  { definition, version }: Target,
  { req = {}, caller, trigger, attempt = 1, idempotencyKey, requestId }: RunRequest,
  run: {
    readonly leftMs: number;
    readonly limits: FunctionsConfig['limits'];
    readonly executionId: string;
  },
): string {
  const facts = {
    requestId: requestId ?? run.executionId,
    function: definition.name,
    version,
    trigger,
    attempt,
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    deadline: Date.now() + Math.floor(run.leftMs),
    caller: callerFacts(caller),
    system: definition.inputs.rights === 'system',
    logCharacters: run.limits.maxLogBytes,
    mostCharacters: run.limits.maxResultBytes,
  };
  return JSON.stringify({ facts, req });
}

/** What the code may know of who asks. */
function callerFacts(caller: Caller): Readonly<Record<string, unknown>> {
  if (caller.kind === 'user') return { kind: 'user', userId: caller.userId };
  if (caller.kind === 'admin') return { kind: 'admin', username: caller.username };
  return { kind: caller.kind };
}
