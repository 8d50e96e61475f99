/** Renewal, logout and the list of one's own sessions. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authErrors } from '../errors.ts';
import type { Renewal } from '../services/sessions/renewal.ts';
import type { Sessions } from '../services/sessions/sessions.ts';
import type { TokenCookies } from '../services/sessions/token-cookies.ts';
import { originOf, Session, SessionId, sessionOnWire, userOf } from './shapes.ts';
import { signedOut } from './token-cookies.ts';

/** What these operations call. */
interface SessionServices {
  readonly sessions: Sessions;
  readonly renewal: Renewal;
  readonly tokenCookies: TokenCookies;
}

export const sessionOperations = (services: SessionServices): readonly Operation[] => [
  logoutOperation(services),
  listOperation(services),
  renameOperation(services),
  endOperation(services),
  endOthersOperation(services),
];

const OwnSession = Type.Intersect([
  Session,
  Type.Object({ current: Type.Boolean({ description: 'The session of this request' }) }),
]);

/** Exists only while refresh tokens are switched on. */
export const renewOperation = ({ renewal, tokenCookies }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.renew',
    surface: 'client',
    method: 'POST',
    path: '/authentication/renew',
    access: 'refreshToken',
    limit: standardLimit,
    idempotency: false,
    input: {},
    output: Type.Object({ accessToken: Type.String(), refreshToken: Type.String() }),
    errors: [authErrors.REFRESH_TOKEN_INVALID, authErrors.USER_BLOCKED],
    summary: 'Renew the token pair',
    description:
      'The bearer is the refresh token (or its cookie, where it has one). It works once: a second use within ten seconds answers the same pair, a later one ends the session.',
    handler: async (context) => {
      const presented = context.bearer ?? tokenCookies.admittedRefreshToken(context.cookies);
      if (presented === undefined) throw errors.UNAUTHORIZED();
      const { accessToken, refreshToken } = await renewal.renew(presented, originOf(context));
      if (refreshToken === undefined) throw authErrors.REFRESH_TOKEN_INVALID();
      return { accessToken, refreshToken };
    },
  });

const logoutOperation = ({ sessions, tokenCookies }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.logout',
    surface: 'client',
    method: 'POST',
    path: '/authentication/logout',
    access: 'partialUser',
    limit: standardLimit,
    idempotency: false,
    input: {},
    output: TextResult,
    audit: true,
    summary: 'Log out',
    description:
      'Ends this session: its access token and its refresh token are refused from the next request on.',
    handler: async (context) => {
      await sessions.logout(userOf(context));
      return signedOut('LoggedOut', tokenCookies);
    },
  });

const listOperation = ({ sessions }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.list',
    surface: 'client',
    method: 'GET',
    path: '/authentication/sessions',
    access: 'user',
    limit: standardLimit,
    input: {},
    output: Type.Object({
      sessions: Type.Array(OwnSession),
      count: Type.Integer(),
    }),
    summary: 'List your sessions',
    description: 'Where the user is signed in, the last used first; at most 200.',
    handler: async (context) => {
      const list = (await sessions.list(userOf(context))).map(sessionOnWire);
      return { sessions: list, count: list.length };
    },
  });

const renameOperation = ({ sessions }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.rename',
    surface: 'client',
    method: 'PATCH',
    path: '/authentication/sessions/:id',
    access: 'user',
    limit: standardLimit,
    input: {
      params: SessionId,
      body: Type.Object({
        name: Type.String({
          minLength: 1,
          maxLength: 100,
          pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]+$',
          examples: ['Laptop in the kitchen'],
        }),
      }),
    },
    output: OwnSession,
    errors: [authErrors.SESSION_NOT_FOUND],
    summary: 'Name the device of one of your sessions',
    handler: async (context, { params, body }) =>
      sessionOnWire(
        await sessions.rename(userOf(context), params.id.toLowerCase(), body.name.trim()),
      ),
  });

const endOperation = ({ sessions }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.end',
    surface: 'client',
    method: 'DELETE',
    path: '/authentication/sessions/:id',
    access: 'user',
    limit: standardLimit,
    input: { params: SessionId },
    output: TextResult,
    errors: [authErrors.SESSION_NOT_FOUND],
    audit: true,
    summary: 'End one of your sessions',
    handler: async (context, { params }) => {
      await sessions.end(userOf(context), params.id);
      return 'Session ended';
    },
  });

const endOthersOperation = ({ sessions }: SessionServices): Operation =>
  defineOperation({
    id: 'authentication.session.endOthers',
    surface: 'client',
    method: 'DELETE',
    path: '/authentication/sessions',
    access: 'user',
    limit: standardLimit,
    input: {},
    output: TextResult,
    audit: true,
    summary: 'End all other sessions of the user',
    handler: async (context) => {
      const caller = userOf(context);
      const ended = await sessions.endAll(caller, [caller.userId], {
        reason: 'revoked',
        except: caller.sessionId,
      });
      return `${ended} sessions ended`;
    },
  });
