/** One socket of the namespace `/database/`: its events, its subscriptions, its end. */
import Type, { type Static, type TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { LimitBucket } from '../../kernel/limits/limits.ts';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import { invalidInput, problemsOf, type ValidatorError } from '../../kernel/operations/problems.ts';
import type { CallGates } from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { withoutEnd } from '../../kernel/text.ts';
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
  /** Whether it is one of this namespace, in either spelling. */
  isIn(namespace: string): boolean;
  /** Sends an event to the user, whose session is looked at first. */
  tell(event: string, data: unknown): Promise<void>;
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

type Acknowledge = (answer: Reply) => void;

/** Tells the client what became of its message: in the acknowledgement, where it asked for one. */
async function respond(
  { socket, log }: ConnectionParts,
  event: string,
  reply: Promise<Reply>,
  acknowledge: Acknowledge | undefined,
): Promise<void> {
  const answer = await reply.then(
    (result) => ({ ok: true, ...result }),
    (error: unknown) => {
      if (asKnown(error).status === 500) log.error({ err: error, event }, 'A socket event failed');
      return { ok: false, error: describeError(error) };
    },
  );
  if (acknowledge) acknowledge(answer);
  else if ('error' in answer) socket.emit('conduit_error', answer.error);
}

/** Ends the connection when its session ends. `restart` after a change of the session. */
function watchExpiry(parts: ConnectionParts): { restart(): void; stop(): void } {
  const { socket, session } = parts;
  let expiry: NodeJS.Timeout | undefined;
  const restart = (): void => {
    clearTimeout(expiry);
    const endsIn = session.endsIn();
    if (endsIn === undefined || !socket.connected) return;
    expiry = setTimeout(
      () => void recheck(parts).then(restart),
      Math.min(Math.max(endsIn, leastTimer), longestTimer),
    );
    expiry.unref();
  };
  return { restart, stop: () => clearTimeout(expiry) };
}

export function createConnection(parts: ConnectionParts): Connection {
  const { socket, session, limits, accounts, gates } = parts;
  const subscriptions = createSubscriptions(parts, (error) => end(parts, error));
  const expiry = watchExpiry(parts);
  const handlers: ReadonlyMap<string, Handler> = new Map([
    ['subscribe', accepting(Subscribe, subscriptions.subscribe)],
    ['unsubscribe', accepting(Target, subscriptions.unsubscribe)],
    [
      'refreshAuth',
      accepting(RefreshAuth, async ({ token }) => {
        await session.renew(token);
        expiry.restart();
        return {};
      }),
    ],
  ]);

  const answer = async (event: string, input: unknown): Promise<Reply> => {
    const state = await limits.consume(eventBudget, socket.id);
    if (!state.allowed) throw tooMany(state.resetMs);
    const handler = handlers.get(event);
    if (!handler) throw realtimeErrors.EVENT_UNKNOWN();
    await parts.kernel.bus.freshness.catchUp();
    return gates.inTurn(
      { key: `user:${session.userId}`, heavy: event === 'subscribe', bytes: 0 },
      () => handler(input),
    );
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
    const acknowledge = typeof last === 'function' ? (last as Acknowledge) : undefined;
    const input = acknowledge === args[0] ? undefined : args[0];
    void respond(parts, event, answerOnAccount(event, input), acknowledge);
  });
  expiry.restart();

  return {
    userId: session.userId,
    isIn: (namespace) => withoutEnd(socket.nsp.name, '/') === withoutEnd(namespace, '/'),
    async tell(event, data) {
      try {
        await session.caller();
        if (!socket.connected) return;
        socket.emit(event, data);
        parts.onDelivered();
      } catch (error) {
        end(parts, error);
      }
    },
    recheck: () => recheck(parts),
    dispose() {
      expiry.stop();
      subscriptions.clear();
    },
  };
}

function end({ socket }: ConnectionParts, error: unknown): void {
  if (!socket.connected) return;
  socket.emit('conduit_error', describeError(error));
  // A client that was told to leave stays away; one that lost its transport connects again and resumes.
  if (asKnown(error).status < 500) socket.disconnect(true);
  else socket.conn.close();
}

async function recheck(parts: ConnectionParts): Promise<void> {
  const { session } = parts;
  try {
    await session.caller();
  } catch (error) {
    end(parts, error);
  }
}

/** A handler that gets its input validated. */
function accepting<S extends TSchema>(
  schema: S,
  handler: (input: Static<S>) => Promise<Reply>,
): Handler {
  const validator = Compile(schema);
  return async (input) => {
    if (validator.Check(input)) return handler(input);
    throw invalidInput(
      problemsOf(
        jsonSchema(schema),
        validator.Errors(input) as unknown as readonly ValidatorError[],
        'input',
      ),
    );
  };
}
