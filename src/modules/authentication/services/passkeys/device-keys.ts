/**
 * Sign-in by a key that a device keeps behind its own lock (face, finger, PIN). Each sign-in signs a challenge
 * that the server has just made and that works once: a captured request is worth nothing afterwards.
 */
import { createHash, createPublicKey, type KeyObject, randomBytes, verify } from 'node:crypto';
import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors, factorErrors } from '../../credential-errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsById } from '../../queries.ts';
import type { OwnStrategy } from '../../strategies.ts';
import { forbidImpersonation, lockRegistered, requireRecentLogin } from '../caller-checks.ts';
import type { Identities } from '../credentials/credentials.ts';
import {
  countDeviceKeys,
  deleteDeviceKey,
  deviceKey,
  deviceKeysOf,
  insertDeviceKey,
  type ListedDevice,
  useDeviceKey,
} from '../credentials/key-queries.ts';
import type { Notices } from '../mail/notices.ts';
import { type Origin, storedUserAgent } from '../origin.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';

export interface DeviceProof {
  readonly keyId: string;
  readonly challenge: string;
  /** Base64. */
  readonly signature: string;
}

export interface DeviceKeys {
  /** A challenge that proves the possession of a new key; needs a fresh sign-in. Throws DEVICE_KEY_REFUSED. */
  enrol(caller: UserCaller, publicKey: string): Promise<string>;
  /** Proves it and adds the key; answers its id. */
  confirm(caller: UserCaller, signature: string, origin: Origin): Promise<string>;
  /** A challenge for a sign-in; the same for a key that there is not. */
  challenge(keyId: string): Promise<string>;
  /** Signs in. Throws DEVICE_INVALID for everything that does not fit. */
  signIn(proof: DeviceProof, origin: Origin): Promise<LoginAnswer>;
  list(caller: UserCaller): Promise<readonly ListedDevice[]>;
  /** Removes a key and ends all other sessions; needs a fresh sign-in. Throws 404, and 409 for the last way into the account. */
  remove(caller: UserCaller, keyId: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly tokens: OneTimeTokens;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly notices: Notices;
  readonly identities: Pick<Identities, 'canEnter'>;
  readonly config: () => AuthenticationConfig;
}

const strategy: OwnStrategy = 'device-key';
const purpose = 'device-challenge';
const challengeLifetimeMs = 5 * 60_000;
/** Enrolment proves a challenge of this many bytes, as existing apps expect. */
const enrolmentBytes = 64;
const smallestRsaBits = 2048;
const largestRsaBits = 8192;

export function createDeviceKeys(dependencies: Dependencies): DeviceKeys {
  const { database, tokens, signIn, config } = dependencies;

  /** Uses the challenge up; answers whose key signed it. What ends device keys after that changes the account, as it is read here. */
  const ownerOf = async ({
    keyId,
    challenge,
    signature,
  }: DeviceProof): Promise<Credentials | undefined> => {
    const grant = await tokens.consume(database, purpose, challenge);
    if (grant?.data.keyId !== keyId) return undefined;
    const key = await deviceKey(database, keyId);
    const isRight = key !== undefined && signs(keyOf(key.publicKey), challenge, signature);
    const account = isRight ? await credentialsById(database, key.userId) : undefined;
    return account && (await useDeviceKey(database, keyId)) ? account : undefined;
  };

  return {
    async enrol(caller, publicKey) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      if (!keyOf(publicKey)) throw factorErrors.DEVICE_KEY_REFUSED();
      return database.transaction(async (transaction) => {
        await lockRegistered(transaction, caller);
        const challenge = randomBytes(enrolmentBytes).toString('hex');
        const token = enrolmentToken(caller.sessionId);
        const data = { publicKey, challenge };
        await tokens.issue(transaction, {
          purpose,
          userId: caller.userId,
          token,
          data,
          lifetimeMs: challengeLifetimeMs,
          replaces: true,
        });
        return challenge;
      });
    },
    confirm: (caller, signature, origin) => confirm(dependencies, caller, signature, origin),
    challenge: async (keyId) =>
      (await tokens.issue(database, { purpose, data: { keyId }, lifetimeMs: challengeLifetimeMs }))
        .token,
    async signIn(proof, origin) {
      const account = await ownerOf(proof);
      if (account) return signIn.open(account, origin, strategy);
      await signIn.refused({ strategy, outcome: 'wrong', origin });
      throw factorErrors.DEVICE_INVALID();
    },
    list: ({ userId }) => deviceKeysOf(database, userId),
    remove: (caller, keyId) => remove(dependencies, caller, keyId),
  };
}

async function confirm(
  { tokens, database, config, events, notices }: Dependencies,
  caller: UserCaller,
  signature: string,
  origin: Origin,
): Promise<string> {
  forbidImpersonation(caller);
  // A wrong signature uses the challenge up too.
  const { publicKey, challenge } =
    (await tokens.consume(database, purpose, enrolmentToken(caller.sessionId)))?.data ?? {};
  const isRight =
    typeof publicKey === 'string' &&
    typeof challenge === 'string' &&
    signs(keyOf(publicKey), challenge, signature);
  if (!isRight) throw factorErrors.DEVICE_PROOF_REFUSED();
  const id = newId();
  await database.transaction(async (transaction) => {
    const account = await lockRegistered(transaction, caller);
    const { userId } = account;
    if ((await countDeviceKeys(transaction, userId)) >= config().biometricAuthentication.maxPerUser)
      throw factorErrors.KEY_LIMIT_EXCEEDED();
    await insertDeviceKey(transaction, {
      id,
      userId,
      publicKey,
      userAgent: storedUserAgent(origin.userAgent),
    });
    await events.emit(transaction, caller, userEvent('addDevice', [userId], caller.sessionId));
    await notices.send(transaction, account, 'DeviceAdded', {});
  });
  return id;
}

async function remove(
  { config, database, identities, sessions, events, notices }: Dependencies,
  caller: UserCaller,
  keyId: string,
): Promise<void> {
  requireRecentLogin(caller, config().sessions.sudoMaxAge);
  await database.transaction(async (transaction) => {
    const account = await lockRegistered(transaction, caller);
    if (!(await deleteDeviceKey(transaction, caller.userId, keyId)))
      throw factorErrors.DEVICE_NOT_FOUND();
    if (!(await identities.canEnter(transaction, account)))
      throw externalErrors.LAST_SIGN_IN_METHOD_PROTECTED();
    await sessions.endAll(caller, [caller.userId], {
      reason: 'factorsChanged',
      except: caller.sessionId,
    });
    await events.emit(
      transaction,
      caller,
      userEvent('removeDevice', [caller.userId], caller.sessionId),
    );
    await notices.send(transaction, account, 'DeviceRemoved', {});
  });
}

/** The challenge of an enrolment is found by the session that asked for it: the app sends back the signature alone. */
const enrolmentToken = (sessionId: string): string =>
  createHash('sha256').update(`device-enrolment\n${sessionId}`).digest('base64url');

/** The key when it is one that we believe in. */
function keyOf(publicKey: string): KeyObject | undefined {
  try {
    const key = createPublicKey({
      key: Buffer.from(publicKey, 'base64'),
      format: 'der',
      type: 'spki',
    });
    return isStrong(key) ? key : undefined;
  } catch {
    return undefined;
  }
}

function isStrong({ asymmetricKeyType, asymmetricKeyDetails: details }: KeyObject): boolean {
  if (asymmetricKeyType === 'ec') return details?.namedCurve === 'prime256v1';
  const bits = details?.modulusLength ?? 0;
  return (
    asymmetricKeyType === 'rsa' &&
    bits >= smallestRsaBits &&
    bits <= largestRsaBits &&
    (details?.publicExponent ?? 0n) >= 65_537n
  );
}

/** RSA PKCS #1 v1.5 or ECDSA, both over SHA-256 of the challenge as text. */
function signs(key: KeyObject | undefined, challenge: string, signature: string): boolean {
  try {
    return (
      key !== undefined &&
      verify('sha256', Buffer.from(challenge), key, Buffer.from(signature, 'base64'))
    );
  } catch {
    return false;
  }
}
