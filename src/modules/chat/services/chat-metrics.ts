/** What is measured of chat. */
import type { Kernel } from '../../../host/kernel.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';

export interface ChatMetrics {
  persisted(seconds: number): void;
  sent(messages: number, fanoutSeconds: number): void;
  refused(error: unknown): void;
}

/** Milliseconds for which a count of rows stands. */
const COUNT_MS = 30_000;

export function measureChat(
  { metrics, database }: Pick<Kernel, 'metrics' | 'database'>,
  hub: { sockets(): number; rooms(): number },
): ChatMetrics {
  const sent = metrics.counter('messages_sent_total', 'Chat messages that were stored');
  const refused = metrics.counter(
    'chat_messages_rejected_total',
    'Chat messages that were refused',
    ['reason'],
  );
  const persisted = metrics
    .histogram('chat_message_persist_seconds', 'Time until messages of a room were committed')
    .bind({});
  const fanout = metrics
    .histogram(
      'chat_message_fanout_seconds',
      'Time in which messages were handed to the sockets of a node',
    )
    .bind({});
  metrics.gauge('chat_connected_sockets', 'Sockets of chat on this node', hub.sockets);
  metrics.gauge('chat_open_rooms', 'Rooms that somebody on this node hears', hub.rooms);
  metrics.gauge(
    'chat_rooms_total',
    'Chat rooms',
    remembered(COUNT_MS, 0, async () => {
      const { rows } = await database.query<{ count: number }>(
        sql`select count(*)::integer as count from "app"."ChatRoom" where not "deleted"`,
      );
      return rows[0]?.count ?? 0;
    }),
  );
  return {
    persisted,
    sent(messages, fanoutSeconds) {
      sent.inc({}, messages);
      fanout(fanoutSeconds);
    },
    refused: (error) =>
      refused.inc({
        reason: error instanceof PenstockError ? error.code : 'INTERNAL_SERVER_ERROR',
      }),
  };
}
