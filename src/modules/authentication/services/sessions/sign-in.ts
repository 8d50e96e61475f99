/**
 * The one way into a session, whatever proved who somebody is: password, mail, phone, another provider,
 * a key. What must hold for every sign-in is checked here and nowhere else.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { remembered } from '../../../../kernel/telemetry/metrics.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsById } from '../../queries.ts';
import type { Origin } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Devices } from './login-guard.ts';
import { countSignedIn } from './queries.ts';
import {
  type PendingFactor,
  type Proof,
  pendingFactorOf,
  type SessionOpener,
  type TokenPair,
} from './session-opening.ts';

/* Figures of authentication for monitoring, 0 from the start. */

/** Existing panels ask by module. */
const labels = { module_name: 'authentication' };
/** Milliseconds; the count reads every session that goes on. */
const RENEW_MS = 30_000;

export function measureUsers({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): void {
  const read = remembered(RENEW_MS, [{ labels, value: 0 }], async () => [
    { labels, value: await countSignedIn(database) },
  ]);
  metrics.gauge(
    'logged_in_users_total',
    'Users with a session that goes on, as of the last half minute',
    read,
    ['module_name'],
  );
}

/** Counts logins by how they ended. */
function loginCounter({
  metrics,
}: Pick<Kernel, 'metrics'>): (strategy: string, outcome: string) => void {
  const logins = metrics.counter('login_requests_total', 'Logins by how they ended', [
    'module_name',
    'strategy',
    'outcome',
  ]);
  logins.inc({ ...labels, strategy: 'local', outcome: 'success' }, 0);
  return (strategy, outcome) => logins.inc({ ...labels, strategy, outcome });
}

export interface LoginAnswer extends TokenPair {
  readonly userId: string;
  /** Set while a second factor is pending: the access token then opens only the second step. */
  readonly twoFaRequired?: true;
  readonly twoFaMethod?: string;
  /** Set where there is no second factor yet: the access token then opens only its setting up. */
  readonly twoFaEnrolment?: true;
}

type LoginOutcome =
  | 'success'
  | 'firstFactor'
  | 'wrong'
  | 'blocked'
  | 'unverified'
  | 'limited'
  | 'hook';

interface RefusedAttempt {
  readonly strategy: string;
  readonly outcome: Exclude<LoginOutcome, 'success' | 'firstFactor'>;
  readonly origin: Origin;
  readonly userId?: string | undefined;
}

export interface SignIn {
  /**
   * Opens a session for an account that has proven who it is; `strategy` names how (`local`, `magic-link`,
   * a provider). Throws 403 for a blocked account and for one that must verify its address first, 401
   * when it was changed since it was read. `proof`: whether a second factor may be pending still (`oneFactor` unless set).
   */
  open(account: Credentials, origin: Origin, strategy: string, proof?: Proof): Promise<LoginAnswer>;
  /** The same for an account that is known by its id; 401 when it is gone. */
  openById(userId: string, origin: Origin, strategy: string, proof?: Proof): Promise<LoginAnswer>;
  /** Notes an attempt that did not come as far as `open`; `userId` where the account is known. */
  refused(attempt: RefusedAttempt): Promise<void>;
  /** A transaction of which `open` is a part. A refusal in it is noted after all of it was taken back. Joins another one of these. */
  within<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'metrics' | 'events'> {
  readonly openSession: SessionOpener;
  readonly securityLog: SecurityLog;
  readonly devices: Pick<Devices, 'signedIn'>;
  readonly config: () => AuthenticationConfig;
}

export function createSignIn(dependencies: Dependencies): SignIn {
  const { database, metrics, config } = dependencies;
  const count = loginCounter({ metrics });
  /** Refusals that wait for the end of their transaction. */
  const waiting = new AsyncLocalStorage<RefusedAttempt[]>();

  const noteRefusal = (attempt: RefusedAttempt): Promise<void> =>
    storeRefusal(dependencies, count, attempt);

  const refused = async (attempt: RefusedAttempt): Promise<void> => {
    const later = waiting.getStore();
    if (later) later.push(attempt);
    else await noteRefusal(attempt);
  };

  const within: SignIn['within'] = async (work) => {
    if (waiting.getStore()) return database.transaction(work);
    const refusals: RefusedAttempt[] = [];
    try {
      return await waiting.run(refusals, () =>
        database.transaction((transaction) => {
          // The work runs again after a deadlock.
          refusals.length = 0;
          return work(transaction);
        }),
      );
    } finally {
      for (const attempt of refusals) await noteRefusal(attempt);
    }
  };

  const open: SignIn['open'] = async (account, origin, strategy, proof = 'oneFactor') => {
    const { userId } = account;
    const refuse = (outcome: RefusedAttempt['outcome']): Promise<void> =>
      refused({ strategy, outcome, origin, userId });
    if (!account.active) {
      await refuse('blocked');
      throw authErrors.USER_BLOCKED();
    }
    if (mustVerify(account, config())) {
      await refuse('unverified');
      throw authErrors.EMAIL_NOT_VERIFIED();
    }
    const pending = pendingFactorOf(account, config(), proof);
    const pair = await begin(dependencies, { account, origin, strategy, pending }).catch(
      async (error: unknown) => {
        if (error instanceof PenstockError) await refuse('hook');
        throw error;
      },
    );
    if (pair === undefined) {
      await refuse('wrong');
      throw authErrors.CREDENTIALS_INVALID();
    }
    count(strategy, pending === undefined ? 'success' : 'firstFactor');
    return loginAnswer(account, pair, pending);
  };

  return {
    open,
    refused,
    within,
    openById: async (userId, origin, strategy, proof) =>
      open(await accountOf(database, userId), origin, strategy, proof),
  };
}

async function accountOf(database: Kernel['database'], userId: string): Promise<Credentials> {
  const account = await credentialsById(database, userId);
  if (!account) throw authErrors.CREDENTIALS_INVALID();
  return account;
}

async function storeRefusal(
  { database, securityLog, events }: Dependencies,
  count: ReturnType<typeof loginCounter>,
  { strategy, outcome, origin, userId }: RefusedAttempt,
): Promise<void> {
  count(strategy, outcome);
  const facts = { strategy, reason: outcome };
  // The same work for an account that there is not: only what the event names differs.
  await database.transaction(async (transaction) => {
    await securityLog.note({ action: 'login', userId, origin, outcome: 'refused', facts });
    await events.emit(
      transaction,
      anonymous,
      userEvent('loginFailed', userId === undefined ? [] : [userId], undefined, facts),
    );
  });
}

interface Beginning {
  readonly account: Parameters<SessionOpener>[0];
  readonly origin: Origin;
  readonly strategy: string;
  readonly pending: Parameters<SessionOpener>[3];
}

/** The session and what is written down about it. Throws what hooks throw. */
const begin = (
  { database, openSession, securityLog, devices }: Dependencies,
  { account, origin, strategy, pending }: Beginning,
): ReturnType<SessionOpener> =>
  database.transaction(async (transaction) => {
    const pair = await openSession(account, origin, strategy, pending);
    if (!pair) return undefined;
    // Whoever knows a password alone has not signed in where a second factor is pending.
    const action = pending === undefined ? 'login' : 'firstFactor';
    await securityLog.note({ action, userId: account.userId, origin, facts: { strategy } });
    if (pending === undefined) await devices.signedIn(transaction, account, origin);
    return pair;
  });

/** An account without an address has nothing to verify. */
const mustVerify = (
  { email, isVerified, isAnonymous }: Credentials,
  { local }: AuthenticationConfig,
): boolean => local.verification.required && email !== null && !isVerified && !isAnonymous;

/** What every sign-in answers. */
const loginAnswer = (
  { userId, twoFaMethod }: Credentials,
  pair: TokenPair,
  pending: PendingFactor | undefined,
): LoginAnswer => ({
  userId,
  ...pair,
  ...(pending === undefined ? {} : { twoFaRequired: true }),
  ...(pending === 'verify' && twoFaMethod !== null ? { twoFaMethod } : {}),
  ...(pending === 'enrol' ? { twoFaEnrolment: true } : {}),
});
