/** Taking an invitation as a signed-in user: by its token, or by the id of one to his own proven address. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type FoundInvite, findInvite, type InviteKey } from '../../invite-queries.ts';
import { markVerified } from '../../queries.ts';
import type { Person } from '../../team-queries.ts';
import type { TeamAccess } from './access.ts';
import type { Entrance } from './entrance.ts';
import { keyOfToken } from './invite-mail.ts';

/** Answers which role in which team was offered. Throws 403 INVALID_INVITATION. */
export type AcceptInvitation = (caller: UserCaller, invitationToken: string) => Promise<Pick<FoundInvite, 'teamId' | 'role'>>;

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly access: TeamAccess;
  readonly entrance: Entrance;
}

export function createAcceptance({ database, events, access, entrance }: Dependencies): AcceptInvitation {
  /** Whether the invitation, named like this, is for this person. */
  const isFor = (invite: FoundInvite, key: InviteKey, person: Person): boolean =>
    'hash' in key ? entrance.fits(invite, person.email) : person.isVerified && isOwn(invite, person);

  return async (caller, invitationToken) => {
    const person = await access.registered(caller);
    const key = keyOfToken(invitationToken);
    const seen = key && (await findInvite(database, key));
    if (!seen) throw authErrors.INVALID_INVITATION();
    return database.transaction(async (transaction) => {
      const invite = await entrance.approach(transaction, seen, key);
      if (!isFor(invite, key, person)) throw authErrors.INVALID_INVITATION();
      await entrance.enter(transaction, caller, caller.userId, invite);
      const { teamId, role, mailed, email } = invite;
      // Only the mailbox got this token, so whoever has it reads mail to this address.
      const proves = mailed && email !== null && isOwn(invite, person);
      if (proves && (await markVerified(transaction, caller.userId, email))) {
        await events.emit(transaction, caller, userEvent('verified', [caller.userId]));
      }
      return { teamId, role };
    });
  };
}

const isOwn = ({ email }: FoundInvite, person: Person): boolean => email !== null && email === person.email;
