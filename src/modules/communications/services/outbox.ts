/** The outbox as operators see it, and the sandbox with it. */
import type { Kernel } from '../../../host/kernel.ts';
import { errors } from '../../../kernel/errors.ts';
import { messageErrors } from '../errors.ts';
import {
  type Channel,
  listMessages,
  type MessageFilter,
  type MessageRow,
  messageById,
  requeueMessage,
  suppressionOf,
  type TimelineRow,
  timelineOf,
} from '../queries.ts';
import { linksOf, type MessageContent, openContent } from './content.ts';
import { type DeliverNow, deliveryJob } from './delivery.ts';
import type { Messages, PlainEmail, Sms, Storing, TemplatedEmail } from './messages.ts';
import { type Delivery, DeliveryError } from './providers/outcome.ts';

export interface MessageView
  extends Omit<MessageRow, 'contentSealed' | 'createdAt' | 'finishedAt'> {
  readonly createdAt: string;
  readonly finishedAt: string | null;
  readonly content?: MessageContent & { readonly links: readonly string[] };
  /** What happened, in order; only where one message is read. */
  readonly timeline?: readonly (Omit<TimelineRow, 'at'> & { readonly at: string })[];
}

export interface Outbox {
  list(
    filter: MessageFilter,
  ): Promise<{ readonly messages: readonly MessageView[]; readonly count: number }>;
  /** With the content where it was captured; throws MESSAGE_NOT_FOUND. */
  read(id: string): Promise<MessageView>;
  /** Sends a failed message again; throws MESSAGE_NOT_RETRYABLE. */
  retry(id: string): Promise<void>;
  /** Stores a message that an operator writes; answers its id. Throws 503 when the channel is off, 429 when the recipient got too many. */
  sendEmail(
    email: TemplatedEmail | PlainEmail,
    storing?: Pick<Storing, 'idempotency'>,
  ): Promise<string>;
  /**
   * Sends it while the caller waits: `sent` tells whether a provider took it, else it is tried again later. Throws
   * PROVIDER_REFUSED for what the provider refuses, PROVIDER_AUTH for credentials of ours; neither is tried again.
   */
  sendSms(sms: Sms): Promise<{ readonly messageId: string; readonly sent: boolean }>;
  /** Stores it to be sent by a job; answers its id. */
  queueSms(sms: Sms): Promise<string>;
}

export function createOutbox({
  database,
  jobs,
  secrets,
  messages,
  deliverNow,
}: Pick<Kernel, 'database' | 'jobs' | 'secrets'> & {
  readonly messages: Messages;
  readonly deliverNow: DeliverNow;
}): Outbox {
  const requireWilling = async (channel: Channel, address: string): Promise<void> => {
    const suppressed = await suppressionOf(database, channel, address);
    if (suppressed)
      throw messageErrors.RECIPIENT_SUPPRESSED({
        message: `This recipient gets no messages: ${suppressed.reason}`,
      });
  };
  const sent = (id: string | undefined): string => {
    if (id === undefined)
      throw errors.RATE_LIMIT({
        message: 'This recipient got too many messages in this hour',
        retryAfter: 3600,
      });
    return id;
  };
  return {
    async list(filter) {
      const { rows, count } = await listMessages(database, filter);
      return { messages: rows.map(shown), count };
    },
    async read(id) {
      const row = await messageById(database, id);
      if (!row) throw messageErrors.MESSAGE_NOT_FOUND();
      // What waits to be sent to a real person is nobody else's to read.
      const timeline = (await timelineOf(database, id)).map(({ at, ...event }) => ({
        ...event,
        at: at.toISOString(),
      }));
      if (row.status !== 'captured' || row.contentSealed === null)
        return { ...shown(row), timeline };
      const content = openContent(secrets, id, row.contentSealed);
      return { ...shown(row), timeline, content: { ...content, links: linksOf(content) } };
    },
    retry: (id) =>
      database.transaction(async (transaction) => {
        if (!(await messageById(transaction, id))) throw messageErrors.MESSAGE_NOT_FOUND();
        if (!(await requeueMessage(transaction, id))) throw messageErrors.MESSAGE_NOT_RETRYABLE();
        await jobs.enqueue(deliveryJob, { id }, { transaction });
      }),
    async sendEmail(email, storing) {
      if (!messages.available('email')) throw messageErrors.CHANNEL_DISABLED();
      await requireWilling('email', email.to);
      return sent(
        await database.transaction((transaction) =>
          messages.sendEmail(transaction, email, storing),
        ),
      );
    },
    async queueSms(sms) {
      if (!messages.available('sms')) throw messageErrors.CHANNEL_DISABLED();
      await requireWilling('sms', sms.to);
      return sent(await database.transaction((transaction) => messages.sendSms(transaction, sms)));
    },
    async sendSms(sms) {
      if (!messages.available('sms')) throw messageErrors.CHANNEL_DISABLED();
      await requireWilling('sms', sms.to);
      const messageId = sent(
        await database.transaction((transaction) =>
          messages.sendSms(transaction, sms, { firstAttempt: true }),
        ),
      );
      return { messageId, sent: wasTaken(await deliverNow(messageId)) };
    },
  };
}

/** Throws what the interface answers for a provider that says no. */
function wasTaken(outcome: Delivery | Error | undefined): boolean {
  if (outcome instanceof DeliveryError && outcome.kind === 'auth')
    throw messageErrors.PROVIDER_AUTH({ detail: outcome.message });
  if (outcome instanceof Error || outcome === undefined) return false;
  if (outcome.outcome === 'refused')
    throw messageErrors.PROVIDER_REFUSED({
      message: `The provider refused the message: ${outcome.reason}`,
    });
  return outcome.outcome === 'accepted';
}

const shown = ({
  contentSealed: _sealed,
  createdAt,
  finishedAt,
  ...row
}: MessageRow): MessageView => ({
  ...row,
  createdAt: createdAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});
