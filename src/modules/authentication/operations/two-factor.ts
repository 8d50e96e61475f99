/** The own second factor: switching it on and off, and its recovery codes. */
import Type from 'typebox';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { factorErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import { Login, originOf, userOf } from './shapes.ts';

type Services = Pick<Factors, 'enrolment' | 'secondFactor'>;

/** Answers hold secrets, so none is stored for replay, and none is a tool. */
const facts = {
  surface: 'client',
  limit: { requests: 20, seconds: 900 },
  idempotency: false,
  mcp: false,
  audit: true,
  auditChanges: () => undefined,
} as const;

export const Code = Type.String({
  minLength: 4,
  maxLength: 20,
  description: 'Spaces do not matter',
});
const Codes = Type.Object({ codes: Type.Array(Type.String({ description: '`dddd dddd`' })) });

/** Exist only while second factors can be switched on. */
export const enableOperations = (services: Services): readonly Operation[] => [
  enableOperation(services),
  confirmOperation(services),
];

/** Exist only while there are recovery codes. */
export const codeOperations = (services: Services): readonly Operation[] => [
  makeCodesOperation(services),
  legacyCodesOperation(services),
];

const enableOperation = ({ enrolment }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.enable',
    method: 'POST',
    path: '/authentication/twoFa/enable',
    aliases: [{ method: 'PUT', path: '/authentication/twoFa/enable' }],
    access: 'partialUser',
    answersSecret: true,
    input: {
      body: Type.Optional(
        Type.Object({
          method: Type.Optional(
            Type.Union(
              [Type.Literal('authenticator'), Type.Literal('sms'), Type.Literal('passkey')],
              {
                description:
                  '`authenticator` unless given. `passkey` for those who have one: it is on at once',
              },
            ),
          ),
          phoneNumber: Type.Optional(
            Type.String({
              maxLength: 32,
              description:
                'For `sms`: with its country, like +306900000000. Needed while the account has none',
            }),
          ),
        }),
      ),
    },
    output: Type.Object({
      result: Type.String({ description: 'The image to scan as a data URI, or a text' }),
      secret: Type.Optional(Type.String({ description: 'For typing it into the app' })),
      uri: Type.Optional(Type.String()),
      qrCode: Type.Optional(Type.String({ description: 'The image once more' })),
    }),
    errors: [
      factorErrors.PASSKEY_REQUIRED,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.MESSAGE_TOO_SOON,
      factorErrors.SECOND_FACTOR_METHOD_UNAVAILABLE,
      factorErrors.SECOND_FACTOR_EXISTS,
      factorErrors.PHONE_INVALID,
    ],
    summary: 'Begin to switch a second factor on',
    description:
      'It counts after POST /authentication/twoFa/enable/verify (a passkey at once, since it was proven when it was added). Needs a fresh login (setting sessions.sudoMaxAge); also for the token of a login that must set one up first (`twoFaEnrolment`).',
    handler: (context, { body }) =>
      enrolment.enable(userOf(context), {
        method: body?.method ?? 'authenticator',
        phoneNumber: body?.phoneNumber,
      }),
  });

const confirmOperation = ({ enrolment }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.confirm',
    method: 'POST',
    path: '/authentication/twoFa/enable/verify',
    access: 'partialUser',
    input: { body: Type.Object({ code: Code }) },
    output: Type.Object({ ...TextResult.properties, ...Type.Partial(Login).properties }),
    errors: [
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.PHONE_NUMBER_EXISTS,
      factorErrors.SECOND_FACTOR_EXISTS,
      factorErrors.TOTP_INVALID,
      factorErrors.CODE_INVALID,
    ],
    summary: 'Prove the second factor and switch it on',
    description:
      'Ends all other sessions; the owner is told by mail. A login that could do nothing else (`twoFaEnrolment`) gets the tokens of a whole session in place of its own.',
    handler: async (context, { body }) => {
      const tokens = await enrolment.confirm(userOf(context), body.code, originOf(context));
      return { result: '2FA enabled', ...tokens };
    },
  });

export const disableOperation = ({ secondFactor }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.disable',
    method: 'PUT',
    path: '/authentication/twoFa/disable',
    aliases: [{ method: 'POST', path: '/authentication/twoFa/disable' }],
    access: 'user',
    input: { body: Type.Optional(Type.Object({ code: Type.Optional(Code) })) },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      authErrors.ATTEMPTS_EXHAUSTED,
      factorErrors.TOTP_INVALID,
      factorErrors.CODE_INVALID,
      factorErrors.SECOND_FACTOR_MISSING,
    ],
    summary: 'Switch the second factor off',
    description:
      'Needs a fresh login, or a code of the factor (by text message: POST /authentication/twoFa/authorize sends one). Secrets and recovery codes go, all other sessions end, and the owner is told by mail.',
    handler: async (context, { body }) =>
      (await secondFactor.disable(userOf(context), body?.code, originOf(context)))
        ? '2FA disabled'
        : '2FA already disabled',
  });

const codeFacts = {
  ...facts,
  access: 'user',
  answersSecret: true,
  input: {},
  output: Codes,
  errors: [authErrors.SUDO_REQUIRED, authErrors.USER_ANONYMOUS, factorErrors.SECOND_FACTOR_MISSING],
} as const;

const makeCodes = async ({ secondFactor }: Services, context: OperationContext) => ({
  codes: [...(await secondFactor.makeCodes(userOf(context)))],
});

const makeCodesOperation = (services: Services): Operation =>
  defineOperation({
    ...codeFacts,
    id: 'authentication.twoFa.makeCodes',
    method: 'POST',
    path: '/authentication/twoFa/backup-codes',
    summary: 'Make ten recovery codes',
    description:
      'Each works once in place of the second factor; shown here only. Earlier ones do not work any more. Needs a fresh login.',
    handler: (context) => makeCodes(services, context),
  });

/** The other spelling is a GET, which a browser follows from anywhere with its cookies: so it takes no cookie. */
const legacyCodesOperation = (services: Services): Operation =>
  defineOperation({
    ...codeFacts,
    id: 'authentication.twoFa.generateCodes',
    method: 'GET',
    path: '/authentication/twoFa/generate',
    changes: true,
    graphql: false,
    deprecated: true,
    errors: [...codeFacts.errors, operationErrors.CSRF_REFUSED],
    summary: 'Make ten recovery codes (other spelling)',
    description:
      'For clients that know no other. Only with the token in the header: with a cookie use POST /authentication/twoFa/backup-codes.',
    handler: (context) => makeCodes(services, context),
  });
