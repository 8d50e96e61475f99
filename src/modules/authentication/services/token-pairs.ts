/** The pair of tokens that a session is used with. */
import type { UserCaller } from '../../../kernel/caller.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { SessionRow } from '../session-queries.ts';
import type { AccessTokens } from './access-tokens.ts';

export interface TokenPair {
  readonly accessToken: string;
  /** Absent while a second factor is owed, and while refresh tokens are switched off. */
  readonly refreshToken?: string;
}

/** What was stored with the pair. */
export interface PairFacts {
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
    const accessToken = accessTokens.issue({ ...session, tokenId, sessionId: session.id, expiresAt }, sessions.sudoMaxAge);
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
