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
import { type Caller, callerKey } from '../caller.ts';
import { errors } from '../errors.ts';
import { type Idempotency, takesIdempotencyKey } from '../idempotency/idempotency.ts';
import type { Identity } from '../identity.ts';
import type { DecodedInput } from '../operation.ts';
import type { Logger } from '../telemetry/logger.ts';
import { authenticate } from './admission.ts';
import { type Answer, answerOf } from './answer.ts';
import { type Call, CallContext } from './context.ts';
import { createDeadlines } from './deadline.ts';
import { addressKey, type OperationLimiter } from './limits.ts';

/** Milliseconds that a handler has. */
export const HANDLER_DEADLINE_MS = 30_000;

export interface PipelineParts {
  readonly identity: Identity;
  readonly limiter: OperationLimiter;
  readonly idempotency: Idempotency;
  readonly log: Logger;
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

  const limited = (call: Call, caller: Caller, prepaid = false): Caller | Promise<Caller> => {
    const done = limiter.admit(call.compiled.operation, caller, call.address, prepaid);
    return done instanceof Promise ? done.then(() => caller) : caller;
  };

  /** A refused credential costs the address, so that guessing is limited too. */
  const refused = async (call: Call, error: unknown): Promise<never> => {
    await limiter.admitAddress(call.address);
    throw error;
  };

  const work = (context: CallContext, call: Call, input: DecodedInput): Answer | Promise<Answer> => {
    const result = call.compiled.operation.handler(context, input);
    if (result instanceof Promise) return result.then((value) => answerOf(call.compiled, value));
    return answerOf(call.compiled, result);
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
      return answer instanceof Promise ? deadlines.guard(answer, () => expire(context)) : answer;
    });
  };

  return {
    limiter,
    admit(call, shared) {
      let caller: Caller | Promise<Caller>;
      try {
        caller = authenticate(shared?.identity ?? identity, call);
      } catch (error) {
        return refused(call, error);
      }
      if (!(caller instanceof Promise)) return limited(call, caller, shared?.prepaid);
      return caller.then(
        (known) => limited(call, known, shared?.prepaid),
        (error: unknown) => refused(call, error),
      );
    },
    async run(call, caller, input) {
      const { operation } = call.compiled;
      const account = limiter.admitAccount(operation, input.body, call.address);
      if (account instanceof Promise) await account;
      const context = new CallContext(call, caller, parts.log);
      const result = keepsKey(call) ? remembered(context, call, input) : work(context, call, input);
      if (!(result instanceof Promise)) return result;
      return deadlines.guard(result, () => expire(context));
    },
    close: () => deadlines.close(),
  };
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
