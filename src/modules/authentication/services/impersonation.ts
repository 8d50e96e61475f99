/**
 * An operator acts as a user, to see what he sees. The session is short, cannot be renewed, passes no check for a
 * fresh login, and its token, its log lines and its events name the operator.
 */
import type { AdminCaller } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { credentialsById } from '../queries.ts';
import { insertImpersonation } from '../session-queries.ts';
import { clientOf, type Origin, storedUserAgent } from './origin.ts';
import type { PairMaker } from './token-pairs.ts';

export interface ImpersonationToken {
  readonly userId: string;
  readonly accessToken: string;
  /** Ms since the epoch. */
  readonly expiresAt: number;
}

/** Opens the session. Throws 404, and 403 for a blocked user. `clientId` of the origin: the app that the token is for. */
export type Impersonation = (caller: AdminCaller, userId: string, origin: Origin) => Promise<ImpersonationToken>;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly makePair: PairMaker;
  readonly config: () => AuthenticationConfig;
}

export const createImpersonation =
  ({ database, events, makePair, config }: Dependencies): Impersonation =>
  (caller, userId, origin) =>
    database.transaction(async (transaction) => {
      const session = await insertImpersonation(transaction, {
        id: newId(),
        userId,
        clientId: clientOf(origin),
        adminId: caller.adminId,
        lifetimeMs: config().impersonation.lifetime,
        address: origin.address,
        userAgent: storedUserAgent(origin.userAgent),
      });
      if (!session) throw (await credentialsById(transaction, userId)) ? authErrors.USER_BLOCKED() : authErrors.USER_NOT_FOUND();
      await events.emit(transaction, caller, userEvent('impersonate', [session.userId], session.id));
      const { accessToken } = makePair(session, { tokenId: newId(), refreshToken: undefined });
      return { userId: session.userId, accessToken, expiresAt: session.expiresAt };
    });
