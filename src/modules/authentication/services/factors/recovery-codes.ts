/** Ten codes for the day on which the second factor is lost. Each works once; only keyed digests are kept. */
import { randomInt } from 'node:crypto';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { backupCodesLeft, replaceBackupCodes, takeBackupCode } from '../../factor-queries.ts';

export interface RecoveryCodes {
  /** A new set, written `dddd dddd`, in the place of the old one; for a user whose row the transaction has locked. */
  make(transaction: Transaction, userId: string): Promise<readonly string[]>;
  /** Uses one up: true for exactly one of all who try it. Spaces and dashes do not matter. */
  use(userId: string, code: string): Promise<boolean>;
  left(userId: string): Promise<number>;
}

const howMany = 10;
const digits = 8;
const shape = /^\d{8}$/;

export function createRecoveryCodes({ database, secrets }: Pick<Kernel, 'database' | 'secrets'>): RecoveryCodes {
  const digestOf = (userId: string, code: string): string => secrets.digest(code, `authentication:recovery-code:${userId}`);
  return {
    async make(transaction, userId) {
      const codes = distinctCodes();
      await replaceBackupCodes(
        transaction,
        userId,
        codes.map((code) => digestOf(userId, code)),
      );
      return codes.map((code) => `${code.slice(0, 4)} ${code.slice(4)}`);
    },
    async use(userId, given) {
      const code = given.replace(/[\s-]/g, '');
      return shape.test(code) && takeBackupCode(database, userId, digestOf(userId, code));
    },
    left: (userId) => backupCodesLeft(database, userId),
  };
}

function distinctCodes(): readonly string[] {
  const codes = new Set<string>();
  while (codes.size < howMany) codes.add(String(randomInt(10 ** digits)).padStart(digits, '0'));
  return [...codes];
}
