/** The outbox as operators see it, and the sandbox with it. */
import { errors } from '../../../kernel/errors.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { messageErrors } from '../errors.ts';
import { listMessages, type MessageFilter, type MessageRow, messageById, requeueMessage } from '../queries.ts';
import { linksOf, type MessageContent, openContent } from './content.ts';
import { deliveryJob } from './delivery.ts';
import type { Messages, PlainEmail, Sms, TemplatedEmail } from './messages.ts';

export interface ShownMessage extends Omit<MessageRow, 'contentSealed' | 'createdAt' | 'finishedAt'> {
  readonly createdAt: string;
  readonly finishedAt: string | null;
  readonly content?: MessageContent & { readonly links: readonly string[] };
}

export interface Outbox {
  list(filter: MessageFilter): Promise<{ readonly messages: readonly ShownMessage[]; readonly count: number }>;
  /** With the content where it was captured; throws MESSAGE_NOT_FOUND. */
  read(id: string): Promise<ShownMessage>;
  /** Sends a failed message again; throws NOT_RETRYABLE. */
  retry(id: string): Promise<void>;
  /** Stores a message that an operator writes; answers its id. Throws 503 when the channel is off, 429 when the recipient got too many. */
  sendEmail(email: TemplatedEmail | PlainEmail): Promise<string>;
  sendSms(sms: Sms): Promise<string>;
}

export function createOutbox({
  database,
  jobs,
  secrets,
  messages,
}: Pick<Kernel, 'database' | 'jobs' | 'secrets'> & { readonly messages: Messages }): Outbox {
  const sent = (id: string | undefined): string => {
    if (id === undefined) throw errors.RATE_LIMIT({ message: 'This recipient got too many messages in this hour', retryAfter: 3600 });
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
      if (row.status !== 'captured' || row.contentSealed === null) return shown(row);
      const content = openContent(secrets, id, row.contentSealed);
      return { ...shown(row), content: { ...content, links: linksOf(content) } };
    },
    retry: (id) =>
      database.transaction(async (transaction) => {
        if (!(await messageById(transaction, id))) throw messageErrors.MESSAGE_NOT_FOUND();
        if (!(await requeueMessage(transaction, id))) throw messageErrors.NOT_RETRYABLE();
        await jobs.enqueue(deliveryJob, { id }, { transaction });
      }),
    async sendEmail(email) {
      if (!messages.available('email')) throw messageErrors.CHANNEL_OFF();
      return sent(await database.transaction((transaction) => messages.sendEmail(transaction, email)));
    },
    async sendSms(sms) {
      if (!messages.available('sms')) throw messageErrors.CHANNEL_OFF();
      return sent(await database.transaction((transaction) => messages.sendSms(transaction, sms)));
    },
  };
}

const shown = ({ contentSealed: _sealed, createdAt, finishedAt, ...row }: MessageRow): ShownMessage => ({
  ...row,
  createdAt: createdAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});
