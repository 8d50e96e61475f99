/** Proving an address, and changing it. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { confirmPage, messagePage } from '../../../kernel/operations/pages.ts';
import { authErrors } from '../errors.ts';
import type { EmailChange } from '../services/accounts/email-change.ts';
import type { Verification } from '../services/accounts/verification.ts';
import { Email, LinkToken, originOf, RedirectUri, userOf } from './shapes.ts';

/** What these operations call. */
export interface VerificationServices {
  readonly verification: Verification;
  readonly emailChange: EmailChange;
}

const hookLimit = { requests: 45, seconds: 3600 } as const;
const page = {
  surface: 'client',
  access: 'public',
  limit: hookLimit,
  mcp: false,
  graphql: false,
} as const;
const Html = Type.String({ contentMediaType: 'text/html' });

export const resendOperation = ({ verification }: VerificationServices): Operation =>
  defineOperation({
    id: 'authentication.local.resendVerification',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/resend-verification',
    access: 'public',
    limit: { requests: 8, seconds: 900, account: 'email' },
    input: { body: Type.Object({ email: Email }) },
    output: TextResult,
    errors: [authErrors.EMAIL_INVALID, authErrors.MESSAGE_TOO_SOON],
    summary: 'Send the verification mail again',
    description: 'The answer is the same for every address. A new mail replaces the one before.',
    handler: async ({ address }, { body }) => {
      await verification.resend(body.email, address);
      return 'If this address needs verification, a mail is on its way';
    },
  });

export const verifyCodeOperation = ({ verification }: VerificationServices): Operation =>
  defineOperation({
    id: 'authentication.local.verifyEmail',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/verify-email',
    access: 'public',
    limit: { requests: 15, seconds: 900, account: 'email' },
    idempotency: false,
    input: {
      body: Type.Object({ email: Email, code: Type.String({ minLength: 1, maxLength: 20 }) }),
    },
    output: TextResult,
    errors: [authErrors.EMAIL_INVALID, authErrors.LINK_INVALID],
    summary: 'Verify an address by the code in the mail',
    description:
      'A code works once; after five wrong ones ask for another. An unknown address is answered like a wrong code.',
    handler: async (context, { body }) => {
      await verification.byCode(body.email, body.code, originOf(context));
      return 'OK';
    },
  });

export const verifyLinkOperation = ({ verification }: VerificationServices): Operation =>
  defineOperation({
    ...page,
    id: 'authentication.hook.verifyEmail',
    method: 'GET',
    path: '/hook/authentication/verify-email/:verificationToken',
    input: { params: Type.Object({ verificationToken: LinkToken }) },
    output: Html,
    errors: [authErrors.LINK_NOT_FOUND],
    summary: 'Verify an address by the link in the mail',
    description:
      'Answers 302 to the page of the app, or a plain page where there is none. Clicks that are repeated within ten hours lead there too.',
    handler: async (context, { params }) => {
      const target = await verification.byLink(params.verificationToken, originOf(context));
      return target === undefined
        ? messagePage('Your address is verified', 'You can close this page.')
        : Reply.redirect(target);
    },
  });

export const changeEmailOperations = (services: VerificationServices): readonly Operation[] => [
  changeEmailOperation(services),
  confirmChangeOperation(services),
  showUndoOperation(services),
  undoOperation(services),
];

const changeEmailOperation = ({ emailChange }: VerificationServices): Operation =>
  defineOperation({
    id: 'authentication.local.changeEmail',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/change-email',
    access: 'user',
    limit: { requests: 8, seconds: 900 },
    idempotency: false,
    input: { body: Type.Object({ newEmail: Email, redirectUri: Type.Optional(RedirectUri) }) },
    output: TextResult,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_UNCHANGED,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.USER_EXISTS,
      authErrors.MESSAGE_TOO_SOON,
    ],
    audit: true,
    auditChanges: ({ body }) => body,
    summary: 'Change the e-mail address',
    description:
      'Needs a fresh login (setting sessions.sudoMaxAge). The new address gets a link that makes the change; the old one is told, with a link that takes it back. Without mail the change is made at once and the address is unverified.',
    handler: async (context, { body }) => {
      const outcome = await emailChange.request(userOf(context), body, context.address);
      return outcome === 'sent'
        ? 'Verification mail sent to the new address'
        : 'E-mail address changed';
    },
  });

const confirmChangeOperation = ({ emailChange }: VerificationServices): Operation =>
  defineOperation({
    ...page,
    id: 'authentication.hook.verifyChangeEmail',
    method: 'GET',
    path: '/hook/authentication/verify-change-email/:verificationToken',
    input: { params: Type.Object({ verificationToken: LinkToken }) },
    output: Html,
    errors: [authErrors.LINK_NOT_FOUND, authErrors.USER_EXISTS],
    summary: 'Change the address by the link in the mail to the new one',
    description:
      'Answers 302 to the page of the app, or a plain page where there is none. All other sessions of the user end.',
    handler: async (context, { params }) => {
      const target = await emailChange.confirm(params.verificationToken, originOf(context));
      return target === undefined
        ? messagePage('Your address was changed', 'You can close this page.')
        : Reply.redirect(target);
    },
  });

const undoPath = '/hook/authentication/undo-change-email/:undoToken';
const UndoToken = Type.Object({ undoToken: LinkToken });

const showUndoOperation = ({ emailChange }: VerificationServices): Operation =>
  defineOperation({
    ...page,
    id: 'authentication.hook.showUndoChangeEmail',
    method: 'GET',
    path: undoPath,
    input: { params: UndoToken },
    output: Html,
    errors: [authErrors.LINK_NOT_FOUND],
    summary: 'Show the page that takes a change of address back',
    description: 'Changes nothing: mail scanners follow links too.',
    handler: async (_context, { params }) => {
      if (!(await emailChange.canUndo(params.undoToken))) throw authErrors.LINK_NOT_FOUND();
      return confirmPage({
        title: 'Use the old address again',
        text: 'This puts your old address back, signs everybody out, and removes the keys, phones and linked accounts that were added with the change. You then get a mail to choose a new password.',
        button: 'Take the change back',
      });
    },
  });

const undoOperation = ({ emailChange }: VerificationServices): Operation =>
  defineOperation({
    ...page,
    id: 'authentication.hook.undoChangeEmail',
    method: 'POST',
    path: undoPath,
    idempotency: false,
    input: { params: UndoToken },
    output: Html,
    errors: [authErrors.LINK_NOT_FOUND, authErrors.USER_EXISTS],
    summary: 'Take a change of address back',
    handler: async (context, { params }) => {
      await emailChange.undo(params.undoToken, originOf(context));
      return messagePage(
        'Your old address counts again',
        'Everybody was signed out. A mail to choose a new password is on its way.',
      );
    },
  });
