/** The job that sends stored messages. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { remembered } from '../../../kernel/telemetry/remembered.ts';
import type { CommunicationsConfig } from '../config.ts';
import { type ClaimedMessage, claimMessage, countTemplates, finishMessage, purgeMessages } from '../queries.ts';
import { openContent } from './content.ts';
import type { Delivery, MailTransport } from './transport.ts';

/* Figures of messages and templates for monitoring, under the names by which an existing panel asks; 0 from the start. */

/** What the panel has as two modules is one here. */
const email = { module_name: 'email' };
const sms = { module_name: 'sms' };
const labels = ['module_name'];
const RENEW_MS = 30_000;

/** Counts a message that a provider took; captured ones were not sent. */
type CountSent = (channel: 'email' | 'sms') => void;

function measureMessages({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): CountSent {
  const read = remembered(RENEW_MS, [{ labels: email, value: 0 }], async () => [{ labels: email, value: await countTemplates(database) }]);
  metrics.gauge('email_templates_total', 'Mail templates, as of the last half minute', read, labels);
  const emails = metrics.counter('emails_sent_total', 'Mails that a mail server took', labels);
  const texts = metrics.counter('sms_sent_total', 'Text messages that a provider took', labels);
  emails.inc(email, 0);
  texts.inc(sms, 0);
  return (channel) => (channel === 'email' ? emails.inc(email) : texts.inc(sms));
}

export const deliveryJob = 'communications.deliver';

/** After this long an attempt that never finished counts as lost: longer than an attempt takes, shorter than the queue waits. Milliseconds. */
const lostAfterMs = 4 * 60_000;
/** When the queue gives up on an attempt and starts the next. */
const expireInSeconds = 5 * 60;
/** The queue's own limit; the configured one below it decides. */
const queueRetries = 60;
const purgeBatch = 5000;

interface Dependencies extends Pick<Kernel, 'database' | 'secrets' | 'metrics'> {
  readonly transport: MailTransport;
  readonly config: () => CommunicationsConfig;
}

export function deliveryJobs({ database, secrets, metrics, transport, config }: Dependencies): readonly JobDefinition[] {
  const outcomes = metrics.counter('messages_total', 'Messages by how their delivery ended', ['channel', 'outcome']);
  const countSent = measureMessages({ metrics, database });

  const deliver = ({ id, channel, recipient, contentSealed }: ClaimedMessage): Promise<Delivery> => {
    const content = openContent(secrets, id, contentSealed);
    // Text messages have no provider yet: operators read them.
    return channel === 'sms' ? Promise.resolve({ outcome: 'captured' }) : transport.deliver({ id, to: recipient, content });
  };

  const deliverOnce = async (message: ClaimedMessage): Promise<void> => {
    const { id, channel, attempts } = message;
    try {
      const delivery = await deliver(message);
      const refused = delivery.outcome === 'refused';
      await finishMessage(database, id, refused ? { status: 'failed', error: delivery.reason } : { status: delivery.outcome });
      outcomes.inc({ channel, outcome: delivery.outcome });
      if (delivery.outcome === 'sent') countSent(channel);
    } catch (error) {
      const last = attempts > config().messages.retries;
      await finishMessage(database, id, { status: last ? 'failed' : 'queued', error: reasonOf(error) });
      if (last) outcomes.inc({ channel, outcome: 'failed' });
      else throw error;
    }
  };

  return [
    defineJob({
      name: deliveryJob,
      data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
      retries: queueRetries,
      expireInSeconds,
      async handler({ id }) {
        const message = await claimMessage(database, id, lostAfterMs);
        if (message) await deliverOnce(message);
      },
    }),
    defineJob({
      name: 'communications.purge-messages',
      data: Type.Object({}),
      schedule: '47 * * * *',
      async handler(_data, { signal, log }) {
        const { retention } = config().messages;
        let total = 0;
        for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; total += gone)
          gone = await purgeMessages(database, retention, purgeBatch);
        if (total > 0) log.info({ rows: total }, 'Purged old messages');
      },
    }),
  ];
}

/** The kind of failure, without what the mail server said: that may quote the message. */
function reasonOf(error: unknown): string {
  const [code, responseCode] = ['code', 'responseCode'].map((key) =>
    typeof error === 'object' && error !== null ? Reflect.get(error, key) : undefined,
  );
  return [code, responseCode].filter((part) => typeof part === 'string' || typeof part === 'number').join(' ') || 'the delivery failed';
}
