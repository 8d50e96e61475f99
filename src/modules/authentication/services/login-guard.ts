/**
 * The budget of wrong passwords. It belongs to the pair of account and address, so that nobody can lock
 * out somebody else; three windows of growing length make each further guess wait longer. A try is
 * paid for before the password is checked (parallel guesses cannot exceed the budget) and a success
 * gives everything back.
 *
 * Many addresses together may guess no more than a hundred times in a row (NIST SP 800-63B-4, 3.2.2). After
 * that only addresses from which the owner has signed in before may go on, each within its own budget, and
 * the owner is told. What is answered never depends on whether there is such an account.
 *
 * An account has its budgets once more under its own id, since it may have two names (address and user name) and
 * guesses at either are guesses at it. Those are kept in silence: a 429 at a name that nobody has tried yet would
 * tell whose second name it is.
 */

import type { PenstockError } from '../../../kernel/errors.ts';
import type { Claim, DurableLimits } from '../../../kernel/limits/durable.ts';
import type { LimitBucket, LimitState } from '../../../kernel/limits/limits.ts';
import { addressKey } from '../../../kernel/operations/limits.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import type { Metrics } from '../../../kernel/telemetry/metrics.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import type { Credentials } from '../queries.ts';
import type { Devices } from './devices.ts';

/** One try at a password. */
export interface PasswordAttempt {
  /** The canonical name at which it is made. */
  readonly name: string;
  /** Whose name that is, if anybody's. */
  readonly account: Pick<Credentials, 'userId' | 'email'> | undefined;
  /** Where it comes from. */
  readonly address: string;
}

export interface LoginGuard {
  /**
   * Pays for one try; throws 429 with `Retry-After` when the budget of the name is spent. False when that of the
   * account is, by way of its other name: to be answered like a wrong password, after the same work.
   */
  enter(attempt: PasswordAttempt): Promise<boolean>;
  /** The password was right: the budgets are whole again. */
  succeeded(attempt: PasswordAttempt): Promise<void>;
}

interface Dependencies {
  readonly durableLimits: DurableLimits;
  readonly metrics: Metrics;
  readonly devices: Pick<Devices, 'knows'>;
  readonly lockout: () => AuthenticationConfig['lockout'];
  /** Asks for the mail to the owner, whether or not somebody has this address. */
  readonly warnOwner: (email: string) => Promise<void>;
}

/** Each window: how many times the configured number, in how many seconds. */
const windows = [
  { name: 'minute', factor: 1, seconds: 60 },
  { name: 'quarter', factor: 2, seconds: 15 * 60 },
  { name: 'hours', factor: 4, seconds: 6 * 60 * 60 },
] as const;
const day = 24 * 60 * 60;

export function createLoginGuard({ durableLimits, metrics, devices, lockout, warnOwner }: Dependencies): LoginGuard {
  const refusals = metrics.counter('login_lockouts_total', 'Attempts that were refused because too many before them failed', ['scope']);

  const buckets = (): readonly LimitBucket[] =>
    windows.map(({ name, factor, seconds }) => ({
      name: `authentication.failures.${name}`,
      requests: lockout().failures * factor,
      seconds,
    }));
  const everywhere = (): LimitBucket => ({ name: 'authentication.failures.account', requests: lockout().accountFailures, seconds: day });

  const refused = (scope: 'address' | 'account', { resetMs }: LimitState): PenstockError => {
    refusals.inc({ scope });
    return authErrors.TOO_MANY_FAILURES({ retryAfter: Math.max(1, Math.ceil(resetMs / 1000)) });
  };

  /** The windows of a name or account at an address, and all its failures of a day. */
  const claimsOf = (name: string, address: string): readonly Pick<Claim, 'bucket' | 'key'>[] => [
    ...buckets().map((bucket) => ({ bucket, key: keyOf(name, address) })),
    { bucket: everywhere(), key: sha256(name) },
  ];

  const judgeName = async ({ name, address }: PasswordAttempt, states: readonly LimitState[]): Promise<void> => {
    const spent = states.slice(0, windows.length).find(({ allowed }) => !allowed);
    if (spent) throw refused('address', spent);
    const all = states[windows.length];
    if (all && !all.allowed && !(await devices.knows(name, address))) throw refused('account', all);
  };

  const judgeAccount = async ({ name, account, address }: PasswordAttempt, states: readonly LimitState[]): Promise<boolean> => {
    const all = states[windows.length];
    if (all?.allowed && all.remaining === 0) await warnOwner(account?.email ?? name);
    const here = states.slice(0, windows.length);
    return here.every(({ allowed }) => allowed) && (all?.allowed === true || (await devices.knows(account?.userId ?? name, address)));
  };

  return {
    async enter(attempt) {
      const byName = claimsOf(attempt.name, attempt.address).map((claim, place) => ({ ...claim, stops: place < windows.length }));
      const states = await durableLimits.consumeAll([...byName, ...claimsOf(idOf(attempt), attempt.address)]);
      await judgeName(attempt, states.slice(0, byName.length));
      return judgeAccount(attempt, states.slice(byName.length));
    },
    succeeded: (attempt) => durableLimits.reset(...claimsOf(attempt.name, attempt.address), ...claimsOf(idOf(attempt), attempt.address)),
  };
}

/** What the budgets of an account go by. Names that nobody has cost the same work. */
const idOf = ({ name, account }: PasswordAttempt): string => `account:${account?.userId ?? name}`;

/** One key per name and network; holds neither of them in clear. */
const keyOf = (name: string, address: string): string => sha256(`${name}\n${addressKey(address)}`);

/** A try of somebody whose account is known: it costs the same budget as one at his login. */
export const attemptAt = (account: Pick<Credentials, 'email' | 'username' | 'userId'>, address: string): PasswordAttempt => ({
  name: account.email ?? account.username ?? account.userId,
  account,
  address,
});
