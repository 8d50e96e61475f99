/** Subscriptions of one connection: begun on an account of their own, within bounds, and told in the form of answers. */
import { randomUUID } from 'node:crypto';
import {
  type ExecutionArgs,
  GraphQLError,
  type GraphQLFormattedError,
  GraphQLSchema,
  parse,
  subscribe,
} from 'graphql';
import type { Kernel } from '../../host/kernel.ts';
import { errors } from '../../kernel/errors.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { asKnown, tooMany } from '../realtime/errors.ts';
import type { LiveEngine } from '../realtime/live/live-engine.ts';
import { type ListenerPlaces, watchBudget } from '../realtime/live/socket-watches.ts';
import type { Session } from '../realtime/session.ts';
import { chooseOperation } from './documents.ts';
import type { ServedGraphql } from './graphql-routes.ts';
import {
  documentErrors,
  type ErrorContext,
  fieldError,
  RefusedDocument,
  requestError,
} from './responses.ts';
import { chargeObjects } from './run-request.ts';
import type { SocketAudience } from './socket-audience.ts';
import { createSubscriber } from './subscriber.ts';

export interface SubscriptionParts {
  readonly kernel: Pick<Kernel, 'bus' | 'limits'>;
  readonly engine: LiveEngine;
  readonly graphql: ServedGraphql;
  readonly requests: Pick<Pipeline, 'accounts' | 'gates'>;
  readonly log: Logger;
  readonly audience: SocketAudience;
  /** Something went to a client. */
  readonly onDelivered: () => void;
}

/** Who subscribes. */
export interface SubscribingSession {
  readonly session: Session;
  readonly places: ListenerPlaces;
  readonly address: string;
}

export interface SubscribePayload {
  readonly query: string;
  readonly variables?: Readonly<Record<string, unknown>> | null | undefined;
  readonly operationName?: string | null | undefined;
}

/**
 * Starts the subscription; what it tells is the context of the arguments. A refusal is a stream that fails, which the
 * protocol answers as `error`.
 */
export async function subscribed(
  parts: SubscriptionParts,
  from: SubscribingSession | undefined,
  payload: SubscribePayload,
): Promise<ExecutionArgs> {
  try {
    if (!from) throw errors.UNAUTHORIZED();
    const begun = await subscribeOnAccount(parts, from, payload);
    return { ...begun.args, contextValue: begun.events };
  } catch (error) {
    const found = Array.isArray(error) ? error : [asGraphql(error)];
    const refused = new RefusedSubscription(formatted(parts, found as readonly GraphQLError[]));
    return { schema: noSchema, document: refusedDocument, contextValue: failing(refused) };
  }
}

/** The library looks at the kind of the operation, and at nothing else. */
const refusedDocument = parse('subscription { refused }');
const noSchema = new GraphQLSchema({});

/** Errors as the client gets them. */
class RefusedSubscription extends Error {
  readonly formatted: readonly GraphQLFormattedError[];

  constructor(found: readonly GraphQLFormattedError[]) {
    super(found[0]?.message);
    this.formatted = found;
  }
}

const failing = (error: Error): AsyncIterableIterator<unknown> => ({
  next: () => Promise.reject(error),
  [Symbol.asyncIterator]() {
    return this;
  },
});

async function subscribeOnAccount(
  parts: SubscriptionParts,
  { session, places, address }: SubscribingSession,
  payload: SubscribePayload,
) {
  const { kernel, requests } = parts;
  const state = await kernel.limits.consume(watchBudget, session.countsAs);
  if (!state.allowed) throw tooMany(state.resetMs);
  places.take();
  const account = requests.accounts.openFor('client', address);
  try {
    await kernel.bus.freshness.catchUp();
    const entrant = { key: session.countsAs, heavy: true, bytes: payload.query.length };
    const run = () => start(parts, session, payload);
    const { args, events } = await requests.gates.inTurn(entrant, () => onAccount(account, run));
    return { args, events: leaving(events, places.free) };
  } catch (error) {
    places.free();
    throw error;
  } finally {
    account.close();
  }
}

type Events = AsyncGenerator<unknown, void, void>;

/** Throws `RefusedDocument`, an error, or the errors of the field. */
async function start(
  { engine, audience, graphql, onDelivered }: SubscriptionParts,
  session: Session,
  { query, variables, operationName }: SubscribePayload,
): Promise<{ readonly args: ExecutionArgs; readonly events: Events }> {
  const { built, documents, options } = await (await graphql.engine()).state();
  const values = variables ?? {};
  const operation = chooseOperation(documents.prepare(query), operationName ?? undefined);
  if (operation.kind !== 'subscription')
    throw errors.INVALID_ARGUMENTS({
      message: 'Subscriptions alone go over a WebSocket: send queries and mutations with POST',
    });
  chargeObjects(operation, values, { objects: options.maxComplexity });
  const { types } = built;
  const context = createSubscriber({ session, engine, audience, types, onDelivered });
  const args = operation.args(context, values);
  const events = await subscribe(args);
  if (Symbol.asyncIterator in events) return { args, events: events as Events };
  throw events.errors ?? errors.INTERNAL_SERVER_ERROR();
}

/** The events, which give their place free when they have ended. */
function leaving(events: Events, free: () => void): AsyncIterableIterator<unknown> {
  let left = false;
  const leave = (): void => {
    if (!left) free();
    left = true;
  };
  return {
    async next() {
      try {
        const next = await events.next();
        if (next.done) leave();
        return next;
      } catch (error) {
        leave();
        throw error;
      }
    },
    async return() {
      leave();
      return events.return();
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

const asGraphql = (error: unknown): GraphQLError =>
  new GraphQLError('Refused', { originalError: error as Error });

/** As in the answers of POST. */
export function formatted(
  { log, graphql }: SubscriptionParts,
  found: readonly GraphQLError[],
): readonly GraphQLFormattedError[] {
  const context: ErrorContext = {
    requestId: randomUUID(),
    suggestions: graphql.options.current().introspection,
    onError: (error) => log.error({ err: error }, 'A subscription failed'),
  };
  return found.flatMap((error) => {
    const { originalError } = error;
    if (originalError instanceof RefusedSubscription) return originalError.formatted;
    if (originalError instanceof RefusedDocument) return documentErrors(originalError, context);
    // An error of the request as a whole stands nowhere in the answer.
    return error.path || !isKnown(originalError)
      ? [fieldError(error, context)]
      : [requestError(asKnown(originalError), context)];
  });
}

const isKnown = (error: unknown): boolean => asKnown(error) === error;
