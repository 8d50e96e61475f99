/** Switching the own second factor on and off. */
import Type from 'typebox';
import type { AdminCaller, Caller } from '../../../kernel/caller.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import { coreErrors } from '../errors.ts';
import type { AdminRow } from '../queries/admins.ts';
import type { OwnTwoFactor } from '../services/own-two-factor.ts';
import { requireSession, type Sessions } from '../services/sessions.ts';
import { adminOf, Code } from './shapes.ts';

export const secondFactorOperations = (own: OwnTwoFactor, sessions: Sessions): readonly Operation[] => [
  toggle(own, sessions),
  confirm(own, sessions),
];

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
  coreErrors.ADMIN_VERIFICATION_FAILED,
  coreErrors.ADMIN_ATTEMPTS_EXHAUSTED,
];

const newSession = Type.Optional(Type.String({ description: 'A session in place of the one that ended' }));

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
      result: Type.Optional(Type.String({ description: 'An image for the authenticator app, as a data URI' })),
      uri: Type.Optional(Type.String()),
      secret: Type.Optional(Type.String()),
      message: Type.Optional(Type.String()),
      token: newSession,
    }),
    errors: failures,
    summary: 'Begin or end your second factor',
    auditChanges: ({ body }) => ({ enableTwoFa: (body as { readonly enableTwoFa: boolean }).enableTwoFa }),
    description: 'On: answers an image to scan; it counts after `POST /verify-qr-code`. Off: needs a code, except from a super admin.',
    async handler({ caller }, { body }) {
      const admin = signedIn(caller);
      return body.enableTwoFa ? begin(own, admin) : ended(sessions, await own.end(admin, body.code));
    },
  });

async function begin(own: OwnTwoFactor, caller: AdminCaller) {
  const enrolment = await own.begin(caller);
  if (!enrolment) return { result: '2FA already enabled' };
  return { result: enrolment.image, uri: enrolment.uri, secret: enrolment.secret };
}

const ended = (sessions: Sessions, admin: AdminRow | undefined) => ({ message: 'OK', ...(admin ? { token: sessions.issue(admin) } : {}) });

const confirm = (own: OwnTwoFactor, sessions: Sessions): Operation =>
  defineOperation({
    ...facts,
    id: 'core.secondFactor.confirm',
    unscoped: true,
    method: 'POST',
    path: '/verify-qr-code',
    input: { body: Type.Object({ code: Code }) },
    output: Type.Object({ message: Type.String(), backupCodes: Type.Array(Type.String()), token: newSession }),
    errors: [...failures, coreErrors.SECOND_FACTOR_ABSENT],
    summary: 'Prove the authenticator app and switch the second factor on',
    auditChanges: () => undefined,
    description: 'Answers ten backup codes, each good once, shown here only. Ends all sessions of the calling admin.',
    async handler({ caller }, { body }) {
      const { admin, backupCodes } = await own.confirm(signedIn(caller), body.code);
      return { message: 'OK', backupCodes: [...backupCodes], token: sessions.issue(admin) };
    },
  });
