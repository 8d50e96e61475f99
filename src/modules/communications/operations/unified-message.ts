/** What operations over several channels share: what is said, and to whom. */
import Type, { type Static } from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import type { Channel } from '../queries.ts';
import { localePattern } from '../readers.ts';
import { senderAddress } from '../recipients.ts';
import type { ChainDefinitions } from '../services/chain-definitions.ts';
import type { Chains } from '../services/chains.ts';
import type { Addresses, Composer, UnifiedMessage } from '../services/composer.ts';
import type { Digests } from '../services/digests.ts';
import { adminFacts } from './shapes.ts';

export interface Orchestration {
  readonly database: Kernel['database'];
  readonly composer: Composer;
  readonly chains: Chains;
  readonly chainDefinitions: ChainDefinitions;
  readonly digests: Digests;
  readonly config: () => CommunicationsConfig;
  readonly available: (channel: Channel) => boolean;
}

/* What is said, and to whom. */

const text = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, description }));

const Recipient = Type.Union(
  [
    Type.String({ minLength: 1, maxLength: 254 }),
    Type.Object({
      userId: Type.Optional(Type.String({ format: 'uuid', description: 'Id of the user' })),
      email: Type.Optional(Type.String({ maxLength: 254 })),
      phone: Type.Optional(Type.String({ maxLength: 16 })),
    }),
  ],
  {
    description:
      'An address, a number, or the id of a user, whose address and number are looked up; or several of them by name',
  },
);

export const message = {
  recipient: Recipient,
  templateName: text(100, 'Template for several channels, or a mail template'),
  subject: text(500, 'Goes before that of the template; the title of a push message'),
  body: text(200_000, 'Goes before that of the template; may hold {{variables}}'),
  variables: Type.Optional(
    Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
      description: 'Values for the template, by name',
    }),
  ),
  sender: text(254, 'Of a mail'),
  locale: Type.Optional(
    Type.String({
      pattern: localePattern,
      description: 'Language of the template, such as de or pt-BR',
    }),
  ),
  strict: Type.Optional(
    Type.Boolean({
      description: 'A variable that the text uses and that is not there is an error',
    }),
  ),
  category: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9_.-]{1,50}$',
      description: 'Kind of message by which recipients choose; that of the template unless set',
    }),
  ),
  critical: Type.Optional(
    Type.Boolean({ description: 'Goes out whatever its recipient chose, and in quiet hours too' }),
  ),
};
const Message = Type.Object(message);

/** Throws 400 for an address that is none, and for a sender who may not be; RECIPIENT_NOT_FOUND. */
export async function readMessage(
  { composer, config }: Pick<Orchestration, 'composer' | 'config'>,
  { recipient, ...said }: Static<typeof Message>,
): Promise<{ readonly to: Addresses; readonly message: UnifiedMessage }> {
  if (said.sender !== undefined) senderAddress(said.sender, config().email);
  return { to: await composer.addressesOf(recipient), message: said };
}

/** To whom and what kind; what a message says is not for the audit log. */
const auditChanges = ({ body }: { readonly body: unknown }): object => {
  const { recipient, templateName, channel, channels, category } = body as Record<string, unknown>;
  return { recipient, templateName, channel, channels, category };
};

export const sending = {
  ...adminFacts,
  method: 'POST',
  openWorld: true,
  auditChanges,
} as const;
export const sendingErrors = [
  messageErrors.INVALID_RECIPIENT,
  messageErrors.SENDER_NOT_ALLOWED,
  messageErrors.TEMPLATE_INVALID,
  messageErrors.TEMPLATE_NOT_FOUND,
  messageErrors.RECIPIENT_NOT_FOUND,
  messageErrors.CHANNEL_DISABLED,
];
