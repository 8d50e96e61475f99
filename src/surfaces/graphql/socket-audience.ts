/** Subscribers to what sockets of a namespace are told: to its module each of them is one socket more. */
import { errors } from '../../kernel/errors.ts';
import type {
  Audience,
  SocketConnection,
  SocketNamespace,
  SocketServer,
} from '../../kernel/sockets/socket-namespace.ts';

/** What of a socket the audience does not keep itself. */
export type GivenConnection = Omit<SocketConnection, 'isOpen' | 'join' | 'leave' | 'hears'>;

interface Entering {
  /** What the subscriber wants to hear of alone. */
  readonly only: string | undefined;
  /** The namespace is not served any more. */
  readonly ended: () => void;
}

export interface SocketAudience extends SocketServer {
  /** Answers how to leave. Rejects as connecting a socket does, and where what is chosen is not theirs to hear. */
  enter(namespace: string, connection: GivenConnection, entering: Entering): Promise<() => void>;
}

type Member = Pick<SocketConnection, 'id' | 'emit'>;

interface Served {
  readonly namespace: SocketNamespace;
  readonly channels: Map<string, Set<Member>>;
  /** How to end each of those who are there. */
  readonly ends: Set<() => void>;
}

export function createSocketAudience(): SocketAudience {
  const served = new Map<string, Served>();
  return {
    serve(namespace) {
      const one: Served = { namespace, channels: new Map(), ends: new Set() };
      served.set(namespace.name, one);
      return () => {
        if (served.get(namespace.name) === one) served.delete(namespace.name);
        for (const end of [...one.ends]) end();
      };
    },
    broadcast(name, audience, event, data) {
      const members = served.get(name)?.channels.get(channelOf(audience));
      if (!members) return;
      const except = typeof audience === 'string' ? undefined : audience.except;
      for (const member of members) if (member.id !== except) member.emit(event, data);
    },
    async enter(name, given, entering) {
      const one = served.get(name);
      if (!one) throw errors.NOT_FOUND({ message: 'This is not served now' });
      return enterServed(one, given, entering);
    },
  };
}

const channelOf = (audience: Audience): string =>
  typeof audience === 'string' ? audience : audience.channel;

async function enterServed(
  { namespace, channels, ends }: Served,
  given: GivenConnection,
  { only, ended }: Entering,
): Promise<() => void> {
  const joined = new Set<string>();
  const leaveChannel = (channel: string): void => {
    joined.delete(channel);
    const members = channels.get(channel);
    members?.delete(connection);
    if (members?.size === 0) channels.delete(channel);
  };
  let open = true;
  const connection: SocketConnection = {
    ...given,
    isOpen: () => open,
    join(channel) {
      joined.add(channel);
      channels.set(channel, (channels.get(channel) ?? new Set()).add(connection));
    },
    leave: leaveChannel,
    hears: (channel) => joined.has(channel),
  };
  if (only !== undefined) await namespace.graphql?.requireChoice?.(connection, only);
  const admitted = await namespace.admit(connection);
  const leave = (): void => {
    if (!open) return;
    open = false;
    ends.delete(end);
    for (const channel of [...joined]) leaveChannel(channel);
    admitted.closed();
  };
  const end = (): void => {
    leave();
    ended();
  };
  ends.add(end);
  admitted.connected();
  return leave;
}
