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
import { forgetPushOf } from '../push-queries.ts';
import {
  type Channel,
  deleteMessagesOf,
  insertMessage,
  lockKey,
  messageByKey,
} from '../queries.ts';
import { oneLine, requireMailbox, requireNumber, senderAddress } from '../recipients.ts';
import type { MailParts, PushNote } from './content.ts';
import { type MessageContent, plainText, sealContent } from './content.ts';
import { deliveryJob, lostAfterSeconds } from './delivery.ts';
import { parsePart, type Variables } from './template-language.ts';
import type { ReadyTemplate, Templates } from './templates.ts';

interface Recipient {
  /** The user that it is about: the message goes when the user is deleted. */
  readonly userId?: string;
}

export interface TemplatedEmail extends Recipient, MailParts {
  readonly to: string;
  readonly template: string;
  readonly variables: Variables;
  /** In place of what the template says. */
  readonly subject?: string;
  readonly body?: string;
  readonly sender?: string;
  /**
   * Sent however many messages the recipient has got: for what the owner of an account must learn. Whoever has
   * taken the account could else use up what they may get, and with it the notice that leads back.
   */
  readonly essential?: boolean;
}

export interface PlainEmail extends Recipient, MailParts {
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

/** How a message is stored beside what it says. */
export interface Storing {
  /** The caller's own key: a second message under it is not stored. */
  readonly idempotency?: { readonly key: string; readonly hash: string } | undefined;
  /** Whoever stores it makes the first attempt; the job comes only where that one is lost. */
  readonly firstAttempt?: boolean | undefined;
}

export interface Push {
  readonly userId: string;
  readonly note: PushNote;
  /** Only to devices of this platform. */
  readonly platform?: string | undefined;
}

/** Whether messages of this channel are switched on, and how many one recipient gets. */
export const channelSettings = (
  config: CommunicationsConfig,
  channel: Channel,
): { readonly active: boolean; readonly maxPerRecipient: number } =>
  config[channel === 'push' ? 'pushNotifications' : channel];

export interface Messages {
  /** Whether messages of this channel are sent at all. */
  available(channel: Channel): boolean;
  /**
   * Stores a mail to be sent; answers its id. Nothing is stored when the channel is off or the recipient
   * has got too many and it is not essential (the caller must not be able to tell which accounts exist from that).
   * Throws TEMPLATE_NOT_FOUND, INVALID_RECIPIENT.
   */
  sendEmail(
    transaction: Queryable,
    email: TemplatedEmail | PlainEmail,
    storing?: Storing,
  ): Promise<string | undefined>;
  /** The same for a text message. */
  sendSms(transaction: Queryable, sms: Sms, storing?: Storing): Promise<string | undefined>;
  /** The same for the devices of a user. */
  sendPush(transaction: Queryable, push: Push): Promise<string | undefined>;
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

export function createMessages(dependencies: Dependencies): Messages {
  const { jobs, durableLimits, metrics, secrets, config, log } = dependencies;
  const dropped = metrics.counter(
    'messages_dropped_total',
    'Messages that were not sent because the recipient got too many',
    ['channel'],
  );

  const mayReceive = async (channel: Channel, recipient: string): Promise<boolean> => {
    const bucket: LimitBucket = {
      name: `communications.${channel}`,
      requests: channelSettings(config(), channel).maxPerRecipient,
      seconds: 3600,
    };
    const { allowed } = await durableLimits.consume(bucket, sha256(recipient.toLowerCase()));
    if (allowed) return true;
    dropped.inc({ channel });
    log.warn(
      { channel, perHour: bucket.requests },
      'A message was dropped: its recipient got too many in this hour',
    );
    return false;
  };

  const store = async (
    transaction: Queryable,
    { content, essential, ...message }: Prepared,
    { idempotency, firstAttempt = false }: Storing = {},
  ): Promise<string | undefined> => {
    const earlier = idempotency && (await earlierMessage(transaction, idempotency));
    if (earlier !== undefined) return earlier;
    if (!essential && !(await mayReceive(message.channel, message.recipient))) return undefined;
    const id = newId();
    await insertMessage(transaction, {
      id,
      ...message,
      contentSealed: sealContent(secrets, id, content),
      idempotencyKey: idempotency?.key ?? null,
      requestHash: idempotency?.hash ?? null,
    });
    const later = firstAttempt ? { startAfterSeconds: lostAfterSeconds } : {};
    await jobs.enqueue(deliveryJob, { id }, { transaction, ...later });
    return id;
  };

  return {
    available: (channel) => channelSettings(config(), channel).active,
    async sendEmail(transaction, email, storing) {
      const recipient = requireMailbox(email.to);
      if (!config().email.active) return undefined;
      const [template, essential] =
        'template' in email ? [email.template, email.essential === true] : [null, false];
      const content = await write(dependencies, email);
      return store(
        transaction,
        {
          channel: 'email',
          recipient,
          userId: email.userId ?? null,
          template,
          essential,
          content,
        },
        storing,
      );
    },
    async sendSms(transaction, { to, text, code, userId }, storing) {
      const recipient = requireNumber(to);
      if (!config().sms.active) return undefined;
      const content = { text, ...(code === undefined ? {} : { code }) };
      return store(
        transaction,
        {
          channel: 'sms',
          recipient,
          userId: userId ?? null,
          template: null,
          essential: false,
          content,
        },
        storing,
      );
    },
    async sendPush(transaction, { userId, note, platform }) {
      if (!config().pushNotifications.active) return undefined;
      return store(transaction, {
        channel: 'push',
        recipient: userId,
        userId,
        template: null,
        essential: false,
        content: pushContent(note, platform),
      });
    },
    async forgetUsers(transaction, userIds) {
      await deleteMessagesOf(transaction, userIds);
      await forgetPushOf(transaction, userIds);
    },
  };
}

/** The message that was stored under this key. Others with the same key wait meanwhile. Throws 409 for another request. */
async function earlierMessage(
  transaction: Queryable,
  { key, hash }: { readonly key: string; readonly hash: string },
): Promise<string | undefined> {
  await lockKey(transaction, key);
  const earlier = await messageByKey(transaction, key);
  if (earlier && earlier.requestHash !== hash) throw errors.IDEMPOTENCY_KEY_REUSED();
  return earlier?.id;
}

export const pushContent = (note: PushNote, platform: string | undefined): MessageContent => ({
  text: note.body ?? note.title ?? '',
  push: { ...note, ...(platform === undefined ? {} : { platform }) },
});

/** What stands in a mail beside its text, where anything does. */
function mailPartsOf({
  cc,
  bcc,
  replyTo,
  headers,
  attachments,
}: MailParts): Pick<MessageContent, 'mail'> {
  const parts = Object.entries({ cc, bcc, replyTo, headers, attachments }).filter(
    ([, part]) => part !== undefined,
  );
  return parts.length === 0 ? {} : { mail: Object.fromEntries(parts) };
}

async function write(
  { config, templates }: Dependencies,
  email: TemplatedEmail | PlainEmail,
): Promise<MessageContent> {
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
    ...mailPartsOf(email),
  };
}

/** What the mail says itself goes before what its template says. */
async function partsOf(
  templates: Templates,
  email: TemplatedEmail | PlainEmail,
): Promise<ReadyTemplate> {
  const { subject, body, sender } = email;
  const template = 'template' in email ? await templates.resolve(email.template) : undefined;
  return {
    subject:
      subject === undefined && template ? template.subject : parsePart('subject', subject ?? ''),
    body: body === undefined && template ? template.body : parsePart('body', body ?? ''),
    sender: sender ?? template?.sender,
  };
}
