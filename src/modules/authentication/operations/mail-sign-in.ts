/** Signing in by mail. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { confirmPage } from '../../../kernel/operations/pages.ts';
import { authErrors } from '../errors.ts';
import type { MailSignIn } from '../services/login/mail-sign-in.ts';
import type { TokenDelivery } from '../services/sessions/token-cookies.ts';
import { Email, LinkToken, Login, originOf, RedirectUri } from './shapes.ts';

/** What these operations call. */
export interface MailSignInServices {
  readonly mailSignIn: MailSignIn;
  readonly delivery: TokenDelivery;
}

const client = { surface: 'client', access: 'public' } as const;
const mailLimit = { requests: 8, seconds: 900, account: 'email' } as const;
const sent = 'If there is an account with this address, a mail is on its way';
const refusals = [authErrors.USER_BLOCKED, authErrors.EMAIL_NOT_VERIFIED] as const;

/** Exist only while magic links are switched on. `forApp`: the links lead to a page of the app. */
export const magicLinkOperations = (
  services: MailSignInServices,
  forApp: boolean,
): readonly Operation[] => [
  requestLinkOperation(services),
  showLinkOperation(services),
  useLinkOperation(services),
  ...(forApp ? [exchangeLinkOperation(services)] : []),
];

/** Exist only while codes by mail are switched on. */
export const emailCodeOperations = (services: MailSignInServices): readonly Operation[] => [
  requestCodeOperation(services),
  useCodeOperation(services),
];

const requestLinkOperation = ({ mailSignIn }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.magicLink.request',
    method: 'POST',
    path: '/authentication/magic-link',
    limit: mailLimit,
    input: { body: Type.Object({ email: Email, redirectUri: Type.Optional(RedirectUri) }) },
    output: TextResult,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.MESSAGE_TOO_SOON,
    ],
    summary: 'Ask for a link that signs in',
    description:
      'For users who have an account; the answer is the same for every address. A new link replaces the one before.',
    handler: async (context, { body }) => {
      await mailSignIn.requestLink(body.email, body.redirectUri, originOf(context));
      return sent;
    },
  });

const hook = '/hook/authentication/magic-link/:token';
const HookToken = Type.Object({ token: LinkToken });

const showLinkOperation = ({ mailSignIn }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.hook.showMagicLink',
    method: 'GET',
    path: hook,
    limit: { requests: 50, seconds: 3600 },
    mcp: false,
    graphql: false,
    input: { params: HookToken },
    output: Type.String({ contentMediaType: 'text/html' }),
    errors: [authErrors.LINK_NOT_FOUND],
    summary: 'Show the page behind a link that signs in',
    description:
      'Signs nobody in: mail scanners follow links too. Its button sends a POST to the same address.',
    handler: async (_context, { params }) => {
      const target = await mailSignIn.look(params.token);
      return confirmPage({
        title: 'Sign in',
        text: 'You asked for a link to sign in.',
        button: 'Sign in',
        target,
      });
    },
  });

const useLinkOperation = ({ mailSignIn, delivery }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.hook.useMagicLink',
    method: 'POST',
    path: hook,
    limit: { requests: 50, seconds: 3600 },
    mcp: false,
    graphql: false,
    idempotency: false,
    input: { params: HookToken },
    output: Login,
    errors: [authErrors.LINK_NOT_FOUND, ...refusals],
    summary: 'Sign in by a link',
    description:
      'Answers 302 to the page of the app with the tokens (setting redirectUris.tokenDelivery), or the tokens where there is none.',
    handler: async (context, { params }) => {
      const { answer, redirectUri } = await mailSignIn.useLink(params.token, originOf(context));
      return delivery.reply(answer, redirectUri);
    },
  });

const exchangeLinkOperation = ({ mailSignIn }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.magicLink.exchange',
    method: 'POST',
    path: '/authentication/magic-link/:magicToken',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    input: { params: Type.Object({ magicToken: LinkToken }) },
    output: Login,
    errors: [authErrors.LINK_NOT_FOUND, ...refusals],
    summary: 'Sign in by the token of a link that led to the app',
    handler: async (context, { params }) =>
      (await mailSignIn.useLink(params.magicToken, originOf(context))).answer,
  });

const requestCodeOperation = ({ mailSignIn }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.emailCode.request',
    method: 'POST',
    path: '/authentication/email-code',
    limit: mailLimit,
    idempotency: false,
    input: { body: Type.Object({ email: Email }) },
    output: Type.Object({
      token: Type.String({
        description: 'Goes with the code to POST /authentication/email-code/verify',
      }),
    }),
    errors: [authErrors.EMAIL_INVALID, authErrors.MESSAGE_TOO_SOON],
    summary: 'Ask for a code that signs in',
    description: 'For users who have an account; the answer has the same form for every address.',
    handler: async ({ address }, { body }) => ({
      token: await mailSignIn.requestCode(body.email, address),
    }),
  });

const useCodeOperation = ({ mailSignIn }: MailSignInServices): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.emailCode.verify',
    method: 'POST',
    path: '/authentication/email-code/verify',
    limit: { requests: 25, seconds: 900 },
    idempotency: false,
    input: {
      body: Type.Object({ token: LinkToken, code: Type.String({ minLength: 1, maxLength: 20 }) }),
    },
    output: Login,
    errors: [authErrors.CREDENTIALS_INVALID, ...refusals],
    summary: 'Sign in by a code',
    description:
      'With the token that the request for the code answered. A code works once; after five wrong ones ask for another.',
    handler: (context, { body }) => mailSignIn.useCode(body, originOf(context)),
  });

/** The tokens of a flow that ended in the browser. */
export const exchangeOperation = ({ delivery }: Pick<MailSignInServices, 'delivery'>): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.session.exchange',
    method: 'POST',
    path: '/authentication/exchange',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    input: {
      body: Type.Object({
        code: LinkToken,
        codeVerifier: Type.Optional(
          Type.String({
            minLength: 43,
            maxLength: 128,
            description: 'For the `codeChallenge` that the flow started with',
          }),
        ),
      }),
    },
    output: Login,
    errors: [authErrors.LINK_INVALID],
    summary: 'Get the tokens for the code at the end of a flow in the browser',
    description:
      'For flows that started with a `codeChallenge`, and for all with redirectUris.tokenDelivery `exchange`. The code works once and for a minute.',
    handler: (_context, { body }) => delivery.exchange(body.code, body.codeVerifier),
  });
