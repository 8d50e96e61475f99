/** Accepts a new password: policy, list of leaked ones, hash. The one way to a stored password. */
import type { PasswordHasher } from '../../../kernel/security/passwords.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { BreachCheck } from './breached-passwords.ts';
import { requireStrong, weakPassword } from './password-policy.ts';

/** Answers the hash; throws WEAK_PASSWORD. `names` are those of the account, `path` the input field in the answer. */
export type NewPassword = (password: string, names: readonly (string | null | undefined)[], path?: string) => Promise<string>;

interface Dependencies {
  readonly passwords: PasswordHasher;
  readonly isBreached: BreachCheck;
  readonly config: () => AuthenticationConfig['passwords'];
}

export const createNewPassword =
  ({ passwords, isBreached, config }: Dependencies): NewPassword =>
  async (password, names, path = 'password') => {
    requireStrong(password, names, config(), path);
    if (await isBreached(password)) throw weakPassword('this password is in a list of leaked ones', path);
    return passwords.hash(password);
  };
