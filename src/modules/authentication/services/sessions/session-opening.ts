/** Opening a session for an account that has just proven who it is. */

import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous, type UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors } from '../../../../kernel/errors.ts';
import type { Hooks } from '../../../../kernel/hooks/hooks.ts';
import { type SignInHookValue, signInPoint } from '../../../../kernel/hooks/points.ts';
import { newId } from '../../../../kernel/ids.ts';
import { randomToken, sha256 } from '../../../../kernel/security/tokens.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { canBeSetUp } from '../../config/factors.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, lockUsers } from '../../queries.ts';
import { clientOf, type Origin, storedUserAgent } from '../origin.ts';
import type { AccessTokens } from '../tokens/access-tokens.ts';
import { withTimeout } from '../transactions.ts';
import { insertRefreshToken, insertSession, revokeByClient, type SessionRow } from './queries.ts';
import type { SessionStates } from './sessions.ts';

/* The pair of tokens that a session is used with. */

export interface TokenPair {
  readonly accessToken: string;
  /** Absent while a second factor is pending, and while refresh tokens are switched off. */
  readonly refreshToken?: string;
}

/** What was stored with the pair. */
interface PairFacts {
  /** Id of the refresh token; also the id of the access token. */
  readonly tokenId: string;
  readonly refreshToken: string | undefined;
}

/** Makes the pair of a session. The same session and facts give the same pair. */
export type PairMaker = (session: SessionRow, facts: PairFacts) => TokenPair;

export const createPairMaker =
  (accessTokens: AccessTokens, config: () => AuthenticationConfig): PairMaker =>
  (session, { tokenId, refreshToken }) => {
    const { accessTokens: access, sessions } = config();
    const expiresAt = Math.min(session.issuedAt + access.expiryPeriod, session.expiresAt);
    const accessToken = accessTokens.issue(
      { ...session, tokenId, sessionId: session.id, expiresAt },
      sessions.sudoMaxAge,
    );
    return refreshToken === undefined ? { accessToken } : { accessToken, refreshToken };
  };

/** The caller that a session stands for. */
export const callerOf = (session: SessionRow): UserCaller => ({
  kind: 'user',
  userId: session.userId,
  sessionId: session.id,
  authenticatedAt: session.authenticatedAt,
  complete: session.complete,
  clientId: session.clientId,
  ...(session.impersonatedBy ? { impersonatedBy: session.impersonatedBy } : {}),
});

/*
 * Asked before each session is opened, whatever proved who somebody is: refuse, or say more in the tokens
 * of the session. What is said holds for the session's life; renewals repeat it.
 */

/** What access tokens say under `claims`, by name. */
type CustomClaims = Readonly<Record<string, unknown>>;

/** Who is about to get a session, and with which app. */
interface TokenRequest {
  readonly userId: string;
  readonly clientId: string;
}

/** Runs in the transaction that opens the session. A throw refuses the sign-in. */
export type TokenHook = (
  transaction: Transaction,
  request: TokenRequest,
) => Promise<CustomClaims | undefined>;

/** A session that is about to be opened. */
interface Opening {
  readonly account: Credentials;
  readonly origin: Origin;
  readonly strategy: string;
  readonly pending: PendingFactor | undefined;
}

interface TokenHooks {
  /** What all hooks say together, or null. Throws what a hook throws, and 503 when one takes too long or it is more than fits into a token. */
  claimsFor(transaction: Transaction, opening: Opening): Promise<CustomClaims | null>;
  /** Adds a hook; answers how to take it away. */
  onToken(hook: TokenHook): () => void;
}

/** Bytes of JSON: tokens travel in every request, and longer ones are not read. */
const maxBytes = 800;

export function createTokenHooks(hooked: Hooks, log: Logger): TokenHooks {
  const hooks: TokenHook[] = [];
  return {
    async claimsFor(transaction, opening) {
      const { userId } = opening.account;
      const clientId = clientOf(opening.origin);
      const own: Record<string, unknown> = {};
      for (const hook of hooks)
        Object.assign(own, await withTimeout(hook(transaction, { userId, clientId }), log));
      const claims = await askHooks(hooked, opening, own);
      if (Object.keys(claims).length === 0) return null;
      const bytes = Buffer.byteLength(JSON.stringify(claims));
      if (bytes <= maxBytes) return claims;
      log.error({ bytes, maxBytes }, 'Hooks want more claims in an access token than fit');
      throw errors.UNAVAILABLE({ message: 'Nobody can be signed in now: ask the operator' });
    },
    onToken(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}

/** The claims with what hooks of operators add. Nobody is signed in yet: they are asked in nobody's name. */
async function askHooks(
  hooks: Hooks,
  { account: { userId }, origin, strategy, pending }: Opening,
  claims: CustomClaims,
): Promise<CustomClaims> {
  if (!hooks.has(signInPoint)) return claims;
  const answer = await hooks.run<SignInHookValue>(signInPoint, anonymous, {
    ...{ userId, strategy, clientId: clientOf(origin), address: origin.address, claims },
    secondFactorPending: pending !== undefined,
  });
  return answer.claims;
}

/* What a sign-in still needs after its first proof. */

/** How much a sign-in has proven: a passkey with user verification counts for both factors. */
export type Proof = 'oneFactor' | 'bothFactors';

/** `verify`: the second factor of the account; `enrol`: one must be set up before anything else. */
export type PendingFactor = 'verify' | 'enrol';

export function pendingFactorOf(
  account: Pick<Credentials, 'hasTwoFA' | 'requiresTwoFA' | 'isAnonymous'>,
  config: AuthenticationConfig,
  proof: Proof,
): PendingFactor | undefined {
  if (proof === 'bothFactors') return undefined;
  if (account.hasTwoFA) return 'verify';
  // Nobody is asked to set up what cannot be set up.
  const { twoFa } = config;
  const isRequired =
    twoFa.enabled &&
    canBeSetUp(config) &&
    !account.isAnonymous &&
    (twoFa.required || account.requiresTwoFA);
  return isRequired ? 'enrol' : undefined;
}

/**
 * Answers the first pair, or nothing when the account was blocked or its credentials changed since it was read. `strategy`
 * names how the person signed in. Throws what hooks throw.
 */
export type SessionOpener = (
  account: Credentials,
  origin: Origin,
  strategy: string,
  pending: PendingFactor | undefined,
) => Promise<TokenPair | undefined>;

interface OpenerDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly states: SessionStates;
  readonly makePair: PairMaker;
  readonly hooks: TokenHooks;
  readonly config: () => AuthenticationConfig;
}

export function createSessionOpener(dependencies: OpenerDependencies): SessionOpener {
  const { database, events, states, makePair, hooks, config } = dependencies;
  return async (account, origin, strategy, pending) => {
    const opened = await database.transaction(async (transaction) => {
      const claims = await hooks.claimsFor(transaction, { account, origin, strategy, pending });
      // Of several logins at the same time each must see the sessions of the others.
      if (pending === undefined && endsOthers(config()))
        await lockUsers(transaction, [account.userId]);
      const session = await insert(transaction, account, origin, {
        claims,
        complete: pending === undefined,
      });
      if (!session) return undefined;
      const facts = await firstToken(dependencies, transaction, session);
      // Whoever knows the password alone ends nobody's session.
      if (session.complete)
        states.dropAfter(transaction, await endReplaced(dependencies, transaction, session));
      const what = session.complete ? 'login' : 'firstFactor';
      await events.emit(
        transaction,
        callerOf(session),
        userEvent(what, [session.userId], session.id, { strategy }),
      );
      return { session, facts };
    });
    return opened && makePair(opened.session, opened.facts);
  };

  function insert(
    transaction: Transaction,
    account: Credentials,
    origin: Origin,
    { claims, complete }: { readonly claims: CustomClaims | null; readonly complete: boolean },
  ): Promise<SessionRow | undefined> {
    const { refreshTokens, accessTokens, sessions } = config();
    const renewable = complete && refreshTokens.enabled;
    return insertSession(transaction, {
      id: newId(),
      account,
      clientId: clientOf(origin),
      complete,
      lifetimeMs: sessions.absoluteLifetime,
      idleMs: renewable
        ? Math.max(refreshTokens.expiryPeriod, accessTokens.expiryPeriod)
        : accessTokens.expiryPeriod,
      address: origin.address,
      userAgent: storedUserAgent(origin.userAgent),
      claims,
    });
  }
}

async function firstToken(
  { config }: OpenerDependencies,
  transaction: Transaction,
  session: SessionRow,
): Promise<PairFacts> {
  const { enabled, expiryPeriod } = config().refreshTokens;
  const tokenId = newId();
  if (!enabled || !session.complete) return { tokenId, refreshToken: undefined };
  const refreshToken = randomToken();
  const hash = sha256(refreshToken);
  await insertRefreshToken(transaction, {
    id: tokenId,
    hash,
    sessionId: session.id,
    generation: 0,
    lifetimeMs: expiryPeriod,
  });
  return { tokenId, refreshToken };
}

/** A login ends other sessions where the configuration allows only one (spec/authentication.md 5.5). */
async function endReplaced(
  { config }: OpenerDependencies,
  transaction: Transaction,
  session: SessionRow,
): Promise<readonly string[]> {
  const { multipleUserSessions, multipleClientLogins } = config().clients;
  return [
    ...(multipleUserSessions ? [] : await revokeByClient(transaction, session, true)),
    ...(multipleClientLogins ? [] : await revokeByClient(transaction, session, false)),
  ];
}

/** Whether a login may end other sessions of the user. */
const endsOthers = ({ clients }: AuthenticationConfig): boolean =>
  !(clients.multipleUserSessions && clients.multipleClientLogins);
