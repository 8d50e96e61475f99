/** User names and passwords of admins: one canonical form, and what is refused. */
import { invalid } from '../../../kernel/errors.ts';
import { isCommonPassword } from '../../../kernel/security/common-passwords.ts';

/** Characters. ASVS 6.2.1 asks for at least 8. */
export const minPasswordLength = 8;
/** Characters. Enough for any passphrase, and a bound on the work of hashing. */
export const maxPasswordLength = 1_024;
/** Characters. */
export const maxUsernameLength = 128;

/** The name that the master key acts under; nobody can be created with it. */
export const masterPrincipalName = 'masterkey';

/** How a name is stored. */
export const canonicalUsername = (username: string): string => username.normalize('NFKC').trim();

/** How names are compared: without case, and look-alike forms as one. */
export const usernameKey = (username: string): string => canonicalUsername(username).toLowerCase();

/** Throws 400 when nobody may have this name. */
export function checkUsername(username: string): void {
  const name = canonicalUsername(username);
  if (name === '') throw invalid('username', 'minLength', 'must not be empty');
  if (name.length > maxUsernameLength) throw invalid('username', 'maxLength', `must have at most ${maxUsernameLength} characters`);
  if (/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(name)) throw invalid('username', 'characters', 'must not hold control characters');
  if (usernameKey(name) === masterPrincipalName) throw invalid('username', 'reserved', 'is reserved for the master key');
}

/** Throws 400 when this is no password for that admin. `path` names the input field. */
export function checkPassword(path: string, password: string, username: string): void {
  const characters = [...password].length;
  if (characters < minPasswordLength) throw invalid(path, 'minLength', `must have at least ${minPasswordLength} characters`);
  if (characters > maxPasswordLength) throw invalid(path, 'maxLength', `must have at most ${maxPasswordLength} characters`);
  if (usernameKey(password) === usernameKey(username)) throw invalid(path, 'username', 'must not be the user name');
  if (isCommonPassword(password)) throw invalid(path, 'common', 'is one of the most used passwords: choose another one');
}
