/** Bus messages by Redis publish and subscribe. */
import type { Redis } from '../redis.ts';
import type { BusTransport } from './transport.ts';

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
      if (redis.subscriber.status === 'ready') await redis.subscriber.unsubscribe(...channels).catch(() => undefined);
    },
  };
}
