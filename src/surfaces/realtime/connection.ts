/** One socket of the namespace `/database/`: its events, its subscriptions, its end. */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { CallGates } from '../../kernel/account/call-gates.ts';
import { onAccount } from '../../kernel/account/request-account.ts';
import type { LimitBucket } from '../../kernel/limits/limits.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import { invalidInput, problemsOf, type ValidatorError } from '../../kernel/operations/problems.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { asKnown, describeError, realtimeErrors, tooMany } from './errors.ts';
import { createSubscriptions, Subscribe, type SubscriptionParts, Target } from './subscriptions.ts';

export interface ConnectionParts extends SubscriptionParts {
  readonly gates: CallGates;
  readonly log: Logger;
}

export interface Connection {
  readonly userId: string;
  /** Ends the connection if its session has ended. */
  recheck(): Promise<void>;
  /** Forgets its subscriptions and timers; called when the socket is gone. */
  dispose(): void;
}

/** Events that one socket may send. */
const eventBudget: LimitBucket = { name: 'realtime.events', requests: 50, seconds: 1 };
/** Milliseconds between two looks at a token that has ended by its own account but still passes. */
const leastTimer = 500;
/** `setTimeout` cannot wait longer; ms. */
const longestTimer = 2_147_483_647;

const RefreshAuth = Type.Object({ token: Type.String({ minLength: 1, maxLength: 8_192 }) });

/** What goes into the acknowledgement beside `ok`. */
type Reply = Readonly<Record<string, unknown>>;
type Handler = (input: unknown) => Promise<Reply>;

export function createConnection(parts: ConnectionParts): Connection {
  const { socket, session, limits, accounts, gates, log } = parts;
  const subscriptions = createSubscriptions(parts, (error) => end(error));
  let expiry: NodeJS.Timeout | undefined;

  const end = (error: unknown): void => {
    if (!socket.connected) return;
    socket.emit('conduit_error', describeError(error));
    // A client that was told to leave stays away; one that lost its transport connects again and resumes.
    if (asKnown(error).status < 500) socket.disconnect(true);
    else socket.conn.close();
  };
  const recheck = async (): Promise<void> => {
    try {
      await session.caller();
    } catch (error) {
      end(error);
    }
  };
  const watchExpiry = (): void => {
    clearTimeout(expiry);
    const endsIn = session.endsIn();
    if (endsIn === undefined || !socket.connected) return;
    expiry = setTimeout(() => void recheck().then(watchExpiry), Math.min(Math.max(endsIn, leastTimer), longestTimer));
    expiry.unref();
  };

  const handlers: ReadonlyMap<string, Handler> = new Map([
    ['subscribe', accepting(Subscribe, subscriptions.subscribe)],
    ['unsubscribe', accepting(Target, subscriptions.unsubscribe)],
    [
      'refreshAuth',
      accepting(RefreshAuth, async ({ token }) => {
        await session.renew(token);
        watchExpiry();
        return {};
      }),
    ],
  ]);

  const answer = async (event: string, input: unknown): Promise<Reply> => {
    const state = await limits.consume(eventBudget, socket.id);
    if (!state.allowed) throw tooMany(state.resetMs);
    const handler = handlers.get(event);
    if (!handler) throw realtimeErrors.UNKNOWN_EVENT();
    await parts.kernel.bus.freshness.settle();
    return gates.inTurn({ key: `user:${session.userId}`, heavy: event === 'subscribe', bytes: 0 }, () => handler(input));
  };
  /** Each message is a request of its own. */
  const answerOnAccount = async (event: string, input: unknown): Promise<Reply> => {
    const account = accounts.openFor('client');
    const reply = await onAccount(account, () => answer(event, input));
    account.close();
    return reply;
  };

  socket.onAny((event: string, ...args: unknown[]) => {
    const last = args.at(-1);
    const acknowledge = typeof last === 'function' ? last : undefined;
    answerOnAccount(event, acknowledge === args[0] ? undefined : args[0]).then(
      (result) => acknowledge?.({ ok: true, ...result }),
      (error: unknown) => {
        if (asKnown(error).status === 500) log.error({ err: error, event }, 'A socket event failed');
        if (acknowledge) acknowledge({ ok: false, error: describeError(error) });
        else socket.emit('conduit_error', describeError(error));
      },
    );
  });
  watchExpiry();

  return {
    userId: session.userId,
    recheck,
    dispose() {
      clearTimeout(expiry);
      subscriptions.clear();
    },
  };
}

/** A handler that gets its input validated. */
function accepting<S extends TSchema>(schema: S, handler: (input: Static<S>) => Promise<Reply>): Handler {
  const validator = Compile(schema);
  return async (input) => {
    if (validator.Check(input)) return handler(input);
    throw invalidInput(problemsOf(jsonSchema(schema), validator.Errors(input) as unknown as readonly ValidatorError[], 'input'));
  };
}
