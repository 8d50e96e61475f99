/** Names of the events that authentication emits, each in the transaction of the change. They carry ids only. */
import type { NewEvent } from '../../kernel/events/events.ts';

/** What can happen to a user here; the topic is `authentication:<what>:user`. */
export type UserEvent =
  | 'register'
  | 'login'
  | 'logout'
  | 'renew'
  | 'reuse'
  | 'update'
  | 'changePassword'
  | 'revokeSessions'
  | 'block'
  | 'unblock'
  | 'delete';

/** The event for one user, or several at once; `sessionId` where it is about one session. */
export const userEvent = (what: UserEvent, userIds: readonly string[], sessionId?: string): NewEvent => ({
  topic: `authentication:${what}:user`,
  schema: 'User',
  ids: userIds,
  ...(sessionId === undefined ? {} : { payload: { sessionId } }),
});
