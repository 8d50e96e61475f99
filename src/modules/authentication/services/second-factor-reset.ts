/**
 * Takes the second factor off an account, for an operator whose user has lost it. Each kind of factor brings the
 * part that deletes its secrets; what was signed in until then is signed out.
 */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { userEvent } from '../events.ts';
import { clearSecondFactor } from '../queries.ts';
import type { Sessions } from './sessions.ts';

/** Deletes the secrets and codes of one kind of factor, in the transaction that takes it off. */
export type FactorHook = (transaction: Transaction, userId: string) => Promise<void>;

export interface SecondFactorReset {
  /** For a user whose row the transaction has locked. */
  reset(transaction: Transaction, caller: Caller, userId: string): Promise<void>;
  /** Adds a hook; answers how to take it away. */
  onReset(hook: FactorHook): () => void;
}

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly sessions: Sessions;
}

export function createSecondFactorReset({ events, sessions }: Dependencies): SecondFactorReset {
  const hooks: FactorHook[] = [];
  return {
    async reset(transaction, caller, userId) {
      for (const hook of hooks) await hook(transaction, userId);
      await clearSecondFactor(transaction, userId);
      await sessions.endAll(caller, [userId], { reason: 'factorsChanged' });
      await events.emit(transaction, caller, userEvent('resetTwofa', [userId]));
    },
    onReset(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}
