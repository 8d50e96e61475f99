/** The second factor of admins: one-time codes by time (RFC 6238), and backup codes. */
import { randomInt } from 'node:crypto';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { coreErrors } from '../errors.ts';
import * as queries from '../queries/two-factor.ts';

/** What an authenticator app needs. Shown once, to the admin alone. */
export interface Enrolment {
  /** PNG as a data URI: nothing leaves the machine. */
  readonly image: string;
  readonly uri: string;
  readonly secret: string;
}

export interface TwoFactor {
  /** A new secret, in force after `confirm`. `undefined` when a confirmed one stands. */
  enrol(admin: { id: string; username: string }): Promise<Enrolment | undefined>;
  /** Proves the pending secret, in the transaction that marks the admin. Answers the backup codes. Throws 401, 404. */
  confirm(transaction: Queryable, adminId: string, code: string): Promise<readonly string[]>;
  /** Uses up a code or a backup code. Throws 401, or 404 when there is no second factor. */
  use(adminId: string, code: string): Promise<void>;
  remove(transaction: Queryable, adminId: string): Promise<void>;
}

const ISSUER = 'Penstock';
const STEP_SECONDS = 30;
/** One step before and after, for clocks that differ. */
const TOLERANCE_SECONDS = 30;
const BACKUP_CODES = 10;
/** Without letters and digits that look alike. 10 of them are 49 bits. */
const BACKUP_ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';
const oneTimeCode = /^\d{6}$/;

const sealContext = (adminId: string): string => `core:totp:${adminId}`;

/** Loads the library at the first use: most starts never need it. */
async function stepOf(secret: string, code: string): Promise<number | undefined> {
  if (!oneTimeCode.test(code)) return undefined;
  const { verifySync } = await import('otplib');
  const result = verifySync({ secret, token: code, period: STEP_SECONDS, epochTolerance: TOLERANCE_SECONDS });
  return result.valid && 'timeStep' in result ? result.timeStep : undefined;
}

async function describe(username: string, secret: string): Promise<Enrolment> {
  const [{ generateURI }, { toDataURL }] = await Promise.all([import('otplib'), import('qrcode')]);
  const uri = generateURI({ issuer: ISSUER, label: username, secret });
  return { image: await toDataURL(uri), uri, secret };
}

export function createTwoFactor(database: Database, secrets: SecretBox): TwoFactor {
  const digestOf = (adminId: string, backupCode: string): string =>
    secrets.digest(plainBackupCode(backupCode), `core:backup-code:${adminId}`);

  return {
    async enrol({ id, username }) {
      const { generateSecret } = await import('otplib');
      const secret = generateSecret();
      const stored = await queries.storePendingSecret(database, id, secrets.seal(secret, sealContext(id)));
      return stored ? describe(username, secret) : undefined;
    },
    async confirm(transaction, adminId, code) {
      const sealed = await queries.findSecret(transaction, adminId, false);
      if (sealed === undefined) throw coreErrors.SECOND_FACTOR_ABSENT();
      const step = await stepOf(secrets.open(sealed, sealContext(adminId)), tidy(code));
      if (step === undefined || !(await queries.confirmSecret(transaction, adminId, step))) throw coreErrors.ADMIN_VERIFICATION_FAILED();
      const backupCodes = Array.from({ length: BACKUP_CODES }, newBackupCode);
      await queries.insertBackupCodes(
        transaction,
        adminId,
        backupCodes.map((backupCode) => digestOf(adminId, backupCode)),
      );
      return backupCodes;
    },
    async use(adminId, given) {
      const code = tidy(given);
      const sealed = await queries.findSecret(database, adminId, true);
      if (sealed === undefined) throw coreErrors.SECOND_FACTOR_ABSENT();
      const step = await stepOf(secrets.open(sealed, sealContext(adminId)), code);
      const taken =
        step === undefined ? queries.takeBackupCode(database, adminId, digestOf(adminId, code)) : queries.takeStep(database, adminId, step);
      if (!(await taken)) throw coreErrors.ADMIN_VERIFICATION_FAILED();
    },
    remove: (transaction, adminId) => queries.deleteSecret(transaction, adminId),
  };
}

/** Apps show codes in groups. */
const tidy = (code: string): string => code.replace(/\s/g, '');

function newBackupCode(): string {
  const characters = Array.from({ length: 10 }, () => BACKUP_ALPHABET[randomInt(BACKUP_ALPHABET.length)]).join('');
  return `${characters.slice(0, 5)}-${characters.slice(5)}`;
}

const plainBackupCode = (code: string): string => code.toLowerCase().replaceAll('-', '');
