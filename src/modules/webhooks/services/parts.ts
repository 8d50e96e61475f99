/** What the services of this module share, and its figures. */
import type { Kernel } from '../../../host/kernel.ts';
import type { EventConsumer } from '../../../kernel/events/event-consumer.ts';
import type { DurableQueue } from '../../../kernel/queue/durable-queue.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';
import type { WebhooksConfig } from '../config.ts';
import { countEndpoints } from '../queries.ts';

export interface WebhookParts
  extends Pick<
    Kernel,
    'database' | 'events' | 'secrets' | 'schemas' | 'records' | 'audit' | 'bus' | 'modules'
  > {
  readonly config: () => WebhooksConfig;
  readonly queue: DurableQueue;
  readonly consumer: EventConsumer;
  /** New deliveries were stored. */
  readonly wake: () => void;
  readonly count: CountDelivery;
  readonly log: Logger;
}

export type Outcome = 'delivered' | 'failed' | 'dead';
export type CountDelivery = (outcome: Outcome) => void;

/** What binds a stored secret to its endpoint. */
export const secretContext = (id: string): string => `webhooks/endpoint/${id}`;

const RENEW_MS = 30_000;

/** Made once for each process. */
export function measureWebhooks(
  { metrics, database }: Pick<Kernel, 'metrics' | 'database'>,
  queue: DurableQueue,
): CountDelivery {
  const tries = metrics.counter('webhook_tries_total', 'Tries to deliver a webhook', ['outcome']);
  const figures = async () => {
    const { waiting, dead, lagSeconds } = await queue.figures();
    return { waiting, dead, lagSeconds };
  };
  const gauge = (name: string, help: string, read: () => Promise<number>): void =>
    metrics.gauge(
      name,
      help,
      remembered(RENEW_MS, 0, () => read()),
    );
  gauge(
    'webhook_deliveries_waiting',
    'Deliveries that wait for a try',
    async () => (await figures()).waiting,
  );
  gauge(
    'webhook_deliveries_dead',
    'Deliveries that were given up',
    async () => (await figures()).dead,
  );
  gauge(
    'webhook_lag_seconds',
    'How long the oldest due delivery has waited',
    async () => (await figures()).lagSeconds,
  );
  const states = remembered(RENEW_MS, [], async () =>
    (await countEndpoints(database)).map(({ state, count }) => ({
      labels: { state },
      value: count,
    })),
  );
  metrics.gauge('webhook_endpoints', 'Endpoints of webhooks, by state', states, ['state']);
  return (outcome) => tries.inc({ outcome });
}
