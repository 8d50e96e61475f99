/**
 * The client port of the kernel: who a bearer token stands for. Everything that fails, fails closed. On
 * the warm path (token seen, session state cached) there is no promise and no query.
 */
import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous, type UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors, PenstockError } from '../../../../kernel/errors.ts';
import type { ClientIdentity, PresentedCredentials } from '../../../../kernel/identity.ts';
import { serializeCookie } from '../../../../kernel/operations/reply.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import type { AccessTokens } from '../tokens/access-tokens.ts';
import type { SigningKeys } from '../tokens/signing-keys.ts';
import { lockLiveSession, revokeImpersonations, type SessionState } from './queries.ts';
import type { SessionStates } from './sessions.ts';
import type { TokenCookies } from './token-cookies.ts';

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
  readonly keys: SigningKeys;
  readonly cookies: TokenCookies;
}

export function createClientIdentity(dependencies: Dependencies): ClientIdentity {
  const { accessTokens, states, keys, cookies } = dependencies;

  const checked = (caller: UserCaller): UserCaller | Promise<UserCaller> => {
    const state = states.get(caller.sessionId);
    if (state instanceof Promise) return state.then((loaded) => accept(caller, loaded));
    // The end of a session moves with each renewal, which other nodes are not told about: look again.
    if (state && state.endsAt <= Date.now()) return reread(caller);
    return accept(caller, state);
  };

  const reread = async (caller: UserCaller): Promise<UserCaller> =>
    accept(caller, await states.read(caller.sessionId));

  const afterKeyRefresh = async (bearer: string): Promise<UserCaller> => {
    await keys.refresh();
    const token = accessTokens.verify(bearer);
    if (typeof token !== 'object') throw refused();
    return checked(token.caller);
  };

  const byToken = (bearer: string): UserCaller | Promise<UserCaller> => {
    const token = accessTokens.verify(bearer);
    if (token === 'unknownKey') return afterKeyRefresh(bearer);
    if (token === undefined) throw refused();
    return checked(token.caller);
  };

  /** A cookie that opens nothing any more is taken away: its page cannot do that itself. */
  const byCookie = async (token: string, { sender }: PresentedCredentials): Promise<UserCaller> => {
    try {
      const caller = await byToken(token);
      cookies.requireOwnPage(sender, caller.sessionId);
      return caller;
    } catch (error) {
      const [cookie] = cookies.cleared('accessToken');
      if (!(error instanceof PenstockError) || error.status !== 401 || !cookie) throw error;
      throw authErrors.TOKEN_INVALID({
        headers: { ...error.headers, 'set-cookie': serializeCookie(cookie) },
      });
    }
  };

  return {
    cookieTokens: cookies,
    authenticate(credentials) {
      if (credentials.bearer !== undefined) return byToken(credentials.bearer);
      const cookie = cookies.accessToken(credentials.cookies);
      if (cookie === undefined)
        throw errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });
      return byCookie(cookie, credentials);
    },
    async holdSession(transaction, caller) {
      if (!(await lockLiveSession(transaction, caller))) throw refused();
    },
    endImpersonations: (transaction, adminId) =>
      endImpersonations(dependencies, transaction, adminId),
  };
}

async function endImpersonations(
  { events, states }: Dependencies,
  transaction: Transaction,
  adminId: string,
): Promise<void> {
  const ended = await revokeImpersonations(transaction, adminId);
  for (const { id, userId } of ended)
    await events.emit(transaction, anonymous, userEvent('revokeSessions', [userId], id));
  states.dropAfter(
    transaction,
    ended.map(({ id }) => id),
  );
}

/** RFC 6750 3.1: a client that sees this renews its token. */
const refused = (): PenstockError =>
  authErrors.TOKEN_INVALID({ headers: { 'www-authenticate': 'Bearer error="invalid_token"' } });

function accept(caller: UserCaller, state: SessionState | undefined): UserCaller {
  if (state === undefined || state.userId !== caller.userId) throw refused();
  if (!state.active) throw authErrors.USER_BLOCKED();
  if (state.revoked || state.endsAt <= Date.now()) throw refused();
  return caller;
}
