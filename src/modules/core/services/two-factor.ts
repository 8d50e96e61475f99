/** The second factor of admins: one-time codes by time (RFC 6238), and recovery codes. */
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  createAuthenticator,
  type TotpEnrolment,
  tidyCode,
} from '../../../kernel/security/second-factor/authenticator.ts';
import {
  createRecoveryCodes,
  letterCodes,
} from '../../../kernel/security/second-factor/recovery-codes.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { coreErrors } from '../errors.ts';
import { type AdminRow, setHasTwoFactor } from '../queries/admins.ts';
import type { Accounts } from './accounts.ts';
import type { FailureQuotas } from './failure-quotas.ts';

export interface TwoFactor {
  /** A new secret, in force after `confirm`. `undefined` when a confirmed one stands. */
  enrol(admin: { id: string; username: string }): Promise<TotpEnrolment | undefined>;
  /** Proves the pending secret, in the transaction that marks the admin. Returns the recovery codes. Throws 401, 404. */
  confirm(transaction: Queryable, adminId: string, code: string): Promise<readonly string[]>;
  /** Uses up a code or a recovery code. Throws 401, or 404 when there is no second factor. */
  use(adminId: string, code: string): Promise<void>;
  remove(transaction: Queryable, adminId: string): Promise<void>;
}

const ISSUER = 'Penstock';

export function createTwoFactor(database: Database, secrets: SecretBox): TwoFactor {
  const authenticator = createAuthenticator({
    database,
    secrets,
    table: 'penstock.admin_two_factor',
    owner: 'admin_id',
    context: 'core:totp',
    issuer: () => ISSUER,
  });
  const recoveryCodes = createRecoveryCodes({
    database,
    secrets,
    table: 'penstock.admin_backup_codes',
    owner: 'admin_id',
    context: 'core:backup-code',
    format: letterCodes,
  });
  return {
    enrol: ({ id, username }) => authenticator.enrol(id, username),
    async confirm(transaction, adminId, code) {
      if (!(await authenticator.isPending(transaction, adminId)))
        throw coreErrors.SECOND_FACTOR_MISSING();
      if (!(await authenticator.confirm(transaction, adminId, tidyCode(code)))) throw codeInvalid();
      return recoveryCodes.make(transaction, adminId);
    },
    async use(adminId, given) {
      if (!(await authenticator.isOn(database, adminId))) throw coreErrors.SECOND_FACTOR_MISSING();
      const code = tidyCode(given);
      const isRight =
        (await authenticator.use(adminId, code)) || (await recoveryCodes.use(adminId, code));
      if (!isRight) throw codeInvalid();
    },
    // The recovery codes go with the secret.
    remove: (transaction, adminId) => authenticator.remove(transaction, adminId),
  };
}

/** The sentence that existing clients compare. */
const codeInvalid = () => coreErrors.CODE_INVALID({ message: 'Verification unsuccessful' });

/* Switching one's own second factor on and off. */

export interface OwnTwoFactor {
  /** Begins; `undefined` when it is on already. */
  begin(caller: AdminCaller): Promise<TotpEnrolment | undefined>;
  /** Proves the secret and switches on. Ends all sessions; returns the admin for a new one. */
  confirm(
    caller: AdminCaller,
    code: string,
  ): Promise<{ admin: AdminRow; recoveryCodes: readonly string[] }>;
  /** Needs a code, except from a super admin. Ends all sessions; `undefined` when it was off. */
  end(caller: AdminCaller, code: string | undefined): Promise<AdminRow | undefined>;
}

export function createOwnTwoFactor(
  accounts: Accounts,
  twoFactor: TwoFactor,
  quotas: FailureQuotas,
): OwnTwoFactor {
  /** One transaction with the admin's mark; every session of before ends with it. */
  const mark = <T>(
    adminId: string,
    has: boolean,
    work: (transaction: Parameters<Parameters<Accounts['change']>[1]>[0]) => Promise<T>,
  ) =>
    accounts.change(adminId, async (transaction) => {
      const result = await work(transaction);
      const admin = await setHasTwoFactor(transaction, adminId, has);
      if (!admin) throw coreErrors.ADMIN_NOT_FOUND();
      return { result, admin };
    });

  return {
    begin: (caller) => twoFactor.enrol({ id: caller.adminId, username: caller.username }),
    async confirm({ adminId }, code) {
      await quotas.beforeProof(adminId);
      const { admin, result } = await mark(adminId, true, (transaction) =>
        twoFactor.confirm(transaction, adminId, code),
      );
      await quotas.proofSucceeded(adminId);
      return { admin, recoveryCodes: result };
    },
    async end({ adminId, isSuperAdmin }, code) {
      const before = await accounts.get(adminId);
      if (!before?.hasTwoFA) return undefined;
      if (code !== undefined) {
        await quotas.beforeProof(adminId);
        await twoFactor.use(adminId, code);
        await quotas.proofSucceeded(adminId);
      } else if (!isSuperAdmin) {
        throw invalid('code', 'required', 'is required to switch the second factor off');
      }
      const { admin } = await mark(adminId, false, (transaction) =>
        twoFactor.remove(transaction, adminId),
      );
      return admin;
    },
  };
}
