/** Webhooks: what happens here, told to services of others, signed and as often as it takes. */
import Type from 'typebox';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { createEventConsumer } from '../../kernel/events/event-consumer.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { createDurableQueue } from '../../kernel/queue/create-durable-queue.ts';
import type { QueueWorker } from '../../kernel/queue/durable-queue.ts';
import { type WebhooksConfig, webhooksConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { deliveryOperations } from './operations/deliveries.ts';
import { endpointOperations } from './operations/endpoints.ts';
import { startDeliveries } from './services/delivery.ts';
import { createEndpoints } from './services/endpoints.ts';
import { fanOut } from './services/fan-out.ts';
import { type CountDelivery, measureWebhooks, type WebhookParts } from './services/parts.ts';
import { webhookState } from './state.ts';

export const webhooks = defineModule({
  name: 'webhooks',
  description: 'Webhooks: signed deliveries of events to services of others',
  requires: {},
  config: webhooksConfig,
  migrations,
  start,
});

async function start({
  kernel,
  config,
  log,
}: ModuleContext<WebhooksConfig>): Promise<RunningModule<undefined>> {
  const { database, events } = kernel;
  const queue = createDurableQueue(database, 'webhooks');
  let worker: QueueWorker | undefined;
  const wake = (): void => worker?.wake();
  const consumer = createEventConsumer({
    ...{ name: 'webhooks', database, events, log },
    handle: (transaction, list) => fanOut(parts, transaction, list),
    onHandled: wake,
  });
  const parts: WebhookParts = {
    ...kernel,
    ...{ queue, consumer, wake, log, count: counterOf(kernel, queue) },
    config: () => config.current(),
  };
  const endpoints = createEndpoints(parts);
  worker = startDeliveries(parts);
  consumer.start();
  return {
    service: undefined,
    operations: [...endpointOperations(endpoints), ...deliveryOperations({ ...parts, endpoints })],
    jobs: [purgeJob(parts)],
    state: [webhookState(database, endpoints)],
    async stop() {
      await consumer.stop();
      await worker?.stop();
    },
  };
}

/** Made once for each process, also while the module is switched off and on. */
const counters = new WeakMap<Kernel, CountDelivery>();

function counterOf(kernel: Kernel, queue: WebhookParts['queue']): CountDelivery {
  const made = counters.get(kernel) ?? measureWebhooks(kernel, queue);
  counters.set(kernel, made);
  return made;
}

/** Forgets deliveries whose time is over. */
const purgeJob = ({ queue, config }: WebhookParts): JobDefinition =>
  defineJob({
    name: 'webhooks.purge',
    data: Type.Object({}),
    schedule: '29 * * * *',
    async handler(_data, { signal }) {
      const { doneDays: done, deadDays: dead } = config().retention;
      for (let gone = 1; gone > 0 && !signal.aborted; ) gone = await queue.purge({ done, dead });
    },
  });
