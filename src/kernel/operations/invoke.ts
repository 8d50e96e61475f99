/**
 * The way of a call through the kernel, the same for every transport:
 *
 * 1. `admit`: credential -> caller, then the limits that need no body;
 * 2. the transport reads and decodes the input (`CompiledOperation.decode`);
 * 3. `run`: limit per account, idempotency, handler under a deadline, answer.
 *
 * Steps answer without a promise where nothing has to be waited for; the common
 * request with a cached credential and a limit in memory waits for its handler
 * alone.
 */
import { type ActionLog, isAudited } from '../audit/admin-actions.ts';
import { anonymous, type Caller, callerKey } from '../caller.ts';
import { errors } from '../errors.ts';
import { type Idempotency, takesIdempotencyKey } from '../idempotency/idempotency.ts';
import type { Identity } from '../identity.ts';
import type { DecodedInput, Operation } from '../operation.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Tracing } from '../telemetry/tracing/tracing.ts';
import { authenticate, requireMayReveal, requireRights } from './admission.ts';
import { type Answer, type AnswerStream, answerOf } from './answer.ts';
import { admitApp, requireOwnToken } from './app-admission.ts';
import { type Call, CallContext } from './context.ts';
import { createDeadlines, type Deadlines } from './deadline.ts';
import { addressKey, type OperationLimiter } from './limits.ts';

/** Milliseconds that a handler has. */
export const HANDLER_DEADLINE_MS = 30_000;

export interface PipelineParts {
  readonly identity: Identity;
  readonly limiter: OperationLimiter;
  readonly idempotency: Idempotency;
  readonly actions: ActionLog;
  readonly log: Logger;
  readonly tracing?: Tracing | undefined;
  readonly deadlineMs?: number;
}

/** How a call is admitted that shares its request with others (GraphQL). */
export interface SharedRequest {
  /** Remembers what the credential of the request was worth. */
  readonly identity: Identity;
  /** The request paid the standard budget for this call. */
  readonly prepaid: boolean;
}

export interface Pipeline {
  readonly limiter: OperationLimiter;
  /** Throws 401, 403, 429 or 503. */
  admit(call: Call, shared?: SharedRequest): Caller | Promise<Caller>;
  /** Throws what the handler throws, 429, 409 (Idempotency-Key), 504. */
  run(call: Call, caller: Caller, input: DecodedInput): Promise<Answer>;
  close(): void;
}

export function createPipeline(parts: PipelineParts): Pipeline {
  const { identity, limiter, idempotency } = parts;
  const deadlines = createDeadlines(parts.deadlineMs ?? HANDLER_DEADLINE_MS);
  const ownDeadlines = new Map<number, Deadlines>();

  const deadlinesOf = ({ deadlineMs }: Operation): Deadlines => {
    if (deadlineMs === undefined) return deadlines;
    const known = ownDeadlines.get(deadlineMs) ?? createDeadlines(deadlineMs);
    ownDeadlines.set(deadlineMs, known);
    return known;
  };

  const permitted = (call: Call, caller: Caller, prepaid = false): Caller | Promise<Caller> => {
    try {
      requireRights(caller, call.compiled.operation);
    } catch (error) {
      return refused(call, error, caller);
    }
    const done = limiter.admit(call.compiled.operation, caller, call.address, prepaid);
    return done instanceof Promise ? done.then(() => caller) : caller;
  };

  /** A refused credential costs the address, so that guessing is limited too. */
  const refused = async (call: Call, error: unknown, caller: Caller = anonymous): Promise<never> => {
    await limiter.admitAddress(call.address);
    await parts.actions.refused(call, caller, error);
    throw error;
  };

  const work = (context: CallContext, call: Call, input: DecodedInput): Answer | Promise<Answer> => {
    requireMayReveal(context.caller, call.compiled.operation, input);
    const result = call.compiled.operation.handler(context, input);
    if (result instanceof Promise) return result.then((value) => answerOf(call.compiled, value, context));
    return answerOf(call.compiled, result, context);
  };

  const remembered = (context: CallContext, call: Call, input: DecodedInput): Promise<Answer> => {
    const { operation } = call.compiled;
    const principal = context.caller.kind === 'anonymous' ? `address:${addressKey(call.address)}` : callerKey(context.caller);
    const request = { principal, operation: operation.id, key: call.idempotencyKey ?? '', input };
    return idempotency.once(request, async () => {
      // The caller may have been told that it took too long while this waited for an equal call.
      if (context.expired) throw errors.TIMEOUT();
      const answer = work(context, call, input);
      // Guarded here as well, so that the transaction ends and frees its connection and the key.
      return answer instanceof Promise ? deadlinesOf(operation).guard(answer, () => expire(context)) : answer;
    });
  };

  /** The handler's answer, or 504 when the deadline passes before it. */
  const handled = (context: CallContext, call: Call, input: DecodedInput): Answer | Promise<Answer> => {
    const result = keepsKey(call) ? remembered(context, call, input) : work(context, call, input);
    if (!(result instanceof Promise)) return result;
    return deadlinesOf(call.compiled.operation).guard(result, () => expire(context));
  };

  return {
    limiter,
    admit(call, shared) {
      let caller: Caller | Promise<Caller>;
      try {
        caller = knownCaller(shared?.identity ?? identity, call);
      } catch (error) {
        return refused(call, error);
      }
      if (!(caller instanceof Promise)) return permitted(call, caller, shared?.prepaid);
      return caller.then(
        (known) => permitted(call, known, shared?.prepaid),
        (error: unknown) => refused(call, error),
      );
    },
    async run(call, caller, input) {
      const { operation } = call.compiled;
      const account = limiter.admitAccount(operation, input.body, call.address);
      if (account instanceof Promise) await account;
      const context = new CallContext(call, caller, parts.log);
      const { tracing } = parts;
      const answered = tracing
        ? () => tracing.span(operation.id, { 'penstock.caller': caller.kind }, async () => handled(context, call, input))
        : () => handled(context, call, input);
      const answer = await (isAudited(operation, input) ? parts.actions.around(call, context, input, answered) : answered());
      return answer.stream ? { ...answer, stream: bounded(answer.stream, deadlinesOf(operation), () => expire(context)) } : answer;
    },
    close() {
      for (const each of [deadlines, ...ownDeadlines.values()]) each.close();
    },
  };
}

/** A body that is made while it is sent gets the same time once more, from when its sending begins. */
function bounded({ chunks, signal }: AnswerStream, limits: Deadlines, onExpire: () => Error): AnswerStream {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  async function* sent(): AsyncGenerator<Uint8Array | string> {
    // Whoever sends hears of the end of time through the signal.
    limits.guard(ended, onExpire).catch(() => undefined);
    try {
      yield* chunks;
    } finally {
      resolve();
    }
  }
  return { chunks: sent(), signal };
}

/** First the app, then who is signed in with it. Throws 401, 403 or 503. */
function knownCaller(identity: Identity, call: Call): Caller | Promise<Caller> {
  const app = admitApp(identity, call);
  return app instanceof Promise ? app.then(() => callerOfApp(identity, call)) : callerOfApp(identity, call);
}

function callerOfApp(identity: Identity, call: Call): Caller | Promise<Caller> {
  const caller = authenticate(identity, call);
  if (caller instanceof Promise) return caller.then((known) => ofThisApp(known, call));
  return ofThisApp(caller, call);
}

function ofThisApp(caller: Caller, call: Call): Caller {
  requireOwnToken(caller, call);
  return caller;
}

function expire(context: CallContext): Error {
  const timeout = errors.TIMEOUT();
  context.expire(timeout);
  return timeout;
}

/** Whether a key on this call is honoured. Answers that are credentials are never stored. */
function keepsKey({ idempotencyKey, compiled: { operation } }: Call): boolean {
  return idempotencyKey !== undefined && takesIdempotencyKey(operation);
}
