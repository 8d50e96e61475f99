/**
 * Somebody proves to own the mailbox of an account whose address was never proven. He is its owner; but
 * whoever made the account may have been somebody else, waiting for just this (account pre-hijacking).
 * So everything with which one could still get in goes; the data stays. An account with a second factor is not
 * claimed: whoever has the mailbox must prove that factor too, as at every sign-in.
 */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { userEvent } from '../events.ts';
import { deleteIdentitiesOf, dropFactors } from '../identity-queries.ts';
import { claimUnverified } from '../queries.ts';
import type { OneTimeTokens, Purpose } from './one-time-tokens.ts';
import type { Sessions } from './sessions.ts';

/** Deletes the credentials of one kind (keys, seeds, codes) that a user has. */
export type ClaimHook = (transaction: Transaction, userId: string) => Promise<void>;

export interface Claiming {
  /** For an account that the transaction has locked and that is not verified; nothing while it has a second factor. Ends its sessions on every node when it commits. */
  claim(transaction: Transaction, caller: Caller, account: { readonly userId: string; readonly email: string }): Promise<void>;
  /** Adds a hook of a part that keeps credentials; answers how to take it away. */
  onClaim(hook: ClaimHook): () => void;
}

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly sessions: Sessions;
  readonly tokens: OneTimeTokens;
}

/** Links and codes that still lead into the account, or would change it. */
const outstanding: readonly Purpose[] = [
  'verify-email',
  'change-email',
  'undo-change-email',
  'reset-password',
  'magic-link',
  'email-code',
  'login-exchange',
  'oauth-state',
  'oauth-exchange',
  'phone-login',
  'phone-verify',
  'webauthn-challenge',
  'device-challenge',
  'two-factor',
];

export function createClaiming({ events, sessions, tokens }: Dependencies): Claiming {
  const hooks: ClaimHook[] = [];
  return {
    async claim(transaction, caller, { userId, email }) {
      if (!(await claimUnverified(transaction, userId, email))) return;
      await dropFactors(transaction, userId);
      await deleteIdentitiesOf(transaction, userId);
      await tokens.discard(transaction, userId, outstanding);
      for (const hook of hooks) await hook(transaction, userId);
      await sessions.endAll(caller, [userId], { reason: 'revoked' });
      await events.emit(transaction, caller, userEvent('verified', [userId]));
    },
    onClaim(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}
