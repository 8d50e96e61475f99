/**
 * The one function that makes users, whichever way they come: local registration, another provider,
 * phone, anonymous, an operator, another module. It also turns an anonymous user into a registered one,
 * in place. Everything that belongs to it (team, mail, event) happens in the same transaction.
 */

import type { RecordText } from '../../../../data/records/store.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import { type Caller, system } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { type SignUpHookValue, signUpPoint } from '../../../../kernel/hooks/points.ts';
import { forgetAnswersTo } from '../../../../kernel/pipeline/idempotency/idempotency.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { lockAnonymousUser } from '../../queries.ts';
import { userSchema } from '../../schemas.ts';
import { decidedByOthers, type OwnStrategy } from '../../strategies.ts';
import { forbidImpersonation } from '../caller-checks.ts';
import type { Origin } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';
import { withTimeout } from '../transactions.ts';
import { anonymousDomain } from './identifiers.ts';
import { allowedUserData, extensionFields, type UserDataConfig, writingUser } from './user-data.ts';
import { idleAnonymousUsers } from './user-queries.ts';

/* The one function that deletes users, with everything that is theirs, in one transaction. */

/** Deletes what another part keeps about these users; runs before their rows go. */
export type ErasureHook = (transaction: Transaction, userIds: readonly string[]) => Promise<void>;

export interface AccountErasure {
  /** For users whose rows the transaction has locked (`lockUsers`). Their sessions end on every node when it commits. */
  erase(transaction: Transaction, caller: Caller, userIds: readonly string[]): Promise<void>;
  /** Adds a hook; answers how to take it away. */
  onErasure(hook: ErasureHook): () => void;
}

interface ErasureDependencies extends Pick<Kernel, 'events' | 'records'> {
  readonly sessions: Sessions;
  readonly messages: Pick<Messages, 'forgetUsers'>;
}

export function createAccountErasure({
  events,
  records,
  sessions,
  messages,
}: ErasureDependencies): AccountErasure {
  const hooks: ErasureHook[] = [];
  return {
    async erase(transaction, caller, userIds) {
      await sessions.forget(transaction, userIds);
      for (const hook of hooks) await hook(transaction, userIds);
      await messages.forgetUsers(transaction, userIds);
      await forgetAnswersTo(transaction, userIds);
      // Sessions, tokens and linked identities go with the row (foreign keys).
      for (const userId of userIds)
        await records.remove(system('authentication'), userSchema.name, userId);
      await events.emit(transaction, caller, userEvent('delete', userIds));
    },
    onErasure(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}

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
  /** The address that hooks are asked about, where the account is made only for show. */
  readonly presentedEmail?: string;
}

/** What a hook adds to the account before it is written, and what it does once it is. */
interface Admission {
  readonly isVerified?: boolean;
  /** Fields that the account gets where the person gives none themselves. */
  readonly userData?: Readonly<Record<string, unknown>>;
  registered?(userId: string): Promise<void>;
}

/** Runs in the transaction of each registration, before the user is written. A throw refuses it, and nothing of it has happened. */
export type RegistrationHook = (
  transaction: Transaction,
  caller: Caller,
  account: NewAccount,
) => Promise<Admission | undefined>;

export interface AccountCreation {
  /**
   * Writes the account; joins the ambient transaction. Throws 409 where a name is taken, 400 for an
   * address that the restrictions refuse and for wrong userData, 403 for an operator who would register
   * the anonymous user they act as, and whatever a hook throws.
   */
  create(caller: Caller, account: NewAccount): Promise<RecordText>;
  /** Adds a hook; hooks run in the order in which they came. Answers how to take it away. */
  onRegistration(hook: RegistrationHook): () => void;
}

interface CreationDependencies
  extends Pick<Kernel, 'database' | 'events' | 'records' | 'schemas' | 'hooks'> {
  /** Throws EMAIL_NOT_ALLOWED. */
  readonly requireAllowedEmail: (email: string) => void;
  readonly tokens: Pick<OneTimeTokens, 'newest'>;
  readonly userDataConfig: () => UserDataConfig;
  readonly log: Logger;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createAccountCreation(dependencies: CreationDependencies): AccountCreation {
  const { database, events, schemas, requireAllowedEmail, userDataConfig, log } = dependencies;
  const hooks: RegistrationHook[] = [];

  /** The account with what the hooks add; what the person says themselves goes before what an invitation says about them. */
  const admit = async (transaction: Transaction, caller: Caller, account: NewAccount) => {
    const admissions: Admission[] = [];
    for (const hook of hooks) {
      const admission = await withTimeout(hook(transaction, caller, account), log);
      if (admission) admissions.push(admission);
    }
    const isVerified =
      account.isVerified === true || admissions.some((admission) => admission.isVerified);
    const userData = {
      ...known(...admissions.map((admission) => admission.userData)),
      ...account.userData,
    };
    return { admissions, admitted: { ...account, isVerified, userData } };
  };

  /** What hooks say about fields that there are. */
  const known = (...given: readonly NewAccount['userData'][]): Record<string, unknown> => {
    const names = extensionFields(schemas);
    return Object.fromEntries(
      given.flatMap((data) => Object.entries(data ?? {})).filter(([name]) => names.has(name)),
    );
  };

  return {
    async create(caller, account) {
      if (account.upgrades !== undefined && caller.kind === 'user') forbidImpersonation(caller);
      // An anonymous user has an address of the reserved domain, which nobody can register.
      if (account.email !== undefined && !account.isAnonymous) requireAllowedEmail(account.email);
      const writer = decidedByOthers.has(account.strategy)
        ? undefined
        : { config: userDataConfig() };
      if (account.userData) allowedUserData(schemas, account.userData, writer);
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const { admissions, admitted } = await admit(transaction, caller, account);
          await requireUnreserved(dependencies, transaction, admitted);
          const user = await write(
            dependencies,
            transaction,
            await askHooks(dependencies, caller, admitted),
          );
          for (const admission of admissions) await admission.registered?.(user.id);
          await events.emit(
            transaction,
            caller,
            userEvent('register', [user.id], undefined, { strategy: account.strategy }),
          );
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

/**
 * An address that can take a change back belongs to the account that had it (decision 390). Whoever has proven that they
 * read its mail may have it all the same: they hold the link too.
 */
async function requireUnreserved(
  { tokens }: CreationDependencies,
  transaction: Transaction,
  { email, isVerified }: NewAccount,
): Promise<void> {
  if (email === undefined || isVerified) return;
  if (await tokens.newest(transaction, 'undo-change-email', email)) throw authErrors.USER_EXISTS();
}

/** The account as the hooks of operators left it. Throws what they refuse with, and 400 for fields that there are not. */
async function askHooks(
  { hooks, schemas }: CreationDependencies,
  caller: Caller,
  account: NewAccount,
): Promise<NewAccount> {
  if (!hooks.has(signUpPoint)) return account;
  const { strategy, email, presentedEmail, username, phoneNumber, upgrades } = account;
  const userData = account.userData ?? {};
  const answer = await hooks.run<SignUpHookValue>(signUpPoint, caller, {
    ...{ strategy, email: presentedEmail ?? email, username, phoneNumber, upgrades, userData },
    isVerified: account.isVerified === true,
    isAnonymous: account.isAnonymous === true,
    invited: account.invitationToken !== undefined,
  });
  if (answer.userData === userData) return account;
  return { ...account, userData: allowedUserData(schemas, answer.userData) };
}

async function write(
  { records }: CreationDependencies,
  transaction: Transaction,
  account: NewAccount,
): Promise<RecordText> {
  const {
    email,
    username,
    phoneNumber,
    hashedPassword,
    isVerified = false,
    isAnonymous = false,
    upgrades,
  } = account;
  const names = Object.fromEntries(
    Object.entries({ email, username, phoneNumber, hashedPassword }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  const input = { ...account.userData, ...names, isVerified, isAnonymous };
  if (upgrades === undefined) return records.create(asModule, schema, input);
  if (!(await lockAnonymousUser(transaction, upgrades))) throw authErrors.USER_NOT_ANONYMOUS();
  return records.update(asModule, schema, upgrades, input);
}

/*
 * Users without a name: made by the app at first sight, registered later in place (`AccountCreation.create`
 * with `upgrades`), deleted when nobody has used them for long.
 */

export interface AnonymousUsers {
  /** Makes one and signs them in. Throws 400 for wrong userData. */
  create(
    caller: Caller,
    userData: Readonly<Record<string, unknown>>,
    origin: Origin,
  ): Promise<LoginAnswer>;
  /** Deletes up to `limit` whose last sign of life is longer ago than the configuration allows; answers how many. */
  expire(limit: number): Promise<number>;
}

interface AnonymousDependencies extends Pick<Kernel, 'database'> {
  readonly creation: Pick<AccountCreation, 'create'>;
  readonly erasure: Pick<AccountErasure, 'erase'>;
  readonly signIn: SignIn;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

const strategy: OwnStrategy = 'anonymous';

export function createAnonymousUsers({
  database,
  creation,
  erasure,
  signIn,
  securityLog,
  config,
}: AnonymousDependencies): AnonymousUsers {
  return {
    create: (caller, userData, origin) =>
      signIn.within(async () => {
        const email = `${crypto.randomUUID()}@${anonymousDomain}`;
        const { id } = await creation.create(caller, {
          strategy,
          email,
          isAnonymous: true,
          userData,
        });
        await securityLog.note({ action: 'register', userId: id, origin, facts: { strategy } });
        return signIn.openById(id, origin, strategy);
      }),
    expire: (limit) =>
      database.transaction(async (transaction) => {
        const userIds = await idleAnonymousUsers(
          transaction,
          config().anonymousUsers.expiry,
          limit,
        );
        if (userIds.length > 0) await erasure.erase(transaction, system('authentication'), userIds);
        return userIds.length;
      }),
  };
}
