import { randomUUID } from 'node:crypto';
import type { Database } from '../database/database.ts';
import { shortSql } from '../database/sql.ts';
import type { Redis } from '../redis.ts';

/** How bus messages travel between processes. Text in, text out; nothing is kept for who is away. */
export interface BusTransport {
  /** Connects and starts to receive. `onState` tells of losses and returns afterwards. */
  start(receive: (message: string) => void, onState: (connected: boolean) => void): Promise<void>;
  /** To every node, this one included. */
  broadcast(message: string): Promise<void>;
  /** To one node. */
  send(nodeId: string, message: string): Promise<void>;
  close(): Promise<void>;
}

/*
 * Bus messages by PostgreSQL NOTIFY, for several nodes without Redis. A
 * notification holds less than 8,000 bytes, so longer messages go in parts;
 * parts of one statement arrive together and in order. Messages are JSON, so
 * everything beyond ASCII travels escaped and no character is ever cut in two.
 */

/** Bytes of a part beside its header. */
const partLength = 7_800;
/** Unfinished messages that are kept; their sender died in between. */
const maxUnfinished = 100;

export function createPostgresTransport(database: Database, nodeId: string): BusTransport {
  const everybody = 'penstock_bus';
  const inbox = (node: string): string => `penstock_node_${node}`;
  const notify = async (channel: string, message: string): Promise<void> => {
    await database.query(
      shortSql`select pg_notify(${channel}, part) from unnest(${split(message)}::text[]) as part`,
    );
  };
  return {
    async start(receive, onState) {
      const join = createJoiner(receive);
      await database.listen(everybody, join);
      await database.listen(inbox(nodeId), join);
      database.onListening(onState);
    },
    broadcast: (message) => notify(everybody, message),
    send: (node, message) => notify(inbox(node), message),
    close: async () => undefined,
  };
}

/** `id index count text` for each part. */
function split(message: string): string[] {
  const ascii = message.replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const count = Math.max(1, Math.ceil(ascii.length / partLength));
  const id = randomUUID();
  return Array.from(
    { length: count },
    (_, i) => `${id} ${i} ${count} ${ascii.slice(i * partLength, (i + 1) * partLength)}`,
  );
}

function createJoiner(receive: (message: string) => void): (part: string) => void {
  const unfinished = new Map<string, string[]>();
  return (part) => {
    const header = /^(\S+) (\d+) (\d+) /.exec(part);
    if (!header) return;
    const [prefix, id = '', , count] = header;
    const text = part.slice(prefix.length);
    if (Number(count) === 1) return receive(text);
    const parts = [...(unfinished.get(id) ?? []), text];
    unfinished.set(id, parts);
    if (parts.length === Number(count)) {
      unfinished.delete(id);
      receive(parts.join(''));
    }
    const oldest = unfinished.keys().next();
    if (unfinished.size > maxUnfinished && !oldest.done) unfinished.delete(oldest.value);
  };
}

/* Bus messages by Redis publish and subscribe. */

export function createRedisTransport(redis: Redis, nodeId: string): BusTransport {
  const everybody = redis.key('bus');
  const inbox = (node: string): string => redis.key('bus', node);
  const channels = [everybody, inbox(nodeId)];
  return {
    async start(receive, onState) {
      redis.subscriber.on('message', (_channel: string, message: string) => receive(message));
      redis.subscriber.on('close', () => onState(false));
      await redis.subscriber.subscribe(...channels);
      redis.subscriber.on('ready', () => {
        redis.subscriber.subscribe(...channels).then(
          () => onState(true),
          () => onState(false),
        );
      });
    },
    broadcast: async (message) => void (await redis.commands.publish(everybody, message)),
    send: async (node, message) => void (await redis.commands.publish(inbox(node), message)),
    async close() {
      redis.subscriber.removeAllListeners('message');
      // While the server is away the command would wait for it, and there is nothing to unsubscribe from.
      if (redis.subscriber.status === 'ready')
        await redis.subscriber.unsubscribe(...channels).catch(() => undefined);
    },
  };
}
