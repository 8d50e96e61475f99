/**
 * The signed-in user behind a socket. A socket lives longer than a request, so
 * the credential is checked again for everything that is sent or delivered.
 */

import type { IncomingMessage } from 'node:http';
import {
  type AnonymousCaller,
  addressKey,
  anonymous,
  type UserCaller,
} from '../../kernel/caller.ts';
import { errors, type PenstockError } from '../../kernel/errors.ts';
import {
  type CookieSender,
  type Identity,
  type PresentedApp,
  presentedApp,
} from '../../kernel/identity.ts';
import { operationErrors } from '../../kernel/operations/errors.ts';
import { presentedCredentials } from '../http/headers.ts';
import type { CorsOptions } from '../http/options.ts';
import { realtimeErrors } from './errors.ts';

export interface Session {
  /** Empty for a visitor. */
  readonly userId: string;
  /** Id of the app that was presented, whether or not apps are told apart. */
  readonly app: string | undefined;
  /** Id of the session that its token is of now; nothing for a visitor. */
  sessionId(): string | undefined;
  /** Whose requests its messages count as. */
  readonly countsAs: string;
  /** The user, if the credential still holds; throws 401, 403 or 503. Without a promise when all is cached. */
  caller(): UserCaller | Promise<UserCaller>;
  /** The same; a visitor is nobody in particular instead of refused. */
  anyCaller(): AnyCaller | Promise<AnyCaller>;
  /** Goes on with another token of the same user. */
  renew(token: string): Promise<void>;
  /** Milliseconds until the token says that it ends; `undefined` when it does not say. A hint: `caller` decides. */
  endsIn(): number | undefined;
}

type AnyCaller = UserCaller | AnonymousCaller;

/** Seconds after which to try again while nobody can check credentials. */
const retryAfterSeconds = 2;

/** What a socket presents. */
export interface Presented {
  readonly token: string | undefined;
  /** Count only without a token. */
  readonly cookies: Readonly<Record<string, string>>;
  readonly sender: CookieSender | undefined;
  readonly app: PresentedApp;
  readonly address: string;
}

/** Signs the bearer of a token in. `visitors`: who presents none is let in too. Throws 401, 403 or 503. */
export async function openSession(
  identity: Identity,
  given: Presented,
  visitors = false,
): Promise<Session> {
  const { token, cookies, sender, app, address } = given;
  const cookie = token === undefined ? accessCookie(identity, given) : undefined;
  let current = token;
  const check = (bearer: string | undefined): UserCaller | Promise<UserCaller> => {
    const admitted = identity.apps?.admit(app);
    if (admitted instanceof Promise) return admitted.then((known) => signedIn(bearer, known));
    return signedIn(bearer, admitted);
  };
  const signedIn = (
    bearer: string | undefined,
    appId: string | undefined,
  ): UserCaller | Promise<UserCaller> => {
    if (bearer === undefined && accessCookie(identity, given) === undefined) throw withoutToken();
    const caller = clientOf(identity).authenticate({
      bearer,
      masterKey: undefined,
      apiToken: undefined,
      cookies,
      sender,
      address,
    });
    return caller instanceof Promise
      ? caller.then((known) => accepted(known, appId))
      : accepted(caller, appId);
  };
  const isVisitor = visitors && token === undefined && cookie === undefined;
  const visitor = async (): Promise<AnyCaller> => {
    await identity.apps?.admit(app);
    return anonymous;
  };
  const anyCaller = () => (isVisitor ? visitor() : check(current));
  const first = await anyCaller();
  const userId = first.kind === 'user' ? first.userId : '';
  let sessionId = first.kind === 'user' ? first.sessionId : undefined;
  return {
    userId,
    app: app.clientId,
    sessionId: () => sessionId,
    countsAs: isVisitor ? addressKey(address) : `user:${userId}`,
    caller: () => check(current),
    anyCaller,
    async renew(fresh) {
      const caller = await check(fresh);
      if (caller.userId !== userId) throw realtimeErrors.USER_MISMATCH();
      current = fresh;
      sessionId = caller.sessionId;
    },
    endsIn: () => remainingLife(current ?? cookie ?? ''),
  };
}

const accessCookie = ({ client }: Identity, { cookies }: Presented): string | undefined =>
  client?.cookieTokens?.accessToken(cookies);

const withoutToken = (): Error =>
  errors.UNAUTHORIZED({ message: 'Connect with an access token: Authorization: Bearer <token>' });

/** Who signs users in. Throws 503 while that is not there. */
function clientOf({ client }: Identity): NonNullable<Identity['client']> {
  if (client) return client;
  throw errors.UNAVAILABLE({
    message: 'Authentication is not available now: try again shortly',
    retryAfter: retryAfterSeconds,
  });
}

/** Throws 401 for a token of another app, and while a second factor is needed. */
function accepted(caller: UserCaller, appId: string | undefined): UserCaller {
  if (appId !== undefined && caller.clientId !== appId)
    throw errors.UNAUTHORIZED({ message: 'This token belongs to another app' });
  if (!caller.complete) throw operationErrors.SECOND_FACTOR_REQUIRED();
  return caller;
}

/** Reads `exp` of a token that was verified before, if it is a JWT. */
export function remainingLife(token: string): number | undefined {
  const [, payload, signature] = token.split('.');
  if (payload === undefined || signature === undefined) return undefined;
  try {
    const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 - Date.now() : undefined;
  } catch {
    return undefined;
  }
}

/* What a connecting client presents: where it comes from, and its token. */

const maxTokenLength = 8_192;

/** Of a socket of Socket.IO, and of one of GraphQL whose first message holds what stands in `auth`. */
interface Handshake {
  readonly request: IncomingMessage;
  readonly handshake: { readonly auth: Readonly<Record<string, unknown>> };
}

/**
 * The bearer of the Authorization header, else of the handshake's `auth`: `token`, `accessToken`, or
 * `authorization` (with or without `Bearer `). Throws 401 for a malformed header.
 */
function presentedToken(socket: Handshake, address: string): string | undefined {
  const { bearer } = presentedCredentials(socket.request, 'client', address);
  if (bearer !== undefined) return bearer;
  const { token, accessToken, authorization } = socket.handshake.auth;
  for (const candidate of [token, accessToken, authorization]) {
    if (typeof candidate !== 'string' || candidate === '' || candidate.length > maxTokenLength)
      continue;
    return candidate.replace(/^bearer /i, '');
  }
  return undefined;
}

/** Everything that decides who connects. Browsers cannot set headers here: the app may stand in the handshake's `auth` too. */
export function presented(socket: Handshake, address: string): Presented {
  const app = presentedApp(socket.request.headers);
  const { clientid, clientsecret, csrfToken } = socket.handshake.auth;
  const { cookies, sender } = presentedCredentials(socket.request, 'client', address);
  return {
    token: presentedToken(socket, address),
    cookies,
    // A handshake is a GET, but what it opens is no reading: a page of somebody else must not open it by a cookie.
    sender: sender && {
      ...sender,
      method: 'CONNECT',
      csrfToken: sender.csrfToken ?? textOf(csrfToken),
    },
    app: {
      ...app,
      clientId: app.clientId ?? textOf(clientid),
      clientSecret: app.clientSecret ?? textOf(clientsecret),
    },
    address,
  };
}

/** Asked about visitors before they are let in; throws where they are not. `token`: of a captcha that they have solved. */
export type VisitorGate = (token: string | undefined, address: string) => Promise<void>;

/** Throws 403 for a visitor who has solved no captcha where one is asked for, and 503 while nobody can tell. */
export async function admitVisitor(
  { userId }: Session,
  gate: VisitorGate | undefined,
  { handshake: { auth } }: Pick<Handshake, 'handshake'>,
  address: string,
): Promise<void> {
  if (userId === '') await gate?.(textOf(auth.captchaToken), address);
}

/** A ticket in `auth` of the handshake, or in the address of the connection (tickets.ts). */
export function ticketOf({
  request: { url = '' },
  handshake: { auth },
}: Handshake): string | undefined {
  const query = url.includes('ticket=') ? url.slice(url.indexOf('?') + 1) : '';
  return textOf(auth.ticket) ?? textOf(new URLSearchParams(query).get('ticket'));
}

export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= maxTokenLength ? value : undefined;

/** What a refused client reads, in fixed words that apps look for (specification chat.md 3.2). Its `data` says more. */
export function refusalWords(
  { handshake: { auth } }: Handshake,
  { status, code, message }: PenstockError,
): string {
  if (code === 'USER_BLOCKED') return 'User blocked';
  if (status !== 401) return message;
  const { token, accessToken } = auth;
  const remaining = remainingLife(textOf(token) ?? textOf(accessToken) ?? '');
  return remaining !== undefined && remaining <= 0 ? 'Token expired' : 'Unauthorized';
}

/** Whether a page of this origin may connect. Programs send no origin; they are free to. */
export function originAllowed(
  request: IncomingMessage,
  { enabled, origins }: CorsOptions,
): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined || (enabled && origins.includes('*'))) return true;
  if (enabled && origins.includes(origin)) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
