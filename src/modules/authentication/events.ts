/** Names of the events that authentication emits, each in the transaction of the change. They carry ids and plain words, no addresses and no secrets. */
import type { NewEvent } from '../../kernel/events/events.ts';

/** What can happen to a user here; the topic is `authentication:<what>:user`. */
export type UserEvent =
  | 'register'
  | 'login'
  | 'firstFactor'
  | 'loginFailed'
  | 'logout'
  | 'renew'
  | 'reuse'
  | 'update'
  | 'impersonate'
  | 'resetTwofa'
  | 'enableTwofa'
  | 'disableTwofa'
  | 'makeRecoveryCodes'
  | 'useRecoveryCode'
  | 'addPasskey'
  | 'removePasskey'
  | 'changePhone'
  | 'addDevice'
  | 'removeDevice'
  | 'requirePassword'
  | 'changePassword'
  | 'resetPassword'
  | 'changeEmail'
  | 'undoChangeEmail'
  | 'verified'
  | 'revokeSessions'
  | 'block'
  | 'unblock'
  | 'delete'
  | 'linkIdentity'
  | 'unlinkIdentity';

/** What else an event about a user may say. */
export interface UserEventFacts {
  /** How they signed in or registered: `local`, `magic-link`, the name of a provider. */
  readonly strategy?: string;
  /** Why it was refused. */
  readonly reason?: string;
}

/** The event for one user, or several at once, or nobody that there is; `sessionId` where it is about one session. */
export const userEvent = (
  what: UserEvent,
  userIds: readonly string[],
  sessionId?: string,
  facts?: UserEventFacts,
): NewEvent => ({
  topic: `authentication:${what}:user`,
  schema: 'User',
  ids: userIds,
  ...(sessionId === undefined && facts === undefined
    ? {}
    : { payload: { ...facts, ...(sessionId === undefined ? {} : { sessionId }) } }),
});

/** What can happen to a team; the topic is `authentication:<what>:team`. */
export type TeamEvent =
  | 'create'
  | 'update'
  | 'delete'
  | 'addMembers'
  | 'changeRole'
  | 'removeMembers'
  | 'invite'
  | 'revokeInvite'
  | 'join';

/** The event for a team. `payload` names users by their ids, and roles. */
export const teamEvent = (
  what: TeamEvent,
  teamId: string,
  payload?: { readonly userIds?: readonly string[]; readonly role?: string },
): NewEvent => ({
  topic: `authentication:${what}:team`,
  schema: 'Team',
  ids: [teamId],
  ...(payload === undefined ? {} : { payload }),
});
