/** Writing mails. */
import Type from 'typebox';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import type { CommunicationsConfig } from '../config.ts';
import { messageErrors } from '../errors.ts';
import { senderAddress } from '../recipients.ts';
import type { Outbox } from '../services/outbox.ts';
import { type FindFile, withFiles } from './email-files.ts';
import { EmailBody, type EmailInput, idempotencyOf, mailsOf, storingOf } from './email-input.ts';
import { adminFacts, maxBodyValues, Sent, withoutContent } from './shapes.ts';

/** Answers a file of storage where this caller may read it; nothing while storage is off. */
type FileFor = (caller: Caller) => FindFile;

interface EmailParts {
  readonly outbox: Outbox;
  readonly fileFor: FileFor;
  readonly config: () => CommunicationsConfig;
}

export const emailOperations = (parts: EmailParts): readonly Operation[] => [
  emailOperation(parts),
  testOperation(parts),
];

/** What a request says of its mails. Throws 400 and 413 before anything is stored. */
async function requestedMails({ fileFor, config }: EmailParts, caller: Caller, body: EmailInput) {
  const mails = mailsOf(await withFiles(body, fileFor(caller)));
  const [{ sender } = {}] = mails;
  if (sender !== undefined) senderAddress(sender, config().email, body.sender ? 'sender' : 'from');
  return mails;
}

const emailOperation = (parts: EmailParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.send',
    method: 'POST',
    path: '/email/send',
    openWorld: true,
    bodyLimit: 16_000_000,
    bodyValues: maxBodyValues,
    account: { bytesIn: 16_000_000 },
    auditChanges: ({ body }) => withoutContent(body),
    input: { body: EmailBody },
    output: Type.Object({
      ...Sent.properties,
      messageIds: Type.Optional(
        Type.Array(Type.String({ format: 'uuid' }), { description: 'With several recipients' }),
      ),
    }),
    errors: [
      messageErrors.TEMPLATE_NOT_FOUND,
      messageErrors.TEMPLATE_INVALID,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.SENDER_NOT_ALLOWED,
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.CHANNEL_DISABLED,
      errors.IDEMPOTENCY_KEY_REUSED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail',
    description:
      'With `email`, and with `templateName` or `subject` and `body`; empty text counts as none. The mail is stored and sent by a job; `messageId` leads to its state.',
    handler: async ({ caller }, { body }) => {
      const mails = await requestedMails(parts, caller, body);
      const storing = storingOf(body);
      const messageIds = await parts.outbox.sendEmails(
        mails.map((mail) => [
          mail,
          { ...storing, idempotency: idempotencyOf(callerKey(caller), mail, body) },
        ]),
      );
      const [messageId = ''] = messageIds;
      return {
        message: 'Email queued',
        messageId,
        ...(messageIds.length > 1 ? { messageIds: [...messageIds] } : {}),
      };
    },
  });

const testOperation = (parts: EmailParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.test',
    method: 'POST',
    path: '/email/test',
    openWorld: true,
    deadlineMs: 60_000,
    bodyLimit: 16_000_000,
    bodyValues: maxBodyValues,
    account: { bytesIn: 16_000_000 },
    auditChanges: ({ body }) => withoutContent(body),
    input: { body: EmailBody },
    output: Type.Object({
      ...Sent.properties,
      sent: Type.Boolean({ description: 'A provider took it; otherwise it is tried again' }),
      captured: Type.Boolean({ description: 'Kept here, since no provider is set' }),
    }),
    errors: [
      messageErrors.TEMPLATE_NOT_FOUND,
      messageErrors.TEMPLATE_INVALID,
      messageErrors.INVALID_RECIPIENT,
      messageErrors.SENDER_NOT_ALLOWED,
      messageErrors.PROVIDER_REFUSED,
      messageErrors.PROVIDER_AUTH,
      messageErrors.CHANNEL_DISABLED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail to try a template or the provider',
    description:
      'To one recipient, while you wait. What the provider refuses is 500, in its own words.',
    handler: async ({ caller }, { body }) => {
      const [mail] = await requestedMails(parts, caller, body);
      if (!mail) throw messageErrors.INVALID_RECIPIENT();
      const result = await parts.outbox.testEmail(mail);
      return { message: result.sent ? 'Email sent' : 'Email queued', ...result };
    },
  });
