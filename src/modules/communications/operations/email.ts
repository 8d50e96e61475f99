/** Writing mails. */
import Type from 'typebox';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { messageErrors } from '../errors.ts';
import type { Outbox } from '../services/outbox.ts';
import {
  EmailBody,
  type FindFile,
  idempotencyOf,
  mailsOf,
  storingOf,
  withFiles,
} from './email-input.ts';
import { adminFacts, Sent, withoutContent } from './shapes.ts';

/** Answers a file of storage where this caller may read it; nothing while storage is off. */
type FileFor = (caller: Caller) => FindFile;

export const emailOperations = (outbox: Outbox, fileFor: FileFor): readonly Operation[] => [
  emailOperation(outbox, fileFor),
  testOperation(outbox, fileFor),
];

const emailOperation = (outbox: Outbox, fileFor: FileFor): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.send',
    method: 'POST',
    path: '/email/send',
    openWorld: true,
    bodyLimit: 16_000_000,
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
      messageErrors.RECIPIENT_SUPPRESSED,
      messageErrors.CHANNEL_DISABLED,
      errors.IDEMPOTENCY_KEY_REUSED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail',
    description:
      'With `email`, and with `templateName` or `subject` and `body`; empty text counts as none. The mail is stored and sent by a job; `messageId` leads to its state.',
    handler: async ({ caller }, { body }) => {
      const mails = mailsOf(await withFiles(body, fileFor(caller)));
      const storing = storingOf(body);
      const messageIds = await outbox.sendEmails(
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

const testOperation = (outbox: Outbox, fileFor: FileFor): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'communications.email.test',
    method: 'POST',
    path: '/email/test',
    openWorld: true,
    deadlineMs: 60_000,
    bodyLimit: 16_000_000,
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
      messageErrors.PROVIDER_REFUSED,
      messageErrors.PROVIDER_AUTH,
      messageErrors.CHANNEL_DISABLED,
      errors.RATE_LIMIT,
    ],
    summary: 'Send a mail to try a template or the provider',
    description:
      'To one recipient, while you wait. What the provider refuses is 500, in its own words.',
    handler: async ({ caller }, { body }) => {
      const [mail] = mailsOf(await withFiles(body, fileFor(caller)));
      if (!mail) throw messageErrors.INVALID_RECIPIENT();
      const result = await outbox.testEmail(mail);
      return { message: result.sent ? 'Email sent' : 'Email queued', ...result };
    },
  });
