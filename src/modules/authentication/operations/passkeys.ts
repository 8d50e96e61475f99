/** Passkeys (WebAuthn): adding and keeping them, and signing in with them. */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server';
import Type, { type Static } from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { externalErrors, factorErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { ListedPasskey } from '../services/credentials/key-queries.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import {
  AssertionCredential,
  AttestationCredential,
  CreationOptions,
  Passkey,
  PasskeyName,
  RequestOptions,
} from './passkey-shapes.ts';
import { Login, originOf, userOf } from './shapes.ts';

type Services = Pick<Factors, 'passkeys' | 'passkeySignIn'>;

const facts = {
  surface: 'client',
  limit: { requests: 30, seconds: 900 },
  idempotency: false,
  mcp: false,
  graphql: false,
} as const;
const own = { surface: 'client', access: 'user' } as const;
const addErrors = [
  authErrors.SUDO_REQUIRED,
  authErrors.USER_ANONYMOUS,
  factorErrors.KEY_LIMIT_EXCEEDED,
  factorErrors.PASSKEY_REQUIRED,
  factorErrors.SECOND_FACTOR_METHOD_UNAVAILABLE,
] as const;
const Id = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });

/** There whatever the configuration says, for accounts whose second factor is a passkey. */
export const passkeyStepOperations = (services: Services): readonly Operation[] => [
  beginStepOperation(services),
  stepOperation(services),
];

/** Exist only while passkeys are switched on. */
export const passkeyOperations = (services: Services): readonly Operation[] => [
  beginOperation(services),
  addOperation(services),
  beginSignInOperation(services),
  signInOperation(services),
  listOperation(services),
  renameOperation(services),
  removeOperation(services),
];

const beginOperation = ({ passkeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.passkeys.begin',
    method: 'POST',
    path: '/authentication/passkeys/register/options',
    access: 'partialUser',
    input: {},
    output: CreationOptions,
    errors: addErrors,
    summary: 'Begin to add a passkey',
    description:
      'Answers what the browser needs (`PublicKeyCredentialCreationOptionsJSON`), for five minutes. Needs a fresh login. The token of a login that must set up a second factor first (`twoFaEnrolment`) adds the first one only.',
    handler: (context) => passkeys.begin(userOf(context)),
  });

const addOperation = ({ passkeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.passkeys.add',
    method: 'POST',
    path: '/authentication/passkeys/register/verify',
    access: 'partialUser',
    audit: true,
    auditChanges: () => undefined,
    input: {
      body: Type.Object({ credential: AttestationCredential, name: Type.Optional(PasskeyName) }),
    },
    output: Passkey,
    errors: [...addErrors, factorErrors.PASSKEY_REFUSED, factorErrors.PASSKEY_EXISTS],
    summary: 'Add the passkey that the browser has made',
    description:
      'The authenticator must have asked for the face, finger or PIN of its user. The owner is told by mail.',
    handler: async (context, { body }) =>
      onWire(await passkeys.add(userOf(context), attestation(body.credential), body.name)),
  });

const beginSignInOperation = ({ passkeySignIn }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.passkeys.beginSignIn',
    method: 'POST',
    path: '/authentication/passkeys/authenticate/options',
    access: 'public',
    input: {},
    output: RequestOptions,
    summary: 'Begin to sign in with a passkey',
    description:
      'Answers what the browser needs (`PublicKeyCredentialRequestOptionsJSON`), for five minutes. It asks for no name: the passkey says whose it is.',
    handler: () => passkeySignIn.begin(),
  });

const signInOperation = ({ passkeySignIn }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.passkeys.signIn',
    method: 'POST',
    path: '/authentication/passkeys/authenticate/verify',
    access: 'public',
    input: { body: Type.Object({ credential: AssertionCredential }) },
    output: Login,
    errors: [factorErrors.PASSKEY_INVALID, authErrors.USER_BLOCKED, authErrors.EMAIL_NOT_VERIFIED],
    summary: 'Sign in with a passkey',
    description: 'Counts for both factors: no second step follows.',
    handler: (context, { body }) =>
      passkeySignIn.finish(assertion(body.credential), originOf(context)),
  });

const beginStepOperation = ({ passkeySignIn }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.beginPasskey',
    method: 'POST',
    path: '/authentication/twoFa/passkey/options',
    access: 'partialUser',
    input: {},
    output: RequestOptions,
    errors: [factorErrors.SECOND_FACTOR_MISSING],
    summary: 'Begin the second step with a passkey',
    handler: (context) => passkeySignIn.beginStep(userOf(context)),
  });

const stepOperation = ({ passkeySignIn }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.twoFa.verifyPasskey',
    method: 'POST',
    path: '/authentication/twoFa/passkey/verify',
    access: 'partialUser',
    input: { body: Type.Object({ credential: AssertionCredential }) },
    output: Login,
    errors: [
      factorErrors.PASSKEY_INVALID,
      factorErrors.SECOND_FACTOR_NOT_PENDING,
      authErrors.USER_BLOCKED,
    ],
    summary: 'Prove the second factor with a passkey',
    description:
      'The bearer is the token of a login with `twoFaRequired`; it ends, and the answer is a whole session.',
    handler: (context, { body }) =>
      passkeySignIn.finishStep(userOf(context), assertion(body.credential), originOf(context)),
  });

const listOperation = ({ passkeys }: Services): Operation =>
  defineOperation({
    ...own,
    id: 'authentication.passkeys.list',
    method: 'GET',
    path: '/authentication/passkeys',
    limit: standardLimit,
    input: {},
    output: Type.Object({ passkeys: Type.Array(Passkey), count: Type.Integer() }),
    summary: 'List your passkeys',
    handler: async (context) => {
      const list = (await passkeys.list(userOf(context))).map(onWire);
      return { passkeys: list, count: list.length };
    },
  });

const renameOperation = ({ passkeys }: Services): Operation =>
  defineOperation({
    ...own,
    id: 'authentication.passkeys.rename',
    method: 'PATCH',
    path: '/authentication/passkeys/:id',
    limit: standardLimit,
    input: { params: Id, body: Type.Object({ name: PasskeyName }) },
    output: Passkey,
    errors: [authErrors.SUDO_REQUIRED, factorErrors.PASSKEY_NOT_FOUND],
    summary: 'Name one of your passkeys',
    handler: async (context, { params, body }) =>
      onWire(await passkeys.rename(userOf(context), params.id, body.name)),
  });

const removeOperation = ({ passkeys }: Services): Operation =>
  defineOperation({
    ...own,
    id: 'authentication.passkeys.remove',
    method: 'DELETE',
    path: '/authentication/passkeys/:id',
    limit: { requests: 30, seconds: 900 },
    audit: true,
    input: { params: Id },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      factorErrors.PASSKEY_NOT_FOUND,
      externalErrors.LAST_SIGN_IN_METHOD_PROTECTED,
      factorErrors.PASSKEY_IN_USE,
    ],
    summary: 'Remove one of your passkeys',
    description:
      'Needs a fresh login. Ends all other sessions; the owner is told by mail. The last way into the account stays.',
    handler: async (context, { params }) => {
      await passkeys.remove(userOf(context), params.id);
      return 'The passkey was removed';
    },
  });

const onWire = ({ createdAt, lastUsedAt, transports, ...passkey }: ListedPasskey) => ({
  ...passkey,
  transports: [...transports],
  createdAt: createdAt.toISOString(),
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
});

/** What was validated here, as the library types it. */
const attestation = (
  credential: Static<typeof AttestationCredential>,
): RegistrationResponseJSON => ({
  ...credential,
  clientExtensionResults: {},
});
export const assertion = (
  credential: Static<typeof AssertionCredential>,
): AuthenticationResponseJSON => ({
  ...credential,
  clientExtensionResults: {},
});
