/** The sockets of this node: whose they are, what they are told, and when they end. */
import type { Socket } from 'socket.io';
import type { Kernel } from '../../host/kernel.ts';
import type { PublishedEvent } from '../../kernel/events/events.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { createChangeHub, createLostRelations } from './changes.ts';
import {
  type Connection,
  type ConnectionParts,
  createConnection,
  type SocketBudgetsProvider,
} from './connection.ts';
import type { LiveEngine } from './live/live-engine.ts';
import type { SocketChannels } from './live/socket-watches.ts';
import type { ServedSocket } from './module-server.ts';
import { platformProtocol } from './protocol.ts';
import type { Session } from './session.ts';

export type RealtimeKernel = Pick<
  Kernel,
  | 'settings'
  | 'log'
  | 'metrics'
  | 'bus'
  | 'events'
  | 'signals'
  | 'sockets'
  | 'operatorNotices'
  | 'limits'
  | 'identity'
  | 'tickets'
  | 'schemas'
  | 'records'
  | 'operations'
>;

export type RequestBounds = Pick<Pipeline, 'accounts' | 'gates'>;

/** Milliseconds after an event about a user to look a second time: caches of this node may have been a moment behind. */
const secondLookMs = 1_000;

export interface Connections {
  open(socket: Socket, session: Session, served: ServedSocket | undefined): void;
  /** So many messages went to sockets. */
  delivered(count: number): void;
  recheckAll(): void;
  /** Sockets of users, and what they are subscribed to, at this moment. */
  counts(): { readonly sockets: number; readonly subscriptions: number };
  close(): void;
}

export interface Rechecks {
  recheck(userId: string): void;
  /** An event about a user may be the end of their sessions: whatever it was, look again. */
  recheckSubjects(event: PublishedEvent): void;
  stop(): void;
}

/** Looks again whether sessions of users still hold. */
export function createRechecks(
  byUser: ReadonlyMap<string, ReadonlySet<Pick<Connection, 'recheck'>>>,
): Rechecks {
  const seconds = new Set<NodeJS.Timeout>();
  const recheck = (userId: string): void => {
    for (const connection of byUser.get(userId) ?? []) void connection.recheck();
  };
  return {
    recheck,
    recheckSubjects({ ids = [] }) {
      for (const id of ids) {
        if (!byUser.has(id)) continue;
        recheck(id);
        const timer = setTimeout(() => {
          seconds.delete(timer);
          recheck(id);
        }, secondLookMs);
        seconds.add(timer);
      }
    },
    stop() {
      for (const timer of seconds) clearTimeout(timer);
    },
  };
}

/** Hands what users are told at once to their sockets. Answers how to stop. */
const passSignals = (
  { signals }: Pick<RealtimeKernel, 'signals'>,
  byUser: ReadonlyMap<string, ReadonlySet<Connection>>,
): (() => void) =>
  signals.subscribe(({ namespace, userIds, event, data }) => {
    for (const userId of userIds)
      for (const connection of byUser.get(userId) ?? [])
        if (connection.isIn(namespace)) void connection.tell(event, data);
  });

export interface ConnectionsParts extends RequestBounds {
  readonly budgets: SocketBudgetsProvider;
  readonly engine: LiveEngine;
  readonly channels: SocketChannels;
}

/** All sockets of this node. Follows the events only while there is one. */
export function createConnections(
  kernel: RealtimeKernel,
  { accounts, gates, budgets, engine, channels }: ConnectionsParts,
): Connections {
  const { events, limits, metrics } = kernel;
  const log = kernel.log.child({ surface: 'realtime' });
  const hub = createChangeHub(events);
  const lost = createLostRelations(events);
  kernel.schemas.onChange((changed) => hub.recheck(changed));
  const byUser = new Map<string, Set<Connection>>();
  const deliveries = metrics.counter('realtime_deliveries_total', 'Messages sent to sockets');
  const onDelivered = (): void => deliveries.inc();
  const { catchUp } = kernel.bus.freshness;
  const ofUsers = new Map<string, number>();
  const live = { engine, channels, ofUsers, events, hub, lost, onDelivered, onSlow: engine.slow };
  const shared = { kernel, limits, budgets, accounts, gates, log, catchUp, ...live };
  let count = 0;
  let unfollow: (() => void) | undefined;
  const onReceived = measure(metrics, { sockets: () => count, subscriptions: hub.count });
  const unhear = passSignals(kernel, byUser);
  const { recheck, recheckSubjects, stop } = createRechecks(byUser);
  const follow = (): (() => void) =>
    events.subscribe('*', (event) => {
      recheckSubjects(event);
      return hub.deliver(event);
    });

  const forget = (connection: Connection): void => {
    connection.dispose();
    const connections = byUser.get(connection.userId);
    connections?.delete(connection);
    if (connections?.size === 0) byUser.delete(connection.userId);
    count -= 1;
    if (count > 0) return;
    unfollow?.();
    unfollow = undefined;
  };

  return {
    delivered: (count) => deliveries.inc({}, count),
    open(socket, session, served) {
      unfollow ??= follow();
      count += 1;
      const protocol: ConnectionParts['protocol'] = (end) =>
        served?.protocol ?? platformProtocol({ ...shared, socket, session }, end);
      const connection = createConnection({ ...shared, onReceived, socket, session, protocol });
      byUser.set(session.userId, (byUser.get(session.userId) ?? new Set()).add(connection));
      socket.on('disconnect', () => forget(connection));
      served?.connected();
      // The session may have ended between the handshake and now, when nobody was listening for it.
      void connection.recheck();
    },
    counts: () => ({ sockets: count, subscriptions: hub.count() }),
    recheckAll() {
      for (const userId of byUser.keys()) recheck(userId);
    },
    close() {
      unhear();
      stop();
      unfollow?.();
    },
  };
}

/** Events that clients have sent, by namespace: their names are the clients' own. */
function countReceived(metrics: RealtimeKernel['metrics']): ConnectionParts['onReceived'] {
  const events = metrics.counter(
    'realtime_events_total',
    'Events that clients have sent over sockets',
    ['namespace', 'outcome'],
  );
  return (namespace, outcome) => events.inc({ namespace, outcome });
}

const measure = (
  metrics: RealtimeKernel['metrics'],
  counts: { readonly sockets: () => number; readonly subscriptions: () => number },
): ConnectionParts['onReceived'] => {
  metrics.gauge('realtime_sockets', 'Connected sockets', counts.sockets);
  metrics.gauge(
    'realtime_subscriptions',
    'What sockets of this node are subscribed to',
    counts.subscriptions,
  );
  return countReceived(metrics);
};
