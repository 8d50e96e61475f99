/**
 * Messages to people. A message is stored with the change that causes it and sent by a job afterwards,
 * so that it is neither lost when the mail server is down nor sent for a change that never happened.
 */

import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { cutText } from '../../../kernel/text.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import {
  type Channel,
  deleteMessagesOf,
  insertMessage,
  listMessages,
  type MessageFilter,
  type MessageRow,
  messageById,
  requeueMessage,
} from '../queries.ts';
import { oneLine, requireMailbox, requireNumber, senderAddress } from '../recipients.ts';
import { linksOf, type MessageContent, openContent, plainText, sealContent } from './content.ts';
import { deliveryJob } from './delivery.ts';
import { parsePart, type Variables } from './template-language.ts';
import type { ReadyTemplate, Templates } from './templates.ts';

interface Recipient {
  /** The user that it is about: the message goes when the user is deleted. */
  readonly userId?: string;
}

export interface TemplatedEmail extends Recipient {
  readonly to: string;
  readonly template: string;
  readonly variables: Variables;
  /** In place of what the template says. */
  readonly subject?: string;
  readonly body?: string;
  readonly sender?: string;
  /**
   * Sent however many messages the recipient has got: for what the owner of an account must learn. Whoever has
   * taken the account could else use up what he may get, and with it the notice that leads back.
   */
  readonly essential?: boolean;
}

export interface PlainEmail extends Recipient {
  readonly to: string;
  readonly subject: string;
  /** HTML with {{variables}}. */
  readonly body: string;
  readonly variables?: Variables;
  readonly sender?: string;
}

export interface Sms extends Recipient {
  /** E.164. */
  readonly to: string;
  readonly text: string;
  /** The code that the text tells, for the sandbox. */
  readonly code?: string;
}

export interface Messages {
  /** Whether messages of this channel are sent at all. */
  available(channel: Channel): boolean;
  /**
   * Stores a mail to be sent; answers its id. Nothing is stored when the channel is off or the recipient
   * has got too many and it is not essential (the caller must not be able to tell which accounts exist from that).
   * Throws TEMPLATE_NOT_FOUND, INVALID_RECIPIENT.
   */
  sendEmail(transaction: Queryable, email: TemplatedEmail | PlainEmail): Promise<string | undefined>;
  /** The same for a text message. */
  sendSms(transaction: Queryable, sms: Sms): Promise<string | undefined>;
  /** Deletes what was written to these users, in the transaction that deletes them. */
  forgetUsers(transaction: Queryable, userIds: readonly string[]): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'jobs' | 'durableLimits' | 'metrics' | 'secrets'> {
  readonly templates: Templates;
  readonly config: () => CommunicationsConfig;
  readonly log: Logger;
}

interface Prepared {
  readonly channel: Channel;
  readonly recipient: string;
  readonly userId: string | null;
  readonly template: string | null;
  readonly essential: boolean;
  readonly content: MessageContent;
}

export function createMessages({ jobs, durableLimits, metrics, secrets, templates, config, log }: Dependencies): Messages {
  const dropped = metrics.counter('messages_dropped_total', 'Messages that were not sent because the recipient got too many', ['channel']);

  const mayReceive = async (channel: Channel, recipient: string): Promise<boolean> => {
    const bucket: LimitBucket = { name: `communications.${channel}`, requests: config()[channel].maxPerRecipient, seconds: 3600 };
    const { allowed } = await durableLimits.consume(bucket, sha256(recipient.toLowerCase()));
    if (allowed) return true;
    dropped.inc({ channel });
    log.warn({ channel, perHour: bucket.requests }, 'A message was dropped: its recipient got too many in this hour');
    return false;
  };

  const store = async (transaction: Queryable, { content, essential, ...message }: Prepared): Promise<string | undefined> => {
    if (!essential && !(await mayReceive(message.channel, message.recipient))) return undefined;
    const id = newId();
    await insertMessage(transaction, { id, ...message, contentSealed: sealContent(secrets, id, content) });
    await jobs.enqueue(deliveryJob, { id }, { transaction });
    return id;
  };

  const write = async (email: TemplatedEmail | PlainEmail): Promise<MessageContent> => {
    const { sender, sendingDomain } = config().email;
    const parts = await partsOf(templates, email);
    const variables = email.variables ?? {};
    const html = parts.body.render(variables, 'html');
    const { code } = variables;
    return {
      from: senderAddress(parts.sender ?? sender, sendingDomain),
      subject: cutText(oneLine(parts.subject.render(variables, 'plain')), 500),
      html,
      text: plainText(html),
      ...(typeof code === 'string' ? { code } : {}),
    };
  };

  return {
    available: (channel) => config()[channel].active,
    async sendEmail(transaction, email) {
      const recipient = requireMailbox(email.to);
      if (!config().email.active) return undefined;
      const [template, essential] = 'template' in email ? [email.template, email.essential === true] : [null, false];
      const content = await write(email);
      return store(transaction, { channel: 'email', recipient, userId: email.userId ?? null, template, essential, content });
    },
    async sendSms(transaction, { to, text, code, userId }) {
      const recipient = requireNumber(to);
      if (!config().sms.active) return undefined;
      const content = { text, ...(code === undefined ? {} : { code }) };
      return store(transaction, { channel: 'sms', recipient, userId: userId ?? null, template: null, essential: false, content });
    },
    forgetUsers: deleteMessagesOf,
  };
}

/** What the mail says itself goes before what its template says. */
async function partsOf(templates: Templates, email: TemplatedEmail | PlainEmail): Promise<ReadyTemplate> {
  const { subject, body, sender } = email;
  const template = 'template' in email ? await templates.resolve(email.template) : undefined;
  return {
    subject: subject === undefined && template ? template.subject : parsePart('subject', subject ?? ''),
    body: body === undefined && template ? template.body : parsePart('body', body ?? ''),
    sender: sender ?? template?.sender,
  };
}

/* The outbox as operators see it, and the sandbox with it. */

export interface MessageView extends Omit<MessageRow, 'contentSealed' | 'createdAt' | 'finishedAt'> {
  readonly createdAt: string;
  readonly finishedAt: string | null;
  readonly content?: MessageContent & { readonly links: readonly string[] };
}

export interface Outbox {
  list(filter: MessageFilter): Promise<{ readonly messages: readonly MessageView[]; readonly count: number }>;
  /** With the content where it was captured; throws MESSAGE_NOT_FOUND. */
  read(id: string): Promise<MessageView>;
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

const shown = ({ contentSealed: _sealed, createdAt, finishedAt, ...row }: MessageRow): MessageView => ({
  ...row,
  createdAt: createdAt.toISOString(),
  finishedAt: finishedAt?.toISOString() ?? null,
});
