/** The jobs that send stored messages and remove old ones. */
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { purgeChains } from '../chain-queries.ts';
import type { CommunicationsConfig } from '../config.ts';
import {
  type ClaimedMessage,
  claimMessage,
  type Ending,
  finishMessage,
  noteEvent,
} from '../delivery-queries.ts';
import { insertSuppression, purgeReports, suppressionOf } from '../feedback-queries.ts';
import { purgeNotifications } from '../inbox-queries.ts';
import { purgeBroadcasts } from '../push-queries.ts';
import { purgeMessages } from '../queries.ts';
import { openContent } from './content.ts';
import type { MailTransport } from './email/transports.ts';
import { measureMessages } from './metrics.ts';
import { type Delivery, DeliveryError } from './providers/outcome.ts';
import type { PushTransport } from './push/delivery.ts';
import type { SendSms } from './sms/providers.ts';

export const deliveryJob = 'communications.deliver';

/** After this long an attempt that never finished counts as lost: longer than an attempt takes, shorter than the queue waits. Milliseconds. */
const lostAfterMs = 4 * 60_000;
/** The same for a message whose first attempt is made by whoever stored it. */
export const lostAfterSeconds = 5 * 60;
/** When the queue gives up on an attempt and starts the next. */
const expireInSeconds = 5 * 60;
/** The queue's own limit; the configured one below it decides. */
const queueRetries = 60;
const purgeBatch = 5000;

export interface Transports {
  readonly email: MailTransport;
  readonly sms: SendSms;
  readonly push: PushTransport;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets' | 'metrics' | 'jobs'> {
  readonly transports: Transports;
  readonly config: () => CommunicationsConfig;
  /** Told when an attempt of a step of a chain has ended. */
  readonly onStep: (chainId: string) => Promise<void>;
}

/** One attempt while somebody waits. Answers how it ended, or the error that will be tried again; nothing when a job has it. */
export type DeliverNow = (id: string) => Promise<Delivery | Error | undefined>;

interface DeliveryService {
  readonly deliverNow: DeliverNow;
  readonly jobs: readonly JobDefinition[];
}

export function createDelivery(dependencies: Dependencies): DeliveryService {
  const { database, metrics, config } = dependencies;
  const outcomes = metrics.counter('messages_total', 'Messages by how their delivery ended', [
    'channel',
    'outcome',
  ]);
  const countSent = measureMessages({ metrics, database });

  const attempt = async (message: ClaimedMessage): Promise<Delivery | Failure> => {
    const { id, channel, attempts } = message;
    try {
      const delivery = await deliver(dependencies, message);
      await finishMessage(database, id, {
        ...endingOf(delivery),
        keep: channel === 'email' && config().email.storeEmails.enabled,
      });
      await keepRefusal(dependencies, message, delivery);
      outcomes.inc({
        channel,
        outcome: delivery.outcome === 'accepted' ? 'sent' : delivery.outcome,
      });
      if (delivery.outcome === 'accepted') countSent(channel);
      if (message.chainId !== null) await dependencies.onStep(message.chainId);
      return delivery;
    } catch (error) {
      const last = attempts > config().messages.retries;
      if (last) outcomes.inc({ channel, outcome: 'failed' });
      return { error, last };
    }
  };

  return {
    async deliverNow(id) {
      const message = await claimMessage(database, id, lostAfterMs);
      const ended = message && (await attempt(message));
      if (!ended || !('error' in ended)) return ended;
      const { error } = ended;
      // The caller is told, and sends it again when our credentials are in order.
      const last = ended.last || (error instanceof DeliveryError && error.kind === 'auth');
      await keepFailure(dependencies, id, { error, last, afterSeconds: firstPauseSeconds });
      return error instanceof Error ? error : new Error('The delivery failed');
    },
    jobs: [
      defineJob({
        name: deliveryJob,
        data: Type.Object({ id: Type.String({ format: 'uuid' }) }),
        retries: queueRetries,
        expireInSeconds,
        async handler({ id }) {
          const message = await claimMessage(database, id, lostAfterMs);
          const ended = message && (await attempt(message));
          if (ended && 'error' in ended) await keepFailure(dependencies, id, ended);
        },
      }),
      purgeJob(dependencies),
    ],
  };
}

/** An address that its provider says does not exist, or took itself off, gets nothing more. */
async function keepRefusal(
  { database, config }: Dependencies,
  { channel, recipient }: ClaimedMessage,
  delivery: Delivery,
): Promise<void> {
  if (delivery.outcome !== 'refused' || delivery.gone === undefined) return;
  if (!config().suppression.enabled) return;
  const { gone: reason, reason: detail } = delivery;
  await insertSuppression(database, { channel, address: recipient, scope: '', reason, detail });
}

interface Failure {
  readonly error: unknown;
  /** No further attempt is made. */
  readonly last: boolean;
  /** Pause before the next one, where no queue knows it. */
  readonly afterSeconds?: number;
}

/** Seconds before the second attempt of what was first sent while somebody waited. */
const firstPauseSeconds = 2;

/** Throws for the queue to try again, unless the provider has said when. */
async function keepFailure(
  { database, jobs }: Dependencies,
  id: string,
  { error, last, afterSeconds }: Failure,
): Promise<void> {
  const ending = failureOf(error, last);
  const startAfterSeconds =
    (error instanceof DeliveryError ? error.retryAfter : undefined) ?? afterSeconds;
  if (last || startAfterSeconds === undefined) {
    await finishMessage(database, id, ending);
    if (!last) throw error;
    return;
  }
  await database.transaction(async (transaction) => {
    await finishMessage(transaction, id, ending);
    await jobs.enqueue(deliveryJob, { id }, { transaction, startAfterSeconds });
  });
}

const purgeJob = ({ database, config }: Dependencies): JobDefinition =>
  defineJob({
    name: 'communications.purge-messages',
    data: Type.Object({}),
    schedule: '47 * * * *',
    async handler(_data, { signal, log }) {
      const { messages, pushNotifications } = config();
      const inBatches = async (purge: () => Promise<number>): Promise<number> => {
        let total = 0;
        for (let gone = purgeBatch; gone >= purgeBatch && !signal.aborted; total += gone)
          gone = await purge();
        return total;
      };
      const rows = await inBatches(() => purgeMessages(database, messages.retention, purgeBatch));
      const entries = await inBatches(() =>
        purgeNotifications(database, pushNotifications.inbox.retention, purgeBatch),
      );
      await purgeBroadcasts(database, messages.retention);
      await purgeReports(database);
      await purgeChains(database, messages.retention);
      if (rows + entries > 0) log.info({ rows, entries }, 'Purged old messages');
    },
  });

async function deliver(
  { database, secrets, transports, config }: Dependencies,
  message: ClaimedMessage,
): Promise<Delivery> {
  const { id, channel, recipient, contentSealed, completed, retaken } = message;
  if (retaken)
    await noteEvent(database, id, {
      kind: 'retaken',
      detail: 'an earlier attempt never told how it ended: the message may arrive twice',
    });
  const content = openContent(secrets, id, contentSealed);
  if (!isAllowed(config().messages.allowOnly, recipient)) return { outcome: 'captured' };
  const suppressed = await suppressionOf(database, channel, recipient, message);
  if (suppressed)
    return {
      outcome: 'refused',
      provider: 'suppression',
      about: 'recipient',
      reason: `the recipient gets no messages: ${suppressed.reason}`,
    };
  if (channel === 'email') return transports.email.deliver(id, recipient, content);
  if (channel === 'sms') return transports.sms({ id, to: recipient, text: content.text });
  const { push: { platform, ...note } = { silent: false } } = content;
  return transports.push.deliver({
    id,
    userId: recipient,
    note,
    platform: platform ?? null,
    completed: completed ?? [],
  });
}

/** The wall for stages before production: addresses, domains (`@example.com`), numbers and ids that are written down. */
export function isAllowed(allowOnly: readonly string[], recipient: string): boolean {
  if (allowOnly.length === 0) return true;
  const address = recipient.toLowerCase();
  return allowOnly.some((entry) => {
    const allowed = entry.toLowerCase();
    return allowed.startsWith('@') ? address.endsWith(allowed) : address === allowed;
  });
}

function endingOf(delivery: Delivery): Ending {
  switch (delivery.outcome) {
    case 'accepted':
      return {
        status: 'sent',
        kind: 'accepted',
        provider: delivery.provider,
        providerId: delivery.id,
        detail: delivery.detail,
      };
    case 'captured':
      return { status: 'captured', kind: 'captured' };
    case 'refused':
      return {
        status: 'failed',
        kind: 'refused',
        provider: delivery.provider,
        error: delivery.reason,
        detail: delivery.reason,
      };
  }
}

function failureOf(error: unknown, last: boolean): Ending {
  const reason = reasonOf(error);
  const provider = error instanceof DeliveryError ? error.provider : undefined;
  const doubt =
    error instanceof DeliveryError && error.kind === 'unknown'
      ? ' (it may have been taken: a further attempt may bring it twice)'
      : '';
  return {
    status: last ? 'failed' : 'queued',
    kind: last ? 'failed' : 'tried',
    error: reason,
    provider,
    detail: `${reason}${doubt}`,
  };
}

/** The kind of failure; what a mail server said may quote the message and is left out. */
function reasonOf(error: unknown): string {
  if (error instanceof DeliveryError) return error.message;
  const [code, responseCode] = ['code', 'responseCode'].map((key) =>
    typeof error === 'object' && error !== null ? Reflect.get(error, key) : undefined,
  );
  return (
    [code, responseCode]
      .filter((part) => typeof part === 'string' || typeof part === 'number')
      .join(' ') || 'the delivery failed'
  );
}
