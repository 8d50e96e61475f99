/**
 * The session that a browser leaves by signing in again (OWASP ASVS 5.0 7.2.4). Its cookies hold other tokens from
 * then on, so its user could not end it any more, and whoever has copied them could go on.
 */
import type { Kernel } from '../../../kernel/kernel.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { sessionOfRefreshToken } from '../session-queries.ts';
import type { AccessTokens } from './access-tokens.ts';
import type { Sessions } from './sessions.ts';
import type { TokenCookies } from './token-cookies.ts';

/** Ends the session that these cookies were of, if they were of any. */
export type LeaveSession = (cookies: Readonly<Record<string, string>>) => Promise<void>;

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly accessTokens: AccessTokens;
  readonly tokenCookies: TokenCookies;
  readonly sessions: Pick<Sessions, 'leave'>;
}

export function createLeaveSession({ database, accessTokens, tokenCookies, sessions }: Dependencies): LeaveSession {
  return async (cookies) => {
    const accessToken = tokenCookies.accessToken(cookies);
    const verified = accessToken === undefined ? undefined : accessTokens.verify(accessToken);
    if (typeof verified === 'object') return sessions.leave(verified.caller);
    // The access token has ended, as it does long before the session.
    const refreshToken = tokenCookies.admittedRefreshToken(cookies);
    const session = refreshToken === undefined ? undefined : await sessionOfRefreshToken(database, sha256(refreshToken));
    if (session) await sessions.leave(session);
  };
}
