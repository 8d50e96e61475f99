/**
 * Asked before each session is opened, whatever proved who somebody is: refuse, or say more in the tokens
 * of the session. What is said holds for the session's life; renewals repeat it.
 */
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { Credentials } from '../queries.ts';
import { inTime } from './in-time.ts';
import { clientOf, type Origin } from './origin.ts';

/** What access tokens say under `claims`, by name. */
export type CustomClaims = Readonly<Record<string, unknown>>;

/** Who is about to get a session, and with which app. */
export interface TokenRequest {
  readonly userId: string;
  readonly clientId: string;
}

/** Runs in the transaction that opens the session. A throw refuses the sign-in. */
export type TokenHook = (transaction: Transaction, request: TokenRequest) => Promise<CustomClaims | undefined>;

export interface TokenHooks {
  /** What all hooks say together, or null. Throws what a hook throws, and 503 when one takes too long or it is more than fits into a token. */
  claimsFor(transaction: Transaction, account: Credentials, origin: Origin): Promise<CustomClaims | null>;
  /** Adds a hook; answers how to take it away. */
  onToken(hook: TokenHook): () => void;
}

/** Bytes of JSON: tokens travel in every request, and longer ones are not read. */
const maxBytes = 800;

export function createTokenHooks(log: Logger): TokenHooks {
  const hooks: TokenHook[] = [];
  return {
    async claimsFor(transaction, { userId }, origin) {
      const claims: Record<string, unknown> = {};
      for (const hook of hooks) Object.assign(claims, await inTime(hook(transaction, { userId, clientId: clientOf(origin) }), log));
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
