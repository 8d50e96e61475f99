/**
 * The one function that makes users, whichever way they come: local registration, another provider,
 * phone, anonymous, an operator, another module. It also turns an anonymous user into a registered one,
 * in place. Everything that belongs to it (team, mail, event) happens in the same transaction.
 */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { RecordText } from '../../../kernel/records/store.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { lockAnonymousUser } from '../queries.ts';
import { userSchema } from '../schemas.ts';
import { inTime } from './in-time.ts';
import { decidedByOthers } from './strategies.ts';
import { requireHimself } from './sudo.ts';
import { allowedUserData, extensionFields, type UserDataConfig, writingUser } from './user-data.ts';

export interface NewAccount {
  /** How it comes to be: `local`, `anonymous`, `phone`, `admin`, `internal`, or the name of a provider. */
  readonly strategy: string;
  /** Names in canonical form (`canonicalEmail`, `canonicalUsername`). */
  readonly email?: string;
  readonly username?: string;
  readonly phoneNumber?: string;
  readonly hashedPassword?: string;
  /** Whether the address is proven. */
  readonly isVerified?: boolean;
  readonly isAnonymous?: boolean;
  /** Fields by which the schema User was extended. */
  readonly userData?: Readonly<Record<string, unknown>>;
  readonly invitationToken?: string;
  /** The anonymous user that becomes this account. */
  readonly upgrades?: string;
}

/** What a hook adds to the account before it is written, and what it does once it is. */
export interface Admission {
  readonly isVerified?: boolean;
  /** Fields that the account gets where the person gives none himself. */
  readonly userData?: Readonly<Record<string, unknown>>;
  registered?(userId: string): Promise<void>;
}

/** Runs in the transaction of each registration, before the user is written. A throw refuses it, and nothing of it has happened. */
export type RegistrationHook = (transaction: Transaction, caller: Caller, account: NewAccount) => Promise<Admission | undefined>;

export interface AccountCreation {
  /**
   * Writes the account; joins the ambient transaction. Throws 409 where a name is taken, 400 for an
   * address that the restrictions refuse and for wrong userData, 403 for an operator who would register
   * the anonymous user he acts as, and whatever a hook throws.
   */
  create(caller: Caller, account: NewAccount): Promise<RecordText>;
  /** Adds a hook; hooks run in the order in which they came. Answers how to take it away. */
  onRegistration(hook: RegistrationHook): () => void;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'records' | 'schemas'> {
  /** Throws EMAIL_NOT_ALLOWED. */
  readonly requireAllowedEmail: (email: string) => void;
  readonly userDataConfig: () => UserDataConfig;
  readonly log: Logger;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createAccountCreation(dependencies: Dependencies): AccountCreation {
  const { database, events, records, schemas, requireAllowedEmail, userDataConfig, log } = dependencies;
  const hooks: RegistrationHook[] = [];

  /** The account with what the hooks add; what the person says himself goes before what an invitation says about him. */
  const admit = async (transaction: Transaction, caller: Caller, account: NewAccount) => {
    const admissions: Admission[] = [];
    for (const hook of hooks) {
      const admission = await inTime(hook(transaction, caller, account), log);
      if (admission) admissions.push(admission);
    }
    const isVerified = account.isVerified === true || admissions.some((admission) => admission.isVerified);
    const userData = { ...known(...admissions.map((admission) => admission.userData)), ...account.userData };
    return { admissions, admitted: { ...account, isVerified, userData } };
  };

  /** What hooks say about fields that there are. */
  const known = (...given: readonly NewAccount['userData'][]): Record<string, unknown> => {
    const names = extensionFields(schemas);
    return Object.fromEntries(given.flatMap((data) => Object.entries(data ?? {})).filter(([name]) => names.has(name)));
  };

  const write = async (transaction: Transaction, account: NewAccount): Promise<RecordText> => {
    const { email, username, phoneNumber, hashedPassword, isVerified = false, isAnonymous = false, upgrades } = account;
    const names = Object.fromEntries(
      Object.entries({ email, username, phoneNumber, hashedPassword }).filter(([, value]) => value !== undefined),
    );
    const input = { ...account.userData, ...names, isVerified, isAnonymous };
    if (upgrades === undefined) return records.create(asModule, schema, input);
    if (!(await lockAnonymousUser(transaction, upgrades))) throw authErrors.NOT_ANONYMOUS();
    return records.update(asModule, schema, upgrades, input);
  };

  return {
    async create(caller, account) {
      if (account.upgrades !== undefined && caller.kind === 'user') requireHimself(caller);
      // An anonymous user has an address of the reserved domain, which nobody can register.
      if (account.email !== undefined && !account.isAnonymous) requireAllowedEmail(account.email);
      const writer = decidedByOthers.has(account.strategy) ? undefined : { config: userDataConfig() };
      if (account.userData) allowedUserData(schemas, account.userData, writer);
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const { admissions, admitted } = await admit(transaction, caller, account);
          const user = await write(transaction, admitted);
          for (const admission of admissions) await admission.registered?.(user.id);
          await events.emit(transaction, caller, userEvent('register', [user.id], undefined, { strategy: account.strategy }));
          return user;
        }),
      );
    },
    onRegistration(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}
