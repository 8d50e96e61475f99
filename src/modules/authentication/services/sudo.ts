/** Changes that could hand an account over need somebody who has just proven who he is. */
import type { UserCaller } from '../../../kernel/caller.ts';
import { authErrors } from '../errors.ts';

/** Throws 403 unless the caller proved who he is at most `maxAgeMs` ago. An operator who acts as the user never has. */
export function requireSudo(caller: UserCaller, maxAgeMs: number): void {
  const fresh = caller.impersonatedBy === undefined && Date.now() - caller.authenticatedAt <= maxAgeMs;
  if (!fresh) throw authErrors.SUDO_REQUIRED();
}

/** Throws 403 for an operator who acts as the user: what would be proven, chosen or taken away here would be the operator's doing. */
export function requireHimself({ impersonatedBy }: UserCaller): void {
  if (impersonatedBy !== undefined) throw authErrors.SUDO_REQUIRED();
}
