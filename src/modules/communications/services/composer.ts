/** One message for any channel: to whom it goes there, and what it says there. */
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { messageErrors } from '../errors.ts';
import { addressesOf, type ChoicesRow } from '../preference-queries.ts';
import type { Channel } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';
import type { Inbox } from './inbox.ts';
import { writePlain } from './mail-content.ts';
import { type MessageStore, pushContent } from './messages.ts';
import type { PlainEmail, Storing, TemplatedEmail } from './outgoing.ts';
import { isEnabled, type Preferences } from './preferences.ts';
import type { Prepared } from './storing.ts';
import type { Variables } from './template-language.ts';
import type { Templates } from './templates.ts';
import type { ChannelTexts, UnifiedTemplate, UnifiedTemplates } from './unified-templates.ts';

/** What is to be said, on whatever channel. What is given here goes before what the template says. */
export interface UnifiedMessage {
  readonly templateName?: string | undefined;
  readonly subject?: string | undefined;
  readonly body?: string | undefined;
  readonly variables?: Variables | undefined;
  readonly sender?: string | undefined;
  readonly locale?: string | undefined;
  readonly category?: string | undefined;
  readonly critical?: boolean | undefined;
}

/** Where somebody is reached. */
export interface Addresses {
  readonly userId?: string | undefined;
  readonly email?: string | undefined;
  readonly phone?: string | undefined;
}

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

/** What is written to one recipient, and what their inbox says. */
export interface Written {
  readonly prepared: Prepared;
  readonly entry?: { readonly title: string; readonly body: string } | undefined;
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

interface Whole extends Dependencies {
  readonly transaction: Transaction;
  readonly to: Addresses;
  readonly message: UnifiedMessage;
  readonly template: UnifiedTemplate | undefined;
  readonly address: string;
  /** What the user chose, where that is known. */
  readonly choices?: ChoicesRow | undefined;
}

type Writer = (whole: Whole, storing: Storing) => Promise<Written>;

async function localeOf({
  message,
  to,
  preferences,
  transaction,
  choices: known,
}: Whole): Promise<string | undefined> {
  if (message.locale !== undefined || to.userId === undefined) return message.locale;
  if (known) return known.locale ?? undefined;
  const choices = await preferences.choices(transaction, [to.userId]);
  return choices.get(to.userId)?.locale ?? undefined;
}

/** What is said on a channel that is no mail. */
async function textsOn(whole: Whole, channel: Channel): Promise<ChannelTexts> {
  const { template, message } = whole;
  const { subject, body } = message;
  const texts = template?.texts(channel, await localeOf(whole));
  if (body === undefined && !texts)
    throw invalid('body', 'required', 'give templateName, or a body');
  return {
    ...texts,
    body: body ?? texts?.body ?? '',
    ...(subject === undefined ? {} : { subject }),
  };
}

const writeEmail: Writer = async (whole, storing) => {
  const { messages, transaction, to } = whole;
  const mail = await mailOf(whole);
  const content = await messages.contentOf(transaction, mail, storing);
  return {
    prepared: {
      channel: 'email',
      recipient: requireMailbox(mail.to),
      userId: to.userId ?? null,
      template: 'template' in mail ? mail.template : null,
      content,
    },
  };
};

async function mailOf(whole: Whole): Promise<TemplatedEmail | PlainEmail> {
  const { message, template, address, to } = whole;
  const { templateName, sender, variables = {} } = message;
  const shared = {
    to: address,
    variables,
    ...(to.userId === undefined ? {} : { userId: to.userId }),
    ...(sender === undefined ? {} : { sender }),
  };
  if (!template && templateName !== undefined)
    return { ...shared, template: templateName, ...given(message, ['subject', 'body', 'locale']) };
  const texts = template?.texts('email', await localeOf(whole));
  const {
    subject,
    body,
    sender: own,
  } = { ...texts, ...given(message, ['subject', 'body', 'sender']) };
  if (subject === undefined) throw invalid('subject', 'required', 'give a subject');
  if (body === undefined) throw invalid('body', 'required', 'give a body');
  return { ...shared, subject, body, ...(own === undefined ? {} : { sender: own }) };
}

/** Those of the texts that the request has. */
const given = <K extends 'subject' | 'body' | 'locale' | 'sender'>(
  message: UnifiedMessage,
  keys: readonly K[],
): { readonly [key in K]?: string } =>
  Object.fromEntries(
    keys.flatMap((key) => (message[key] === undefined ? [] : [[key, message[key]]])),
  ) as { readonly [key in K]?: string };

const writeSms: Writer = async (whole) => {
  const { templates, message, address, to } = whole;
  const texts = await textsOn(whole, 'sms');
  const { body } = await writePlain(templates, { body: texts.body }, message.variables ?? {});
  if (body.length > 1600) throw invalid('body', 'maxLength', 'a text message has 1600 characters');
  return {
    prepared: {
      channel: 'sms',
      recipient: requireNumber(address),
      userId: to.userId ?? null,
      template: message.templateName ?? null,
      content: { text: body },
    },
  };
};

/** What a device can be told. */
const maxTitle = 500;
const maxBody = 3000;

const writePush: Writer = async (whole) => {
  const { templates, message, address } = whole;
  const { subject, body } = await writePlain(
    templates,
    await textsOn(whole, 'push'),
    message.variables ?? {},
  );
  if (subject === undefined) throw invalid('subject', 'required', 'give a title as subject');
  if (subject.length > maxTitle || Buffer.byteLength(body) > maxBody)
    throw invalid('body', 'maxLength', 'this is longer than a device can be told');
  return {
    prepared: {
      channel: 'push',
      recipient: address,
      userId: address,
      template: message.templateName ?? null,
      content: pushContent({ title: subject, body, silent: false }, undefined),
    },
    entry: { title: subject, body },
  };
};

/** The entry of the inbox beside a push message, unless its user wants none of this kind. */
async function addEntry(
  { inbox, preferences, transaction, address }: Whole,
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

const writers: Readonly<Record<Channel, Writer>> = {
  email: writeEmail,
  sms: writeSms,
  push: writePush,
};
