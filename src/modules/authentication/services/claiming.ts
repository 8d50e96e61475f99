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
import { claimUnverified } from '../queries.ts';
import { deleteCredentials } from './credential-kinds.ts';
import { endingOnClaim, type OneTimeTokens } from './one-time-tokens.ts';
import type { Sessions } from './sessions.ts';

export interface Claiming {
  /** For an account that the transaction has locked and that is not verified; nothing while it has a second factor. Ends its sessions on every node when it commits. */
  claim(transaction: Transaction, caller: Caller, account: { readonly userId: string; readonly email: string }): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly sessions: Sessions;
  readonly tokens: OneTimeTokens;
}

export const createClaiming = ({ events, sessions, tokens }: Dependencies): Claiming => ({
  async claim(transaction, caller, { userId, email }) {
    if (!(await claimUnverified(transaction, userId, email))) return;
    await deleteCredentials(transaction, userId);
    await tokens.discard(transaction, userId, endingOnClaim);
    await sessions.endAll(caller, [userId], { reason: 'revoked' });
    await events.emit(transaction, caller, userEvent('verified', [userId]));
  },
});
