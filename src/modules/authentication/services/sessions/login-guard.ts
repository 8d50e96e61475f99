/**
 * The quota of wrong passwords. It belongs to the pair of account and address, so that nobody can lock
 * out somebody else; three windows of growing length make each further guess wait longer. A try is
 * paid for before the password is checked (parallel guesses cannot exceed the quota) and a success
 * gives everything back.
 *
 * Many addresses together may guess no more than a hundred times in a row (NIST SP 800-63B-4, 3.2.2). After
 * that only addresses from which the owner has signed in before may go on, each within its own quota, and
 * the owner is told. What is answered never depends on whether there is such an account.
 *
 * An account has its quotas once more under its own id, since it may have two names (address and user name) and
 * guesses at either are guesses at it. Those are kept in silence: a 429 at a name that nobody has tried yet would
 * tell whose second name it is.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import { addressKey } from '../../../../kernel/caller.ts';
import type { Database, Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import type { PenstockError } from '../../../../kernel/errors.ts';
import {
  attemptsExhausted,
  type Claim,
  type DurableLimits,
} from '../../../../kernel/limits/durable-limits.ts';
import type { LimitBucket, LimitState } from '../../../../kernel/limits/limits.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { Metrics } from '../../../../kernel/telemetry/metrics.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import type { Credentials } from '../../queries.ts';
import type { MailRequests } from '../mail/mail-requests.ts';
import type { Notices } from '../mail/notices.ts';
import { deviceName, type Origin } from '../origin.ts';

/* The SQL of places where users have signed in before. Values are always parameters. */

interface DeviceRow {
  readonly userId: string;
  readonly device: string;
  readonly network: string;
  readonly address: string;
}

/** Notes a sign-in. `known`: somebody signed in from there before; `others`: at least from somewhere else. */
async function noteDevice(
  database: Queryable,
  row: DeviceRow,
): Promise<{ readonly known: boolean; readonly others: boolean }> {
  const { rows } = await database.query<{ known: boolean; others: boolean }>(sql`
    with before as (select device, network from penstock.known_devices where user_id = ${row.userId}::uuid),
    noted as (
      insert into penstock.known_devices (user_id, device, network, address)
      values (${row.userId}::uuid, ${row.device}, ${row.network}, ${row.address})
      on conflict (user_id, device, network) do update set address = excluded.address, seen_at = now()
    )
    select coalesce(bool_or(device = ${row.device} and network = ${row.network}), false) as known, count(*) > 0 as others from before`);
  return rows[0] ?? { known: false, others: false };
}

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * Whether the owner of an account has signed in from this address before. `name`: as at login, or the user's id. Asked
 * while an account is under attack, so each way to name it has its index.
 */
const isKnownAddress = async (
  database: Queryable,
  name: string,
  address: string,
): Promise<boolean> =>
  (
    await database.query(sql`
      select 1 from "app"."User" u join penstock.known_devices d on d.user_id = u."_id"
      where (u."email" = ${name} or u."username" = ${name} or u."_id" = ${uuid.test(name) ? name : null}::uuid) and d.address = ${address}
      limit 1`)
  ).count > 0;

/** Forgets up to `limit` places that were not used for half a year; answers how many. */
export const purgeDevices = async (database: Queryable, limit: number): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.known_devices where ctid = any(array(
        select ctid from penstock.known_devices where seen_at < now() - interval '180 days' limit ${limit}::integer))`)
  ).count;

/* Where users sign in from: remembered, so that a sign-in from somewhere new is told to the owner (ASVS 6.3.5). */

export interface Devices {
  /** For the transaction of a complete sign-in. Tells the owner by mail when neither the first nor a known device was used. */
  signedIn(transaction: Transaction, account: Credentials, origin: Origin): Promise<void>;
  /** Whether the owner of an account signed in from this address before. `name`: as at login. */
  knows(name: string, address: string): Promise<boolean>;
}

interface DeviceDependencies {
  readonly database: Database;
  readonly notices: Notices;
  readonly config: () => AuthenticationConfig;
}

const createDevices = ({ database, notices, config }: DeviceDependencies): Devices => ({
  async signedIn(transaction, account, { address, userAgent }) {
    const device = deviceName(userAgent);
    const place = { device, network: networkOf(address), address: addressKey(address) };
    const { known, others } = await noteDevice(transaction, { userId: account.userId, ...place });
    if (known || !others || !config().sessions.newDeviceNotice) return;
    await notices.send(transaction, account, 'NewDevice', {
      device,
      address,
      time: new Date().toISOString(),
    });
  },
  knows: (name, address) => isKnownAddress(database, name, addressKey(address)),
});

/** About what one provider gives to one region: people move within it. IPv4 /16, IPv6 /32. */
function networkOf(address: string): string {
  const [first = '', second = ''] = addressKey(address).split(/[.:]/);
  return `${first}.${second}`;
}

/** One try at a password. */
interface PasswordAttempt {
  /** The canonical name at which it is made. */
  readonly name: string;
  /** Whose name that is, if anybody's. */
  readonly account: Pick<Credentials, 'userId' | 'email'> | undefined;
  /** Where it comes from. */
  readonly address: string;
}

export interface LoginGuard {
  /**
   * Pays for one try; throws 429 with `Retry-After` when the quota of the name is spent. False when that of the
   * account is, by way of its other name: to be answered like a wrong password, after the same work.
   */
  enter(attempt: PasswordAttempt): Promise<boolean>;
  /** The password was right: the quotas are whole again. */
  succeeded(attempt: PasswordAttempt): Promise<void>;
}

interface GuardDependencies {
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

function createLoginGuard(dependencies: GuardDependencies): LoginGuard {
  const { durableLimits, metrics, devices, lockout } = dependencies;
  const refusals = metrics.counter(
    'login_lockouts_total',
    'Attempts that were refused because too many before them failed',
    ['scope'],
  );

  const everywhere = (): LimitBucket => ({
    name: 'authentication.failures.account',
    requests: lockout().accountFailures,
    seconds: day,
  });

  const refused = (scope: 'address' | 'account', { resetMs }: LimitState): PenstockError => {
    refusals.inc({ scope });
    return attemptsExhausted(resetMs);
  };

  /** The windows of a name or account at an address, and all its failures of a day. */
  const claimsOf = (name: string, address: string): readonly Pick<Claim, 'bucket' | 'key'>[] => [
    ...buckets(dependencies).map((bucket) => ({ bucket, key: keyOf(name, address) })),
    { bucket: everywhere(), key: sha256(name) },
  ];

  const judgeName = async (
    { name, address }: PasswordAttempt,
    states: readonly LimitState[],
  ): Promise<void> => {
    const spent = states.slice(0, windows.length).find(({ allowed }) => !allowed);
    if (spent) throw refused('address', spent);
    const all = states[windows.length];
    if (all && !all.allowed && !(await devices.knows(name, address))) throw refused('account', all);
  };

  return {
    async enter(attempt) {
      const byName = claimsOf(attempt.name, attempt.address).map((claim, place) => ({
        ...claim,
        stops: place < windows.length,
      }));
      const states = await durableLimits.consumeAll([
        ...byName,
        ...claimsOf(idOf(attempt), attempt.address),
      ]);
      await judgeName(attempt, states.slice(0, byName.length));
      return judgeAccount(dependencies, attempt, states.slice(byName.length));
    },
    succeeded: (attempt) =>
      durableLimits.reset(
        ...claimsOf(attempt.name, attempt.address),
        ...claimsOf(idOf(attempt), attempt.address),
      ),
  };
}

function buckets({ lockout }: GuardDependencies): readonly LimitBucket[] {
  return windows.map(({ name, factor, seconds }) => ({
    name: `authentication.failures.${name}`,
    requests: lockout().failures * factor,
    seconds,
  }));
}

async function judgeAccount(
  { warnOwner, devices }: GuardDependencies,
  { name, account, address }: PasswordAttempt,
  states: readonly LimitState[],
): Promise<boolean> {
  const all = states[windows.length];
  if (all?.allowed && all.remaining === 0) await warnOwner(account?.email ?? name);
  const here = states.slice(0, windows.length);
  return (
    here.every(({ allowed }) => allowed) &&
    (all?.allowed === true || (await devices.knows(account?.userId ?? name, address)))
  );
}

/** What the quotas of an account go by. Names that nobody has cost the same work. */
const idOf = ({ name, account }: PasswordAttempt): string => `account:${account?.userId ?? name}`;

/** One key per name and network; holds neither of them in clear. */
const keyOf = (name: string, address: string): string => sha256(`${name}\n${addressKey(address)}`);

/** A try of somebody whose account is known: it costs the same quota as one at their login. */
export const attemptAt = (
  account: Pick<Credentials, 'email' | 'username' | 'userId'>,
  address: string,
): PasswordAttempt => ({
  name: account.email ?? account.username ?? account.userId,
  account,
  address,
});

/* Puts together what holds back whoever tries to get into accounts that are not theirs. */

interface Foundation extends Pick<Kernel, 'database' | 'durableLimits' | 'metrics'> {
  readonly requests: MailRequests;
  readonly notices: Notices;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly config: () => AuthenticationConfig;
}

export function createLoginProtection(foundation: Foundation) {
  const { requests, messages, config } = foundation;
  const devices = createDevices(foundation);
  requests.handle('manyFailures', (transaction, { userId, email }) =>
    messages.sendEmail(transaction, {
      ...{ module: 'authentication', template: 'ManyFailures' },
      ...{ to: email, userId, variables: {} },
    }),
  );
  const warnOwner = (email: string) => requests.request('manyFailures', email);
  return {
    devices,
    loginGuard: createLoginGuard({
      ...foundation,
      devices,
      lockout: () => config().lockout,
      warnOwner,
    }),
  };
}
