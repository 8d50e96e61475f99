/** What users do with the invitations of their teams, and with those to themselves. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import { authErrors } from '../../errors.ts';
import { type InviteRow, invitesToAddress } from '../../invite-queries.ts';
import { canonicalEmail } from '../email.ts';
import type { TeamAccess, TeamAction } from './access.ts';
import { requireTeam } from './hierarchy.ts';
import { keyOfToken } from './invite-mail.ts';
import type { AddressedInvitation, InvitePage, Invites, NewInvitation } from './invites.ts';

export interface OwnInvites {
  list(caller: UserCaller, teamId: string, page: InvitePage): ReturnType<Invites['list']>;
  /** Answers the token, once. */
  invite(caller: UserCaller, teamId: string, invitation: AddressedInvitation): Promise<string>;
  revoke(caller: UserCaller, teamId: string, email: string): Promise<void>;
  /** A persistent invitation; answers its token, once. */
  offer(caller: UserCaller, teamId: string, invitation: NewInvitation): Promise<string>;
  /** By its token or its id. */
  revokeOffer(caller: UserCaller, teamId: string, token: string): Promise<void>;
  /** What was offered to the caller's own address, which he must have proven. */
  mine(caller: UserCaller): Promise<readonly (InviteRow & { readonly teamName: string })[]>;
}

interface Dependencies {
  readonly database: Database;
  readonly invites: Invites;
  readonly access: TeamAccess;
  readonly config: () => TeamsConfig;
}

export function createOwnInvites({ database, invites, access, config }: Dependencies): OwnInvites {
  /** Runs the work with the right to it, alone among all changes of the team. */
  const permitted = <T>(caller: UserCaller, teamId: string, action: TeamAction, work: () => Promise<T>): Promise<T> =>
    database.transaction(async (transaction) => {
      await requireTeam(transaction, teamId);
      await access.require(caller, action, teamId);
      return work();
    });
  const requireSwitchedOn = (): void => {
    if (!config().invites.enabled) throw authErrors.INVITES_DISABLED();
  };

  return {
    async list(caller, teamId, page) {
      await access.registered(caller);
      await access.require(caller, 'invite', teamId);
      return invites.list(teamId, page);
    },
    async invite(caller, teamId, invitation) {
      const person = await access.registered(caller);
      requireSwitchedOn();
      return permitted(caller, teamId, 'invite', async () => {
        await access.requireReach(caller.userId, teamId, [invitation.role]);
        return invites.invite(caller, teamId, invitation, person);
      });
    },
    async revoke(caller, teamId, presented) {
      await access.registered(caller);
      const email = canonicalEmail(presented);
      await permitted(caller, teamId, 'invite', () => invites.revoke(caller, teamId, { email }));
    },
    async offer(caller, teamId, invitation) {
      await access.registered(caller);
      requireSwitchedOn();
      return permitted(caller, teamId, 'deleteOwners', () => invites.offer(caller, teamId, invitation));
    },
    async revokeOffer(caller, teamId, token) {
      await access.registered(caller);
      const persistent = keyOfToken(token);
      if (!persistent) throw invalid('invitationToken', 'format', 'give the token or the id of the invitation');
      await permitted(caller, teamId, 'deleteOwners', () => invites.revoke(caller, teamId, { persistent }));
    },
    async mine(caller) {
      const { email, isVerified } = await access.registered(caller);
      return email !== null && isVerified ? invitesToAddress(database, email) : [];
    },
  };
}
