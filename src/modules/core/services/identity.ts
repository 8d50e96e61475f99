/** Who calls the admin surface: any one of three credentials (spec/core.md 2.2). Decided here and nowhere else. */
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { AdminIdentity, PresentedCredentials } from '../../../kernel/identity.ts';
import { coreErrors } from '../errors.ts';
import type { AdminRow } from '../queries/admins.ts';
import { type Accounts, callerOf, masterPrincipal } from './accounts.ts';
import type { AdminTokens, TokenClaims } from './admin-tokens.ts';
import { type ApiTokens, apiTokenStart, type LiveApiToken } from './api-tokens.ts';
import type { MasterKeyCheck } from './master-key.ts';

export interface IdentityOptions {
  readonly accounts: Accounts;
  readonly tokens: AdminTokens;
  readonly apiTokens: ApiTokens;
  readonly checkMasterKey: MasterKeyCheck;
  /** `gate`: the master key must accompany an admin's token, and opens nothing alone but `/login`. */
  readonly masterKeyMode: () => 'credential' | 'gate';
  readonly enforcePasswordChange: () => boolean;
}

type Answer = AdminCaller | Promise<AdminCaller>;

const then = <A, B>(value: A | Promise<A>, next: (value: A) => B | Promise<B>): B | Promise<B> =>
  value instanceof Promise ? value.then(next) : next(value);

/** Answers without a promise when everything that it needs is cached. */
export function createAdminIdentity(options: IdentityOptions): AdminIdentity {
  const { accounts, tokens, apiTokens, checkMasterKey, enforcePasswordChange } = options;

  const bySession = (claims: TokenClaims): Answer => {
    if (claims.twoFaRequired) throw coreErrors.ADMIN_SECOND_FACTOR_REQUIRED();
    return then(accounts.get(claims.id), (found) => {
      const admin = usable(found);
      if (admin.sessionVersion !== claims.sv) throw coreErrors.ADMIN_TOKEN_EXPIRED({ message: 'This session has ended: sign in again' });
      return callerOf(admin, { via: 'jwt', enforcePasswordChange: enforcePasswordChange() });
    });
  };
  const byApiToken = ({ id, adminId, tokenPrefix, scopes }: LiveApiToken): Answer => {
    if (adminId === null) return { ...masterPrincipal, via: 'token', tokenId: id, tokenPrefix, ...(scopes ? { scopes } : {}) };
    return then(accounts.get(adminId), (found) =>
      callerOf(usable(found), { via: 'token', tokenId: id, tokenPrefix, scopes, enforcePasswordChange: enforcePasswordChange() }),
    );
  };
  const byToken = (token: string, masterKeyGiven: boolean): Answer => {
    if (token.startsWith(apiTokenStart)) return then(apiTokens.find(token), byApiToken);
    if (options.masterKeyMode() === 'gate' && !masterKeyGiven) throw coreErrors.MASTER_KEY_INVALID();
    return bySession(tokens.verify(token));
  };
  const byMasterKey = (): AdminCaller => {
    if (options.masterKeyMode() === 'gate') throw coreErrors.ADMIN_TOKEN_MISSING();
    return masterPrincipal;
  };

  return {
    authenticate(credentials) {
      const { masterKey, address } = credentials;
      if (masterKey !== undefined) {
        const refused = checkMasterKey(masterKey, address);
        if (refused) return refused;
      }
      const token = tokenOf(credentials);
      if (token !== undefined) return byToken(token, masterKey !== undefined);
      if (masterKey !== undefined) return byMasterKey();
      throw coreErrors.ADMIN_CREDENTIAL_MISSING({ headers: { 'www-authenticate': 'Bearer' } });
    },
    async masterKey({ masterKey, address }) {
      if (masterKey === undefined) throw coreErrors.MASTER_KEY_INVALID({ message: 'This needs the master key in the masterkey header' });
      await checkMasterKey(masterKey, address);
      return masterPrincipal;
    },
  };
}

/** The token of the Authorization header, or of `credential`, which carries API tokens only. */
function tokenOf({ bearer, apiToken }: PresentedCredentials): string | undefined {
  if (apiToken === undefined) return bearer;
  if (!apiToken.startsWith(apiTokenStart)) throw coreErrors.ADMIN_TOKEN_INVALID();
  if (bearer !== undefined && bearer !== apiToken) {
    throw coreErrors.ADMIN_TOKEN_INVALID({ message: 'Send one token: in Authorization or in credential, not two different ones' });
  }
  return apiToken;
}

function usable(admin: AdminRow | undefined): AdminRow {
  if (!admin?.active) throw coreErrors.ADMIN_UNKNOWN();
  return admin;
}
