/** The pages between an app and its sign-in, and what they call; consents as users see them later. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { openidProviderErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import { withQuery } from '../redirects.ts';
import type { Consents, Interactions } from '../services/openid/interactions.ts';
import { brokenPage, interactionPage, signInScript } from '../services/openid/pages.ts';
import { openidPaths } from '../services/openid/provider.ts';
import { openidRequest } from './openid.ts';
import { userOf } from './shapes.ts';

export interface InteractionServices {
  readonly interactions: Interactions;
  readonly consents: Consents;
  /** The issuer: under which address the pages call back. */
  readonly issuer: string;
  /** A page of the operator in place of ours; empty: none. */
  readonly signInPage: string;
}

const facts = {
  surface: 'client',
  limit: standardLimit,
  graphql: false,
  mcp: false,
  idempotency: false,
} as const;
const params = Type.Object({ uid: Type.String({ minLength: 1, maxLength: 100 }) });
const path = `${openidPaths.interaction}/:uid`;
const GoOn = Type.Object({ redirectTo: Type.String({ description: 'Where the browser goes on' }) });
const ended = openidProviderErrors.OPENID_INTERACTION_INVALID;

const requestOf = (context: OperationContext, uid: string) =>
  openidRequest(context, 'GET', `${openidPaths.interaction}/${encodeURIComponent(uid)}`);

/** Exist only while the platform is a provider. */
export const interactionOperations = (services: InteractionServices): readonly Operation[] => [
  pageOperation(services),
  viewOperation(services),
  signInOperation(services),
  consentOperation(services),
  scriptOperation,
  ...consentOperations(services.consents),
];

const pageOperation = ({ interactions, issuer, signInPage }: InteractionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openid.page',
    method: 'GET',
    path,
    access: 'public',
    anyApp: true,
    input: { params, query: Type.Object({}, { additionalProperties: true }) },
    output: Type.String({ contentMediaType: 'text/html' }),
    summary: 'The page of a sign-in to an app',
    description:
      'Answers 302 to the page of the operator where there is one (setting openidProvider.signInPage).',
    async handler(context, { params: { uid } }) {
      if (signInPage !== '') return Reply.redirect(withQuery(signInPage, { interaction: uid }));
      try {
        return interactionPage(await interactions.view(requestOf(context, uid)), issuer);
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === ended.code)
          return brokenPage(error.message);
        throw error;
      }
    },
  });

const viewOperation = ({ interactions }: InteractionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openid.interaction',
    method: 'GET',
    path: `${path}/details`,
    access: 'public',
    input: { params },
    output: Type.Object({
      interaction: Type.String(),
      prompt: Type.Union([Type.Literal('login'), Type.Literal('consent')]),
      reasons: Type.Array(Type.String()),
      client: Type.Object({ clientId: Type.String(), name: Type.String() }),
      scopes: Type.Array(Type.String()),
      methods: Type.Object({
        password: Type.Boolean(),
        username: Type.Boolean(),
        emailCode: Type.Boolean(),
        passkey: Type.Boolean(),
        providers: Type.Array(Type.String()),
      }),
    }),
    errors: [ended],
    summary: 'What an app asks for in a sign-in',
    description:
      'For a sign-in page of your own. The cookies of the browser say whose sign-in it is.',
    handler: async (context, { params: { uid } }) => {
      const { reasons, scopes, methods, ...view } = await interactions.view(
        requestOf(context, uid),
      );
      const lists = { reasons: [...reasons], scopes: [...scopes] };
      return { ...view, ...lists, methods: { ...methods, providers: [...methods.providers] } };
    },
  });

const signInOperation = ({ interactions }: InteractionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openid.signIn',
    method: 'POST',
    path: `${path}/sign-in`,
    access: 'user',
    audit: true,
    input: { params },
    output: GoOn,
    errors: [ended, openidProviderErrors.OPENID_LOGIN_REQUIRED, authErrors.USER_ANONYMOUS],
    summary: 'Sign in to an app with the session of the platform',
    description:
      'The bearer says who signs in, the cookies of the browser to what. What the app gets ends with this session. Where the app wants a fresh login, log in again or prove yourself at POST /authentication/sudo first.',
    handler: async (context, { params: { uid } }) => ({
      redirectTo: await interactions.signIn(requestOf(context, uid), userOf(context)),
    }),
  });

const consentOperation = (services: InteractionServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.openid.consent',
    method: 'POST',
    path: `${path}/consent`,
    access: 'public',
    input: { params, body: Type.Object({ allow: Type.Boolean() }) },
    output: GoOn,
    errors: [ended, openidProviderErrors.OPENID_LOGIN_REQUIRED, errors.FORBIDDEN],
    summary: 'Agree to what an app may know, or cancel the sign-in',
    description:
      'The cookies of the browser say whose sign-in it is; only pages of the issuer and of the configured sign-in page may ask.',
    async handler(context, { params: { uid }, body }) {
      requireOwnPage(services, context);
      const redirectTo = await services.interactions.decide(requestOf(context, uid), body.allow);
      return { redirectTo };
    },
  });

/** Nobody agrees without knowing: the page that asks is ours, or the operator's. */
function requireOwnPage(
  { issuer, signInPage }: InteractionServices,
  { origin, fetchSite }: OperationContext,
): void {
  const own = [issuer, signInPage].filter((one) => one !== '').map((one) => new URL(one).origin);
  const stranger = origin === undefined ? fetchSite === 'cross-site' : !own.includes(origin);
  if (stranger) throw errors.FORBIDDEN({ message: 'This page may not decide about a sign-in' });
}

const scriptOperation: Operation = defineOperation({
  ...facts,
  id: 'authentication.openid.script',
  method: 'GET',
  path: '/openid/sign-in.js',
  access: 'public',
  anyApp: true,
  input: {},
  output: Type.String({ contentMediaType: 'text/javascript' }),
  summary: 'The program of the sign-in page',
  handler: () =>
    Reply.text(signInScript(), 'text/javascript; charset=utf-8', 200, {
      'cache-control': 'public, max-age=300',
    }),
});

const consentOperations = (consents: Consents): readonly Operation[] => [
  defineOperation({
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    id: 'authentication.openid.listConsents',
    method: 'GET',
    path: '/authentication/apps',
    input: {},
    output: Type.Object({
      apps: Type.Array(
        Type.Object({
          clientId: Type.String(),
          name: Type.String(),
          scopes: Type.Array(Type.String()),
          givenAt: Type.String({ format: 'date-time' }),
        }),
      ),
      count: Type.Integer(),
    }),
    summary: 'List the apps that the user lets know something',
    handler: async (context) => {
      const apps = (await consents.list(userOf(context))).map((one) => ({
        ...one,
        scopes: [...one.scopes],
        givenAt: one.givenAt.toISOString(),
      }));
      return { apps, count: apps.length };
    },
  }),
  defineOperation({
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    id: 'authentication.openid.withdrawConsent',
    method: 'DELETE',
    path: '/authentication/apps/:clientId',
    audit: true,
    input: {
      params: Type.Object({
        clientId: Type.String({ minLength: 1, maxLength: 100, description: 'Id of the app' }),
      }),
    },
    output: TextResult,
    errors: [openidProviderErrors.OPENID_CLIENT_NOT_FOUND],
    summary: 'Withdraw what an app may know',
    description: 'Its tokens for this user end at once; the next sign-in asks again.',
    handler: async (context, { params: { clientId } }) => {
      await consents.withdraw(userOf(context), clientId);
      return 'The app knows nothing more of you';
    },
  }),
];
