/**
 * What modules offer over sockets. A module declares a namespace with its events; the realtime surface serves it: it
 * admits, authenticates, counts, validates and answers. Everything here is about the sockets of this node.
 */
import type { Static, TObject, TSchema } from 'typebox';
import type { AnonymousCaller, UserCaller } from '../caller.ts';

/** One socket: of a signed-in user, or of a visitor where the namespace lets them in. */
export interface SocketConnection {
  readonly id: string;
  /** Empty for a visitor. */
  readonly userId: string;
  /** False once it has gone: nothing may be kept for it any more. */
  isOpen(): boolean;
  /** The user, if the session still holds; throws 401, 403 or 503. */
  caller(): UserCaller | Promise<UserCaller>;
  /** The same, where a visitor may ask too. */
  anyCaller(): UserCaller | AnonymousCaller | Promise<UserCaller | AnonymousCaller>;
  emit(event: string, data: unknown): void;
  /** What is broadcast to the channel reaches this socket from now on. */
  join(channel: string): void;
  leave(channel: string): void;
  hears(channel: string): boolean;
}

/** What goes into an acknowledgement beside `ok`. */
export type SocketReply = Readonly<Record<string, unknown>>;

/** An event that clients may send. */
export interface SocketEvent {
  readonly name: string;
  readonly summary: string;
  /** Names of the arguments in their order; absent: one argument, which is the input itself. */
  readonly parameters?: readonly string[];
  /** The input is `{params}`: all arguments in their order. */
  readonly allArguments?: true;
  readonly input: TObject;
  /** May take long or much memory. */
  readonly heavy?: boolean;
  handler(connection: SocketConnection, input: never): Promise<SocketReply>;
}

/** An event that clients are sent. */
export interface SentEvent {
  readonly name: string;
  readonly summary: string;
  readonly payload: TSchema;
}

export interface SocketNamespace {
  /** Such as `/chat`; served with a slash at its end too. */
  readonly name: string;
  readonly summary: string;
  /** Lets sockets in that present no credential. */
  readonly visitors?: boolean;
  /** The event that tells a client of a failure. */
  readonly errorEvent: string;
  readonly events: readonly SocketEvent[];
  readonly sends: readonly SentEvent[];
  /** What sockets are sent is a subscription of GraphQL too, for those who send by operations; `by` chooses among payloads. */
  readonly graphql?: {
    readonly field: string;
    readonly by?: string;
    /** Throws where the user may not hear what is chosen, as the same question over a socket does. */
    requireChoice?(connection: SocketConnection, chosen: string): Promise<unknown>;
  };
  /**
   * Prepares a socket whose caller is known, before the client hears that it is connected; throws to refuse it.
   * `connected` runs when it is, `closed` when it has gone, in any case and once.
   */
  admit(connection: SocketConnection): Promise<AdmittedSocket>;
}

export interface AdmittedSocket {
  connected(): void;
  closed(): void;
}

/** Describes an event; the handler gets what `input` says. */
export const defineSocketEvent = <S extends TObject>(
  event: Omit<SocketEvent, 'input' | 'handler'> & {
    readonly input: S;
    handler(connection: SocketConnection, input: Static<S>): Promise<SocketReply>;
  },
): SocketEvent => event as unknown as SocketEvent;

/** Sockets that joined a channel: all of them, or all but one. */
export type Audience = string | { readonly channel: string; readonly except: string };

/** Where the sockets of a namespace are; the realtime surface is one. */
export interface SocketServer {
  /** Answers how to stop: its sockets are disconnected then. */
  serve(namespace: SocketNamespace): () => void;
  broadcast(namespace: string, audience: Audience, event: string, data: unknown): void;
}

export interface SocketNamespaces {
  /** Answers how to take it away again. */
  register(namespace: SocketNamespace): () => void;
  all(): readonly SocketNamespace[];
  /** To sockets of a channel on this node, encoded once. */
  broadcast(namespace: string, audience: Audience, event: string, data: unknown): void;
  /** Serves what is and will be registered. Answers how to stop. */
  attach(server: SocketServer): () => void;
}

interface Entry {
  readonly namespace: SocketNamespace;
  readonly stops: Map<SocketServer, () => void>;
}

export function createSocketNamespaces(): SocketNamespaces {
  const entries = new Map<string, Entry>();
  const servers = new Set<SocketServer>();

  return {
    register(namespace) {
      if (entries.has(namespace.name))
        throw new Error(`There are two socket namespaces "${namespace.name}"`);
      const stops = new Map(
        [...servers].map((server) => [server, server.serve(namespace)] as const),
      );
      const entry: Entry = { namespace, stops };
      entries.set(namespace.name, entry);
      return () => {
        if (entries.get(namespace.name) !== entry) return;
        entries.delete(namespace.name);
        for (const stop of stops.values()) stop();
      };
    },
    all: () => [...entries.values()].map(({ namespace }) => namespace),
    broadcast(namespace, audience, event, data) {
      for (const server of servers) server.broadcast(namespace, audience, event, data);
    },
    attach(server) {
      servers.add(server);
      for (const { namespace, stops } of entries.values())
        stops.set(server, server.serve(namespace));
      return () => {
        servers.delete(server);
        for (const { stops } of entries.values()) {
          stops.get(server)?.();
          stops.delete(server);
        }
      };
    },
  };
}
