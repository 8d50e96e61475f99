/** One socket: its events, its session, its end. What the events do is its protocol's business. */
import type { Socket } from 'socket.io';
import type { LimitBucket, Limits } from '../../kernel/limits/limits.ts';
import type { Accounts, CallGates } from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { withoutEnd } from '../../kernel/text.ts';
import { asKnown, describeError, realtimeErrors, tooMany } from './errors.ts';
import {
  accepting,
  checker,
  type EventHandler,
  type Protocol,
  RefreshAuth,
  type Reply,
} from './protocol.ts';
import type { Session } from './session.ts';
import { isTooSlow, maxWaitingAnswers } from './subscriptions.ts';

/** Whose socket it is; `anyCaller` throws when they may not go on. */
type ConnectionSession = Pick<Session, 'userId' | 'countsAs' | 'renew' | 'endsIn'> & {
  anyCaller(): unknown;
};

export interface ConnectionParts {
  readonly socket: Socket;
  readonly session: ConnectionSession;
  /** What this node remembers is current once this has settled. */
  readonly catchUp: () => Promise<void> | undefined;
  readonly limits: Limits;
  readonly budgets: SocketBudgetsProvider;
  readonly accounts: Accounts;
  readonly gates: CallGates;
  readonly log: Logger;
  readonly onDelivered: () => void;
  /** An event of a client was answered. */
  readonly onReceived: (namespace: string, outcome: 'ok' | 'refused') => void;
  /** The socket was closed, because it does not read what it is told. */
  readonly onSlow: () => void;
  /** `end` closes the socket with an error, as when its session is over. */
  readonly protocol: (end: (error: unknown) => void) => Protocol;
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

/** What operators set about sockets. */
export interface SocketLimits {
  /** Events that one socket may send. */
  readonly eventsPerSecond: number;
  /** New connections of one address, each with its namespaces. */
  readonly connectionsPer10s: number;
}

export interface SocketBudgets {
  readonly events: LimitBucket;
  /** Namespaces that the connections of one address enter. */
  readonly connect: LimitBucket;
  /** New transports of one address: each takes memory before anybody says who it is. */
  readonly handshake: LimitBucket;
}

/** Read for each event and connection, so that a change holds at once. */
export type SocketBudgetsProvider = () => SocketBudgets;

/**
 * Namespaces that one client enters over its connection (lists, channels, chat, functions). Who is refused a connection
 * comes back by itself; who is refused at a namespace never does, as Socket.IO takes that for final.
 */
const namespacesPerConnection = 8;

export const socketBudgets = ({
  eventsPerSecond,
  connectionsPer10s: requests,
}: SocketLimits): SocketBudgets => ({
  events: { name: 'realtime.events', requests: eventsPerSecond, seconds: 1 },
  connect: {
    name: 'realtime.connect',
    requests: requests * namespacesPerConnection,
    seconds: 10,
  },
  handshake: { name: 'realtime.handshake', requests, seconds: 10 },
});

const usual = socketBudgets({ eventsPerSecond: 50, connectionsPer10s: 200 });
/** Where no operator sets anything. */
export const usualSocketBudgets: SocketBudgetsProvider = () => usual;

/** Milliseconds between two looks at a token that has ended by its own account but still passes. */
const minTimer = 500;
/** `setTimeout` cannot wait longer; ms. */
const longestTimer = 2_147_483_647;

const refreshOf = checker(RefreshAuth);

type Acknowledge = (answer: Reply) => void;

interface Told {
  readonly event: string;
  readonly args: readonly unknown[];
  readonly acknowledge: Acknowledge | undefined;
}

/** Tells the client what became of its message: in the acknowledgement, where it asked for one. */
async function respond(
  { socket, log }: ConnectionParts,
  { errorEvent, alwaysTells }: Protocol,
  reply: Promise<Reply>,
  { event, args, acknowledge }: Told,
): Promise<void> {
  const answer = await reply.then(
    (result) => ({ ok: true, ...result }),
    (error: unknown) => {
      if (asKnown(error).status === 500) log.error({ err: error, event }, 'A socket event failed');
      return { ok: false, error: describeError(error) };
    },
  );
  acknowledge?.(answer);
  if (!('error' in answer) || (acknowledge && !alwaysTells)) return;
  socket.emit(
    errorEvent,
    alwaysTells ? { ...answer.error, event, ...nonceOf(args) } : answer.error,
  );
}

/** The client's own mark on what it sent, so that it knows what failed. */
function nonceOf(args: readonly unknown[]): { readonly nonce?: string } {
  for (const arg of args) {
    const nonce = (arg as { readonly nonce?: unknown } | null | undefined)?.nonce;
    if (typeof nonce === 'string' && nonce.length <= 256) return { nonce };
  }
  return {};
}

export function createConnection(parts: ConnectionParts): Connection {
  const { socket, session } = parts;
  let errorEvent = 'conduit_error';
  const end = (error: unknown): void => close(socket, errorEvent, error);
  const protocol = parts.protocol(end);
  errorEvent = protocol.errorEvent;
  const recheck = async (): Promise<void> => {
    try {
      await session.anyCaller();
    } catch (error) {
      end(error);
    }
  };
  const expiry = watchExpiry(socket, session, recheck);
  const renew: EventHandler = {
    heavy: false,
    handle: accepting(refreshOf, async ({ token }) => {
      await session.renew(token);
      expiry.watch();
      return {};
    }),
  };
  const handlers = new Map([
    ...protocol.handlers,
    ['refreshAuth', renew] as const,
    ['authenticate', renew] as const,
  ]);

  socket.onAny((event: string, ...args: unknown[]) => {
    const last = args.at(-1);
    const acknowledge = typeof last === 'function' ? (last as Acknowledge) : undefined;
    const given = acknowledge ? args.slice(0, -1) : args;
    // Who does not read the answers gets no more of them.
    if (isTooSlow(socket, maxWaitingAnswers)) {
      parts.onSlow();
      end(realtimeErrors.CONSUMER_TOO_SLOW());
      return;
    }
    const reply = answerOnAccount(parts, handlers.get(event), given);
    void respond(parts, protocol, reply, { event, args: given, acknowledge });
  });
  expiry.watch();

  return {
    userId: session.userId,
    isIn: (namespace) => withoutEnd(socket.nsp.name, '/') === withoutEnd(namespace, '/'),
    async tell(event, data) {
      try {
        await session.anyCaller();
        if (!socket.connected) return;
        socket.emit(event, data);
        parts.onDelivered();
      } catch (error) {
        end(error);
      }
    },
    recheck,
    dispose() {
      expiry.stop();
      protocol.clear();
    },
  };
}

/** Each message is a request of its own. */
async function answerOnAccount(
  parts: ConnectionParts,
  handler: EventHandler | undefined,
  args: readonly unknown[],
): Promise<Reply> {
  const account = parts.accounts.openFor('client');
  const { name } = parts.socket.nsp;
  try {
    const reply = await onAccount(account, () => answer(parts, handler, args));
    account.close();
    parts.onReceived(name, 'ok');
    return reply;
  } catch (error) {
    parts.onReceived(name, 'refused');
    throw error;
  }
}

async function answer(
  { socket, session, limits, budgets, gates, catchUp }: ConnectionParts,
  handler: EventHandler | undefined,
  args: readonly unknown[],
): Promise<Reply> {
  const state = await limits.consume(budgets().events, socket.id);
  if (!state.allowed) throw tooMany(state.resetMs);
  if (!handler) throw realtimeErrors.EVENT_UNKNOWN();
  await catchUp();
  return gates.inTurn({ key: session.countsAs, heavy: handler.heavy, bytes: 0 }, () =>
    handler.handle(args),
  );
}

/** Looks at the session again when its token says that it ends. */
export function watchExpiry(
  socket: Pick<Socket, 'connected'>,
  session: Pick<Session, 'endsIn'>,
  recheck: () => Promise<void>,
) {
  let timer: NodeJS.Timeout | undefined;
  const watch = (): void => {
    clearTimeout(timer);
    const endsIn = session.endsIn();
    if (endsIn === undefined || !socket.connected) return;
    timer = setTimeout(
      () => void recheck().then(watch),
      Math.min(Math.max(endsIn, minTimer), longestTimer),
    );
    timer.unref();
  };
  return { watch, stop: () => clearTimeout(timer) };
}

/** Closes a socket, and says why. */
export function close(socket: Socket, errorEvent: string, error: unknown): void {
  if (!socket.connected) return;
  socket.emit(errorEvent, describeError(error));
  // A client that was told to leave stays away; one that lost its transport connects again and resumes.
  if (asKnown(error).status < 500) socket.disconnect(true);
  else socket.conn.close();
}
