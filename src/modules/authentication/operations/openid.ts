/** The calls of OpenID Connect and OAuth 2.0: declared here like all others, answered by the library. */
import Type from 'typebox';
import { errors, invalid } from '../../../kernel/errors.ts';
import {
  anyType,
  defineOperation,
  type Method,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { type OperationContext, wholeBody } from '../../../kernel/operations/operation-input.ts';
import { openidPolicy } from '../services/openid/pages.ts';
import { type OpenidRequest, type OpenidServer, openidPaths } from '../services/openid/provider.ts';

/** Bytes of a form of the protocol. */
const bodyLimit = 65_536;
/** Characters of a query: what it says is kept until the sign-in is over, for anybody who asks. */
const maxQuery = 8_192;
/** Of what browsers of anybody begin, for each of the people behind an address: each is kept for a while. */
const beginLimit = { requests: 30, seconds: 300 } as const;

const facts = {
  surface: 'client',
  access: 'public',
  limit: standardLimit,
  graphql: false,
  mcp: false,
  idempotency: false,
  anyApp: true,
} as const;

const text = (description: string) => Type.Optional(Type.String({ description }));

/** What apps send with the browser. The library checks them, as the protocol says; further ones are no mistake there. */
const AuthorizationQuery = Type.Object(
  {
    client_id: text('The id of the app.'),
    response_type: text('`code`'),
    redirect_uri: text('One of the addresses that the app was registered with.'),
    scope: text('`openid`, and what else the app wants to know: `profile email phone`.'),
    state: text('Comes back with the answer.'),
    nonce: text('Comes back in the ID token.'),
    code_challenge: text('Of PKCE; every app needs one.'),
    code_challenge_method: text('`S256`'),
    prompt: text('`none`, `login`, `consent`, or several.'),
    max_age: text('Seconds since the user has proven who they are.'),
    id_token_hint: text('An ID token that the app got before.'),
    login_hint: text('Who will probably sign in.'),
  },
  { additionalProperties: true },
);
const anyQuery = Type.Object({}, { additionalProperties: true });

const Form = (fields: Readonly<Record<string, string>>) => ({
  contentTypes: [anyType],
  mayBeEmpty: true,
  inMemory: true,
  limit: bodyLimit,
  description: 'The parameters as `application/x-www-form-urlencoded`.',
  schema: Type.Object(
    Object.fromEntries(Object.entries(fields).map(([name, what]) => [name, text(what)])),
  ),
});

const tokenForm = {
  grant_type: '`authorization_code` or `refresh_token`',
  code: 'The code that came with the browser; it works once.',
  redirect_uri: 'The same as in the request of the code.',
  code_verifier: 'Of PKCE.',
  refresh_token: 'Works once: the answer has the next one.',
  client_id: 'Of apps without a secret; others authenticate with HTTP Basic.',
  client_secret: 'In place of HTTP Basic.',
};
const oneToken = {
  token: 'An access token or a refresh token.',
  token_type_hint: '`access_token` or `refresh_token`',
  client_id: tokenForm.client_id,
  client_secret: tokenForm.client_secret,
};

/** The request as it came, for the library. Its path is ours: `:uid` stands for what the address has there. */
export function openidRequest(
  context: OperationContext,
  method: string,
  path: string,
  body?: Buffer,
): OpenidRequest {
  const { headers = {}, rawQuery = '', address } = context;
  return { method, url: rawQuery === '' ? path : `${path}?${rawQuery}`, headers, body, address };
}

/** Headers of the library's answer that are ours to say. */
const ours =
  /^(?:access-control-|vary$|content-length$|connection$|date$|set-cookie$|transfer-encoding$)/;

async function answer(server: OpenidServer, request: OpenidRequest): Promise<Reply> {
  const { statusCode, headers, payload, cookies } = await server.answer(request);
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined && !ours.test(name)) passed[name] = String(value);
  const { 'content-type': type = 'text/plain; charset=utf-8', ...others } = passed;
  const reply =
    payload === '' || passed.location !== undefined
      ? Reply.empty(statusCode, others)
      : Reply.text(payload, type, statusCode, withPolicy(type, others));
  return reply.withCookies(
    cookies.map(({ name, value, path, expires, httpOnly, secure }) => ({
      name,
      value,
      ...(path === undefined ? {} : { path }),
      ...(expires === undefined ? {} : { maxAge: Math.max(0, expires.getTime() - Date.now()) }),
      httpOnly: httpOnly === true,
      secure: secure === true,
      sameSite: 'lax',
    })),
  );
}

const withPolicy = (
  type: string,
  headers: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  type.startsWith('text/html') ? { 'content-security-policy': openidPolicy, ...headers } : headers;

interface Call {
  readonly id: string;
  readonly method: Extract<Method, 'GET' | 'POST'>;
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly query?: Type.TObject;
  readonly form?: Readonly<Record<string, string>>;
  readonly output?: Type.TSchema;
  readonly limit?: typeof beginLimit;
}

const Page = Type.String({ contentMediaType: 'text/html' });
const uidParams = Type.Object({ uid: Type.String({ minLength: 1, maxLength: 100 }) });

function call(server: OpenidServer, { form, query, output, ...declared }: Call): Operation {
  const ofSignIn = declared.path.endsWith('/:uid');
  return defineOperation({
    ...facts,
    ...declared,
    id: `authentication.openid.${declared.id}`,
    input: {
      query: query ?? anyQuery,
      ...(ofSignIn ? { params: uidParams } : {}),
      ...(form ? { stream: Form(form) } : {}),
    },
    output: output ?? Page,
    errors: [errors.INVALID_ARGUMENTS, errors.UNAUTHORIZED, errors.FORBIDDEN],
    async handler(context, { params, stream }) {
      const { uid = '' } = params as { uid?: string };
      if ((context.rawQuery ?? '').length > maxQuery)
        throw invalid('query', 'maxLength', `must have at most ${maxQuery} characters`);
      const path = declared.path.replace(':uid', encodeURIComponent(uid));
      const body = stream ? await wholeBody(stream) : undefined;
      return answer(server, openidRequest(context, declared.method, path, body));
    },
  });
}

const Tokens = Type.Object({
  access_token: Type.String({ description: 'For userinfo; opaque' }),
  token_type: Type.Literal('Bearer'),
  expires_in: Type.Integer({ description: 'Seconds' }),
  id_token: Type.Optional(Type.String({ description: 'Who signed in, as a JWT' })),
  refresh_token: Type.Optional(Type.String()),
  scope: Type.Optional(Type.String()),
});
const Claims = Type.Object(
  { sub: Type.String({ description: 'The id of the user' }) },
  { additionalProperties: true },
);
const Introspection = Type.Object({ active: Type.Boolean() }, { additionalProperties: true });

const { authorization, token, userinfo, revocation, introspection, endSession } = openidPaths;
const signOutForm = {
  id_token_hint: 'The last ID token of the app.',
  client_id: 'Where there is no such token.',
  post_logout_redirect_uri: 'One of the addresses that the app was registered with.',
  state: 'Comes back with the answer.',
};

/** Exist only while the platform is a provider. */
export const openidOperations = (server: OpenidServer): readonly Operation[] =>
  [...signInCalls, ...tokenCalls, ...signOutCalls].map((one) => call(server, one));

const signInCalls: readonly Call[] = [
  {
    id: 'authorize',
    method: 'GET',
    path: authorization,
    limit: beginLimit,
    query: AuthorizationQuery,
    summary: 'Sign in to an app (OpenID Connect)',
    description:
      'Where apps send the browser. It goes on to the sign-in page, and back to the app with a code. Apps find this address in the discovery document.',
  },
  {
    id: 'resume',
    method: 'GET',
    path: `${authorization}/:uid`,
    summary: 'Go on with a sign-in to an app',
    description: 'Where the pages of sign-in and consent send the browser.',
  },
];

const tokenCalls: readonly Call[] = [
  {
    id: 'token',
    method: 'POST',
    path: token,
    form: tokenForm,
    output: Tokens,
    summary: 'Get the tokens of an app',
    description:
      'For a code, or for a refresh token. Both work once; a second use ends everything that was given for the first one.',
  },
  {
    id: 'userinfo',
    method: 'GET',
    path: userinfo,
    output: Claims,
    summary: 'What an app may know about the user',
    description: 'The bearer is the access token of the app.',
  },
  {
    id: 'userinfoByPost',
    method: 'POST',
    path: userinfo,
    form: { access_token: 'In place of the header.' },
    output: Claims,
    summary: 'What an app may know about the user, by POST',
  },
  {
    id: 'revoke',
    method: 'POST',
    path: revocation,
    form: oneToken,
    output: Type.String(),
    summary: 'Revoke a token of an app (RFC 7009)',
  },
  {
    id: 'introspect',
    method: 'POST',
    path: introspection,
    form: oneToken,
    output: Introspection,
    summary: 'Ask whether a token is good (RFC 7662)',
    description: 'For services with a secret, which got the token from an app.',
  },
];

const signOutCalls: readonly Call[] = [
  {
    id: 'endSession',
    method: 'GET',
    path: endSession,
    limit: beginLimit,
    query: Type.Object(
      Object.fromEntries(Object.entries(signOutForm).map(([name, what]) => [name, text(what)])),
      { additionalProperties: true },
    ),
    summary: 'Sign out of an app',
    description: 'Where apps send the browser; it asks the user, and goes back to the app.',
  },
  {
    id: 'confirmEndSession',
    method: 'POST',
    path: `${endSession}/confirm`,
    form: { xsrf: 'Of the page that asks.', logout: 'Sign out of the browser too.' },
    summary: 'Sign out as the user has said',
    description: 'Where the page that asks sends its form.',
  },
  {
    id: 'sessionEnded',
    method: 'GET',
    path: `${endSession}/success`,
    summary: 'Say that the user is signed out',
  },
];

/** The discovery document while the platform is a provider: all that the library offers. */
export const openidDiscovery = (server: OpenidServer) => (context: OperationContext) =>
  answer(server, openidRequest(context, 'GET', openidPaths.discovery));
