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

export interface Pipeline {
  readonly limiter: OperationLimiter;
  readonly accounts: Accounts;
  readonly gates: CallGates;
  /** Throws 401, 403, 429 or 503. */
  admit(call: Call, shared?: SharedRequest): Caller | Promise<Caller>;
  /**
   * Runs `work` when it is the turn of this call, once for each request: calls inside it come at once. `bytes`: of the
   * body, which is kept meanwhile. Throws or rejects with 429 or 503.
   */
  inTurn<T>(call: Call, caller: Caller, work: () => T | Promise<T>, bytes?: number): T | Promise<T>;
  /** Throws what the handler throws, 429, 409 (Idempotency-Key), 504. */
  run(call: Call, caller: Caller, input: DecodedInput): Promise<Answer>;
  /** Answers 503 to every call that still runs. */
  giveUp(): void;
  close(): void;
}

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
    inTurn(call, caller, work, bytes = 0) {
      const account = currentAccount();
      if (!account || account.admitted) return work();
      const { heavy = false } = call.compiled.operation;
      return gates.inTurn({ key: callKey(caller, call.address), heavy, bytes }, () => {
        account.admit();
        return work();
      });
    },
    admit: createAdmit(parts),
    async run(call, caller, input) {
      const one = { call, caller, input };
      const account = currentAccount();
      if (!account) {
        const own = accounts.open(call.compiled.operation, performance.now(), call.address);
        return onAccount(own, () => runOn(running, own, one));
      }
      const waiting = account.enterCall();
      if (waiting) await waiting;
      try {
        return await runOn(running, account, one);
      } finally {
        account.leaveCall();
      }
    },
    ...endOf(deadlines),
  };
}

interface RunningPipeline extends PipelineParts {
  readonly deadlines: Deadlines;
}

/** Runs a call with an `Idempotency-Key` once, and answers equal ones with what it answered. */
function remembered(
  pipeline: RunningPipeline,
  context: CallContext,
  call: Call,
  input: DecodedInput,
): Promise<Answer> {
  const { operation } = call.compiled;
  const principal =
    context.caller.kind === 'anonymous'
      ? `address:${addressKey(call.address)}`
      : callerKey(context.caller);
  const request = { principal, operation, key: call.idempotencyKey ?? '', input };
  return pipeline.idempotency.once(request, async () => {
    // The caller may have been told that it took too long while this waited for an equal call.
    if (context.expired) throw errors.TIMEOUT();
    const answer = work(pipeline, context, call, input);
    // Guarded here as well, so that the transaction ends and frees its connection and the key.
    return answer instanceof Promise
      ? pipeline.deadlines.guard(answer, context.deadlineAt, (early) => expire(context, early))
      : answer;
  });
}

/** The handler's answer, or 504 when the deadline passes before it. */
function handled(
  pipeline: RunningPipeline,
  context: CallContext,
  call: Call,
  input: DecodedInput,
): Answer | Promise<Answer> {
  const result = keepsKey(call)
    ? remembered(pipeline, context, call, input)
    : work(pipeline, context, call, input);
  if (!(result instanceof Promise)) return result;
  return pipeline.deadlines.guard(result, context.deadlineAt, (early) => expire(context, early));
}

/** One call on the account of its request. */
async function runOn(
  pipeline: RunningPipeline,
  account: RequestAccount,
  { call, caller, input }: Running,
): Promise<Answer> {
  const { limiter, deadlines, actions, log } = pipeline;
  const { operation } = call.compiled;
  noteOperation(operation.id, call.requestId);
  const limited = limiter.admitAccount(operation, input.body, call.address);
  if (limited) await limited;
  if (account.remainingMs <= 0) throw errors.TIMEOUT();
  const context = new CallContext(call, caller, {
    log,
    deadlineAt: deadlineOf(account, operation),
    identity: pipeline.identity,
  });
  const answered = traced(pipeline, context, operation, () =>
    handled(pipeline, context, call, input),
  );
  const answer = await telling(operation, () =>
    isAudited(operation, input) ? actions.around(call, context, input, answered) : answered(),
  );
  if (!answer.stream) return answer;
  return {
    ...answer,
    stream: bounded(answer.stream, {
      deadlines,
      account,
      onExpire: (early) => expire(context, early),
    }),
  };
}

function work(
  parts: PipelineParts,
  context: CallContext,
  call: Call,
  input: DecodedInput,
): Answer | Promise<Answer> {
  requireInput(context.caller, call.compiled.operation, input, parts.objects);
  const result = call.compiled.operation.handler(context, input);
  if (result instanceof Promise)
    return result.then(
      (value) => answerOf(call.compiled, value, context),
      refusalOf(context.caller),
    );
  return answerOf(call.compiled, result, context);
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

interface Running {
  readonly call: Call;
  readonly caller: Caller;
  readonly input: DecodedInput;
}

/** The account's end; an operation with a shorter time of its own keeps to that, a longer one prolongs nothing. */
function deadlineOf({ deadlineAt }: RequestAccount, { deadlineMs }: Operation): number {
  return deadlineMs === undefined
    ? deadlineAt
    : Math.min(deadlineAt, performance.now() + deadlineMs);
}

type Work = () => Answer | Promise<Answer>;

function traced(
  { tracing }: PipelineParts,
  { caller }: CallContext,
  { id }: Operation,
  work: Work,
): Work {
  return tracing
    ? () => tracing.span(id, { 'penstock.caller': caller.kind }, async () => work())
    : work;
}

/** Names the nodes that did not confirm what the call changed. It holds there too: they read from the database until they know. */
function telling(operation: Operation, work: Work): Answer | Promise<Answer> {
  const { surface, method } = operation;
  return surface === 'admin' && method !== 'GET' ? unconfirmedTold(work) : work();
}

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
