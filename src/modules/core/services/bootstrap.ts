/** The first admin: made when there is none at all, once for all nodes. */
import { randomInt } from 'node:crypto';
import type { Database } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { PasswordHasher } from '../../../kernel/security/passwords.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { anyAdmin, insertAdmin } from '../queries/admins.ts';
import { minPasswordLength } from './names.ts';

/** A first password that nobody knows yet: the operator must be told, once. */
export interface Bootstrap {
  readonly username: string;
  readonly password: string;
}

/** Keeps a made password safe. Runs before the admin exists: a start that fails or is killed later loses no password. */
export type KeepPassword = (made: Bootstrap) => Promise<void>;

const USERNAME = 'admin';
const LOCK = 'core.first-admin';
/** Without characters that look alike. 20 of them are 98 bits. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';

const newPassword = (): string =>
  Array.from({ length: 4 }, () => Array.from({ length: 5 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')).join('-');

export interface BootstrapOptions {
  readonly database: Database;
  readonly passwords: PasswordHasher;
  readonly log: Logger;
  /** `ADMIN_INITIAL_PASSWORD`. */
  readonly initialPassword: string | undefined;
  readonly keep: KeepPassword;
}

/** Makes the first admin unless there is an admin already. */
export async function bootstrapAdmin({ database, passwords, log, initialPassword, keep }: BootstrapOptions): Promise<void> {
  if (await anyAdmin(database)) return;
  await database.withLock(LOCK, async () => {
    if (await anyAdmin(database)) return;
    const password = initialPassword ?? newPassword();
    if (initialPassword === undefined) await keep({ username: USERNAME, password });
    await insertAdmin(database, {
      id: newId(),
      username: USERNAME,
      usernameKey: USERNAME,
      passwordHash: await passwords.hash(password),
      isSuperAdmin: true,
      mustChangePassword: true,
    });
    if (password.length < minPasswordLength) {
      log.warn({}, `ADMIN_INITIAL_PASSWORD has fewer than ${minPasswordLength} characters: change this password now`);
    }
  });
}
