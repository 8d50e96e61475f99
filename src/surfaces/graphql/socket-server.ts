/**
 * Subscriptions over WebSockets: the protocol `graphql-transport-ws`, at the path of GraphQL on the client port. A
 * connection is a session: it is signed in by its first message, and closed when its session ends.
 */
import type { IncomingMessage } from 'node:http';
import type { GraphQLError } from 'graphql';
import { makeServer, type Server } from 'graphql-ws';
import type { WebSocket } from 'ws';
import type { Kernel } from '../../host/kernel.ts';
import type { PenstockError } from '../../kernel/errors.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import { type SocketBudgetsProvider, watchExpiry } from '../realtime/connection.ts';
import { asKnown, describeError } from '../realtime/errors.ts';
import { placesOf } from '../realtime/live/socket-watches.ts';
import type { StreamSessions } from '../realtime/live-stream.ts';
import {
  admitVisitor,
  openSession,
  presented,
  ticketOf,
  type VisitorGate,
} from '../realtime/session.ts';
import { redeemed } from '../realtime/tickets.ts';
import {
  formatted,
  type SubscribingSession,
  type SubscriptionParts,
  subscribed,
} from './socket-subscriptions.ts';

/** One WebSocket, as the protocol carries it along. */
interface Extra {
  readonly id: string;
  readonly request: IncomingMessage;
  readonly address: string;
  close(code: number, reason: string): void;
  readonly connected: () => boolean;
  signedIn?: SignedIn;
}

interface SignedIn extends SubscribingSession {
  /** Looks at the session again, at once and from now on. */
  renewed(): void;
  leave(): void;
}

type Params = Readonly<Record<string, unknown>> | undefined;

export interface SocketServerParts extends SubscriptionParts {
  readonly kernel: Pick<Kernel, 'bus' | 'identity' | 'limits' | 'tickets'>;
  readonly budgets: SocketBudgetsProvider;
  readonly visitorGate?: VisitorGate | undefined;
  readonly sessions: StreamSessions;
  /** Lists that each user listens to on this node. */
  readonly ofUsers: Map<string, number>;
}

/** Milliseconds in which a connection must have said who it is. */
const INIT_MS = 10_000;
/** What may be tried again with another token; clients of the protocol connect again by themselves after it. */
const FORBIDDEN = 4403;
const TOO_MANY = 4429;
const BAD_REQUEST = 4400;
const FAILED = 4500;

export interface GraphqlSocketServer {
  open(socket: WebSocket, from: { request: IncomingMessage; address: string; id: string }): void;
}

export function createGraphqlSocketServer(parts: SocketServerParts): GraphqlSocketServer {
  const { log } = parts;
  const server: Server<Extra> = makeServer<Params, Extra>({
    connectionInitWaitTimeout: INIT_MS,
    async onConnect({ connectionParams, extra }) {
      try {
        extra.signedIn = await signIn(parts, extra, connectionParams ?? {});
        return true;
      } catch (error) {
        refuse(extra, asKnown(error));
        return false;
      }
    },
    onSubscribe: ({ extra: { signedIn } }, _id, payload) => subscribed(parts, signedIn, payload),
    // It runs already: what `onSubscribe` answers carries it.
    subscribe: ({ contextValue }) => contextValue as never,
    onNext(...[, , , , { errors: found, ...result }]) {
      return found && { ...result, errors: formatted(parts, found) };
    },
    onError: (_context, _id, _payload, found) => formatted(parts, found as readonly GraphQLError[]),
    onClose: ({ extra }) => extra.signedIn?.leave(),
  });
  return {
    open(socket, from) {
      const extra: Extra = {
        ...from,
        close: (code, reason) => socket.close(code, reason),
        connected: () => socket.readyState === socket.OPEN,
      };
      const fail = (error: unknown): void => {
        // The library has no other word for a message that only servers send.
        const isUnexpected =
          error instanceof Error && error.message.startsWith('Unexpected message');
        if (!isUnexpected) log.error({ err: error }, 'A GraphQL connection failed');
        if (isUnexpected) socket.close(BAD_REQUEST, 'Invalid message received');
        else socket.close(FAILED, 'Internal server error');
      };
      const send = (text: string): Promise<void> =>
        new Promise((resolve, reject) => {
          if (socket.readyState !== socket.OPEN) resolve();
          else
            socket.send(text, (error) => (error && extra.connected() ? reject(error) : resolve()));
        });
      const closed = server.opened(
        {
          protocol: socket.protocol,
          send,
          close: (code, reason) => socket.close(code, reason),
          onMessage: (handle) =>
            socket.on('message', (data) => {
              handleMessage(parts, extra, () => handle(String(data))).catch(fail);
            }),
          onPing: async (payload) =>
            send(JSON.stringify({ type: 'pong', ...(await renewal(extra, payload)) })),
        },
        extra,
      );
      socket.once('close', (code, reason) => void closed(code, String(reason)).catch(fail));
    },
  };
}

/** Messages cost like those of any socket: who sends too many is not read any more. */
async function handleMessage(
  { kernel, budgets }: SocketServerParts,
  extra: Extra,
  handle: () => Promise<void>,
): Promise<void> {
  const { events } = budgets();
  const state = await kernel.limits.consume(events, extra.id);
  if (state.allowed) await handle();
  else extra.close(TOO_MANY, `Too many messages: at most ${events.requests} a second`);
}

/** Throws 401, 403 or 503. */
async function signIn(
  { kernel, requests, sessions, ofUsers, visitorGate }: SocketServerParts,
  extra: Extra,
  params: Readonly<Record<string, unknown>>,
): Promise<SignedIn> {
  const { address, request } = extra;
  await kernel.bus.freshness.catchUp();
  const account = requests.accounts.openFor('client', address);
  const authorization = params.authorization ?? params.Authorization;
  const from = { request, handshake: { auth: { ...params, authorization } } };
  const session = await onAccount(account, async () => {
    const given = await redeemed(kernel.tickets, presented(from, address), ticketOf(from));
    const opened = await openSession(kernel.identity, given, true);
    await admitVisitor(opened, visitorGate, from, address);
    return opened;
  }).finally(() => account.close());
  const recheck = async (): Promise<void> => {
    try {
      await session.anyCaller();
    } catch (error) {
      refuse(extra, asKnown(error));
    }
  };
  const forget = sessions.enter(session, recheck);
  const socket = {
    get connected() {
      return extra.connected();
    },
  };
  const expiry = watchExpiry(socket, session, recheck);
  expiry.watch();
  // It may have ended between the look at it and now, when nobody was listening for that; or the client may have gone.
  void recheck();
  const leave = (): void => {
    forget();
    expiry.stop();
  };
  if (!extra.connected()) leave();
  const places = placesOf(session.countsAs, ofUsers);
  return { session, places, address, renewed: expiry.watch, leave };
}

/** Why, in the 123 bytes that a reason may have. */
function refuse(extra: Extra, { status, code, message }: PenstockError): void {
  const reason = `${code}: ${message}`.slice(0, 120);
  extra.close(status < 500 ? FORBIDDEN : FAILED, /^[\x20-\x7e]*$/.test(reason) ? reason : code);
}

/** `ping` with a token goes on with it: the `pong` says whether. Any other payload comes back as it is. */
async function renewal(
  { signedIn }: Extra,
  payload: Params,
): Promise<{ readonly payload?: unknown }> {
  const token = payload?.token;
  if (typeof token !== 'string' || !signedIn) return payload === undefined ? {} : { payload };
  try {
    await signedIn.session.renew(token.replace(/^bearer /i, ''));
    signedIn.renewed();
    return { payload: { ok: true } };
  } catch (error) {
    return { payload: { ok: false, error: describeError(error) } };
  }
}
