/**
 * What happens to accounts without anybody being signed in, in the audit log: who (the account), what, from
 * where, and how it ended. What signed-in users and operators do is written down by the surface.
 */

import type { Kernel } from '../../../host/kernel.ts';
import { anonymous } from '../../../kernel/caller.ts';
import { type Origin, storedUserAgent } from './origin.ts';

export type SecurityAction =
  | 'register'
  | 'login'
  | 'firstFactor'
  | 'stepUp'
  | 'reuse'
  | 'verify'
  | 'claim'
  | 'forgotPassword'
  | 'resetPassword'
  | 'changeEmail'
  | 'undoChangeEmail'
  | 'changePhone'
  | 'linkIdentity'
  | 'secondFactor'
  | 'recovery'
  | 'passkeyCloned';

export interface SecurityNote {
  readonly action: SecurityAction;
  /** The account; absent for an attempt on one that there is not. */
  readonly userId?: string | undefined;
  readonly origin: Origin;
  /** `success` unless set. */
  readonly outcome?: 'success' | 'refused';
  /** What else should be known; no secrets. */
  readonly facts?: Readonly<Record<string, string>>;
}

export interface SecurityLog {
  /** Joins the ambient transaction: the row stands exactly when the change does. */
  note(note: SecurityNote): Promise<void>;
}

export const createSecurityLog = ({ audit }: Pick<Kernel, 'audit'>): SecurityLog => ({
  async note({ action, userId, origin, outcome = 'success', facts }) {
    const userAgent = storedUserAgent(origin.userAgent);
    await audit.record({
      caller: anonymous,
      action: `authentication.${action}`,
      outcome,
      address: origin.address,
      ...(userAgent === null ? {} : { userAgent }),
      ...(userId === undefined ? {} : { target: `User:${userId}` }),
      ...(facts === undefined ? {} : { changes: facts }),
    });
  },
});
