/** A user's own passkeys: added, listed, named and removed. */
import type {
  PublicKeyCredentialCreationOptionsJSON,
  RegistrationResponseJSON,
} from '@simplewebauthn/server';
import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { newId } from '../../../../kernel/ids.ts';
import { randomToken } from '../../../../kernel/security/tokens.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors, factorErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsById } from '../../queries.ts';
import {
  forbidImpersonation,
  lockRegistered,
  registeredAccount,
  requireRecentLogin,
} from '../caller-checks.ts';
import type { Identities } from '../credentials/credentials.ts';
import {
  deletePasskey,
  insertPasskey,
  type ListedPasskey,
  type NewPasskey,
  passkeyHandle,
  passkeysOf,
  renamePasskey,
  type StoredPasskey,
  storedPasskeysOf,
} from '../credentials/key-queries.ts';
import type { Notices } from '../mail/notices.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { type Challenges, ceremonyTimeoutMs, type RelyingParty } from './passkey-sign-in.ts';

export interface Passkeys {
  /**
   * What the browser needs to make one (`navigator.credentials.create`); needs a fresh sign-in. Who must set up a second
   * factor before anything else may make their first one, while they have no other factor.
   */
  begin(caller: UserCaller): Promise<PublicKeyCredentialCreationOptionsJSON>;
  /** Adds what the browser has made in the session that began. Throws PASSKEY_REFUSED, PASSKEY_EXISTS. */
  add(
    caller: UserCaller,
    response: RegistrationResponseJSON,
    name: string | undefined,
  ): Promise<ListedPasskey>;
  list(caller: UserCaller): Promise<readonly ListedPasskey[]>;
  rename(caller: UserCaller, id: string, name: string): Promise<ListedPasskey>;
  /** Removes one and ends all other sessions; needs a fresh sign-in. Throws 404, and 409 for the last way into the account. */
  remove(caller: UserCaller, id: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly challenges: Challenges;
  readonly party: () => RelyingParty;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly identities: Pick<Identities, 'canEnter'>;
  readonly config: () => AuthenticationConfig;
}

/** EdDSA, ES256, RS256 (COSE), the best first. */
const algorithms = [-8, -7, -257];

export function createPasskeys(dependencies: Dependencies): Passkeys {
  const { database, challenges, party } = dependencies;

  return {
    async begin(caller) {
      requireFresh(dependencies, caller);
      const account = registeredAccount(await credentialsById(database, caller.userId));
      const { userId, email, username } = account;
      const handle = await passkeyHandle(database, userId, randomToken());
      const existing = await storedPasskeysOf(database, userId);
      // Before the device has made one that would be refused.
      requireMayAdd(dependencies, caller, account, existing.length);
      const challenge = await challenges.issue({ ceremony: 'register', session: caller });
      return creationOptions(
        { challenge, handle, name: email ?? username ?? userId, existing },
        party(),
      );
    },
    add: (caller, response, name) => add(dependencies, caller, response, name),
    list: ({ userId }) => passkeysOf(database, userId),
    async rename(caller, id, name) {
      forbidImpersonation(caller);
      const renamed = await renamePasskey(database, caller.userId, { id, name });
      if (!renamed) throw factorErrors.PASSKEY_NOT_FOUND();
      return renamed;
    },
    remove: (caller, id) => remove(dependencies, caller, id),
  };
}

function requireFresh({ config }: Dependencies, caller: UserCaller): void {
  requireRecentLogin(caller, config().sessions.sudoMaxAge);
}

function requireRoom({ config }: Dependencies, held: number): void {
  if (held >= config().passkeys.maxPerUser) throw factorErrors.KEY_LIMIT_EXCEEDED();
}

/** As for other factors: whoever knows the password alone adds nothing beside what could be asked for. */
function requireMayAdd(
  dependencies: Dependencies,
  { complete }: UserCaller,
  { hasTwoFA }: Credentials,
  held: number,
): void {
  const { config } = dependencies;
  requireRoom(dependencies, held);
  if (complete) return;
  if (hasTwoFA) throw authErrors.TOKEN_INVALID();
  if (held > 0) throw factorErrors.PASSKEY_REQUIRED();
  const { enabled, methods } = config().twoFa;
  if (!enabled || !methods.passkey) throw factorErrors.SECOND_FACTOR_METHOD_UNAVAILABLE();
}

function store(dependencies: Dependencies, caller: UserCaller, passkey: NewPasskey): Promise<void> {
  const { database, events, notices } = dependencies;
  return database.transaction(async (transaction) => {
    const account = await lockRegistered(transaction, caller);
    const { length } = await passkeysOf(transaction, caller.userId);
    requireMayAdd(dependencies, caller, account, length);
    if (!(await insertPasskey(transaction, passkey))) throw factorErrors.PASSKEY_EXISTS();
    await events.emit(
      transaction,
      caller,
      userEvent('addPasskey', [caller.userId], caller.sessionId),
    );
    await notices.send(transaction, account, 'PasskeyAdded', { passkey: passkey.name });
  });
}

async function add(
  dependencies: Dependencies,
  caller: UserCaller,
  response: RegistrationResponseJSON,
  name: string | undefined = defaultName,
): Promise<ListedPasskey> {
  const { challenges, party, database } = dependencies;
  forbidImpersonation(caller);
  const expectedChallenge = await challenges.consume(
    { ceremony: 'register', session: caller },
    response.response.clientDataJSON,
  );
  if (expectedChallenge === undefined) throw factorErrors.PASSKEY_REFUSED();
  const made = await verified(response, expectedChallenge, party());
  const passkey = { ...made, id: newId(), userId: caller.userId, name };
  await store(dependencies, caller, passkey);
  const added = (await passkeysOf(database, caller.userId)).find(({ _id }) => _id === passkey.id);
  if (!added) throw factorErrors.PASSKEY_NOT_FOUND();
  return added;
}

async function remove(dependencies: Dependencies, caller: UserCaller, id: string): Promise<void> {
  const { database, identities, sessions, events, notices } = dependencies;
  requireFresh(dependencies, caller);
  await database.transaction(async (transaction) => {
    // Two removals at once wait for each other, so that they cannot take the last two ways together.
    const account = await lockRegistered(transaction, caller);
    const passkey = await deletePasskey(transaction, caller.userId, id);
    if (passkey === undefined) throw factorErrors.PASSKEY_NOT_FOUND();
    const isNeeded = account.hasTwoFA && account.twoFaMethod === 'passkey';
    if (isNeeded && (await passkeysOf(transaction, caller.userId)).length === 0)
      throw factorErrors.PASSKEY_IN_USE();
    if (!(await identities.canEnter(transaction, account)))
      throw externalErrors.LAST_SIGN_IN_METHOD_PROTECTED();
    await sessions.endAll(caller, [caller.userId], {
      reason: 'factorsChanged',
      except: caller.sessionId,
    });
    await events.emit(
      transaction,
      caller,
      userEvent('removePasskey', [caller.userId], caller.sessionId),
    );
    await notices.send(transaction, account, 'PasskeyRemoved', { passkey });
  });
}

const defaultName = 'Passkey';

type Transport = NonNullable<RegistrationResponseJSON['response']['transports']>[number];

interface Creation {
  readonly challenge: string;
  readonly handle: string;
  /** What browsers show. */
  readonly name: string;
  readonly existing: readonly StoredPasskey[];
}

/** Discoverable, with a check of the user, and none on an authenticator that has one already. */
async function creationOptions(
  { challenge, handle, name, existing }: Creation,
  { id: rpID, name: rpName }: RelyingParty,
): Promise<PublicKeyCredentialCreationOptionsJSON> {
  const { generateRegistrationOptions } = await import('@simplewebauthn/server');
  return generateRegistrationOptions({
    rpID,
    rpName,
    userID: bytesOf(handle),
    userName: name,
    userDisplayName: name,
    challenge: bytesOf(challenge),
    timeout: ceremonyTimeoutMs,
    attestationType: 'none',
    supportedAlgorithmIDs: algorithms,
    excludeCredentials: existing.map(({ credentialId, transports }) => ({
      id: credentialId,
      transports: [...transports] as Transport[],
    })),
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  });
}

/** The library takes bytes, and writes them as the same base64url. */
const bytesOf = (base64url: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(Buffer.from(base64url, 'base64url'));

/** What the browser made, when it fits the challenge, the domain and the page. Throws PASSKEY_REFUSED. */
async function verified(
  response: RegistrationResponseJSON,
  expectedChallenge: string,
  { id: expectedRPID, origins: expectedOrigin }: RelyingParty,
): Promise<Omit<NewPasskey, 'id' | 'userId' | 'name'>> {
  const { verifyRegistrationResponse } = await import('@simplewebauthn/server');
  const expectations = {
    expectedChallenge,
    expectedRPID,
    expectedOrigin,
    requireUserVerification: true,
    supportedAlgorithmIDs: algorithms,
  };
  const { verified: isRight, registrationInfo } = await verifyRegistrationResponse({
    response,
    ...expectations,
  }).catch((cause: unknown) => {
    throw factorErrors.PASSKEY_REFUSED({ cause });
  });
  if (!isRight) throw factorErrors.PASSKEY_REFUSED();
  const { credential, credentialDeviceType, credentialBackedUp, aaguid } = registrationInfo;
  return {
    credentialId: credential.id,
    publicKey: credential.publicKey,
    counter: credential.counter,
    transports: response.response.transports ?? [],
    multiDevice: credentialDeviceType === 'multiDevice',
    backedUp: credentialBackedUp,
    aaguid,
  };
}
