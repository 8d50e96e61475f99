/** What callers are to permissions: trusted with everything, or subjects. */
import type { Caller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import { authorizationErrors } from '../errors.ts';
import type { SubjectRef } from '../model/grammar.ts';
import type { Checks } from './checks.ts';

/** Operators and the platform itself. */
export const isTrusted = (caller: Caller): boolean =>
  caller.kind === 'admin' || caller.kind === 'system';

/** Throws 401 for everybody who is no user. */
export function userSubject(caller: Caller): SubjectRef {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED();
  return { type: 'User', id: caller.userId, relation: '' };
}

/** Who asks: the caller, or the scope that they may act for. Throws 401 and 403. */
export async function subjectOf(
  checks: Pick<Checks, 'acting'>,
  caller: Caller,
  action: string,
  scope: string | undefined,
): Promise<SubjectRef> {
  const subject = await checks.acting(userSubject(caller), action, scope);
  if (!subject)
    throw authorizationErrors.SCOPE_REFUSED({ message: `You may not ${action} for ${scope}` });
  return subject;
}
