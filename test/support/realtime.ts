/** The realtime surface over a kernel of small fakes, with sockets that clean up after themselves. */
import { io, type Socket } from 'socket.io-client';
import type { RecordStore } from '../../src/data/records/store.ts';
import { platformKey } from '../../src/data/schema/language/record-key.ts';
import type { SchemaRegistry } from '../../src/data/schema/registry/registry.ts';
import { errors } from '../../src/kernel/errors.ts';
import { createUserSignals } from '../../src/kernel/events/bus.ts';
import { createLocalBus } from '../../src/kernel/events/create-bus.ts';
import type { EventHandler, Events, PublishedEvent } from '../../src/kernel/events/events.ts';
import { createIdentity } from '../../src/kernel/identity.ts';
import { createLimits } from '../../src/kernel/limits/create-limits.ts';
import { createOperationRegistry } from '../../src/kernel/operations/registry.ts';
import { createPermissionPort } from '../../src/kernel/permissions.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { createOperatorNotices } from '../../src/kernel/sockets/operator-notices.ts';
import { createSocketNamespaces } from '../../src/kernel/sockets/socket-namespace.ts';
import type { RealtimeKernel } from '../../src/surfaces/realtime/connections.ts';
import {
  type RealtimeOptions,
  startRealtimeSurface,
} from '../../src/surfaces/realtime/realtime-surface.ts';
import { noMetrics, silentLog } from './quiet.ts';
import { waitFor } from './wait-for.ts';

/** The user of the tokens `good` and `fresh`. */
export const user = '00000000-0000-7000-8000-00000000000a';
export const document = (n: number): string => `00000000-0000-7000-8000-00000000000${n}`;

/** Events in memory. What is published reaches the subscribers when `publish` resolves. */
function createEventsInMemory() {
  const handlers = new Set<EventHandler>();
  const gaps = new Set<() => void>();
  const all: PublishedEvent[] = [];
  let purged = 0;
  const events: Events = {
    emit: async () => undefined,
    wake: () => undefined,
    wakeLater: () => undefined,
    subscribe(_pattern, handler, onGap = () => undefined) {
      handlers.add(handler);
      gaps.add(onGap);
      return () => {
        handlers.delete(handler);
        gaps.delete(onGap);
      };
    },
    onPublished: () => () => undefined,
    async since(sequence, limit) {
      if (sequence < purged || sequence > all.length) return undefined;
      const events = all.filter((event) => event.sequence > sequence).slice(0, limit);
      return { events, more: sequence + events.length < all.length };
    },
    position: async () => all.length,
  };
  const publish = async (event: Partial<PublishedEvent>): Promise<void> => {
    const published = {
      topic: 'test',
      actor: 'x',
      occurredAt: '2026-01-01T00:00:00.000Z',
      ...event,
      sequence: all.length + 1,
    };
    all.push(published);
    for (const handler of handlers) await handler(published);
  };
  const change = (schema: string, ...ids: string[]): Promise<void> =>
    publish({ schema, ids, operation: 'insert' });
  const remove = (schema: string, ...ids: string[]): Promise<void> =>
    publish({ schema, ids, operation: 'delete' });
  return {
    events,
    publish,
    change,
    remove,
    followers: () => handlers.size,
    /** Events were missed for good. */
    miss: () => {
      for (const onGap of gaps) onGap();
    },
    purge: () => {
      purged = all.length;
    },
  };
}

type SchemaListener = (changed: readonly string[]) => void | Promise<void>;

/** A kernel with two users' tokens, a public, a hidden and a row-authorised schema. */
function createKernel() {
  const stream = createEventsInMemory();
  const tokens = new Map([
    ['good', user],
    ['fresh', user],
    ['other', '00000000-0000-7000-8000-00000000000b'],
  ]);
  const identity = createIdentity();
  identity.client = {
    authenticate({ bearer = '' }) {
      const userId = tokens.get(bearer);
      if (userId === undefined) throw errors.UNAUTHORIZED();
      return {
        kind: 'user',
        userId,
        sessionId: 's',
        authenticatedAt: 0,
        complete: bearer !== 'half',
        clientId: 'c',
      };
    },
  };
  const schema = {
    key: platformKey,
    modelOptions: { conduit: {} as { realtime?: { enabled: boolean } } },
  };
  const names = ['Post', 'Hidden', 'WriteOnly', 'Private', 'Owned'];
  const schemas = new Map(names.map((name) => [name, structuredClone(schema)]));
  const schemaListeners: SchemaListener[] = [];
  const tellSchemas = (...changed: string[]) =>
    Promise.all(schemaListeners.map((listener) => listener(changed)));
  const readable = new Set<string>();
  /** What could be read right before it was deleted. */
  const readableBefore = new Set<string>();
  const records: Pick<RecordStore, 'readable' | 'mayRead' | 'couldRead'> = {
    async readable(_caller, name) {
      if (name === 'Hidden' || name === 'WriteOnly') throw errors.NOT_FOUND();
      return name === 'Post' ? 'all' : 'some';
    },
    mayRead: async (_caller, schema, id) => readable.has(`${schema}:${id}`),
    couldRead: async (_caller, schema, id) => readableBefore.has(`${schema}:${id}`),
  };
  const bus = createLocalBus('test');
  const kernel: RealtimeKernel = {
    settings: readSettings({ CLIENT_SOCKET_PORT: '0' }),
    log: silentLog,
    metrics: noMetrics,
    bus,
    signals: createUserSignals(bus),
    sockets: createSocketNamespaces(),
    operatorNotices: createOperatorNotices(),
    events: stream.events,
    limits: createLimits({ redis: undefined, metrics: noMetrics, log: silentLog }),
    identity,
    tickets: { issue: async () => '', take: async () => undefined },
    schemas: {
      get: (name: string) => schemas.get(name),
      onChange: (listener: SchemaListener) => void schemaListeners.push(listener),
    } as unknown as SchemaRegistry,
    records: records as unknown as RecordStore,
    permissions: createPermissionPort(),
    operations: createOperationRegistry(),
  };
  return { kernel, tokens, schemas, readable, readableBefore, identity, tellSchemas, ...stream };
}

interface Change {
  readonly sequence: number;
  readonly documentId: string;
}

type ClientOptions = Parameters<typeof io>[1];

/** A started surface, and sockets to it. */
export async function openRealtime(options: RealtimeOptions = {}) {
  const fixture = createKernel();
  const surface = await startRealtimeSurface(fixture.kernel, options);
  if (!surface) throw new Error('the surface did not start');
  const sockets: Socket[] = [];

  const connect = (
    options: ClientOptions = { auth: { token: 'good' } },
    namespace = '/database/',
  ): Socket => {
    const socket = io(`${surface.address}${namespace}`, {
      path: '/realtime',
      transports: ['websocket'],
      reconnection: false,
      forceNew: true,
      ...options,
    });
    sockets.push(socket);
    return socket;
  };

  return {
    ...fixture,
    surface,
    connect,
    /** Waits for the connection, and collects what arrives. */
    async connected(options?: ClientOptions) {
      const socket = connect(options);
      const changes: Change[] = [];
      const failures: unknown[] = [];
      socket.on('change', (change) => changes.push(change));
      socket.on('conduit_error', (failure) => failures.push(failure));
      await waitFor(() => socket.connected, { what: 'the connection' });
      return {
        socket,
        changes,
        failures,
        ask: (event: string, ...args: unknown[]) =>
          socket.timeout(20_000).emitWithAck(event, ...args),
      };
    },
    async close() {
      for (const socket of sockets) socket.disconnect();
      await surface.close();
    },
  };
}

/** The error with which a connection is refused. */
export const refusedWith = (
  socket: Socket,
): Promise<{ message: string; data?: { status: number } }> =>
  new Promise((resolve, reject) => {
    socket.on('connect_error', resolve as (error: Error) => void);
    socket.on('connect', () => reject(new Error('it connected')));
  });
