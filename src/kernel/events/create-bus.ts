/** Makes the bus that fits: Redis when it is given, else PostgreSQL, and nothing at all for a single process. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import { alwaysFresh, unconfirmedReport } from '../freshness/freshness.ts';
import { createVersions } from '../freshness/versions.ts';
import type { Redis } from '../redis.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Announcement, Bus } from './bus.ts';
import {
  type ClockReading,
  clockNow,
  createNodeRegistry,
  Link,
  leaseMs,
  type NodeRegistry,
} from './link.ts';
import { type BusTransport, createPostgresTransport, createRedisTransport } from './transport.ts';

/* Announcements that wait for their acknowledgements. */

interface Announcements {
  /** Starts to wait, at most `timeoutMs`; `send` puts the message with this id on its way. Answers who did not confirm it. */
  wait(
    nodes: readonly string[],
    timeoutMs: number,
    send: (id: string) => void,
  ): Promise<readonly string[]>;
  /** A node has run its handlers. */
  acknowledge(id: string, node: string, ok: boolean): void;
}

interface Waiting {
  readonly missing: Set<string>;
  readonly failed: string[];
  readonly done: () => void;
}

function createAnnouncements(): Announcements {
  const waiting = new Map<string, Waiting>();
  let count = 0;

  return {
    async wait(nodes, timeoutMs, send) {
      const id = String(++count);
      const { promise, resolve } = Promise.withResolvers<void>();
      const entry: Waiting = { missing: new Set(nodes), failed: [], done: resolve };
      waiting.set(id, entry);
      const timer = setTimeout(resolve, timeoutMs);
      send(id);
      if (entry.missing.size > 0) await promise;
      clearTimeout(timer);
      waiting.delete(id);
      return [...entry.failed, ...entry.missing];
    },
    acknowledge(id, node, ok) {
      const entry = waiting.get(id);
      if (!entry?.missing.delete(node)) return;
      if (!ok) entry.failed.push(node);
      if (entry.missing.size === 0) entry.done();
    },
  };
}

interface BusOptions {
  readonly database: Database;
  readonly redis: Redis | undefined;
  readonly log: Logger;
  /** Processes of this installation on this machine; 1 unless set. More of them share the embedded server. */
  readonly workers?: number;
  /** Milliseconds between heartbeats; 250 unless set. */
  readonly heartbeatMs?: number;
}

export interface NodeBus extends Bus {
  /** Leaves the registry of nodes, so that nobody waits for this one any more. */
  close(): Promise<void>;
}

type Handler = (payload: unknown) => void | Promise<void>;

/** What travels: a message of a topic, an acknowledgement, or a probe to oneself. */
interface BusMessage {
  readonly from: string;
  readonly topic?: string;
  readonly payload?: unknown;
  /** On a message: please acknowledge under this id. On an acknowledgement: that id. */
  readonly ack?: string;
  readonly ok?: boolean;
  /** On a probe: when it was sent. */
  readonly sent?: ClockReading;
}

/** Milliseconds that an announcement waits for acknowledgements; after that it waits for the ends of leases. */
const acknowledgeMs = 250;
/** What clocks of two machines may differ by in the rate of a second, and more. Milliseconds. */
const leaseMarginMs = 50;
const defaultHeartbeatMs = 250;
/** Topic: forget what is kept without a version. */
const GAP = 'bus.gap';
/** Named in `failed` when the registry of nodes could not be read. */
const unknownNodes = 'unknown';

/** Joins the bus; when it resolves, this node receives everything that is sent. Run the migrations before. */
export async function createBus(options: BusOptions): Promise<NodeBus> {
  const { database, redis, workers = 1 } = options;
  const nodeId = randomBytes(8).toString('hex');
  if (redis === undefined && workers === 1 && database.info().kind === 'embedded')
    return createLocalBus(nodeId);
  const transport = redis
    ? createRedisTransport(redis, nodeId)
    : createPostgresTransport(database, nodeId);
  return joinBus(nodeId, transport, options);
}

async function joinBus(
  nodeId: string,
  transport: BusTransport,
  options: BusOptions,
): Promise<NodeBus> {
  const { database, log, heartbeatMs = defaultHeartbeatMs } = options;
  const registry = createNodeRegistry(database, nodeId);
  const announcements = createAnnouncements();
  const handlers = new Map<string, readonly Handler[]>();
  // Bus work runs outside of whatever transaction the caller is in.
  const outside = AsyncLocalStorage.snapshot();
  const pack: Pack = (message) => JSON.stringify({ from: nodeId, ...message });
  const gaps = createGaps(handlers, () => transport.broadcast(pack({ topic: GAP, payload: {} })));

  const link = new Link({
    registry,
    log,
    heartbeatMs,
    probe: (sent) => transport.send(nodeId, pack({ sent })),
    onGap: gaps.forget,
    onBuried: gaps.forgetEverywhere,
  });
  const receive = createReceiver({ nodeId, link, announcements, handlers, transport, pack, log });
  const announce = createAnnouncer({ registry, announcements, log }, (topic, payload, ack) => {
    // A transport that hangs must not hold up the caller: whether it arrived is known by the acknowledgement.
    transport.broadcast(pack({ topic, payload, ack })).catch(() => undefined);
  });

  const onError = (err: unknown): void => log.error({ err }, 'A bus message could not be handled');
  await transport.start(
    (text) => void receive(text).catch(onError),
    (connected) => link.changed(connected),
  );
  const registered = clockNow();
  const first = await registry.beat(true);
  const versions = createVersions(database, first, log);
  link.start(versions, registered);
  if (first.buried > 0) gaps.forgetEverywhere();

  return {
    nodeId,
    async publish(topic, payload) {
      await outside(() => transport.broadcast(pack({ topic, payload })));
    },
    async announce(topic, payload, timeoutMs = acknowledgeMs) {
      const report = unconfirmedReport();
      const announcement = await outside(() => announce(topic, payload, timeoutMs));
      report(announcement.failed);
      return announcement;
    },
    subscribe: (topic, handler) => subscribed(handlers, topic, handler),
    connected: () => link.certain(),
    freshness: {
      watch: versions.watch,
      catchUp: () => (link.certain() ? undefined : versions.catchUp()),
    },
    onReconnect: gaps.onGap,
    async close() {
      await link.stop();
      await transport.close();
    },
  };
}

function subscribed(
  handlers: Map<string, readonly Handler[]>,
  topic: string,
  handler: Handler,
): () => void {
  handlers.set(topic, [...(handlers.get(topic) ?? []), handler]);
  return () => {
    const left = (handlers.get(topic) ?? []).filter((one) => one !== handler);
    if (left.length > 0) handlers.set(topic, left);
    else handlers.delete(topic);
  };
}

type Pack = (message: Omit<BusMessage, 'from'>) => string;

interface ReceiverParts {
  readonly nodeId: string;
  readonly link: Link;
  readonly announcements: Announcements;
  readonly handlers: ReadonlyMap<string, readonly Handler[]>;
  readonly transport: BusTransport;
  readonly pack: Pack;
  readonly log: Logger;
}

/** Runs the handlers of what comes in, and acknowledges what asks for it. */
function createReceiver(parts: ReceiverParts): (text: string) => Promise<void> {
  const { nodeId, link, announcements, handlers, transport, pack, log } = parts;
  return async (text) => {
    const { from, topic, payload, ack, ok, sent }: BusMessage = JSON.parse(text);
    if (from === nodeId) return sent && link.echoed(sent);
    if (topic === undefined)
      return ack === undefined ? undefined : announcements.acknowledge(ack, from, ok === true);
    const applied = await runHandlers(handlers.get(topic) ?? [], payload, (err) =>
      log.error({ topic, err }, 'A bus message could not be applied'),
    );
    if (ack !== undefined) await transport.send(from, pack({ ack, ok: applied }));
  };
}

/** True when all went well. */
async function runHandlers(
  handlers: readonly Handler[],
  payload: unknown,
  onError: (reason: unknown) => void,
): Promise<boolean> {
  const results = await Promise.allSettled(handlers.map(async (handler) => handler(payload)));
  const failures = results.filter((result) => result.status === 'rejected');
  for (const { reason } of failures) onError(reason);
  return failures.length === 0;
}

interface Gaps {
  /** What is kept without a version counts for nothing any more. */
  forget(): void;
  forgetEverywhere(): void;
  onGap(listener: () => void): void;
}

function createGaps(
  handlers: Map<string, readonly Handler[]>,
  tellOthers: () => Promise<void>,
): Gaps {
  const listeners: (() => void)[] = [];
  const forget = (): void => {
    for (const listener of listeners) listener();
  };
  handlers.set(GAP, [forget]);
  return {
    forget,
    forgetEverywhere() {
      forget();
      tellOthers().catch(() => undefined);
    },
    onGap: (listener) => void listeners.push(listener),
  };
}

interface AnnouncerParts {
  readonly registry: NodeRegistry;
  readonly announcements: Announcements;
  readonly log: Logger;
}

/** Milliseconds for which the registry of nodes is asked again when it does not answer, and between two of these. */
const insistMs = 2_000;
const againMs = 50;

/**
 * Asks the registry until it answers. Its statements are short-lived, so a busy moment fails them; a node that is not
 * told of a change that it missed would believe its memory again with its next heartbeat. Nothing after `insistMs`.
 */
async function insist<T>(ask: () => Promise<T>): Promise<T | undefined> {
  const until = performance.now() + insistMs;
  for (;;) {
    const answer = await ask().then(
      (value) => ({ value }),
      () => undefined,
    );
    if (answer) return answer.value;
    if (performance.now() >= until) return undefined;
    await sleep(againMs);
  }
}

/** Milliseconds in which nodes that confirm nothing are named in the log once. */
const warnEveryMs = 60_000;

/**
 * Announces so that a change holds everywhere when it answers: each other node has confirmed that it
 * took the change in, or has been told through the database, and the lease has ended by which it might
 * still have answered from memory.
 */
function createAnnouncer(
  { registry, announcements, log }: AnnouncerParts,
  send: (topic: string, payload: unknown, ack: string) => void,
): (topic: string, payload: unknown, timeoutMs: number) => Promise<Announcement> {
  const warned = new Map<string, number>();
  const warn = (topic: string, failed: readonly string[]): void => {
    const key = failed.join();
    if (performance.now() - (warned.get(key) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return;
    warned.clear();
    warned.set(key, performance.now());
    log.warn(
      { topic, failed },
      'Some nodes did not confirm a change: they read it from the database before they answer',
    );
  };
  const leasesEnd = async (failed: readonly string[]): Promise<void> => {
    const remainingMs = (await insist(() => registry.markMissed(failed))) ?? leaseMs;
    if (remainingMs > 0) await sleep(remainingMs + leaseMarginMs);
  };

  return async (topic, payload, timeoutMs) => {
    const nodes = await insist(() => registry.others());
    if (nodes === undefined) {
      send(topic, payload, '0');
      log.error(
        { topic },
        'A change could not be announced: the other nodes are not known, because the database does not answer',
      );
      await sleep(leaseMs + leaseMarginMs);
      return { replicas: 1, failed: [unknownNodes] };
    }
    if (nodes.length === 0) return { replicas: 1, failed: [] };
    const deaf = nodes.filter(({ hears }) => !hears).map(({ id }) => id);
    const listening = nodes.filter(({ hears }) => hears).map(({ id }) => id);
    const silent = await announcements.wait(listening, timeoutMs, (ack) =>
      send(topic, payload, ack),
    );
    const failed = [...silent, ...deaf];
    if (failed.length > 0) {
      warn(topic, failed);
      await leasesEnd(failed);
    }
    return { replicas: 1 + nodes.length - failed.length, failed };
  };
}

/* The bus of a platform that is one process: there is nobody else to tell. */

export const createLocalBus = (nodeId: string): NodeBus => ({
  nodeId,
  publish: async () => undefined,
  announce: async () => ({ replicas: 1, failed: [] }),
  subscribe: () => () => undefined,
  connected: () => true,
  freshness: alwaysFresh,
  onReconnect: () => undefined,
  close: async () => undefined,
});
