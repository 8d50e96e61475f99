/** The second factor of admins: one-time codes by time (RFC 6238), and backup codes. */
import { randomInt } from 'node:crypto';
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import {
  describeTotp,
  newTotpSecret,
  type TotpEnrolment,
  tidyCode,
  totpStep,
} from '../../../kernel/security/totp.ts';
import { coreErrors } from '../errors.ts';
import { type AdminRow, setHasTwoFactor } from '../queries/admins.ts';
import * as queries from '../queries/two-factor.ts';
import type { Accounts } from './accounts.ts';
import type { FailureQuotas } from './failure-quotas.ts';

export interface TwoFactor {
  /** A new secret, in force after `confirm`. `undefined` when a confirmed one stands. */
  enrol(admin: { id: string; username: string }): Promise<TotpEnrolment | undefined>;
  /** Proves the pending secret, in the transaction that marks the admin. Answers the backup codes. Throws 401, 404. */
  confirm(transaction: Queryable, adminId: string, code: string): Promise<readonly string[]>;
  /** Uses up a code or a backup code. Throws 401, or 404 when there is no second factor. */
  use(adminId: string, code: string): Promise<void>;
  remove(transaction: Queryable, adminId: string): Promise<void>;
}

const ISSUER = 'Penstock';
const BACKUP_CODES = 10;
/** Without letters and digits that look alike. 10 of them are 49 bits. */
const BACKUP_ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';

const sealContext = (adminId: string): string => `core:totp:${adminId}`;

export function createTwoFactor(database: Database, secrets: SecretBox): TwoFactor {
  const digestOf = (adminId: string, backupCode: string): string =>
    secrets.digest(plainBackupCode(backupCode), `core:backup-code:${adminId}`);

  return {
    async enrol({ id, username }) {
      const secret = await newTotpSecret();
      const stored = await queries.storePendingSecret(
        database,
        id,
        secrets.seal(secret, sealContext(id)),
      );
      return stored ? describeTotp(secret, { issuer: ISSUER, label: username }) : undefined;
    },
    async confirm(transaction, adminId, code) {
      const sealed = await queries.findSecret(transaction, adminId, false);
      if (sealed === undefined) throw coreErrors.SECOND_FACTOR_MISSING();
      const step = await totpStep(secrets.open(sealed, sealContext(adminId)), tidyCode(code));
      if (step === undefined || !(await queries.confirmSecret(transaction, adminId, step)))
        throw coreErrors.CODE_INVALID();
      const backupCodes = Array.from({ length: BACKUP_CODES }, newBackupCode);
      await queries.insertBackupCodes(
        transaction,
        adminId,
        backupCodes.map((backupCode) => digestOf(adminId, backupCode)),
      );
      return backupCodes;
    },
    async use(adminId, given) {
      const code = tidyCode(given);
      const sealed = await queries.findSecret(database, adminId, true);
      if (sealed === undefined) throw coreErrors.SECOND_FACTOR_MISSING();
      const step = await totpStep(secrets.open(sealed, sealContext(adminId)), code);
      const taken =
        step === undefined
          ? queries.takeBackupCode(database, adminId, digestOf(adminId, code))
          : queries.takeStep(database, adminId, step);
      if (!(await taken)) throw coreErrors.CODE_INVALID();
    },
    remove: (transaction, adminId) => queries.deleteSecret(transaction, adminId),
  };
}

function newBackupCode(): string {
  const characters = Array.from(
    { length: 10 },
    () => BACKUP_ALPHABET[randomInt(BACKUP_ALPHABET.length)],
  ).join('');
  return `${characters.slice(0, 5)}-${characters.slice(5)}`;
}

const plainBackupCode = (code: string): string => code.toLowerCase().replaceAll('-', '');

/* Switching one's own second factor on and off. */

export interface OwnTwoFactor {
  /** Begins; `undefined` when it is on already. */
  begin(caller: AdminCaller): Promise<TotpEnrolment | undefined>;
  /** Proves the secret and switches on. Ends all sessions; answers the admin for a new one. */
  confirm(
    caller: AdminCaller,
    code: string,
  ): Promise<{ admin: AdminRow; backupCodes: readonly string[] }>;
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
      return { admin, backupCodes: result };
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
