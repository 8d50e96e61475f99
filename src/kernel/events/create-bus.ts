/** Makes the bus that fits: Redis when it is given, else PostgreSQL, and nothing at all for a single process. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import type { Database } from '../database/database.ts';
import type { Redis } from '../redis.ts';
import type { Logger } from '../telemetry/logger.ts';
import { createAnnouncements } from './announcements.ts';
import type { Announcement, Bus } from './bus.ts';
import { createLink } from './link.ts';
import { createLocalBus } from './local-bus.ts';
import { createNodeRegistry } from './nodes.ts';
import { createPostgresTransport } from './postgres-transport.ts';
import { createRedisTransport } from './redis-transport.ts';
import type { BusTransport } from './transport.ts';

export interface BusOptions {
  readonly database: Database;
  readonly redis: Redis | undefined;
  readonly log: Logger;
  /** Milliseconds between heartbeats; 5,000 unless set. A node without one for 15 s counts as gone. */
  readonly heartbeatMs?: number;
}

export interface NodeBus extends Bus {
  /** Leaves the registry of nodes, so that nobody waits for this one any more. */
  close(): Promise<void>;
}

type Handler = (payload: unknown) => void | Promise<void>;

/** What travels: a message of a topic, an acknowledgement, or a probe to oneself. */
interface Envelope {
  readonly from: string;
  readonly topic?: string;
  readonly payload?: unknown;
  /** On a message: please acknowledge under this id. On an acknowledgement: that id. */
  readonly ack?: string;
  readonly ok?: boolean;
}

/** Milliseconds that an announcement waits for other nodes. */
const announceTimeoutMs = 2_000;
const defaultHeartbeatMs = 5_000;
/** Named in `failed` when the registry of nodes could not be read. */
const unknownNodes = 'unknown';

/** Joins the bus; when it resolves, this node receives everything that is sent. Run the migrations before. */
export async function createBus(options: BusOptions): Promise<NodeBus> {
  const { database, redis } = options;
  const nodeId = randomBytes(8).toString('hex');
  if (redis === undefined && database.info().kind === 'embedded') return createLocalBus(nodeId);
  const transport = redis ? createRedisTransport(redis, nodeId) : createPostgresTransport(database, nodeId);
  return joinBus(nodeId, transport, options);
}

async function joinBus(nodeId: string, transport: BusTransport, options: BusOptions): Promise<NodeBus> {
  const { database, log, heartbeatMs = defaultHeartbeatMs } = options;
  const registry = createNodeRegistry(database, nodeId);
  const announcements = createAnnouncements();
  const handlers = new Map<string, Handler[]>();
  const gapListeners: (() => void)[] = [];
  // Bus work runs outside of whatever transaction the caller is in.
  const outside = AsyncLocalStorage.snapshot();
  const pack = (envelope: Omit<Envelope, 'from'>): string => JSON.stringify({ from: nodeId, ...envelope });

  const link = createLink({
    registry,
    log,
    heartbeatMs,
    probe: () => transport.send(nodeId, pack({})),
    onGap: () => {
      for (const listener of gapListeners) listener();
    },
  });

  const runHandlers = async (topic: string, payload: unknown): Promise<boolean> => {
    const results = await Promise.allSettled((handlers.get(topic) ?? []).map(async (handler) => handler(payload)));
    const failures = results.filter((result) => result.status === 'rejected');
    for (const { reason } of failures) log.error({ topic, err: reason }, 'A bus message could not be applied');
    return failures.length === 0;
  };

  const receive = async (text: string): Promise<void> => {
    const { from, topic, payload, ack, ok }: Envelope = JSON.parse(text);
    if (from === nodeId) return topic === undefined ? link.echoed() : undefined;
    announcements.alive(from);
    if (topic === undefined) return ack === undefined ? undefined : announcements.settle(ack, from, ok === true);
    const applied = await runHandlers(topic, payload);
    if (ack !== undefined) await transport.send(from, pack({ ack, ok: applied }));
  };

  const announce = async (topic: string, payload: unknown, timeoutMs: number): Promise<Announcement> => {
    const send = (ack: string): Promise<void> => transport.broadcast(pack({ topic, payload, ack }));
    const nodes = await registry.others().catch(() => undefined);
    if (nodes === undefined) {
      await send('0').catch(() => undefined);
      return { replicas: 1, failed: [unknownNodes] };
    }
    if (nodes.length === 0) return { replicas: 1, failed: [] };
    const result = await announcements
      .wait(nodes, timeoutMs, send)
      .catch((): Announcement => ({ replicas: 1, failed: nodes.map((node) => node.id) }));
    if (result.failed.length > 0) {
      log.warn({ topic, failed: result.failed }, 'Some nodes did not apply a message in time; they reload when they notice');
      await registry.markMissed(result.failed).catch(() => undefined);
    }
    return result;
  };

  await transport.start(
    (text) => {
      receive(text).catch((error: unknown) => log.error({ err: error }, 'A bus message could not be handled'));
    },
    (connected) => link.changed(connected),
  );
  await link.start();

  return {
    nodeId,
    async publish(topic, payload) {
      await outside(() => transport.broadcast(pack({ topic, payload })));
    },
    announce: (topic, payload, timeoutMs = announceTimeoutMs) => outside(() => announce(topic, payload, timeoutMs)),
    subscribe(topic, handler) {
      handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
    },
    connected: () => link.up(),
    onReconnect: (listener) => void gapListeners.push(listener),
    async close() {
      await link.stop();
      await transport.close();
    },
  };
}
