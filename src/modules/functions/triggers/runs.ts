/** Runs what waits: with the id that stays the same, the tries that a definition allows, and growing pauses. */
import { all, fieldTest, literal } from '../../../data/conditions/condition.ts';
import { system } from '../../../kernel/caller.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { causedBy } from '../../../kernel/hooks/hooks.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import { invalidValueProblem } from '../../../kernel/operations/invalid-value.ts';
import type { QueueItem, QueueWorker, Verdict } from '../../../kernel/queue/durable-queue.ts';
import { shortened } from '../../../kernel/text.ts';
import type { FunctionsConfig } from '../config.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { functionErrors, userErrorOf } from '../errors.ts';
import { type HostCall, RunSuspended } from '../services/host-calls.ts';
import type { RunAnswer } from '../services/run-request.ts';
import { operationWords, ownCaller, type RunData, type TriggerParts } from './parts.ts';
import { whenSuspended, workflowCalls } from './workflows.ts';

const LONGEST_BACKOFF_MS = 3_600_000;
/** Milliseconds until what cannot run now is looked at again. */
const BUSY_MS = 500;
const OFF_MS = 60_000;
/** Runs at a time on one node that events, schedules and workflows cause; requests have room beside them. */
const AT_ONCE = 32;
const PER_FUNCTION = 8;

export const startRuns = (parts: TriggerParts): QueueWorker =>
  parts.queue.work({
    log: parts.log,
    concurrency: () => AT_ONCE,
    perTarget: () => PER_FUNCTION,
    retryAfterMs: () => parts.config().events.backoffMs,
    handle: (item, signal) => runItem(parts, item, signal),
  });

async function runItem(
  parts: TriggerParts,
  item: QueueItem,
  signal: AbortSignal,
): Promise<Verdict> {
  const definition = parts.store.byId(item.target);
  if (!definition) {
    const gone = 'the function was deleted';
    return { outcome: 'dead', note: { error: gone }, log: `A run is given up: ${gone}` };
  }
  if (!definition.enabled) return { outcome: 'again', afterMs: OFF_MS, counts: false };
  const data = item.data as unknown as RunData;
  const causes = [...('causes' in data ? (data.causes ?? []) : []), definition.name];
  try {
    const calls = data.kind === 'workflow' ? workflowCalls(parts.database, item) : undefined;
    const req = await requestOf(parts, data);
    const result = await causedBy(causes, () =>
      parts.runner.run({
        ...{
          functionId: item.target,
          req,
          caller: data.kind === 'webhook' ? { kind: 'anonymous' } : ownCaller(definition),
          trigger: data.kind,
          signal,
        },
        ...{ attempt: item.attempt, idempotencyKey: item.id, requestId: item.id },
        ...(calls && { calls: calls as ReadonlyMap<string, HostCall>, accept: requireStorable }),
        ...(item.attempt === 1 && !calls && { queuedAt: item.createdAt }),
      }),
    );
    const { executionId } = result;
    const note =
      data.kind === 'workflow' ? { executionId, result: result.result ?? null } : { executionId };
    return { outcome: 'done', note };
  } catch (error) {
    return afterFailure(definition, item, {
      ...{ error, stopped: signal.aborted },
      usual: parts.config().events,
    });
  }
}

/** What a workflow answers is kept. What cannot be kept would begin it anew for ever, since its end could not be kept. */
function requireStorable({ text }: RunAnswer): void {
  const problem =
    text === '' ? undefined : invalidValueProblem(parseBoundedJson(text, 'The result'), 'result');
  if (problem)
    throw new TypeError(
      `The workflow answers what cannot be kept: ${problem.path} ${problem.message}`,
    );
}

interface Failure {
  readonly error: unknown;
  /** This node stops: the try does not count. */
  readonly stopped: boolean;
  /** What a definition does not say. */
  readonly usual: FunctionsConfig['events'];
}

function afterFailure(
  { _id, name, inputs, timeout }: StoredFunction,
  item: QueueItem,
  { error, stopped, usual }: Failure,
): Verdict {
  const { attempt } = item;
  if (error instanceof RunSuspended) return whenSuspended(item, error.reason);
  if (stopped) return { outcome: 'again', afterMs: 0, counts: false };
  if (isBusy(error, timeout)) return { outcome: 'again', afterMs: BUSY_MS, counts: false };
  const user = userErrorOf(error);
  const message = user?.message ?? (error instanceof Error ? error.message : String(error));
  const note = {
    error: shortened(message, 500),
    ...(user && { executionId: user.executionId }),
  };
  const isLoop = error instanceof PenstockError && error.code === 'HOOK_DEPTH_EXCEEDED';
  if (isLoop || attempt >= (inputs.attempts ?? usual.attempts)) {
    const log = `Runs of the function ${name} are given up: GET /functions/${_id}/queue?state=dead lists them`;
    return { outcome: 'dead', note, log };
  }
  const pause = (inputs.backoffMs ?? usual.backoffMs) * 2 ** (attempt - 1);
  return { outcome: 'again', afterMs: Math.min(pause, LONGEST_BACKOFF_MS), note };
}

/** Milliseconds in which code begins on any machine that has room for it. */
const FAIR_MS = 1_000;

/**
 * It could not begin, and that is not because its own time is too short to begin in: that it would be for ever. Code that
 * refuses with the same code has begun.
 */
function isBusy(error: unknown, timeout: number): boolean {
  if (!(error instanceof PenstockError) || error.code !== functionErrors.FUNCTION_BUSY.code)
    return false;
  const user = userErrorOf(error)?.user;
  return user === undefined || (user.code === 'UNAVAILABLE' && timeout >= FAIR_MS);
}

/** What the code gets as `req`. Records are read when the run begins: as they are then. */
async function requestOf(
  parts: TriggerParts,
  data: RunData,
): Promise<Readonly<Record<string, unknown>>> {
  if (data.kind === 'cron')
    return { scheduledAt: data.scheduledAt, cronPattern: data.pattern, trigger: 'cron' };
  if (data.kind === 'workflow') return { input: data.input };
  if (data.kind === 'webhook') return data.req;
  const { schema, operation, ids = [], payload = {}, topic, occurredAt } = data;
  const [id] = ids;
  if (schema === undefined || operation === undefined || id === undefined)
    return {
      ...payload,
      ...(data.kind === 'hook' && { id }),
      ...(ids.length > 0 && { ids }),
      ...{ topic, occurredAt },
    };
  const record = operation === 'delete' ? undefined : await recordOf(parts, schema, id);
  if (data.kind === 'event') return { ...record, _id: id };
  return { schema, operation: operationWords[operation], id, record: record ?? null };
}

async function recordOf(
  { records }: TriggerParts,
  schema: string,
  id: string,
): Promise<Readonly<Record<string, unknown>> | undefined> {
  const filter = all(fieldTest('_id', { kind: 'equal', right: literal(id) }));
  const json = await records.find(system('functions'), schema, { filter, granted: true });
  const [record] = JSON.parse(json) as readonly Record<string, unknown>[];
  return record;
}
