/** What an operator does with accounts. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { RecordText } from '../../../kernel/records/store.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { type Credentials, credentialsById, lockUsers, setActive } from '../queries.ts';
import { userSchema } from '../schemas.ts';
import { type ListedSession, liveSessions } from '../session-queries.ts';
import { listUsers, type UserFilter } from '../user-queries.ts';
import { canonicalEmail } from './email.ts';
import { requireStrong } from './password-policy.ts';
import type { Sessions } from './sessions.ts';
import { writingUser } from './user-data.ts';
import { canonicalPhoneNumber, canonicalUsername } from './username.ts';

export interface NewUser {
  readonly email?: string;
  readonly username?: string;
  readonly password: string;
}

/** `null` clears; what is left out stays. */
export interface UserChange {
  readonly email?: string | null;
  readonly isVerified?: boolean;
  readonly phoneNumber?: string | null;
}

export interface UserAdmin {
  /** JSON text `{users, count}`. */
  list(filter: UserFilter): Promise<string>;
  /** Creates a verified account, by e-mail or by user name. */
  create(caller: Caller, input: NewUser): Promise<RecordText>;
  update(caller: Caller, userId: string, change: UserChange): Promise<RecordText>;
  /** Deletes all of them or none; 404 when one is missing. */
  remove(caller: Caller, userIds: readonly string[]): Promise<void>;
  /** Blocks or unblocks all of them or none. Blocking ends their sessions. 400 when none would change, 404 when one is missing. */
  setBlocked(caller: Caller, userIds: readonly string[], blocked: boolean): Promise<void>;
  sessions(userId: string): Promise<readonly ListedSession[]>;
  /** Ends all sessions of a user; answers how many. */
  endSessions(caller: Caller, userId: string): Promise<number>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'passwords' | 'records' | 'schemas'> {
  readonly sessions: Sessions;
  readonly config: () => AuthenticationConfig;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createUserAdmin(dependencies: Dependencies): UserAdmin {
  const { database, events, passwords, records, schemas, sessions, config } = dependencies;

  const lockAll = async (transaction: Transaction, userIds: readonly string[]): Promise<void> => {
    const found = new Set(await lockUsers(transaction, userIds));
    const missing = userIds.filter((id) => !found.has(id));
    if (missing.length > 0) throw authErrors.USER_NOT_FOUND({ message: `There is no such user: ${missing.slice(0, 5).join(', ')}` });
  };

  const requireUser = async (userId: string): Promise<Credentials> => {
    const user = await credentialsById(database, userId);
    if (!user) throw authErrors.USER_NOT_FOUND();
    return user;
  };

  return {
    async list(filter) {
      const compiled = schemas.get(schema);
      if (!compiled) throw errors.UNAVAILABLE();
      return listUsers(database, compiled, filter);
    },

    async create(caller, input) {
      const names = namesOf(input);
      requireStrong(input.password, [names.email, names.username], config().passwords);
      const hashedPassword = await passwords.hash(input.password);
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await records.create(asModule, schema, { ...names, hashedPassword, isVerified: true });
          await events.emit(transaction, caller, userEvent('register', [user.id]));
          return user;
        }),
      );
    },

    async update(caller, userId, change) {
      const input = changeOf(change, await requireUser(userId));
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await records.update(asModule, schema, userId, input);
          await events.emit(transaction, caller, userEvent('update', [userId]));
          return user;
        }),
      );
    },

    async remove(caller, given) {
      const userIds = unique(given);
      await database.transaction(async (transaction) => {
        await lockAll(transaction, userIds);
        await sessions.forget(transaction, userIds);
        for (const userId of userIds) await records.remove(asModule, schema, userId);
        await events.emit(transaction, caller, userEvent('delete', userIds));
      });
    },

    async setBlocked(caller, given, blocked) {
      const userIds = unique(given);
      await database.transaction(async (transaction) => {
        await lockAll(transaction, userIds);
        const changed = await setActive(transaction, userIds, !blocked);
        if (changed.length === 0) throw blocked ? authErrors.ALREADY_BLOCKED() : authErrors.NOT_BLOCKED();
        if (blocked) await sessions.endAll(caller, changed, { reason: 'blocked' });
        await events.emit(transaction, caller, userEvent(blocked ? 'block' : 'unblock', changed));
      });
    },

    async sessions(userId) {
      await requireUser(userId);
      return liveSessions(database, userId);
    },

    async endSessions(caller, userId) {
      await requireUser(userId);
      return sessions.endAll(caller, [userId], { reason: 'revoked' });
    },
  };
}

const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids.map((id) => id.toLowerCase()))];

/** Exactly one of the two names, in its canonical form. */
function namesOf({ email, username }: NewUser): { readonly email?: string; readonly username?: string } {
  if ((email === undefined) === (username === undefined)) throw invalid('email', 'oneOf', 'give either email or username');
  return email === undefined ? { username: canonicalUsername(username ?? '') } : { email: canonicalEmail(email) };
}

/** The fields to write. A new address is unverified unless the operator says otherwise in the same call. */
function changeOf(change: UserChange, user: Credentials): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  if (change.email !== undefined) {
    const email = change.email === null ? null : canonicalEmail(change.email);
    if (email === null && user.username === null) throw invalid('email', 'required', 'an account needs an e-mail address or a user name');
    if (email !== user.email) Object.assign(input, { email, isVerified: false });
  }
  if (change.isVerified !== undefined) input.isVerified = change.isVerified;
  if (change.phoneNumber !== undefined) input.phoneNumber = change.phoneNumber === null ? null : canonicalPhoneNumber(change.phoneNumber);
  return input;
}
