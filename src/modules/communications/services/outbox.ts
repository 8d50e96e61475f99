/** The outbox as operators see it, and the sandbox with it. */
import type { Kernel } from '../../../host/kernel.ts';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { messageErrors } from '../errors.ts';
import {
  cancelMessage,
  listMessages,
  type MessageFilter,
  type MessageRow,
  messageById,
  requeueMessage,
  type TimelineRow,
  timelineOf,
} from '../queries.ts';
import { contentOf } from '../record-queries.ts';
import { linksOf, type MessageContent, openContent } from './content.ts';
import type { DeliverNow } from './delivery.ts';
import { deliveryJob } from './delivery-lanes.ts';
import type { MessageStore } from './messages.ts';
import type { PlainEmail, Sms, Storing, TemplatedEmail } from './outgoing.ts';
import { type Delivery, DeliveryError } from './providers/outcome.ts';
import type { Templates } from './templates.ts';

export interface MessageView
  extends Omit<
    MessageRow,
    'contentSealed' | 'createdAt' | 'finishedAt' | 'dueAt' | 'copies' | 'copies'
  > {
  readonly createdAt: string;
  readonly finishedAt: string | null;
  readonly dueAt: string | null;
  readonly copies: string[] | null;
  readonly content?: MessageContent & { readonly links: readonly string[] };
  /** What happened, in order; only where one message is read. */
  readonly timeline?: readonly (Omit<TimelineRow, 'at'> & { readonly at: string })[];
}

type MailStoring = Pick<Storing, 'idempotency' | 'category' | 'critical' | 'sendAt'>;

export interface SentNow {
  readonly messageId: string;
  readonly sent: boolean;
  /** Kept here, since no provider is set. */
  readonly captured: boolean;
}

export interface Outbox {
  list(
    filter: MessageFilter,
  ): Promise<{ readonly messages: readonly MessageView[]; readonly count: number }>;
  /** With the content where it was captured and a caller is given; throws MESSAGE_NOT_FOUND, and 403 where they may not know it. */
  read(caller: Caller | undefined, id: string): Promise<MessageView>;
  /** Sends a failed message again; throws MESSAGE_NOT_RETRYABLE. */
  retry(id: string): Promise<void>;
  /** Takes back what has not gone out; throws MESSAGE_NOT_CANCELLABLE. */
  cancel(id: string): Promise<void>;
  /** Sends a mail once more, as another message; answers its id. Throws MESSAGE_CONTENT_MISSING. */
  resend(id: string): Promise<string>;
  /**
   * Stores mails that an operator writes, all or none; answers their ids. Throws 503 when the channel is off, 422 when a
   * recipient gets none, 429 when one got too many.
   */
  sendEmails(
    mails: readonly (readonly [TemplatedEmail | PlainEmail, MailStoring])[],
  ): Promise<readonly string[]>;
  /** Sends a mail while the caller waits, past what its recipient chose; answers what the provider said. Throws as `sendSms`. */
  testEmail(email: TemplatedEmail | PlainEmail): Promise<SentNow>;
  /**
   * Sends it while the caller waits: `sent` tells whether a provider took it, else it is tried again later. Throws
   * PROVIDER_REFUSED for what the provider refuses, PROVIDER_AUTH for credentials of ours; neither is tried again.
   */
  sendSms(sms: Sms): Promise<SentNow>;
  /** Stores it to be sent by a job; answers its id. */
  queueSms(sms: Sms): Promise<string>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'jobs' | 'secrets'> {
  readonly messages: MessageStore;
  readonly deliverNow: DeliverNow;
  readonly templates: Pick<Templates, 'requireOwner'>;
}

export const createOutbox = (dependencies: Dependencies): Outbox => ({
  ...createReading(dependencies),
  ...createWriting(dependencies),
});

/** Throws RATE_LIMIT where nothing was stored. */
function sent(id: string | undefined): string {
  if (id === undefined)
    throw errors.RATE_LIMIT({
      message: 'This recipient got too many messages in this hour',
      retryAfter: 3600,
    });
  return id;
}

const accounts = { kind: 'module', module: 'authentication' } as const;

/** What was written: read, sent again, taken back. */
function createReading({
  database,
  jobs,
  secrets,
  messages,
  templates,
}: Dependencies): Pick<Outbox, 'list' | 'read' | 'retry' | 'cancel' | 'resend'> {
  return {
    async list(filter) {
      const { rows, count } = await listMessages(database, filter);
      return { messages: rows.map(viewOf), count };
    },
    async read(caller, id) {
      const row = await messageById(database, id);
      if (!row) throw messageErrors.MESSAGE_NOT_FOUND();
      // What waits to be sent to a real person is nobody else's to read.
      const timeline = (await timelineOf(database, id)).map(({ at, ...event }) => ({
        ...event,
        at: at.toISOString(),
      }));
      if (!caller || row.status !== 'captured' || row.contentSealed === null)
        return { ...viewOf(row), timeline };
      const { module, ...content } = await openContent(secrets, id, row.contentSealed);
      if (module !== undefined) requireAuthority(caller, { kind: 'module', module });
      if (row.template !== null) templates.requireOwner(caller, row.template);
      // Codes of text messages open accounts too, and have no template.
      if (content.code !== undefined) requireAuthority(caller, accounts);
      return { ...viewOf(row), timeline, content: { ...content, links: linksOf(content) } };
    },
    retry: (id) =>
      database.transaction(async (transaction) => {
        if (!(await messageById(transaction, id))) throw messageErrors.MESSAGE_NOT_FOUND();
        if (!(await requeueMessage(transaction, id))) throw messageErrors.MESSAGE_NOT_RETRYABLE();
        await jobs.enqueue(deliveryJob, { id }, { transaction });
      }),
    async cancel(id) {
      if (!(await messageById(database, id))) throw messageErrors.MESSAGE_NOT_FOUND();
      if (!(await cancelMessage(database, id))) throw messageErrors.MESSAGE_NOT_CANCELLABLE();
    },
    async resend(id) {
      const row = await messageById(database, id);
      const kept = row?.channel === 'email' ? await contentOf(database, id) : undefined;
      if (!row || !kept) throw messageErrors.MESSAGE_NOT_FOUND();
      if (kept.sealed === null) throw messageErrors.MESSAGE_CONTENT_MISSING();
      const content = await openContent(secrets, id, kept.sealed);
      const { category, recipient, template } = row;
      const about = { category: category ?? undefined, critical: kept.critical };
      await messages.requireWilling('email', recipient, about);
      return sent(
        await database.transaction((transaction) =>
          messages.sendAgain(
            transaction,
            { to: recipient, userId: kept.userId ?? undefined, template },
            content,
            { ...about, resentFrom: id },
          ),
        ),
      );
    },
  };
}

/** What operators write. */
function createWriting({
  database,
  messages,
  deliverNow,
}: Dependencies): Pick<Outbox, 'testEmail' | 'sendEmails' | 'queueSms' | 'sendSms'> {
  return {
    async testEmail(email) {
      if (!messages.available('email')) throw messageErrors.CHANNEL_DISABLED();
      const messageId = sent(
        await database.transaction((transaction) =>
          messages.sendEmail(transaction, email, { firstAttempt: true, critical: true }),
        ),
      );
      return { messageId, ...whatCame(await deliverNow(messageId)) };
    },
    async sendEmails(mails) {
      if (!messages.available('email')) throw messageErrors.CHANNEL_DISABLED();
      await messages.requireAllWilling(
        'email',
        mails.map(([email, storing]) => ({ recipient: email.to, ...storing })),
      );
      return database.transaction(async (transaction) =>
        (await messages.sendEmails(transaction, mails)).map(sent),
      );
    },
    async queueSms(sms) {
      if (!messages.available('sms')) throw messageErrors.CHANNEL_DISABLED();
      await messages.requireWilling('sms', sms.to, {});
      return sent(await database.transaction((transaction) => messages.sendSms(transaction, sms)));
    },
    async sendSms(sms) {
      if (!messages.available('sms')) throw messageErrors.CHANNEL_DISABLED();
      await messages.requireWilling('sms', sms.to, {});
      const messageId = sent(
        await database.transaction((transaction) =>
          messages.sendSms(transaction, sms, { firstAttempt: true }),
        ),
      );
      return { messageId, ...whatCame(await deliverNow(messageId)) };
    },
  };
}

const whatCame = (outcome: Delivery | Error | undefined): Omit<SentNow, 'messageId'> => ({
  sent: wasTaken(outcome),
  captured: !(outcome instanceof Error) && outcome?.outcome === 'captured',
});

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

const viewOf = ({
  contentSealed: _sealed,
  createdAt,
  finishedAt,
  dueAt,
  copies,
  ...row
}: MessageRow): MessageView => ({
  ...row,
  dueAt: dueAt?.toISOString() ?? null,
  copies: copies === null ? null : [...copies],
  createdAt: createdAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});
