/** Login, second factor, logout. */
import Type from 'typebox';
import type { AdminCaller, Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { coreErrors } from '../errors.ts';
import type { AdminRow } from '../queries/admins.ts';
import { callerOf } from '../services/accounts.ts';
import { type Known, requireSession, type Sessions } from '../services/sessions.ts';
import type { OwnTwoFactor } from '../services/two-factor.ts';
import { adminOf, Code, Message, Password, Username } from './shapes.ts';

/* Switching the own second factor on and off. */

export const secondFactorOperations = (
  own: OwnTwoFactor,
  sessions: Sessions,
): readonly Operation[] => [toggle(own, sessions), confirm(own, sessions)];

/** Answers hold secrets, so none is stored for replay, and none is a tool. */
const facts = {
  surface: 'admin',
  access: 'admin',
  limit: standardLimit,
  answersSecret: true,
  idempotency: false,
  mcp: false,
  graphql: false,
} as const;
const failures = [
  coreErrors.STORED_ADMIN_REQUIRED,
  coreErrors.ADMIN_SESSION_REQUIRED,
  coreErrors.CODE_INVALID,
  coreErrors.ATTEMPTS_EXHAUSTED,
];

const newSession = Type.Optional(
  Type.String({ description: 'A session in place of the one that ended' }),
);

function signedIn(caller: Caller): AdminCaller {
  const admin = adminOf(caller);
  requireSession(admin);
  return admin;
}

const toggle = (own: OwnTwoFactor, sessions: Sessions): Operation =>
  defineOperation({
    ...facts,
    id: 'core.secondFactor.toggle',
    unscoped: true,
    method: 'PUT',
    path: '/toggle-twofa',
    input: { body: Type.Object({ enableTwoFa: Type.Boolean(), code: Type.Optional(Code) }) },
    output: Type.Object({
      result: Type.Optional(
        Type.String({ description: 'An image for the authenticator app, as a data URI' }),
      ),
      uri: Type.Optional(Type.String()),
      secret: Type.Optional(Type.String()),
      message: Type.Optional(Type.String()),
      token: newSession,
    }),
    errors: failures,
    summary: 'Begin or end your second factor',
    auditChanges: ({ body }) => ({
      enableTwoFa: (body as { readonly enableTwoFa: boolean }).enableTwoFa,
    }),
    description:
      'On: answers an image to scan; it counts after `POST /verify-qr-code`. Off: needs a code, except from a super admin.',
    async handler({ caller }, { body }) {
      const admin = signedIn(caller);
      return body.enableTwoFa
        ? begin(own, admin)
        : ended(sessions, await own.end(admin, body.code));
    },
  });

async function begin(own: OwnTwoFactor, caller: AdminCaller) {
  const enrolment = await own.begin(caller);
  if (!enrolment) return { result: '2FA already enabled' };
  return { result: enrolment.image, uri: enrolment.uri, secret: enrolment.secret };
}

const ended = (sessions: Sessions, admin: AdminRow | undefined) => ({
  message: 'OK',
  ...(admin ? { token: sessions.issue(admin) } : {}),
});

const confirm = (own: OwnTwoFactor, sessions: Sessions): Operation =>
  defineOperation({
    ...facts,
    id: 'core.secondFactor.confirm',
    unscoped: true,
    method: 'POST',
    path: '/verify-qr-code',
    input: { body: Type.Object({ code: Code }) },
    output: Type.Object({
      message: Type.String(),
      backupCodes: Type.Array(Type.String()),
      token: newSession,
    }),
    errors: [...failures, coreErrors.SECOND_FACTOR_MISSING],
    summary: 'Prove the authenticator app and switch the second factor on',
    auditChanges: () => undefined,
    description:
      'Answers ten recovery codes, each good once, shown here only. Ends all sessions of the calling admin.',
    async handler({ caller }, { body }) {
      const { admin, recoveryCodes } = await own.confirm(signedIn(caller), body.code);
      return { message: 'OK', backupCodes: [...recoveryCodes], token: sessions.issue(admin) };
    },
  });

export const sessionOperations = (sessions: Sessions): readonly Operation[] => [
  login(sessions),
  verifySecondFactor(sessions),
  logout(sessions),
];

/** Answers hold tokens, so none is stored for replay, and none is a tool. */
const secretAnswer = {
  surface: 'admin',
  method: 'POST',
  answersSecret: true,
  idempotency: false,
  mcp: false,
  graphql: false,
  auditAtEnd: true,
} as const;

/** A login begins with the master key, or with nobody; the audit log names the admin. */
const toldBy =
  (context: OperationContext): Known =>
  (admin) =>
    context.audited({ actor: callerOf(admin, { via: 'jwt', enforcePasswordChange: false }) });

const login = (sessions: Sessions): Operation =>
  defineOperation({
    ...secretAnswer,
    id: 'core.session.login',
    path: '/login',
    access: 'masterKey',
    limit: { requests: 30, seconds: 900, account: 'username' },
    input: { body: Type.Object({ username: Username, password: Password }) },
    output: Type.Object({ token: Type.String() }),
    errors: [
      coreErrors.MASTER_KEY_INVALID,
      coreErrors.ADMIN_LOGIN_INVALID,
      coreErrors.ATTEMPTS_EXHAUSTED,
    ],
    summary: 'Log in as an admin',
    description:
      'With a second factor, the token lives 60 seconds, has the claim `twoFaRequired` and opens `POST /verify-twofa` only.',
    auditChanges: () => undefined,
    async handler(context, { body }) {
      const asked = ({ username }: { readonly username: string }): void =>
        context.audited({ changes: { username } });
      return {
        token: await sessions.login(body, context.address, { asked, known: toldBy(context) }),
      };
    },
  });

const verifySecondFactor = (sessions: Sessions): Operation =>
  defineOperation({
    ...secretAnswer,
    id: 'core.session.verifySecondFactor',
    path: '/verify-twofa',
    access: 'adminSecondFactor',
    limit: { requests: 60, seconds: 900 },
    input: { body: Type.Object({ code: Code }) },
    output: Type.Object({ result: Type.String(), token: Type.String() }),
    errors: [
      coreErrors.CODE_INVALID,
      coreErrors.SECOND_FACTOR_EXHAUSTED,
      coreErrors.SECOND_FACTOR_MISSING,
    ],
    summary: 'Give the second factor of a login',
    description:
      'The bearer is the token of `POST /login`. `result` and `token` are the same session token.',
    auditChanges: () => undefined,
    async handler(context, { body }) {
      const { bearer } = context;
      if (bearer === undefined) throw coreErrors.ADMIN_TOKEN_MISSING();
      const token = await sessions.verify(bearer, body.code, toldBy(context));
      return { result: token, token };
    },
  });

const logout = (sessions: Sessions): Operation =>
  defineOperation({
    id: 'core.session.logout',
    surface: 'admin',
    method: 'POST',
    path: '/logout',
    access: 'admin',
    limit: standardLimit,
    beforePasswordChange: true,
    mcp: false,
    input: {},
    output: Message,
    errors: [coreErrors.STORED_ADMIN_REQUIRED, coreErrors.ADMIN_SESSION_REQUIRED],
    summary: 'Log out',
    description: 'Ends all sessions of the calling admin, on every node, before it answers.',
    async handler({ caller }) {
      const admin = adminOf(caller);
      requireSession(admin);
      await sessions.logout(admin);
      return { message: 'OK' };
    },
  });
