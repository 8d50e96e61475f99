/** What operators do about the sessions of a user, and for one who cannot get in. */
import Type from 'typebox';
import type { AdminCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { authErrors } from '../errors.ts';
import type { AccountHelp, Impersonation } from '../services/accounts/account-help.ts';
import type { UserAdmin } from '../services/accounts/user-admin.ts';
import { Session, sessionOnWire, UserId } from './shapes.ts';

export interface HelpServices {
  readonly users: UserAdmin;
  readonly help: AccountHelp;
  readonly impersonate: Impersonation;
}

const admin = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const Id = Type.String({ format: 'uuid' });

export const helpOperations = (services: HelpServices): readonly Operation[] => [
  sessionsOperation(services),
  endSessionsOperation(services),
  endSessionOperation(services),
  requirePasswordOperation(services),
  resetSecondFactorOperation(services),
  impersonateOperation(services),
];

const sessionsOperation = ({ users }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.sessions',
    method: 'GET',
    path: '/authentication/users/:id/sessions',
    input: { params: UserId },
    output: Type.Object({ sessions: Type.Array(Session), count: Type.Integer() }),
    errors: [authErrors.USER_NOT_FOUND],
    summary: "List a user's sessions",
    handler: async (_context, { params }) => {
      const sessions = (await users.sessions(params.id)).map(sessionOnWire);
      return { sessions, count: sessions.length };
    },
  });

const endSessionsOperation = ({ users }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.endSessions',
    method: 'DELETE',
    path: '/authentication/users/:id/sessions',
    input: { params: UserId },
    output: TextResult,
    errors: [authErrors.USER_NOT_FOUND],
    summary: "End a user's sessions",
    handler: async ({ caller }, { params }) =>
      `${await users.endSessions(caller, params.id)} sessions ended`,
  });

const endSessionOperation = ({ users }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.endSession',
    method: 'DELETE',
    path: '/authentication/users/:id/sessions/:sessionId',
    input: {
      params: Type.Object({
        id: Type.String({ format: 'uuid', description: 'Its id' }),
        sessionId: Type.String({ format: 'uuid', description: 'Id of the session' }),
      }),
    },
    output: TextResult,
    errors: [authErrors.SESSION_NOT_FOUND],
    summary: "End one of a user's sessions",
    async handler({ caller }, { params }) {
      await users.endSession(caller, params.id, params.sessionId);
      return 'Session ended';
    },
  });

const requirePasswordOperation = ({ help }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.requirePassword',
    method: 'POST',
    path: '/authentication/users/:id/reset-password',
    destructive: true,
    openWorld: true,
    input: { params: UserId },
    output: TextResult,
    errors: [authErrors.USER_NOT_FOUND, errors.PRECONDITION_FAILED],
    summary: 'Make a user choose a new password',
    description:
      'The old one does not work any more, all sessions end, and a mail with a link goes to the user.',
    async handler({ caller }, { params }) {
      await help.requirePassword(caller, params.id.toLowerCase());
      return 'The user was sent a mail to choose a new password';
    },
  });

const resetSecondFactorOperation = ({ help }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    id: 'authentication.users.resetSecondFactor',
    method: 'POST',
    path: '/authentication/users/:id/reset-2fa',
    destructive: true,
    openWorld: true,
    input: { params: UserId },
    output: TextResult,
    errors: [authErrors.USER_NOT_FOUND],
    summary: "Take a user's second factor off",
    description:
      'With its secrets and recovery codes. All sessions end, and the user is told by mail.',
    async handler({ caller }, { params }) {
      await help.resetSecondFactor(caller, params.id.toLowerCase());
      return 'The second factor was taken off';
    },
  });

const impersonateOperation = ({ impersonate }: HelpServices): Operation =>
  defineOperation({
    ...admin,
    access: 'superAdmin',
    id: 'authentication.users.impersonate',
    method: 'POST',
    path: '/authentication/users/:id/impersonate',
    answersSecret: true,
    idempotency: false,
    mcp: false,
    input: {
      params: UserId,
      body: Type.Object({
        reason: Type.String({
          minLength: 3,
          maxLength: 500,
          description: 'Goes into the audit log',
        }),
        clientId: Type.Optional(
          Type.String({
            maxLength: 64,
            description: 'The registered app that the token is for, while apps are told apart',
          }),
        ),
      }),
    },
    output: Type.Object({
      userId: Id,
      accessToken: Type.String({
        description: 'Names the operator in the claims `act` and `impersonatedBy`',
      }),
      expiresAt: Type.String({ format: 'date-time' }),
    }),
    errors: [authErrors.USER_NOT_FOUND, authErrors.USER_BLOCKED],
    summary: 'Act as a user',
    description:
      'For a super admin (with a token: one for all modules), for `impersonation.lifetime`, without renewal. The session passes no check for a fresh login; its log lines and events name the operator, and the user sees it in their list.',
    async handler(context, { params, body: { clientId } }) {
      const origin = {
        address: context.address,
        userAgent: context.userAgent,
        ...(clientId === undefined ? {} : { clientId }),
      };
      const { expiresAt, ...token } = await impersonate(
        adminOf(context),
        params.id.toLowerCase(),
        origin,
      );
      return { ...token, expiresAt: new Date(expiresAt).toISOString() };
    },
  });

function adminOf({ caller }: OperationContext): AdminCaller {
  if (caller.kind !== 'admin') throw errors.UNAUTHORIZED();
  return caller;
}
