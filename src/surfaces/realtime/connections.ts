/** The sockets of this node: whose they are, what they are told, and when they end. */
import type { Socket } from 'socket.io';
import type { Kernel } from '../../host/kernel.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { type ChangeHub, createChangeHub } from './changes.ts';
import {
  type Connection,
  type ConnectionParts,
  createConnection,
  type SocketBudgetsProvider,
} from './connection.ts';
import { createGoneRecords } from './gone-records.ts';
import type { LiveEngine } from './live/live-engine.ts';
import type { SocketChannels } from './live/socket-watches.ts';
import type { ServedSocket } from './module-server.ts';
import { platformProtocol } from './protocol.ts';
import { createRechecks, type Rechecks } from './rechecks.ts';
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
  | 'permissions'
  | 'operations'
>;

export type RequestBounds = Pick<Pipeline, 'accounts' | 'gates'>;

export interface Connections {
  open(socket: Socket, session: Session, served: ServedSocket | undefined): void;
  /** So many messages went to sockets. */
  delivered(count: number): void;
  recheckAll(): void;
  /** Sockets of users, and what they are subscribed to, at this moment. */
  counts(): { readonly sockets: number; readonly subscriptions: number };
  close(): void;
}

/** Hands what users are told at once to their sockets. Answers how to stop. */
const passSignals = (
  { signals }: Pick<RealtimeKernel, 'signals'>,
  { ofUser }: Pick<Rechecks<Connection>, 'ofUser'>,
): (() => void) =>
  signals.subscribe({
    hears: (namespace, userId) => [...ofUser(userId)].some((one) => one.isIn(namespace)),
    tell({ namespace, userIds, event, data }) {
      for (const userId of userIds)
        for (const connection of ofUser(userId))
          if (connection.isIn(namespace)) void connection.tell(event, data);
    },
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
  const gone = createGoneRecords(events);
  kernel.schemas.onChange((changed) => hub.recheck(changed));
  const rechecks = createRechecks<Connection>();
  const deliveries = metrics.counter('realtime_deliveries_total', 'Messages sent to sockets');
  const onDelivered = (): void => deliveries.inc();
  const { catchUp } = kernel.bus.freshness;
  const ofUsers = new Map<string, number>();
  const live = { engine, channels, ofUsers, events, hub, gone, onDelivered, onSlow: engine.slow };
  const shared = { kernel, limits, budgets, accounts, gates, log, catchUp, ...live };
  let count = 0;
  let unfollow: (() => void) | undefined;
  const onReceived = measure(metrics, { sockets: () => count, subscriptions: hub.count });
  const unhear = passSignals(kernel, rechecks);
  const unheed = kernel.identity.ends.subscribe(rechecks.recheckEnded);
  const forget = (connection: Connection): void => {
    connection.dispose();
    count -= 1;
    if (count > 0) return;
    unfollow?.();
    unfollow = undefined;
  };

  return {
    delivered: (count) => deliveries.inc({}, count),
    open(socket, session, served) {
      unfollow ??= follow(events, rechecks, hub);
      count += 1;
      const protocol: ConnectionParts['protocol'] = (end) =>
        served?.protocol ?? platformProtocol({ ...shared, socket, session }, end);
      const connection = createConnection({ ...shared, onReceived, socket, session, protocol });
      const leave = rechecks.enter(session, connection);
      socket.on('disconnect', () => {
        leave();
        forget(connection);
      });
      // The session may have ended between the handshake and now, when nobody was listening for it: then it hears nothing.
      void connection.recheck().then(() => {
        if (socket.connected) served?.connected();
      });
    },
    counts: () => ({ sockets: count, subscriptions: hub.count() }),
    recheckAll: rechecks.recheckAll,
    close() {
      unhear();
      unheed();
      rechecks.stop();
      unfollow?.();
    },
  };
}

/** Answers how to stop. */
const follow = (
  events: RealtimeKernel['events'],
  rechecks: Rechecks<Connection>,
  hub: ChangeHub,
): (() => void) =>
  events.subscribe(
    '*',
    (event) => {
      rechecks.recheckSubjects(event);
      return hub.deliver(event);
    },
    () => {
      rechecks.recheckAll();
      hub.missed();
    },
  );

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
