/**
 * The client port of the kernel: who a bearer token stands for. Everything that fails, fails closed. On
 * the warm path (token seen, session state cached) there is no promise and no query.
 */
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors, type PenstockError } from '../../../kernel/errors.ts';
import type { ClientIdentity } from '../../../kernel/identity.ts';
import { authErrors } from '../errors.ts';
import type { SessionState } from '../session-queries.ts';
import type { AccessTokens } from './access-tokens.ts';
import type { SessionStates } from './session-states.ts';
import type { SigningKeys } from './signing-keys.ts';

interface Dependencies {
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
  readonly keys: SigningKeys;
}

export function createClientIdentity({ accessTokens, states, keys }: Dependencies): ClientIdentity {
  const believe = (caller: UserCaller): UserCaller | Promise<UserCaller> => {
    const state = states.get(caller.sessionId);
    if (state instanceof Promise) return state.then((loaded) => accept(caller, loaded));
    // The end of a session moves with each renewal, which other nodes are not told about: look again.
    if (state && state.endsAt <= Date.now()) return reread(caller);
    return accept(caller, state);
  };

  const reread = async (caller: UserCaller): Promise<UserCaller> => accept(caller, await states.read(caller.sessionId));

  const afterKeyRefresh = async (bearer: string): Promise<UserCaller> => {
    await keys.refresh();
    const token = accessTokens.verify(bearer);
    if (typeof token !== 'object') throw refused();
    return believe(token.caller);
  };

  return {
    authenticate({ bearer }) {
      if (bearer === undefined) throw errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });
      const token = accessTokens.verify(bearer);
      if (token === 'unknownKey') return afterKeyRefresh(bearer);
      if (token === undefined) throw refused();
      return believe(token.caller);
    },
  };
}

/** RFC 6750 3.1: a client that sees this renews its token. */
const refused = (): PenstockError => authErrors.INVALID_TOKEN({ headers: { 'www-authenticate': 'Bearer error="invalid_token"' } });

function accept(caller: UserCaller, state: SessionState | undefined): UserCaller {
  if (state === undefined || state.userId !== caller.userId) throw refused();
  if (!state.active) throw authErrors.USER_BLOCKED();
  if (state.revoked || state.endsAt <= Date.now()) throw refused();
  return caller;
}
