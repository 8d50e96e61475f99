/**
 * The way of a call through the kernel, the same for every transport:
 *
 * 0. the transport opens the account of the request (`accounts`) and runs all that follows on it;
 * 1. `admit`: credential -> caller, then the limits that need no body;
 * 2. the transport reads the input and waits for its turn (`inTurn`), then decodes (`CompiledOperation.decode`);
 * 3. `run`: limit per account, idempotency, handler until the account's time is over, answer.
 *
 * Steps answer without a promise where nothing has to be waited for; the common
 * request with a cached credential and a limit in memory waits for its handler
 * alone.
 */

import { addressKey, type Caller, callerKey } from '../caller.ts';
import { errors } from '../errors.ts';
import { withUnconfirmed } from '../freshness/freshness.ts';
import type { Identity } from '../identity.ts';
import { andThen, endedBy, type MaybePromise } from '../maybe-promise.ts';
import type { Operation } from '../operations/operation.ts';
import type { DecodedInput } from '../operations/operation-input.ts';
import {
  currentAccount,
  onAccount,
  type RequestAccount,
} from '../request-account/request-account.ts';
import { noteOperation } from '../supervisor.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import { type ActionLog, isAudited } from './admin-actions.ts';
import { createAdmit, refusalOf, requireInput, type SharedRequest } from './admission.ts';
import { type Answer, type AnswerBytes, type AnswerStream, answerOf } from './answer.ts';
import { type Call, CallContext } from './context.ts';
import { createDeadlines, type Deadlines } from './deadline.ts';
import { type Idempotency, takesIdempotencyKey } from './idempotency/idempotency.ts';
import type { ObjectDirectory } from './input-authority.ts';
import type { OperationLimiter } from './rate-limits.ts';
import {
  type Accounts,
  type CallGates,
  callKey,
  createAccounts,
  createCallGates,
  defaultRequestSettings,
  type RequestSettingsProvider,
} from './request-limits.ts';

/** On answers of the admin surface: ids of nodes that have not confirmed the change. */
const UNCONFIRMED_HEADER = 'penstock-unconfirmed-nodes';
/** When to come back to a platform that stops. */
const STOPPED_SECONDS = 2;

export interface PipelineParts {
  readonly identity: Identity;
  readonly limiter: OperationLimiter;
  readonly idempotency: Idempotency;
  readonly actions: ActionLog;
  readonly log: Logger;
  readonly tracing?: Tracing | undefined;
  /** How much a request may use; the usual when left out. */
  readonly requests?: RequestSettingsProvider | undefined;
  /** What the inputs of operations name; without it nothing is asked of them. */
  readonly objects?: ObjectDirectory | undefined;
}

/** What a call takes while it waits and runs. */
export interface CallWeight {
  /** Of the body, which is kept meanwhile. */
  readonly bytes: number;
  /** Where it is known better than by the operation. */
  readonly heavy?: boolean | undefined;
  /** Its body is read while it runs. */
  readonly arriving?: boolean | undefined;
}

export interface Pipeline {
  readonly limiter: OperationLimiter;
  readonly accounts: Accounts;
  readonly gates: CallGates;
  /** Throws 401, 403, 429 or 503. */
  admit(call: Call, shared?: SharedRequest): Caller | Promise<Caller>;
  /**
   * Runs `work` when it is the turn of this call, once for each request: calls inside it come at once. Throws or rejects
   * with 429 or 503.
   */
  inTurn<T>(
    call: Call,
    caller: Caller,
    work: () => MaybePromise<T>,
    weight?: CallWeight,
  ): MaybePromise<T>;
  /** Throws or rejects with what the handler throws, 429, 409 (Idempotency-Key), 504. */
  run(call: Call, caller: Caller, input: DecodedInput): MaybePromise<Answer>;
  /**
   * The outcome of a request that holds calls, for work that might not settle by itself: it would keep its place for good.
   * Rejects with 504 when the calls in it have had their time.
   */
  inTime<T>(work: Promise<T>): Promise<T>;
  /** Answers 503 to every call that still runs. */
  giveUp(): void;
  close(): void;
}

const weightless: CallWeight = { bytes: 0 };
/** Milliseconds in which calls that were late say so in the words of their protocol. */
const LAST_WORDS_MS = 1_000;

export function createPipeline(parts: PipelineParts): Pipeline {
  const { limiter } = parts;
  const requests = parts.requests ?? (() => defaultRequestSettings);
  const accounts = createAccounts(requests);
  const gates = createCallGates(requests);
  const deadlines = createDeadlines(requests().milliseconds);
  const running: RunningPipeline = { ...parts, deadlines };

  return {
    limiter,
    accounts,
    gates,
    inTurn(call, caller, work, { bytes, heavy: isHeavy, arriving } = weightless) {
      const account = currentAccount();
      if (!account || account.admitted) return work();
      const heavy = isHeavy ?? call.compiled.operation.heavy ?? false;
      return gates.inTurn({ key: callKey(caller, call.address), heavy, bytes, arriving }, () => {
        account.admit();
        return work();
      });
    },
    admit: createAdmit(parts),
    run(call, caller, input) {
      const account = currentAccount();
      if (!account) {
        const own = accounts.open(call.compiled.operation, performance.now(), call.address);
        return onAccount(own, () => runOn(running, own, { call, caller, input }));
      }
      const enter = () => runOn(running, account, { call, caller, input });
      return call.isPart ? amongOthers(account, enter) : enter();
    },
    inTime(work) {
      const account = currentAccount();
      if (!account) return work;
      const until = account.deadlineAt + LAST_WORDS_MS;
      return deadlines.guard(work, until, (early) => early ?? errors.TIMEOUT());
    },
    ...endOf(deadlines),
  };
}

interface RunningPipeline extends PipelineParts {
  readonly deadlines: Deadlines;
}

/** Few calls of one request run at a time. */
function amongOthers(account: RequestAccount, run: Work): MaybePromise<Answer> {
  const entered = () => endedBy(run, () => account.leaveCall());
  const waiting = account.enterCall();
  return waiting ? waiting.then(entered) : entered();
}

/** One call on the account of its request. */
function runOn(
  pipeline: RunningPipeline,
  account: RequestAccount,
  asked: Asked,
): MaybePromise<Answer> {
  const { call, input } = asked;
  const { operation } = call.compiled;
  account.running = noteOperation(operation.id, call.requestId);
  const limited = pipeline.limiter.admitAccount(operation, input.body, call.address);
  return andThen(limited, () => begun(pipeline, account, asked));
}

function begun(
  pipeline: RunningPipeline,
  account: RequestAccount,
  { call, caller, input }: Asked,
): MaybePromise<Answer> {
  if (account.remainingMs <= 0) throw errors.TIMEOUT();
  const { log, identity } = pipeline;
  const { operation } = call.compiled;
  const deadlineAt = deadlineOf(account, operation);
  const context = new CallContext(call, caller, { log, deadlineAt, identity });
  const running: Running = { call, input, context, account };
  let work: Work = () => handled(pipeline, running);
  const { tracing, actions } = pipeline;
  if (tracing) work = traced(tracing, running, work);
  if (isAudited(operation, input)) {
    const told = work;
    work = () => actions.around(call, context, input, told);
  }
  return changesForNodes(operation) ? unconfirmedTold(work) : work();
}

/** The handler's answer, or 504 when the deadline passes before it. */
function handled(pipeline: RunningPipeline, running: Running): MaybePromise<Answer> {
  const { call } = running;
  const refused = refusalOf(running.context.caller);
  return inTime(
    pipeline,
    running.context,
    // The transaction of a key hears of a deadlock and the like as it is, and runs again.
    keepsKey(call)
      ? remembered(pipeline, running).catch(refused)
      : work(pipeline, running, refused),
  );
}

function inTime(
  { deadlines }: RunningPipeline,
  context: CallContext,
  answer: MaybePromise<Answer>,
): MaybePromise<Answer> {
  if (!(answer instanceof Promise)) return answer;
  return deadlines.guard(answer, context.deadlineAt, (early) => expire(context, early));
}

/** Runs a call with an `Idempotency-Key` once, and answers equal ones with what it answered. */
function remembered(pipeline: RunningPipeline, running: Running): Promise<Answer> {
  const { call, context, input } = running;
  const { operation } = call.compiled;
  const principal = principalOf(call, context.caller);
  const request = { principal, operation, key: call.idempotencyKey ?? '', input };
  return pipeline.idempotency.once(request, async () => {
    // The caller may have been told that it took too long while this waited for an equal call.
    if (context.expired) throw errors.TIMEOUT();
    // Guarded here as well, so that the transaction ends and frees its connection and the key.
    return inTime(pipeline, context, work(pipeline, running));
  });
}

/** A kept answer is given without asking again what its caller may: tokens of one operator that reach less have keys of their own. */
function principalOf({ address }: Call, caller: Caller): string {
  if (caller.kind === 'anonymous') return `address:${addressKey(address)}`;
  const scopes = caller.kind === 'admin' ? caller.scopes : undefined;
  return scopes ? `${callerKey(caller)} ${scopes.toSorted().join()}` : callerKey(caller);
}

function work(
  pipeline: RunningPipeline,
  running: Running,
  refused?: (error: unknown) => never,
): MaybePromise<Answer> {
  const { call, context, input } = running;
  requireInput(context.caller, call.compiled.operation, input, pipeline.objects);
  const result = call.compiled.operation.handler(context, input);
  if (result instanceof Promise)
    return result.then((value) => answerTo(pipeline, running, value), refused);
  return answerTo(pipeline, running, result);
}

function answerTo(
  { deadlines }: RunningPipeline,
  { call, context, account }: Running,
  value: unknown,
): Answer {
  const answer = answerOf(call.compiled, value, context);
  if (!answer.stream) return answer;
  const onExpire = (early?: Error) => expire(context, early);
  return { ...answer, stream: bounded(answer.stream, { deadlines, account, onExpire }) };
}

const endOf = (deadlines: Deadlines): Pick<Pipeline, 'giveUp' | 'close'> => ({
  giveUp: () =>
    deadlines.expireAll(
      errors.UNAVAILABLE({
        message: 'The platform stops: send this again',
        retryAfter: STOPPED_SECONDS,
      }),
    ),
  close: deadlines.close,
});

/** A call as its transport presents it. */
interface Asked {
  readonly call: Call;
  readonly caller: Caller;
  readonly input: DecodedInput;
}

/** A call whose handler runs. */
interface Running extends Pick<Asked, 'call' | 'input'> {
  readonly context: CallContext;
  readonly account: RequestAccount;
}

/** The account's end; an operation with a shorter time of its own keeps to that, a longer one prolongs nothing. */
function deadlineOf({ deadlineAt }: RequestAccount, { deadlineMs }: Operation): number {
  return deadlineMs === undefined
    ? deadlineAt
    : Math.min(deadlineAt, performance.now() + deadlineMs);
}

type Work = () => MaybePromise<Answer>;

const traced =
  (tracing: Tracing, { call, context }: Running, work: Work): Work =>
  () =>
    tracing.span(call.compiled.operation.id, { 'penstock.caller': context.caller.kind }, async () =>
      work(),
    );

/** What operators change holds on all nodes: those that do not confirm it read from the database until they know. */
const changesForNodes = ({ surface, method }: Operation): boolean =>
  surface === 'admin' && method !== 'GET';

/** Names the nodes that did not confirm what the call changed. */
async function unconfirmedTold(work: Work): Promise<Answer> {
  const { result, nodes } = await withUnconfirmed(work);
  return nodes.length === 0
    ? result
    : { ...result, headers: { ...result.headers, [UNCONFIRMED_HEADER]: nodes.join(', ') } };
}

interface Sending {
  readonly deadlines: Deadlines;
  readonly account: RequestAccount;
  readonly onExpire: (early?: Error) => Error;
}

/** A body that is made while it is sent gets the same time once more, from when its sending begins. */
function bounded(
  stream: AnswerStream | AnswerBytes,
  { deadlines, account, onExpire }: Sending,
): AnswerStream | AnswerBytes {
  if ('read' in stream)
    return {
      read() {
        account.renew();
        return deadlines.guard(stream.read(), account.deadlineAt, onExpire);
      },
    };
  const { chunks, signal } = stream;
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  async function* sent(): AsyncGenerator<Uint8Array | string> {
    account.renew();
    // Whoever sends hears of the end of time through the signal.
    deadlines.guard(ended, account.deadlineAt, onExpire).catch(() => undefined);
    try {
      yield* chunks;
    } finally {
      resolve();
    }
  }
  return { chunks: sent(), signal };
}

function expire(context: CallContext, early?: Error): Error {
  const reason = early ?? errors.TIMEOUT();
  context.expire(reason);
  return reason;
}

/** Whether a key on this call is honoured. Answers that are credentials are never stored. */
function keepsKey({ idempotencyKey, compiled: { operation } }: Call): boolean {
  return idempotencyKey !== undefined && takesIdempotencyKey(operation);
}
