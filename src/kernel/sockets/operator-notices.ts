/**
 * What operators are told over the sockets of the admin surface, so that a panel need not poll. A module declares its
 * namespace and topics; the surface lets operators in, asks for their rights and delivers.
 */
import type { TSchema } from 'typebox';
import type { PublishedEvent } from '../events/events.ts';

/** One kind of notice. */
export interface OperatorTopic {
  /** The event that operators hear, such as `room:created`. */
  readonly name: string;
  readonly summary: string;
  readonly payload: TSchema;
  /** For super admins alone. */
  readonly superAdmin?: true;
  /** For credentials without scopes alone: it is about every module. */
  readonly unscoped?: true;
  /** There may be many: only those hear it who ask for it, and no more than they can take. */
  readonly onRequest?: true;
  /** Made of events, so it is heard on every node; without it the module tells it by itself, on its own node. */
  readonly from?: NoticeSource;
}

export interface NoticeSource {
  /** Topics of events. */
  readonly events: readonly string[];
  /** What is told of one; nothing where it is no matter for operators. */
  data(event: PublishedEvent): object | undefined;
}

export interface OperatorNamespace {
  /** Such as `/chat`; served with a slash at its end too. */
  readonly name: string;
  /** Whoever may read what belongs to it may listen. */
  readonly module: string;
  readonly summary: string;
  readonly topics: readonly OperatorTopic[];
}

/** Where the sockets of operators are; the realtime surface is one. */
export interface OperatorServer {
  /** Answers how to stop: its sockets are disconnected then. */
  serve(namespace: OperatorNamespace): () => void;
  tell(namespace: string, topic: string, data: () => object): void;
}

export interface OperatorNotices {
  /** Answers how to take it away again. */
  register(namespace: OperatorNamespace): () => void;
  all(): readonly OperatorNamespace[];
  /** To operators on this node; `data` is made only when somebody listens. */
  tell(namespace: string, topic: string, data: () => object): void;
  /** Serves what is and will be registered. Answers how to stop. */
  attach(server: OperatorServer): () => void;
}

export function createOperatorNotices(): OperatorNotices {
  const namespaces = new Map<string, OperatorNamespace>();
  const served = new Map<string, () => void>();
  let server: OperatorServer | undefined;
  const serve = (namespace: OperatorNamespace): void => {
    if (server) served.set(namespace.name, server.serve(namespace));
  };
  const withdraw = (name: string): void => {
    served.get(name)?.();
    served.delete(name);
  };
  return {
    register(namespace) {
      const { name } = namespace;
      if (namespaces.has(name)) throw new Error(`There are two namespaces of operators "${name}"`);
      namespaces.set(name, namespace);
      serve(namespace);
      return () => {
        if (namespaces.get(name) !== namespace) return;
        namespaces.delete(name);
        withdraw(name);
      };
    },
    all: () => [...namespaces.values()],
    tell: (namespace, topic, data) => server?.tell(namespace, topic, data),
    attach(given) {
      server = given;
      for (const namespace of namespaces.values()) serve(namespace);
      return () => {
        for (const name of [...served.keys()]) withdraw(name);
        server = undefined;
      };
    },
  };
}
