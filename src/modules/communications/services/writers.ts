/** Writes one message for a channel: in the language of its reader, from a template or from what the request says. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { CommunicationsConfig } from '../config.ts';
import type { ChoicesRow } from '../preference-queries.ts';
import type { Channel } from '../queries.ts';
import { requireMailbox, requireNumber } from '../recipients.ts';
import { writePlain } from './mail-content.ts';
import { type MessageStore, pushContent } from './messages.ts';
import type { PlainEmail, Storing, TemplatedEmail } from './outgoing.ts';
import type { Preferences } from './preferences.ts';
import type { Prepared } from './storing.ts';
import type { Variables } from './template-language.ts';
import type { Templates } from './templates.ts';
import type { ChannelTexts, UnifiedTemplate } from './unified-templates.ts';

/** What is to be said, on whatever channel. What is given here goes before what the template says. */
export interface UnifiedMessage {
  readonly templateName?: string | undefined;
  readonly subject?: string | undefined;
  readonly body?: string | undefined;
  readonly variables?: Variables | undefined;
  readonly sender?: string | undefined;
  readonly locale?: string | undefined;
  /** A variable that is not there is an error. */
  readonly strict?: boolean | undefined;
  readonly category?: string | undefined;
  readonly critical?: boolean | undefined;
}

/** Where somebody is reached. */
export interface Addresses {
  readonly userId?: string | undefined;
  readonly email?: string | undefined;
  readonly phone?: string | undefined;
}

/** What is written to one recipient, and what their inbox says. */
export interface Written {
  readonly prepared: Prepared;
  readonly entry?: { readonly title: string; readonly body: string } | undefined;
}

export interface Whole {
  readonly messages: Pick<MessageStore, 'contentOf'>;
  readonly templates: Pick<Templates, 'resolve' | 'ready'>;
  readonly preferences: Pick<Preferences, 'choices'>;
  readonly transaction: Queryable;
  readonly to: Addresses;
  readonly message: UnifiedMessage;
  readonly template: UnifiedTemplate | undefined;
  readonly address: string;
  /** What the user chose, where that is known. */
  readonly choices?: ChoicesRow | undefined;
  readonly config: () => CommunicationsConfig;
}

type Writer = (whole: Whole, storing: Storing) => Promise<Written>;

async function localeOf({
  message,
  to,
  preferences,
  transaction,
  choices: known,
  config,
}: Whole): Promise<string | undefined> {
  const usual = config().defaultLocale || undefined;
  if (message.locale !== undefined || to.userId === undefined) return message.locale ?? usual;
  const choices = known ?? (await preferences.choices(transaction, [to.userId])).get(to.userId);
  return choices?.locale ?? usual;
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
  const { messages, transaction, to, message } = whole;
  const mail = await mailOf(whole);
  const content = await messages.contentOf(transaction, mail, storing);
  return {
    prepared: {
      channel: 'email',
      recipient: requireMailbox(mail.to),
      userId: to.userId ?? null,
      template: message.templateName ?? null,
      content,
    },
  };
};

async function mailOf(whole: Whole): Promise<TemplatedEmail | PlainEmail> {
  const { message, template, address, to } = whole;
  const { templateName, sender, strict, variables = {} } = message;
  const shared = {
    to: address,
    variables,
    strict,
    ...(to.userId === undefined ? {} : { userId: to.userId }),
    ...(sender === undefined ? {} : { sender }),
  };
  if (!template && templateName !== undefined)
    return { ...shared, template: templateName, ...given(message, ['subject', 'body', 'locale']) };
  const texts = template?.texts('email', await localeOf(whole));
  const { subject, body } = { ...texts, ...given(message, ['subject', 'body']) };
  if (subject === undefined) throw invalid('subject', 'required', 'give a subject');
  if (body === undefined) throw invalid('body', 'required', 'give a body');
  return { ...shared, subject, body, templateSender: texts?.sender };
}

/** Those of the texts that the request has. */
const given = <K extends 'subject' | 'body' | 'locale'>(
  message: UnifiedMessage,
  keys: readonly K[],
): { readonly [key in K]?: string } =>
  Object.fromEntries(
    keys.flatMap((key) => (message[key] === undefined ? [] : [[key, message[key]]])),
  ) as { readonly [key in K]?: string };

const writeSms: Writer = async (whole) => {
  const { templates, message, address, to } = whole;
  const texts = await textsOn(whole, 'sms');
  const { body } = await writePlain(
    templates,
    { body: texts.body },
    message.variables ?? {},
    message.strict,
  );
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
    message.strict,
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
      content: pushContent({ note: { title: subject, body, silent: false } }),
    },
    entry: { title: subject, body },
  };
};

export const writers: Readonly<Record<Channel, Writer>> = {
  email: writeEmail,
  sms: writeSms,
  push: writePush,
};
