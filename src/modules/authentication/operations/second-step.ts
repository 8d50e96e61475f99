/** The second step of a sign-in, with the partial token of the first. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { factorErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { StepUp } from '../services/login/step-up.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import { AssertionCredential } from './passkey-shapes.ts';
import { assertion } from './passkeys.ts';
import { Login, originOf, userOf } from './shapes.ts';
import { Code } from './two-factor.ts';

/* Proving once more who one is. */

/** Exists always: what one can prove depends on the account. */
export const stepUpOperation = ({ stepUp }: { readonly stepUp: StepUp }): Operation =>
  defineOperation({
    id: 'authentication.session.stepUp',
    surface: 'client',
    method: 'POST',
    path: '/authentication/sudo',
    access: 'user',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    mcp: false,
    input: {
      body: Type.Object({
        password: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 1024,
            description: 'For accounts without a second factor',
          }),
        ),
        code: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 20,
            description:
              'Of the second factor. Codes by text message: POST /authentication/twoFa/authorize first',
          }),
        ),
        credential: Type.Optional(AssertionCredential),
      }),
    },
    output: Type.Object({
      accessToken: Type.String({ description: 'Of the same session, fresh from now on' }),
    }),
    errors: [
      authErrors.PASSWORD_INCORRECT,
      authErrors.SUDO_REQUIRED,
      authErrors.ATTEMPTS_EXHAUSTED,
      factorErrors.SECOND_FACTOR_MISSING,
      factorErrors.CODE_INVALID,
      factorErrors.TOTP_INVALID,
      factorErrors.PASSKEY_INVALID,
    ],
    summary: 'Prove once more who you are',
    description:
      'For what needs a fresh login (setting sessions.sudoMaxAge). A passkey signs a challenge of POST /authentication/twoFa/passkey/options. The refresh token stays good.',
    handler: (context, { body }) => {
      const { password, code } = body;
      const credential = body.credential && assertion(body.credential);
      return stepUp.prove(userOf(context), { password, code, credential }, originOf(context));
    },
  });

type Services = Pick<Factors, 'step'>;

const facts = {
  surface: 'client',
  method: 'POST',
  access: 'partialUser',
  limit: { requests: 20, seconds: 900 },
  idempotency: false,
  mcp: false,
} as const;
const refusals = [
  authErrors.USER_BLOCKED,
  authErrors.ATTEMPTS_EXHAUSTED,
  factorErrors.SECOND_FACTOR_NOT_PENDING,
  factorErrors.SECOND_FACTOR_MISSING,
  factorErrors.CODE_INVALID,
] as const;

/** There whatever the configuration says: an account that has a second factor is asked for it. */
export const stepOperations = (services: Services): readonly Operation[] => [
  authorizeOperation(services),
  verifyOperation(services),
];

const authorizeOperation = ({ step }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.authorize',
    path: '/authentication/twoFa/authorize',
    input: {},
    output: Type.Object({
      method: Type.Union([
        Type.Literal('authenticator'),
        Type.Literal('sms'),
        Type.Literal('passkey'),
      ]),
      message: Type.String({
        description:
          'For the user; names the first and last digits of the number that the code went to',
      }),
      alternatives: Type.Array(
        Type.Union([Type.Literal('passkey'), Type.Literal('recoveryCode')]),
        {
          description:
            'What would do as well: POST /authentication/twoFa/passkey/options, POST /authentication/twoFa/recover',
        },
      ),
    }),
    errors: [factorErrors.SECOND_FACTOR_MISSING, authErrors.MESSAGE_TOO_SOON],
    summary: 'Ask for the second step',
    description:
      'Sends the code where the second factor is a text message. It works with this session only.',
    handler: async (context) => {
      const { alternatives, ...how } = await step.authorize(userOf(context));
      return { ...how, alternatives: [...alternatives] };
    },
  });

const verifyOperation = ({ step }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.verify',
    path: '/authentication/twoFa/verify',
    input: { body: Type.Object({ code: Code }) },
    output: Login,
    errors: [...refusals, factorErrors.TOTP_INVALID],
    summary: 'Prove the second factor',
    description:
      'The bearer is the token of a login with `twoFaRequired`; it ends, and the answer is a whole session. A code works once.',
    handler: (context, { body }) => step.verify(userOf(context), body.code, originOf(context)),
  });

/** Exists only while there are recovery codes. */
export const recoverOperation = ({ step }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.recover',
    path: '/authentication/twoFa/recover',
    input: {
      body: Type.Object({
        code: Type.String({ pattern: '^\\d{4}[ -]?\\d{4}$', description: 'Eight digits' }),
      }),
    },
    output: Type.Object({ ...Login.properties, message: Type.String() }),
    errors: [...refusals, factorErrors.RECOVERY_CODES_MISSING],
    summary: 'Sign in with a recovery code in place of the second factor',
    description: 'The owner is told by mail. Each code works once.',
    handler: async (context, { body }) => {
      const { left, ...answer } = await step.recover(userOf(context), body.code, originOf(context));
      return { ...answer, message: `You have ${left} recovery codes left` };
    },
  });
