/** Switching one's own second factor on and off. */
import type { AdminCaller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { TotpEnrolment } from '../../../kernel/security/totp.ts';
import { coreErrors } from '../errors.ts';
import { type AdminRow, setHasTwoFactor } from '../queries/admins.ts';
import type { Accounts } from './accounts.ts';
import type { Budgets } from './budgets.ts';
import type { TwoFactor } from './two-factor.ts';

export interface OwnTwoFactor {
  /** Begins; `undefined` when it is on already. */
  begin(caller: AdminCaller): Promise<TotpEnrolment | undefined>;
  /** Proves the secret and switches on. Ends all sessions; answers the admin for a new one. */
  confirm(caller: AdminCaller, code: string): Promise<{ admin: AdminRow; backupCodes: readonly string[] }>;
  /** Needs a code, except from a super admin. Ends all sessions; `undefined` when it was off. */
  end(caller: AdminCaller, code: string | undefined): Promise<AdminRow | undefined>;
}

export function createOwnTwoFactor(accounts: Accounts, twoFactor: TwoFactor, budgets: Budgets): OwnTwoFactor {
  /** One transaction with the admin's mark; every session of before ends with it. */
  const mark = <T>(adminId: string, has: boolean, work: (transaction: Parameters<Parameters<Accounts['change']>[1]>[0]) => Promise<T>) =>
    accounts.change(adminId, async (transaction) => {
      const result = await work(transaction);
      const admin = await setHasTwoFactor(transaction, adminId, has);
      if (!admin) throw coreErrors.ADMIN_NOT_FOUND();
      return { result, admin };
    });

  return {
    begin: (caller) => twoFactor.enrol({ id: caller.adminId, username: caller.username }),
    async confirm({ adminId }, code) {
      await budgets.beforeProof(adminId);
      const { admin, result } = await mark(adminId, true, (transaction) => twoFactor.confirm(transaction, adminId, code));
      await budgets.proofSucceeded(adminId);
      return { admin, backupCodes: result };
    },
    async end({ adminId, isSuperAdmin }, code) {
      const before = await accounts.get(adminId);
      if (!before?.hasTwoFA) return undefined;
      if (code !== undefined) {
        await budgets.beforeProof(adminId);
        await twoFactor.use(adminId, code);
        await budgets.proofSucceeded(adminId);
      } else if (!isSuperAdmin) {
        throw invalid('code', 'required', 'is required to switch the second factor off');
      }
      const { admin } = await mark(adminId, false, (transaction) => twoFactor.remove(transaction, adminId));
      return admin;
    },
  };
}
