/**
 * Signing in with a passkey. As the first step the authenticator says who the user is and has asked for their
 * face, finger or PIN: that is both factors. As the second step it is what the user has.
 */
import type {
  AuthenticationResponseJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/server';
import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { factorErrors } from '../../credential-errors.ts';
import type { OwnStrategy } from '../../strategies.ts';
import {
  notePasskeyUse,
  passkeyByCredential,
  type StoredPasskey,
  storedPasskeysOf,
} from '../credentials/key-queries.ts';
import type { Origin } from '../origin.ts';
import type { SecondStep } from '../second-factor/second-factor.ts';
import type { SecurityLog } from '../security-log.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';

/*
 * The challenges that authenticators sign. Each is a one-time token, so it works once, ends by itself, and is
 * bound to what it was made for: a new passkey or a second step to one session, a first step to nobody.
 */

/** What a signature is for. One for one is worth nothing for another. */
type Ceremony = 'register' | 'signIn' | 'secondStep';

interface ChallengeKey {
  readonly ceremony: Ceremony;
  /** The user and session that it belongs to; absent for a sign-in, which begins with nobody. */
  readonly session?: { readonly userId: string; readonly sessionId: string };
}

export interface Challenges {
  /** 256 bits, base64url. */
  issue(key: ChallengeKey): Promise<string>;
  /** Uses up the challenge that the client says it signed; nothing when it was not made for this. */
  consume(key: ChallengeKey, clientDataJSON: string): Promise<string | undefined>;
}

/** How long a browser may take; ms. */
export const ceremonyTimeoutMs = 5 * 60_000;
const purpose = 'webauthn-challenge';

export const createChallenges = ({
  database,
  tokens,
}: Pick<Kernel, 'database'> & { readonly tokens: OneTimeTokens }): Challenges => ({
  async issue({ ceremony, session }) {
    const data = { ceremony, ...(session === undefined ? {} : { sessionId: session.sessionId }) };
    const owner = session === undefined ? {} : { userId: session.userId };
    return (
      await tokens.issue(database, { purpose, ...owner, data, lifetimeMs: ceremonyTimeoutMs })
    ).token;
  },
  async consume({ ceremony, session }, clientDataJSON) {
    const challenge = challengeIn(clientDataJSON);
    const grant =
      challenge === undefined ? undefined : await tokens.consume(database, purpose, challenge);
    const fits =
      grant?.data.ceremony === ceremony &&
      grant.userId === session?.userId &&
      grant.data.sessionId === session?.sessionId;
    return fits ? challenge : undefined;
  },
});

/** The challenge that was signed, before anything is believed: it only selects a row. */
function challengeIn(clientDataJSON: string): string | undefined {
  try {
    const data: unknown = JSON.parse(Buffer.from(clientDataJSON, 'base64url').toString('utf8'));
    if (typeof data !== 'object' || data === null || !('challenge' in data)) return undefined;
    // A page of ours inside a page of somebody else: the click may have been stolen (WebAuthn 3, 13.4.2).
    if ('crossOrigin' in data && data.crossOrigin === true) return undefined;
    return typeof data.challenge === 'string' ? data.challenge : undefined;
  } catch {
    return undefined;
  }
}

/* Whom passkeys are made for: a domain, and the pages of it that may use them. */

export interface RelyingParty {
  /** The domain (RP ID). */
  readonly id: string;
  readonly name: string;
  readonly origins: string[];
}

/** What is not configured comes from the public address of the platform. */
export function relyingParty(
  { passkeys }: Pick<AuthenticationConfig, 'passkeys'>,
  publicUrl: string,
): RelyingParty {
  const { hostname, origin } = new URL(publicUrl);
  return {
    id: passkeys.rpId === '' ? hostname : passkeys.rpId,
    name: passkeys.rpName,
    origins: passkeys.origins.length === 0 ? [origin] : [...passkeys.origins],
  };
}

export interface PasskeySignIn {
  /** What the browser needs to find a passkey of this domain. It names no user, so it tells nothing about any. */
  begin(): Promise<PublicKeyCredentialRequestOptionsJSON>;
  /** Signs in. Throws PASSKEY_INVALID for everything that does not fit. */
  finish(response: AuthenticationResponseJSON, origin: Origin): Promise<LoginAnswer>;
  /** The same for the user of a session. Throws SECOND_FACTOR_MISSING when they have no passkey. */
  beginStep(caller: UserCaller): Promise<PublicKeyCredentialRequestOptionsJSON>;
  /** Proves that it is one of the caller's own. Throws PASSKEY_INVALID. */
  prove(caller: UserCaller, response: AuthenticationResponseJSON, origin: Origin): Promise<void>;
  /** Proves it and answers a whole session in place of the partial one. */
  finishStep(
    caller: UserCaller,
    response: AuthenticationResponseJSON,
    origin: Origin,
  ): Promise<LoginAnswer>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly challenges: Challenges;
  readonly party: () => RelyingParty;
  readonly signIn: SignIn;
  readonly step: Pick<SecondStep, 'finish'>;
  readonly securityLog: SecurityLog;
}

const strategy: OwnStrategy = 'passkey';

export function createPasskeySignIn(dependencies: Dependencies): PasskeySignIn {
  const { database, signIn, step, securityLog } = dependencies;

  const prove: PasskeySignIn['prove'] = async (caller, response, origin) => {
    if (await signer(dependencies, { ceremony: 'secondStep', session: caller }, response, origin))
      return;
    await securityLog.note({
      action: 'secondFactor',
      userId: caller.userId,
      origin,
      outcome: 'refused',
      facts: { strategy },
    });
    throw factorErrors.PASSKEY_INVALID();
  };

  return {
    begin: () => options(dependencies, { ceremony: 'signIn' }, 'required', []),
    async finish(response, origin) {
      const passkey = await signer(dependencies, { ceremony: 'signIn' }, response, origin);
      if (passkey) return signIn.openById(passkey.userId, origin, strategy, 'bothFactors');
      await signIn.refused({ strategy, outcome: 'wrong', origin });
      throw factorErrors.PASSKEY_INVALID();
    },
    async beginStep(caller) {
      const own = await storedPasskeysOf(database, caller.userId);
      if (own.length === 0)
        throw factorErrors.SECOND_FACTOR_MISSING({
          message: 'You have no passkey: prove your second factor another way',
        });
      return options(dependencies, { ceremony: 'secondStep', session: caller }, 'preferred', own);
    },
    prove,
    async finishStep(caller, response, origin) {
      if (caller.complete) throw factorErrors.SECOND_FACTOR_NOT_PENDING();
      await prove(caller, response, origin);
      return step.finish(caller, origin, strategy);
    },
  };
}

async function options(
  { party, challenges }: Dependencies,
  key: ChallengeKey,
  userVerification: 'required' | 'preferred',
  allowed: readonly StoredPasskey[],
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  const { generateAuthenticationOptions } = await import('@simplewebauthn/server');
  return generateAuthenticationOptions({
    rpID: party().id,
    challenge: new Uint8Array(Buffer.from(await challenges.issue(key), 'base64url')),
    timeout: ceremonyTimeoutMs,
    userVerification,
    allowCredentials: allowed.map(({ credentialId, transports }) => ({
      id: credentialId,
      transports: [...transports] as Transport[],
    })),
  });
}

/** The passkey that signed the challenge; nothing when anything does not fit. */
async function signer(
  { challenges, database, party, securityLog }: Dependencies,
  key: ChallengeKey,
  response: AuthenticationResponseJSON,
  origin: Origin,
): Promise<StoredPasskey | undefined> {
  const challenge = await challenges.consume(key, response.response.clientDataJSON);
  const passkey =
    challenge === undefined ? undefined : await passkeyByCredential(database, response.id);
  if (challenge === undefined || !passkey || !belongs(passkey, key, response)) return undefined;
  const use = await verified(response, challenge, {
    passkey,
    party: party(),
    asFirst: key.ceremony === 'signIn',
  });
  if (!use) return undefined;
  if (await notePasskeyUse(database, { id: passkey.id, ...use })) return passkey;
  // A counter that does not rise: a copy of the authenticator may be in other hands (WebAuthn 3, 6.1.1).
  await securityLog.note({
    action: 'passkeyCloned',
    userId: passkey.userId,
    origin,
    outcome: 'refused',
    facts: { passkey: passkey.id },
  });
  return undefined;
}

type Transport = NonNullable<
  NonNullable<PublicKeyCredentialRequestOptionsJSON['allowCredentials']>[number]['transports']
>[number];

/** As the first step the authenticator must name the user; as the second the passkey must be the user's own. */
function belongs(
  { userId, handle }: StoredPasskey,
  { session }: ChallengeKey,
  { response }: AuthenticationResponseJSON,
): boolean {
  const named =
    response.userHandle === undefined ? session !== undefined : response.userHandle === handle;
  return named && (session === undefined || session.userId === userId);
}

interface Expectation {
  readonly passkey: StoredPasskey;
  readonly party: RelyingParty;
  /** Then the authenticator must have verified its user. */
  readonly asFirst: boolean;
}

/** What the authenticator says about itself, when its signature holds. The counter is judged where it is stored. */
async function verified(
  response: AuthenticationResponseJSON,
  expectedChallenge: string,
  { passkey, party, asFirst }: Expectation,
): Promise<{ readonly counter: number; readonly backedUp: boolean } | undefined> {
  const { verifyAuthenticationResponse } = await import('@simplewebauthn/server');
  try {
    const { verified: isRight, authenticationInfo } = await verifyAuthenticationResponse({
      response,
      expectedChallenge,
      expectedOrigin: party.origins,
      expectedRPID: party.id,
      requireUserVerification: asFirst,
      credential: {
        id: passkey.credentialId,
        publicKey: new Uint8Array(passkey.publicKey),
        counter: 0,
      },
    });
    if (!isRight) return undefined;
    return {
      counter: authenticationInfo.newCounter,
      backedUp: authenticationInfo.credentialBackedUp,
    };
  } catch {
    return undefined;
  }
}
