/**
 * The challenges that authenticators sign. Each is a one-time token, so it works once, ends by itself, and is
 * bound to what it was made for: a new passkey or a second step to one session, a first step to nobody.
 */
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { OneTimeTokens } from '../one-time-tokens.ts';

/** What a signature is for. One for one is worth nothing for another. */
export type Ceremony = 'register' | 'signIn' | 'secondStep';

export interface ChallengeKey {
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

export const createChallenges = ({ database, tokens }: Pick<Kernel, 'database'> & { readonly tokens: OneTimeTokens }): Challenges => ({
  async issue({ ceremony, session }) {
    const data = { ceremony, ...(session === undefined ? {} : { sessionId: session.sessionId }) };
    const owner = session === undefined ? {} : { userId: session.userId };
    return (await tokens.issue(database, { purpose, ...owner, data, lifetimeMs: ceremonyTimeoutMs })).token;
  },
  async consume({ ceremony, session }, clientDataJSON) {
    const challenge = challengeIn(clientDataJSON);
    const grant = challenge === undefined ? undefined : await tokens.consume(database, purpose, challenge);
    const fits = grant?.data.ceremony === ceremony && grant.userId === session?.userId && grant.data.sessionId === session?.sessionId;
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
