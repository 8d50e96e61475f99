/** Signing in with a key that a device keeps ("biometrics"). */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { externalErrors, factorErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { ListedDevice } from '../services/credentials/key-queries.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import { Login, originOf, userOf } from './shapes.ts';

type Services = Pick<Factors, 'deviceKeys'>;

const facts = {
  surface: 'client',
  limit: { requests: 30, seconds: 900 },
  idempotency: false,
  mcp: false,
  graphql: false,
} as const;

const Base64 = Type.String({ minLength: 1, maxLength: 8192, pattern: '^[A-Za-z0-9+/]+={0,2}$' });
const Signature = Type.String({
  ...Base64,
  description:
    'Base64 signature of the challenge as text: RSA PKCS #1 v1.5 or ECDSA (DER), SHA-256',
});
const KeyId = Type.String({ format: 'uuid' });
const instant = Type.String({ format: 'date-time' });

const Device = Type.Object({
  _id: KeyId,
  userAgent: Type.Union([Type.String(), Type.Null()]),
  createdAt: instant,
  lastUsedAt: Type.Union([instant, Type.Null()]),
});

/** Exist only while device keys are switched on. */
export const deviceKeyOperations = (services: Services): readonly Operation[] => [
  enrolOperation(services),
  confirmOperation(services),
  challengeOperation(services),
  signInOperation(services),
  listOperation(services),
  removeOperation(services),
];

const enrolOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.biometrics.enrol',
    method: 'POST',
    path: '/authentication/biometrics/enroll',
    access: 'user',
    input: {
      body: Type.Object({
        publicKey: Type.String({
          ...Base64,
          description: 'RSA (2048 bits or more) or P-256, DER (SPKI) in base64',
        }),
      }),
    },
    output: Type.Object({ challenge: Type.String() }),
    errors: [authErrors.SUDO_REQUIRED, authErrors.USER_ANONYMOUS, factorErrors.DEVICE_KEY_REFUSED],
    summary: 'Begin to enrol the key of a device',
    description: 'Answers a challenge to sign, for five minutes. Needs a fresh login.',
    handler: async (context, { body }) => ({
      challenge: await deviceKeys.enrol(userOf(context), body.publicKey),
    }),
  });

const confirmOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.biometrics.confirm',
    method: 'POST',
    path: '/authentication/biometrics/enroll/verify',
    access: 'user',
    audit: true,
    auditChanges: () => undefined,
    input: { body: Type.Object({ encryptedData: Signature }) },
    output: Type.Object({ keyId: KeyId }),
    errors: [
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      factorErrors.DEVICE_PROOF_REFUSED,
      factorErrors.KEY_LIMIT_EXCEEDED,
    ],
    summary: 'Prove the key of a device and enrol it',
    description: 'In the session that began. The owner is told by mail.',
    handler: async (context, { body }) => ({
      keyId: await deviceKeys.confirm(userOf(context), body.encryptedData, originOf(context)),
    }),
  });

const challengeOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.biometrics.challenge',
    method: 'POST',
    path: '/authentication/biometrics/challenge',
    access: 'public',
    input: { body: Type.Object({ keyId: KeyId }) },
    output: Type.Object({
      challenge: Type.String({ description: 'Works once, for five minutes' }),
    }),
    summary: 'Ask for a challenge to sign in with the key of a device',
    handler: async (_context, { body }) => ({
      challenge: await deviceKeys.challenge(body.keyId.toLowerCase()),
    }),
  });

const signInOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.biometrics.signIn',
    method: 'POST',
    path: '/authentication/biometrics',
    access: 'public',
    input: {
      body: Type.Object({
        keyId: KeyId,
        challenge: Type.String({
          minLength: 1,
          maxLength: 200,
          description: 'From POST /authentication/biometrics/challenge',
        }),
        encryptedData: Signature,
      }),
    },
    output: Login,
    errors: [factorErrors.DEVICE_INVALID, authErrors.USER_BLOCKED, authErrors.EMAIL_NOT_VERIFIED],
    summary: 'Sign in with the key of a device',
    description:
      'What is signed is the challenge, never something that stays the same. Counts for one factor.',
    handler: (context, { body: { keyId, challenge, encryptedData } }) =>
      deviceKeys.signIn(
        { keyId: keyId.toLowerCase(), challenge, signature: encryptedData },
        originOf(context),
      ),
  });

const listOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    id: 'authentication.biometrics.list',
    method: 'GET',
    path: '/authentication/biometrics/keys',
    input: {},
    output: Type.Object({ keys: Type.Array(Device), count: Type.Integer() }),
    summary: 'List your devices that sign in with a key',
    handler: async (context) => {
      const keys = (await deviceKeys.list(userOf(context))).map(onWire);
      return { keys, count: keys.length };
    },
  });

const removeOperation = ({ deviceKeys }: Services): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.biometrics.remove',
    method: 'DELETE',
    path: '/authentication/biometrics/keys/:id',
    access: 'user',
    audit: true,
    input: { params: Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) }) },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      factorErrors.DEVICE_NOT_FOUND,
      externalErrors.LAST_SIGN_IN_METHOD_PROTECTED,
    ],
    summary: 'Remove the key of one of your devices',
    description:
      'Needs a fresh login. Ends all other sessions; the owner is told by mail. The last way into the account stays.',
    handler: async (context, { params }) => {
      await deviceKeys.remove(userOf(context), params.id);
      return 'The device was removed';
    },
  });

const onWire = ({ createdAt, lastUsedAt, ...device }: ListedDevice) => ({
  ...device,
  createdAt: createdAt.toISOString(),
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
});
