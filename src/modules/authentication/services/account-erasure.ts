/** The one function that deletes users, with everything that is theirs, in one transaction. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { forgetAnswersTo } from '../../../kernel/idempotency/idempotency.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { Messages } from '../../communications/index.ts';
import { userEvent } from '../events.ts';
import { userSchema } from '../schemas.ts';
import type { Sessions } from './sessions.ts';

/** Deletes what another part keeps about these users; runs before their rows go. */
export type ErasureHook = (transaction: Transaction, userIds: readonly string[]) => Promise<void>;

export interface AccountErasure {
  /** For users whose rows the transaction has locked (`lockUsers`). Their sessions end on every node when it commits. */
  erase(transaction: Transaction, caller: Caller, userIds: readonly string[]): Promise<void>;
  /** Adds a hook; answers how to take it away. */
  onErasure(hook: ErasureHook): () => void;
}

interface Dependencies extends Pick<Kernel, 'events' | 'records'> {
  readonly sessions: Sessions;
  readonly messages: Pick<Messages, 'forgetUsers'>;
}

export function createAccountErasure({ events, records, sessions, messages }: Dependencies): AccountErasure {
  const hooks: ErasureHook[] = [];
  return {
    async erase(transaction, caller, userIds) {
      await sessions.forget(transaction, userIds);
      for (const hook of hooks) await hook(transaction, userIds);
      await messages.forgetUsers(transaction, userIds);
      await forgetAnswersTo(transaction, userIds);
      // Sessions, tokens and linked identities go with the row (foreign keys).
      for (const userId of userIds) await records.remove(system('authentication'), userSchema.name, userId);
      await events.emit(transaction, caller, userEvent('delete', userIds));
    },
    onErasure(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}
