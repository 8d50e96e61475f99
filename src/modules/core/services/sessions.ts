/** Login, second factor and logout of admins. */
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import type { PasswordHasher } from '../../../kernel/security/password-hasher.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { coreErrors } from '../errors.ts';
import {
  type AdminRow,
  type AdminWithPassword,
  findAdminByName,
  noteLogin,
  raiseSessionVersion,
  replaceHash,
} from '../queries/admins.ts';
import { type Accounts, usernameKey } from './accounts.ts';
import type { AdminTokens } from './admin-identity.ts';
import type { FailureQuotas } from './failure-quotas.ts';
import type { TwoFactor } from './two-factor.ts';

export type LoginOutcome = 'success' | 'second_factor' | 'failure';

/** Told who it is that logs in, as soon as that is proven. */
export type Known = (admin: AdminRow) => void;

export interface LoginListener {
  /** The account is there; nothing is proven yet. Names of no account are told nobody: people type passwords there. */
  readonly asked: Known;
  readonly known: Known;
}

export interface Sessions {
  /** A session token, or the short one that asks for the second factor. Throws 401, 429. */
  login(
    input: { username: string; password: string },
    address: string,
    listener: LoginListener,
  ): Promise<string>;
  /** The session token for a short one and a code. Throws 401, 404, 429. */
  verify(secondFactorToken: string, code: string, known: Known): Promise<string>;
  /** Ends all sessions of the caller. */
  logout(caller: AdminCaller): Promise<void>;
  /** A token of the admin's current session version. */
  issue(admin: AdminRow): string;
}

export interface SessionsOptions {
  readonly database: Database;
  readonly passwords: PasswordHasher;
  readonly accounts: Accounts;
  readonly tokens: AdminTokens;
  readonly twoFactor: TwoFactor;
  readonly quotas: FailureQuotas;
  readonly lifetimeSeconds: () => number;
  readonly count: (outcome: LoginOutcome) => void;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { database, passwords, accounts, tokens, twoFactor, quotas, count } = options;
  const issue = (admin: AdminRow): string =>
    tokens.session(admin.id, admin.sessionVersion, options.lifetimeSeconds());

  /** The same work, and the same answer, whether the name or the password is wrong. */
  const proven = async (
    name: string,
    password: string,
    asked: Known,
  ): Promise<AdminWithPassword | undefined> => {
    const admin = await findAdminByName(database, name);
    if (admin) asked(admin);
    const right = await passwords.verify(admin?.passwordHash, password);
    return right && admin?.active ? admin : undefined;
  };

  const renewHash = async (admin: AdminWithPassword, password: string): Promise<void> => {
    if (passwords.outdated(admin.passwordHash))
      await replaceHash(database, admin.id, await passwords.hash(password), admin.passwordHash);
  };

  return {
    issue,
    async login({ username, password }, address, { asked, known }) {
      const name = usernameKey(username);
      await quotas.beforeLogin(name, address);
      const admin = await proven(name, password, asked);
      if (!admin) {
        count('failure');
        await quotas.loginFailed(address);
        throw coreErrors.ADMIN_LOGIN_INVALID();
      }
      known(admin);
      await quotas.loginSucceeded(name);
      await renewHash(admin, password);
      count(admin.hasTwoFA ? 'second_factor' : 'success');
      if (admin.hasTwoFA) return tokens.secondFactor(admin.id, admin.sessionVersion);
      await noteLogin(database, admin.id);
      return issue(admin);
    },
    async verify(secondFactorToken, code, known) {
      const claims = tokens.verify(secondFactorToken);
      if (!claims.twoFaRequired) throw coreErrors.ADMIN_TOKEN_INVALID();
      const admin = await accounts.get(claims.id);
      if (!admin?.active || admin.sessionVersion !== claims.sv) throw coreErrors.ADMIN_UNKNOWN();
      known(admin);
      if (!(await quotas.beforeCode(admin.id, sha256(secondFactorToken))))
        throw coreErrors.SECOND_FACTOR_EXHAUSTED();
      await twoFactor.use(admin.id, code);
      await quotas.proofSucceeded(admin.id);
      count('success');
      await noteLogin(database, admin.id);
      return issue(admin);
    },
    logout: (caller) =>
      accounts.change(caller.adminId, (transaction) =>
        raiseSessionVersion(transaction, caller.adminId),
      ),
  };
}

/** The caller must be an admin who signed in: not the master key (400), not an API token (403). */
export function requireSession(caller: AdminCaller): void {
  requireStoredAdmin(caller);
  if (caller.via !== 'jwt') throw coreErrors.ADMIN_SESSION_REQUIRED();
}

/** The caller must be an admin with an account, by whatever credential. */
export function requireStoredAdmin(caller: AdminCaller): void {
  if (caller.adminId === 'masterkey') throw coreErrors.STORED_ADMIN_REQUIRED();
}
