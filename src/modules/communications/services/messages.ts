/**
 * Messages to people. A message is stored with the change that causes it and sent by a job afterwards,
 * so that it is neither lost when the mail server is down nor sent for a change that never happened.
 */

import type { Kernel } from '../../../host/kernel.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { createTimeSlices } from '../../../kernel/time-slices.ts';
import { forgetChainsOf } from '../chain-queries.ts';
import type { CommunicationsConfig } from '../config.ts';
import { suppressedOf } from '../delivery-queries.ts';
import { messageErrors } from '../errors.ts';
import { suppressionOf } from '../feedback-queries.ts';
import { forgetChoicesOf, lockLeavingUsers } from '../preference-queries.ts';
import { forgetPushOf } from '../push-queries.ts';
import { type Channel, deleteMessagesOf } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';
import type { MessageContent } from './content.ts';
import { writeMail } from './mail-content.ts';
import type {
  OfModule,
  PlainEmail,
  Push,
  Recipient,
  Sms,
  Storing,
  TemplatedEmail,
} from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';
import { channelSettings, createStorage, type Prepared, type Storage } from './storing.ts';
import type { Unsubscribe } from './suppressions.ts';
import type { Templates } from './templates.ts';

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
    email: (TemplatedEmail | PlainEmail) & OfModule,
    storing?: Storing,
  ): Promise<string | undefined>;
  /** The same for a text message. */
  sendSms(
    transaction: Queryable,
    sms: Sms & OfModule,
    storing?: Storing,
  ): Promise<string | undefined>;
  /** The same for the devices of a user. */
  sendPush(
    transaction: Queryable,
    push: Push & OfModule,
    storing?: Storing,
  ): Promise<string | undefined>;
  /** Deletes what was written to these users, in the transaction that deletes them. */
  forgetUsers(transaction: Queryable, userIds: readonly string[]): Promise<void>;
}

type Send<T> = (
  transaction: Queryable,
  message: T,
  storing?: Storing,
) => Promise<string | undefined>;

/** What the module itself asks beside that. */
export interface MessageStore extends Pick<Messages, 'available' | 'forgetUsers'> {
  /** As `Messages` has them, for what operators write as well. */
  readonly sendEmail: Send<TemplatedEmail | PlainEmail>;
  readonly sendSms: Send<Sms>;
  readonly sendPush: Send<Push>;
  /** Stores a mail that was written before, to be sent once more. */
  sendAgain(
    transaction: Queryable,
    mail: {
      readonly to: string;
      readonly userId?: string | undefined;
      readonly template: string | null;
    },
    content: MessageContent,
    storing: Storing,
  ): Promise<string | undefined>;
  /** Stores several mails, all or none; their ids in their order. Throws as `sendEmail`. */
  sendEmails(
    transaction: Queryable,
    mails: readonly (readonly [TemplatedEmail | PlainEmail, Storing])[],
  ): Promise<readonly (string | undefined)[]>;
  /** What a mail says to its recipient. Throws as `sendEmail`. */
  contentOf(
    transaction: Queryable,
    email: TemplatedEmail | PlainEmail,
    storing: Storing,
  ): Promise<MessageContent>;
  /** Stores many that are written and addressed; answers their ids, and nothing for those who opted out or got too many. */
  readonly storeAll: Storage['all'];
  /** Stores one that is written and addressed. */
  readonly store: Storage['one'];
  /** Throws RECIPIENT_SUPPRESSED, RECIPIENT_OPTED_OUT. */
  requireWilling(
    channel: Channel,
    recipient: string,
    about: Pick<Storing, 'category' | 'critical'> & Recipient,
  ): Promise<void>;
  /** The same for several whose users are not known. Throws RECIPIENT_SUPPRESSED. */
  requireAllWilling(
    channel: Channel,
    recipients: readonly (Pick<Storing, 'category' | 'critical'> & {
      readonly recipient: string;
    })[],
  ): Promise<void>;
}

interface Dependencies
  extends Pick<Kernel, 'database' | 'events' | 'jobs' | 'durableLimits' | 'metrics' | 'secrets'> {
  readonly templates: Templates;
  readonly preferences: Pick<Preferences, 'choices' | 'waitsUntil'>;
  readonly unsubscribe: Pick<Unsubscribe, 'linkFor'>;
  readonly config: () => CommunicationsConfig;
  readonly log: Logger;
}

export function createMessages(dependencies: Dependencies): MessageStore {
  const { config } = dependencies;
  const storage = createStorage(dependencies);
  const { one: store, all: storeAll } = storage;
  const isOn = (channel: Channel) => channelSettings(config(), channel).active;

  return {
    available: isOn,
    ...storingMails(dependencies, storage),
    async sendSms(transaction, { to, text, code, userId, module, template = null }, storing) {
      const recipient = requireNumber(to);
      if (!isOn('sms')) return undefined;
      const content = { text, ...(code === undefined ? {} : { code }), ...(module && { module }) };
      return store(
        transaction,
        { channel: 'sms', recipient, userId: userId ?? null, template, content },
        storing,
      );
    },
    async sendPush(transaction, { userId, note, platform, module, template = null }, storing) {
      if (!isOn('push')) return undefined;
      const content = pushContent({ note, platform, module });
      return store(
        transaction,
        { channel: 'push', recipient: userId, userId, template, content },
        storing,
      );
    },
    async sendAgain(transaction, { to, userId, template }, content, storing) {
      if (!isOn('email')) return undefined;
      return store(
        transaction,
        { channel: 'email', recipient: to, userId: userId ?? null, template, content },
        storing,
      );
    },
    contentOf: (transaction, email, storing) =>
      contentFor(dependencies, transaction, email, storing),
    store,
    storeAll,
    requireWilling: (channel, recipient, about) =>
      requireWilling(dependencies, { channel, recipient }, about),
    requireAllWilling: (channel, recipients) =>
      requireAllWilling(dependencies, channel, recipients),
    async forgetUsers(transaction, userIds) {
      await lockLeavingUsers(transaction, userIds);
      await forgetPushOf(transaction, userIds);
      await forgetChoicesOf(transaction, userIds);
      await forgetChainsOf(transaction, userIds);
      // Last: a page of a broadcast, a chain or a digest that was being written had to end before.
      await deleteMessagesOf(transaction, userIds);
    },
  };
}

function storingMails(
  dependencies: Dependencies,
  { one, keyed }: Storage,
): Pick<MessageStore, 'sendEmail' | 'sendEmails'> {
  const isOn = () => channelSettings(dependencies.config(), 'email').active;
  return {
    async sendEmail(transaction, email, storing = {}) {
      const recipient = requireMailbox(email.to);
      if (!isOn()) return undefined;
      const content = await contentFor(dependencies, transaction, email, storing);
      return one(transaction, preparedMail(recipient, email, content), storing);
    },
    async sendEmails(transaction, mails) {
      if (!isOn()) return mails.map(() => undefined);
      const prepared: (readonly [Prepared, Storing])[] = [];
      const pause = createTimeSlices();
      for (const [email, storing] of mails) {
        await pause();
        const recipient = requireMailbox(email.to);
        const content = await contentFor(dependencies, transaction, email, storing);
        prepared.push([preparedMail(recipient, email, content), storing]);
      }
      return keyed(transaction, prepared);
    },
  };
}

/** One statement for all of them. Throws RECIPIENT_SUPPRESSED. */
async function requireAllWilling(
  { database }: Dependencies,
  channel: Channel,
  recipients: Parameters<MessageStore['requireAllWilling']>[1],
): Promise<void> {
  const asked = recipients.map(({ recipient, category, critical = false }) => ({
    ...{ id: newId(), channel, recipient, category: category ?? null },
    critical: critical || category === undefined,
  }));
  const reasons = await suppressedOf(database, asked);
  const [reason] = asked.flatMap(({ id }) => reasons.get(id) ?? []);
  if (reason !== undefined) throw suppressedError(reason);
}

const suppressedError = (reason: string) =>
  messageErrors.RECIPIENT_SUPPRESSED({ message: `This recipient gets no messages: ${reason}` });

function preparedMail(
  recipient: string,
  email: TemplatedEmail | PlainEmail,
  content: MessageContent,
): Prepared {
  const [template, essential] =
    'template' in email ? [email.template, email.essential === true] : [null, false];
  const userId = email.userId ?? null;
  return { channel: 'email', recipient, userId, template, essential, content };
}

/** Throws RECIPIENT_SUPPRESSED, RECIPIENT_OPTED_OUT. */
async function requireWilling(
  { database, preferences }: Dependencies,
  { channel, recipient }: { readonly channel: Channel; readonly recipient: string },
  { category, critical = false, userId }: Pick<Storing, 'category' | 'critical'> & Recipient,
): Promise<void> {
  const suppressed = await suppressionOf(database, channel, recipient, {
    category: category ?? null,
    critical: critical || category === undefined,
  });
  if (suppressed) throw suppressedError(suppressed.reason);
  if (userId === undefined || category === undefined || critical) return;
  const choices = (await preferences.choices(database, [userId])).get(userId);
  if (choices && !isEnabled(choices, category, channel)) throw messageErrors.RECIPIENT_OPTED_OUT();
}

/** What a mail says, in the language of its user, and how they say no to more of its kind. */
async function contentFor(
  dependencies: Dependencies,
  transaction: Queryable,
  email: TemplatedEmail | PlainEmail,
  { category, critical, choices: known }: Storing,
): Promise<MessageContent> {
  const { preferences, unsubscribe, config } = dependencies;
  const { userId, to: address } = email;
  const locale = async (): Promise<string | undefined> => {
    const usual = config().defaultLocale || undefined;
    if (userId === undefined) return usual;
    const choices = known ?? (await preferences.choices(transaction, [userId])).get(userId);
    return choices?.locale ?? usual;
  };
  const link =
    category === undefined || critical
      ? undefined
      : unsubscribe.linkFor({ channel: 'email', address, userId, category });
  return writeMail(dependencies, email, { locale, unsubscribe: link });
}

export const pushContent = ({
  note,
  platform,
  module,
}: Pick<Push, 'note' | 'platform' | 'module'>): MessageContent => ({
  ...(module && { module }),
  text: note.body ?? note.title ?? '',
  push: { ...note, ...(platform === undefined ? {} : { platform }) },
});
