/**
 * The namespace `/storage/`: notices about files, as they are committed. A socket hears of all files of its user, and of
 * those that it names. Whoever may not read a file hears nothing of it, which is asked anew for every notice.
 */
import Type from 'typebox';
import { invalid } from '../../kernel/errors.ts';
import type { Events, PublishedEvent } from '../../kernel/events/events.ts';
import {
  defineSocketEvent,
  type SentEvent,
  type SocketConnection,
  type SocketNamespace,
  type SocketNamespaces,
} from '../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { FileFacts } from './events.ts';
import { isModuleContainer, ownerOf } from './services/access.ts';
import { confirmedFile, rightTo } from './services/confirmed-reads.ts';
import type { StorageServices } from './services/storage-services.ts';

/** Files that one socket may name. */
const MAX_FILES = 100;

const Target = Type.Object({ fileId: Type.String({ format: 'uuid' }) });

interface Listener {
  readonly connection: SocketConnection;
  readonly files: Set<string>;
}

const notices = {
  create: 'A file is there',
  update: 'A file has changed, or has another content',
  ready: 'A content has become that of its file',
  delete: 'Files are gone',
  infected: 'The scanner has found something in a file',
} as const;
type Notice = keyof typeof notices;

const sends: readonly SentEvent[] = Object.entries(notices).map(([name, summary]) => ({
  name: `storage:${name}`,
  summary,
  payload: Type.Object({
    fileId: Type.String({ format: 'uuid' }),
    occurredAt: Type.String({ format: 'date-time' }),
    name: Type.Optional(Type.String()),
    container: Type.Optional(Type.String()),
    folder: Type.Optional(Type.String()),
    size: Type.Optional(Type.Integer()),
    mimeType: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  }),
}));

interface Dependencies {
  readonly services: StorageServices;
  readonly events: Pick<Events, 'subscribe'>;
  readonly sockets: Pick<SocketNamespaces, 'register'>;
  readonly log: Logger;
}

/** Serves the namespace. Answers how to stop. */
export function serveNotices({ services, events, sockets, log }: Dependencies): () => void {
  const listeners = new Map<string, Listener>();
  const unsubscribe = events.subscribe('storage:*', async (event) => {
    if (listeners.size === 0) return;
    await tellAll(services, [...listeners.values()], event).catch((error: unknown) =>
      log.warn({ err: error, topic: event.topic }, 'A notice about files was not told'),
    );
  });
  const leave = sockets.register(namespaceOf(services, listeners));
  return () => {
    leave();
    unsubscribe();
  };
}

function namespaceOf(services: StorageServices, listeners: Map<string, Listener>): SocketNamespace {
  return {
    name: '/storage',
    summary: 'Notices about files: a socket hears of the files of its user.',
    errorEvent: 'storage_error',
    sends,
    events: [
      defineSocketEvent({
        name: 'subscribe',
        summary: 'Hear of another file that you may read',
        input: Target,
        async handler(connection, { fileId }) {
          const { access, files } = services;
          const listener = listeners.get(connection.id);
          if (listener && listener.files.size >= MAX_FILES && !listener.files.has(fileId))
            throw invalid('fileId', 'maxItems', `a socket hears of at most ${MAX_FILES} files`);
          const file = await files.find(fileId);
          await access.require(await connection.caller(), 'read', file);
          listener?.files.add(fileId);
          return {};
        },
      }),
      defineSocketEvent({
        name: 'unsubscribe',
        summary: 'Hear of that file no longer',
        input: Target,
        async handler({ id }, { fileId }) {
          listeners.get(id)?.files.delete(fileId);
          return {};
        },
      }),
    ],
    async admit(connection) {
      // Each notice asks for the session: nothing has to wait until it has been looked at again.
      listeners.set(connection.id, { connection, files: new Set() });
      return {
        connected: () => undefined,
        closed: () => void listeners.delete(connection.id),
      };
    },
  };
}

const noticeOf = (topic: string): Notice | undefined => {
  const [, what = '', about] = topic.split(':');
  return about === 'File' && what in notices ? (what as Notice) : undefined;
};

async function tellAll(
  services: StorageServices,
  listeners: readonly Listener[],
  event: PublishedEvent,
): Promise<void> {
  const notice = noticeOf(event.topic);
  if (!notice) return;
  const owners = ownersOf(event);
  for (const fileId of event.ids ?? [])
    for (const listener of listeners) {
      const isOwn = owners.get(fileId) === `User:${listener.connection.userId}`;
      if (!isOwn && !listener.files.has(fileId)) continue;
      const facts = await heardFacts(services, listener, { event, fileId, notice, isOwn });
      if (facts) {
        const { occurredAt } = event;
        listener.connection.emit(`storage:${notice}`, { fileId, occurredAt, ...facts });
      }
      if (notice === 'delete') listener.files.delete(fileId);
    }
}

/** Whose the files of an event are. Events about several say it for each. */
function ownersOf({ ids = [], payload = {} }: PublishedEvent): ReadonlyMap<string, unknown> {
  const owners = (payload.owners ?? [payload.owner]) as readonly unknown[];
  return new Map(ids.map((id, i) => [id, owners[i]]));
}

interface Told {
  readonly event: PublishedEvent;
  readonly fileId: string;
  readonly notice: Notice;
  /** It is a file of the listener. */
  readonly isOwn: boolean;
}

/**
 * What the listener is told; nothing where they may not hear of it. It is the file as it is now, which they may read now:
 * what the event says of it may be from before. Of what is gone nobody can be asked any more: only owners hear that.
 */
async function heardFacts(
  services: StorageServices,
  { connection }: Listener,
  { event: { ids = [], payload = {} }, fileId, notice, isOwn }: Told,
): Promise<Partial<FileFacts> | undefined> {
  try {
    const caller = await connection.caller();
    if (notice !== 'delete') {
      const file = await confirmedFile({
        find: () => services.files.find(fileId),
        ...rightTo(services, caller, { action: 'read' }),
      });
      return isModuleContainer(file.container) ? undefined : factsOf(file);
    }
    if (!isOwn || ownerOf(caller) === null) return undefined;
    return ids.length === 1 ? factsOf(payload as unknown as FileFacts) : {};
  } catch {
    // The session has ended, or nobody can tell: the socket learns the former from its own end.
    return undefined;
  }
}

const factsOf = ({ name, container, folder, size, mimeType }: FileFacts): Partial<FileFacts> => ({
  name,
  container,
  folder,
  size,
  mimeType,
});
