/** Signing in at other providers in a browser. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { externalErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { Browser } from '../services/external/web-sign-in.ts';
import type { External } from '../services/sign-in-methods.ts';
import { appOperations } from './external-apps.ts';
import {
  CodeChallenge,
  InvitationToken,
  maybeUser,
  ProviderName,
  providerOf,
  refusals,
  Scopes,
} from './external-shapes.ts';
import { identityOperations, linkOperations } from './identities.ts';
import { Login, originOf, RedirectUri } from './shapes.ts';
import { walletOperations } from './wallet.ts';

/** Exist only while a provider is switched on, or wallets are. */
export function externalOperations(external: External, wallets: boolean): readonly Operation[] {
  const providers = external.providers().names.length > 0;
  return [
    ...(providers ? [...providerOperations(external), ...linkOperations(external)] : []),
    ...(wallets ? walletOperations(external) : []),
    ...(providers || wallets ? identityOperations(external) : []),
  ];
}

/** Those of single providers exist only with theirs. */
function providerOperations(external: External): readonly Operation[] {
  const { get } = external.providers();
  return [
    initOperation(external),
    startOperation(external),
    callbackOperation(external),
    ...(get('apple') ? [formCallbackOperation(external)] : []),
    ...appOperations(external),
  ];
}

const client = { surface: 'client', access: 'public' } as const;
const hookLimit = { requests: 50, seconds: 3600 } as const;

const browserOf = ({ cookies, origin, fetchSite }: OperationContext): Browser => ({
  cookies,
  origin,
  fetchSite,
});

const initOperation = (external: External): Operation =>
  defineOperation({
    id: 'authentication.external.init',
    surface: 'client',
    method: 'GET',
    path: '/authentication/init/:provider',
    access: 'optionalUser',
    limit: { requests: 35, seconds: 900 },
    idempotency: false,
    input: {
      params: ProviderName,
      query: Type.Object({
        scopes: Type.Optional(Scopes),
        invitationToken: Type.Optional(InvitationToken),
        redirectUri: Type.Optional(RedirectUri),
        codeChallenge: Type.Optional(CodeChallenge),
      }),
    },
    output: TextResult,
    errors: [
      errors.NOT_FOUND,
      authErrors.SUDO_REQUIRED,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE,
    ],
    summary: 'Start to sign in at another provider',
    description:
      'Answers the address to send the browser to, for ten minutes. A page of this origin gets a cookie with this answer, and the address at the provider. Everybody else gets an address here that sets the cookie in the browser that opens it and leads on to the provider. An anonymous user who presents their token becomes registered.',
    handler: (context, { params, query }) =>
      external.web.start(providerOf(external, params.provider), query, browserOf(context), {
        user: maybeUser(context),
        clientId: context.clientId,
      }),
  });

const startOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.hook.startExternal',
    method: 'GET',
    path: '/hook/authentication/:provider/start',
    limit: hookLimit,
    mcp: false,
    graphql: false,
    idempotency: false,
    input: {
      params: ProviderName,
      query: Type.Object({ ticket: Type.String({ minLength: 1, maxLength: 200 }) }),
    },
    output: TextResult,
    errors: [
      errors.NOT_FOUND,
      externalErrors.EXTERNAL_STATE_INVALID,
      externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE,
    ],
    summary: 'Give the browser its cookie and send it on to the provider',
    description:
      'Answers 302. The address comes from GET /authentication/init/:provider and works once.',
    handler: (context, { params, query }) =>
      external.web.resume(providerOf(external, params.provider), query.ticket, browserOf(context)),
  });

/** Providers limit none of these, and some codes are long. */
const answerText = (maxLength: number) => Type.Optional(Type.String({ maxLength }));
const State = Type.String({ minLength: 1, maxLength: 200 });

const callbackErrors = [
  errors.NOT_FOUND,
  externalErrors.EXTERNAL_STATE_INVALID,
  externalErrors.EXTERNAL_SIGN_IN_DENIED,
  externalErrors.EXTERNAL_CODE_REFUSED,
  ...refusals,
];
const callbackText =
  'Answers 302 to the app with the tokens (setting redirectUris.tokenDelivery) or with `error`, or the tokens as JSON where there is no page to go to.';

const callbackOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.hook.external',
    method: 'GET',
    path: '/hook/authentication/:provider',
    limit: hookLimit,
    mcp: false,
    graphql: false,
    idempotency: false,
    input: {
      params: ProviderName,
      query: Type.Object({
        state: State,
        code: answerText(4096),
        error: answerText(200),
        iss: answerText(2048),
      }),
    },
    output: Login,
    errors: callbackErrors,
    summary: 'Take back the browser from the provider',
    description: callbackText,
    handler: (context, { params, query }) =>
      external.web.finish(
        providerOf(external, params.provider),
        query,
        browserOf(context),
        originOf(context),
      ),
  });

const formCallbackOperation = (external: External): Operation =>
  defineOperation({
    ...client,
    id: 'authentication.hook.externalForm',
    method: 'POST',
    path: '/hook/authentication/apple',
    limit: hookLimit,
    mcp: false,
    graphql: false,
    idempotency: false,
    bodyTypes: ['form'],
    bodyLimit: 65_536,
    input: {
      body: Type.Object({
        state: State,
        code: answerText(4096),
        error: answerText(200),
        id_token: Type.Optional(
          Type.String({
            maxLength: 16_384,
            description: 'Not used: the one from the token address is',
          }),
        ),
        user: Type.Optional(
          Type.String({
            maxLength: 4096,
            description: 'JSON with the name, with the first sign-in only',
          }),
        ),
      }),
    },
    output: Login,
    errors: callbackErrors,
    summary: 'Take back the browser from Apple, which sends a form',
    description: callbackText,
    handler: (context, { body }) =>
      external.web.finish(
        providerOf(external, 'apple'),
        body,
        browserOf(context),
        originOf(context),
      ),
  });
