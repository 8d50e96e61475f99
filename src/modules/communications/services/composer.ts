/** One message for any channel: to whom it goes there, and what it says there. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import { addressesOf, type ChoicesRow } from '../preference-queries.ts';
import type { Channel } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';
import type { Inbox } from './inbox.ts';
import type { MessageStore } from './messages.ts';
import type { Storing } from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';
import type { Templates } from './templates.ts';
import type { UnifiedTemplate, UnifiedTemplates } from './unified-templates.ts';
import {
  type Addresses,
  type UnifiedMessage,
  type Whole,
  type Written,
  writers,
} from './writers.ts';

export type { Addresses, UnifiedMessage, Written } from './writers.ts';

export interface Composed {
  readonly messageId: string;
  /** Entry of the inbox, where there is one. */
  readonly notificationId?: string | undefined;
}

export interface Composer {
  /** One text: an address, a number, or the id of a user, whose address and number are looked up. Throws 400, RECIPIENT_NOT_FOUND. */
  addressesOf(recipient: string | Addresses): Promise<Addresses>;
  /** Stores the message of one channel. Throws 400 for what is missing, 404, 422, 429 and 503. */
  store(
    transaction: Transaction,
    channel: Channel,
    about: { readonly to: Addresses; readonly message: UnifiedMessage },
    storing?: Pick<Storing, 'chainId' | 'firstAttempt' | 'sendAt'>,
  ): Promise<Composed>;
  /** Writes one message for many: what it is made of is read once. Throws 404 and 503; see `MassWriter`. */
  writer(channel: Channel, message: UnifiedMessage): Promise<MassWriter>;
}

export interface MassWriter {
  readonly about: Pick<Storing, 'category' | 'critical'>;
  /** Throws 400 for a recipient without an address. */
  write(
    transaction: Transaction,
    recipient: { readonly to: Addresses; readonly choices: ChoicesRow | undefined },
  ): Promise<Written>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'schemas'> {
  readonly messages: MessageStore;
  readonly templates: Pick<Templates, 'resolve' | 'ready'>;
  readonly unified: UnifiedTemplates;
  readonly inbox: Inbox;
  readonly preferences: Pick<Preferences, 'choices'>;
  readonly config: () => CommunicationsConfig;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export function createComposer(dependencies: Dependencies): Composer {
  const { database, schemas, messages } = dependencies;
  return {
    async addressesOf(recipient) {
      const given =
        typeof recipient === 'string' ? addressIn(recipient) : checkedAddresses(recipient);
      if (given.userId === undefined) return given;
      const [user] = schemas.get('User') ? await addressesOf(database, [given.userId]) : [];
      if (!user) throw messageErrors.RECIPIENT_NOT_FOUND();
      return {
        email: user.email ?? undefined,
        phone: user.phone ?? undefined,
        ...given,
      };
    },
    async store(transaction, channel, { to, message }, storing = {}) {
      if (!messages.available(channel)) throw messageErrors.CHANNEL_DISABLED();
      const address = addressOn(channel, to);
      const template = await templateFor(dependencies, channel, message);
      const about = aboutOf(message, template);
      await messages.requireWilling(channel, address, { ...about, userId: to.userId });
      const whole = { ...dependencies, transaction, to, message, template, address };
      const all = { ...storing, ...about };
      const { prepared, entry } = await writers[channel](whole, all);
      const messageId = await messages.store(transaction, prepared, all);
      if (messageId === undefined)
        throw errors.RATE_LIMIT({
          message: 'This recipient got too many messages in this hour',
          retryAfter: 3600,
        });
      return { messageId, notificationId: entry && (await addEntry(whole, entry, all)) };
    },
    async writer(channel, message) {
      if (!messages.available(channel)) throw messageErrors.CHANNEL_DISABLED();
      const memo = { ...dependencies, templates: remembering(dependencies.templates) };
      const template = await templateFor(memo, channel, message);
      const about = aboutOf(message, template);
      return {
        about,
        write: (transaction, { to, choices }) =>
          writers[channel](
            {
              ...memo,
              transaction,
              to,
              message,
              template,
              choices,
              address: addressOn(channel, to),
            },
            { ...about, choices },
          ),
      };
    },
  };
}

/** Templates as they were at the first use: for one page of a broadcast. */
function remembering(templates: Dependencies['templates']): Pick<Templates, 'resolve' | 'ready'> {
  const known = new Map<string, ReturnType<Templates['ready']>>();
  const once = (key: string, read: () => ReturnType<Templates['ready']>) => {
    const found = known.get(key) ?? read();
    known.set(key, found);
    return found;
  };
  return {
    ready: (texts) => once(JSON.stringify(texts), () => templates.ready(texts)),
    async resolve(name, locale) {
      const language = await locale?.();
      return once(`${name} ${language ?? ''}`, () => templates.resolve(name, () => language));
    },
  };
}

const aboutOf = (
  { category, critical }: UnifiedMessage,
  template: UnifiedTemplate | undefined,
): Pick<Storing, 'category' | 'critical'> => ({
  category: category ?? template?.category,
  critical: critical ?? template?.critical,
});

function addressIn(text: string): Addresses {
  if (uuid.test(text)) return { userId: text.toLowerCase() };
  if (text.startsWith('+')) return { phone: requireNumber(text, 'recipient') };
  return { email: requireMailbox(text, 'recipient') };
}

function checkedAddresses({ userId, email, phone }: Addresses): Addresses {
  if (userId === undefined && email === undefined && phone === undefined)
    throw invalid('recipient', 'required', 'give userId, email or phone');
  return {
    ...(userId === undefined ? {} : { userId: userId.toLowerCase() }),
    ...(email === undefined ? {} : { email: requireMailbox(email, 'recipient.email') }),
    ...(phone === undefined ? {} : { phone: requireNumber(phone, 'recipient.phone') }),
  };
}

/** Throws 400 where none of the steps leads to the recipient. */
export function requireReachable(
  steps: readonly { readonly channel: Channel }[],
  to: Addresses,
): void {
  const [first] = steps;
  if (first && steps.every(({ channel }) => addressFor(channel, to) === undefined))
    addressOn(first.channel, to);
}

const addressKeys = { email: 'email', sms: 'phone', push: 'userId' } as const;

const addressFor = (channel: Channel, { userId, email, phone }: Addresses): string | undefined =>
  ({ email, sms: phone, push: userId })[channel];

/** Throws 400 where the recipient has no address of that kind. */
function addressOn(channel: Channel, to: Addresses): string {
  const address = addressFor(channel, to);
  if (address === undefined)
    throw invalid(
      `recipient.${addressKeys[channel]}`,
      'required',
      `${channel} needs it, and the recipient has none`,
    );
  return address;
}

/** Nothing where a mail template of that name is meant. Throws TEMPLATE_NOT_FOUND. */
async function templateFor(
  { unified }: Dependencies,
  channel: Channel,
  { templateName }: UnifiedMessage,
): Promise<UnifiedTemplate | undefined> {
  if (templateName === undefined) return undefined;
  const template = await unified.find(templateName);
  if (template && !template.channels.includes(channel))
    throw invalid('channel', 'template', `the template ${templateName} is not for ${channel}`);
  if (!template && channel !== 'email') throw messageErrors.TEMPLATE_NOT_FOUND();
  return template;
}

/** The entry of the inbox beside a push message, unless its user wants none of this kind. */
async function addEntry(
  {
    inbox,
    preferences,
    transaction,
    address,
  }: Dependencies & Pick<Whole, 'transaction' | 'address'>,
  { title, body }: { readonly title: string; readonly body: string },
  { category, critical }: Storing,
): Promise<string | undefined> {
  const choices =
    category === undefined || critical
      ? undefined
      : (await preferences.choices(transaction, [address])).get(address);
  if (choices && category !== undefined && !isEnabled(choices, category, 'inbox')) return undefined;
  const id = newId();
  await inbox.add(transaction, [
    { id, userId: address, title, body, data: null, platform: null, category: category ?? null },
  ]);
  return id;
}
