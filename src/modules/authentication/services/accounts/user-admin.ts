/** What an operator does with accounts. */

import type { RecordText } from '../../../../data/records/store.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import {
  type Credentials,
  credentialsById,
  lockContact,
  lockUsers,
  setActive,
} from '../../queries.ts';
import { userSchema } from '../../schemas.ts';
import type { SecondFactorReset } from '../credentials/credentials.ts';
import type { SecondFactorMethod } from '../credentials/queries.ts';
import type { NewPassword } from '../passwords.ts';
import { type ListedSession, liveSessions } from '../sessions/queries.ts';
import type { EndOptions, Sessions } from '../sessions/sessions.ts';
import { type OneTimeTokens, toOldAddress } from '../tokens/one-time-tokens.ts';
import type { AccountCreation, AccountErasure } from './account-lifecycle.ts';
import { canonicalEmail, canonicalPhoneNumber, canonicalUsername } from './identifiers.ts';
import { writingUser } from './user-data.ts';
import { listUsers, type UserFilter } from './user-queries.ts';

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
  /** Off takes the factor off with its secrets. On: by SMS only, since an app is enrolled by its owner. */
  readonly hasTwoFA?: boolean;
  readonly twoFaMethod?: SecondFactorMethod | null;
  /** Whether the user must set a second factor up when they sign in next. */
  readonly requiresTwoFA?: boolean;
}

export interface UserAdmin {
  /** JSON text `{users, count}`. */
  list(filter: UserFilter): Promise<string>;
  /** Creates a verified account, by e-mail or by user name. */
  create(caller: Caller, input: NewUser): Promise<RecordText>;
  /** Ends the user's sessions where their address, phone number or second factor becomes another. */
  update(caller: Caller, userId: string, change: UserChange): Promise<RecordText>;
  /** Deletes all of them or none; 404 when one is missing. */
  remove(caller: Caller, userIds: readonly string[]): Promise<void>;
  /** Blocks or unblocks all of them or none. Blocking ends their sessions. 400 when none would change, 404 when one is missing. */
  setBlocked(caller: Caller, userIds: readonly string[], blocked: boolean): Promise<void>;
  sessions(userId: string): Promise<readonly ListedSession[]>;
  /** Ends all sessions of a user; answers how many. */
  endSessions(caller: Caller, userId: string): Promise<number>;
  /** Ends one of them; 404 when they have no such session. */
  endSession(caller: Caller, userId: string, sessionId: string): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'records' | 'schemas'> {
  readonly sessions: Sessions;
  readonly creation: Pick<AccountCreation, 'create'>;
  readonly erasure: Pick<AccountErasure, 'erase'>;
  readonly secondFactor: Pick<SecondFactorReset, 'reset'>;
  readonly tokens: Pick<OneTimeTokens, 'discard'>;
  readonly newPassword: NewPassword;
  readonly requireAllowedEmail: (email: string) => void;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createUserAdmin(dependencies: Dependencies): UserAdmin {
  const {
    database,
    events,
    records,
    sessions,

    secondFactor,
    tokens,

    requireAllowedEmail,
  } = dependencies;

  const signOutAfter = async (
    transaction: Transaction,
    caller: Caller,
    input: Record<string, unknown>,
    user: Contact,
  ): Promise<void> => {
    const reason = signInChange(input, user);
    if (reason !== undefined) await sessions.endAll(caller, [user.userId], { reason });
    // Also the link with which an earlier address would take the account back.
    if (reason === 'emailChanged')
      await tokens.discard(transaction, user.userId, [...toOldAddress, 'undo-change-email']);
  };

  return {
    list: (filter) => list(dependencies, filter),

    create: (caller, input) => create(dependencies, caller, input),

    update: (caller, userId, change) =>
      writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await lockContact(transaction, userId);
          if (!user) throw authErrors.USER_NOT_FOUND();
          const input = changeOf(change, user);
          if (typeof input.email === 'string') requireAllowedEmail(input.email);
          if (user.hasTwoFA && input.hasTwoFA === false)
            await secondFactor.reset(transaction, caller, userId);
          const updated = await records.update(asModule, schema, userId, input);
          await signOutAfter(transaction, caller, input, user);
          await events.emit(transaction, caller, userEvent('update', [userId]));
          return updated;
        }),
      ),

    remove: (caller, userIds) => remove(dependencies, caller, userIds),

    setBlocked: (caller, userIds, blocked) => setBlocked(dependencies, caller, userIds, blocked),

    sessions: (userId) => sessionsOf(dependencies, userId),

    async endSessions(caller, userId) {
      await requireUser(dependencies, userId);
      return sessions.endAll(caller, [userId], { reason: 'revoked' });
    },

    endSession: (caller, userId, sessionId) =>
      sessions.endOf(caller, userId.toLowerCase(), sessionId),
  };
}

async function lockAll(transaction: Transaction, userIds: readonly string[]): Promise<void> {
  const found = new Set(await lockUsers(transaction, userIds));
  const missing = userIds.filter((id) => !found.has(id));
  if (missing.length > 0)
    throw authErrors.USER_NOT_FOUND({
      message: `There is no such user: ${missing.slice(0, 5).join(', ')}`,
    });
}

async function requireUser({ database }: Dependencies, userId: string): Promise<Credentials> {
  const user = await credentialsById(database, userId);
  if (!user) throw authErrors.USER_NOT_FOUND();
  return user;
}

async function list({ schemas, database }: Dependencies, filter: UserFilter): Promise<string> {
  const compiled = schemas.get(schema);
  if (!compiled) throw errors.UNAVAILABLE();
  return listUsers(database, compiled, filter);
}

async function create(
  { newPassword, creation }: Dependencies,
  caller: Caller,
  input: NewUser,
): Promise<RecordText> {
  const names = namesOf(input);
  const hashedPassword = await newPassword(input.password, [names.email, names.username]);
  return creation.create(caller, {
    ...names,
    strategy: 'admin',
    hashedPassword,
    isVerified: true,
  });
}

async function remove(
  { database, erasure }: Dependencies,
  caller: Caller,
  given: readonly string[],
): Promise<void> {
  const userIds = unique(given);
  await database.transaction(async (transaction) => {
    await lockAll(transaction, userIds);
    await erasure.erase(transaction, caller, userIds);
  });
}

async function setBlocked(
  { database, sessions, events }: Dependencies,
  caller: Caller,
  given: readonly string[],
  blocked: boolean,
): Promise<void> {
  const userIds = unique(given);
  await database.transaction(async (transaction) => {
    await lockAll(transaction, userIds);
    const changed = await setActive(transaction, userIds, !blocked);
    if (changed.length === 0)
      throw blocked ? authErrors.USER_ALREADY_BLOCKED() : authErrors.USER_NOT_BLOCKED();
    if (blocked) await sessions.endAll(caller, changed, { reason: 'blocked' });
    await events.emit(transaction, caller, userEvent(blocked ? 'block' : 'unblock', changed));
  });
}

async function sessionsOf(
  dependencies: Dependencies,
  userId: string,
): Promise<readonly ListedSession[]> {
  const { database } = dependencies;
  await requireUser(dependencies, userId);
  return liveSessions(database, userId);
}

const unique = (ids: readonly string[]): readonly string[] => [
  ...new Set(ids.map((id) => id.toLowerCase())),
];

/** Exactly one of the two names, in its canonical form. */
function namesOf({ email, username }: NewUser): {
  readonly email?: string;
  readonly username?: string;
} {
  if ((email === undefined) === (username === undefined))
    throw invalid('email', 'oneOf', 'give either email or username');
  return email === undefined
    ? { username: canonicalUsername(username ?? '') }
    : { email: canonicalEmail(email) };
}

type Contact = NonNullable<Awaited<ReturnType<typeof lockContact>>>;

/** The fields to write: those that differ. A new address is unverified unless the operator says otherwise in the same call. */
function changeOf(change: UserChange, user: Contact): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  if (change.email !== undefined) {
    const email = change.email === null ? null : canonicalEmail(change.email);
    if (email !== user.email) {
      if (email === null && user.username === null)
        throw invalid('email', 'required', 'an account needs an e-mail address or a user name');
      Object.assign(input, { email, isVerified: false });
    }
  }
  if (change.isVerified !== undefined) input.isVerified = change.isVerified;
  if (change.requiresTwoFA !== undefined) input.requiresTwoFA = change.requiresTwoFA;
  if (change.phoneNumber !== undefined)
    input.phoneNumber =
      change.phoneNumber === null ? null : canonicalPhoneNumber(change.phoneNumber);
  return {
    ...input,
    ...secondFactorOf(
      change,
      user,
      input.phoneNumber === undefined ? user.phoneNumber : input.phoneNumber,
    ),
  };
}

/** Why sessions end: they were opened with another address, phone or second factor than the account has now. */
function signInChange(
  input: Record<string, unknown>,
  user: Contact,
): EndOptions['reason'] | undefined {
  const changes = (name: 'email' | 'phoneNumber' | 'hasTwoFA' | 'twoFaMethod'): boolean =>
    name in input && input[name] !== user[name];
  if (changes('email')) return 'emailChanged';
  return changes('phoneNumber') || changes('hasTwoFA') || changes('twoFaMethod')
    ? 'factorsChanged'
    : undefined;
}

/** What becomes of the second factor. Throws 400 for one that could not be used: the user would be locked out. */
function secondFactorOf(
  change: UserChange,
  user: Contact,
  phoneNumber: unknown,
): Record<string, unknown> {
  const hasTwoFA = change.hasTwoFA ?? user.hasTwoFA;
  if (!hasTwoFA) return { hasTwoFA, twoFaMethod: null };
  const method = change.twoFaMethod === undefined ? user.twoFaMethod : change.twoFaMethod;
  if (method === 'sms' && (phoneNumber === null || phoneNumber === undefined)) {
    throw invalid('phoneNumber', 'required', 'a second factor by SMS needs a phone number');
  }
  const enrolled = user.hasTwoFA && user.twoFaMethod === method;
  if (!enrolled && method !== 'sms') {
    throw invalid(
      'twoFaMethod',
      'enum',
      'only sms can be set here: an authenticator or a passkey is enrolled by the user themselves',
    );
  }
  return { hasTwoFA, twoFaMethod: method };
}
