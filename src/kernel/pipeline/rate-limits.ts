/**
 * Rate limits of operations (design.md section 9, spec/router.md 5.5): one
 * standard budget for everything a caller does, and budgets of single
 * operations that guess or send something.
 */

import { addressKey, type Caller, callerKey } from '../caller.ts';
import { errors, type PenstockError } from '../errors.ts';
import { capacityOf, type LimitBucket, type LimitState, type Limits } from '../limits/limits.ts';
import type { Operation, RateLimit, SurfaceName } from '../operations/operation.ts';
import { cutText } from '../text.ts';

export interface LimitSettings {
  /** Budget of everything, per user, else per address. */
  readonly standard: Pick<LimitBucket, 'requests' | 'seconds' | 'burst'>;
  /** The same of one signed-in user, where that is another one. */
  readonly perUser?: LimitSettings['standard'] | undefined;
  /** How many people an address stands for where an operation has a limit of its own; 10 unless set. */
  readonly peoplePerAddress?: number | undefined;
  /** Where all of these are counted, and what holds while that does not answer. */
  readonly counting?: Pick<LimitBucket, 'local' | 'failClosed'>;
}

/** Read for each request, so that a change of configuration holds at once. Answer the same object until something changed. */
export type LimitSettingsProvider = () => LimitSettings;

const defaults: LimitSettings = { standard: { requests: 300, seconds: 1 } };
export const defaultLimitSettings: LimitSettingsProvider = () => defaults;

/** An office, a school, or a server that renders pages has one address for all its people. */
const defaultPeople = 10;

/** For whom something is counted. */
interface Subject {
  readonly key: string;
  readonly kind: Caller['kind'];
}

export interface OperationLimiter {
  /**
   * Standard budget and, for operations with a limit of their own, the part that needs no body. Throws 429.
   * `prepaid`: the request has paid the standard budget already, for the first of the calls that it holds.
   */
  admit(
    operation: Operation,
    caller: Caller,
    address: string,
    prepaid?: boolean,
  ): void | Promise<void>;
  /** The standard budget of an address: unknown paths, wrong methods, refused credentials. Throws 429. */
  admitAddress(address: string, surface: SurfaceName): void | Promise<void>;
  /** The budget per account and address, when the operation's limit names a body field. Throws 429. */
  admitAccount(operation: Operation, body: unknown, address: string): void | Promise<void>;
}

export function createOperationLimiter(
  limits: Limits,
  settings: LimitSettingsProvider = defaultLimitSettings,
): OperationLimiter {
  const buckets = createBuckets(settings);

  const take = (bucket: LimitBucket, key: string): void | Promise<void> => {
    const state = limits.consume(bucket, key);
    return state instanceof Promise
      ? state.then((later) => judge(bucket, later))
      : judge(bucket, state);
  };

  const declared = (
    operation: Operation,
    { key, kind }: Subject,
    address: string,
    prepaid: boolean,
  ): void | Promise<void> => {
    if (operation.limit === 'none') return undefined;
    const standard = prepaid ? undefined : take(buckets.standard(operation.surface, kind), key);
    const own = operation.limit === 'standard' ? undefined : buckets.of(operation, operation.limit);
    if (!own) return standard;
    const takeOwn = () =>
      own.account || kind === 'anonymous'
        ? take(own.address, addressKey(address))
        : take(own.caller, key);
    return standard instanceof Promise ? standard.then(takeOwn) : takeOwn();
  };

  /** What operators added, one after the other. */
  const added = async (
    before: void | Promise<void>,
    { id, addedLimits = [] }: Operation,
    key: string,
  ): Promise<void> => {
    await before;
    for (const { requests, seconds } of addedLimits)
      await take(
        {
          ...{ name: `${id}:added:${requests}/${seconds}`, requests, seconds },
          ...settings().counting,
        },
        key,
      );
  };

  return {
    admit(operation, caller, address, prepaid = false) {
      const key = subjectOf(caller, address);
      const done = declared(operation, { key, kind: caller.kind }, address, prepaid);
      return operation.addedLimits === undefined ? done : added(done, operation, key);
    },
    admitAddress: (address, surface) => take(buckets.standard(surface), addressKey(address)),
    admitAccount(operation, body, address) {
      if (typeof operation.limit === 'string' || operation.limit.account === undefined)
        return undefined;
      const { account } = buckets.of(operation, operation.limit);
      const name = accountOf(body, operation.limit.account);
      return account && name !== undefined
        ? take(account, `${name} ${addressKey(address)}`)
        : undefined;
    },
  };
}

interface OperationBuckets {
  readonly caller: LimitBucket;
  readonly address: LimitBucket;
  readonly account: LimitBucket | undefined;
}

/** Each surface has a budget of its own: whoever floods clients takes nothing from operators at the same address. */
const standardBuckets = ({ standard, perUser = standard, counting }: LimitSettings) => ({
  client: { name: 'standard', ...standard, ...counting },
  admin: { name: 'standard:admin', ...standard, ...counting },
  // Under the name of `client`: what is counted for a user is no address.
  user: { name: 'standard', ...perUser, ...counting },
});

/** Buckets are made once per settings object. */
function createBuckets(settings: LimitSettingsProvider) {
  let known: LimitSettings | undefined;
  let standard = standardBuckets(defaults);
  let byOperation = new WeakMap<Operation, OperationBuckets>();

  const refresh = (): LimitSettings => {
    const current = settings();
    if (current !== known) {
      known = current;
      standard = standardBuckets(current);
      byOperation = new WeakMap();
    }
    return current;
  };

  return {
    standard(surface: SurfaceName, kind?: Caller['kind']): LimitBucket {
      refresh();
      return standard[surface === 'client' && kind === 'user' ? 'user' : surface];
    },
    of(operation: Operation, declared: RateLimit): OperationBuckets {
      const current = refresh();
      const made = byOperation.get(operation);
      if (made) return made;
      const fresh = operationBuckets(operation, declared, current);
      byOperation.set(operation, fresh);
      return fresh;
    },
  };
}

function operationBuckets(
  { id, surface }: Operation,
  declared: RateLimit,
  { counting, peoplePerAddress = defaultPeople }: LimitSettings,
): OperationBuckets {
  const { requests, seconds } = declared;
  const bucket = (name: string, max: number): LimitBucket => ({
    ...{ name, requests: max, seconds },
    ...counting,
  });
  const caller = bucket(id, requests);
  // Operators are few, and what they are asked before they are known guards every door.
  if (declared.account === undefined && surface === 'admin')
    return { caller, address: caller, account: undefined };
  const address = bucket(`${id}:address`, requests * peoplePerAddress);
  const account = declared.account === undefined ? undefined : bucket(`${id}:account`, requests);
  return { caller, address, account };
}

function judge(bucket: LimitBucket, state: LimitState): void {
  if (!state.allowed) throw tooMany(bucket, state);
}

function tooMany(bucket: LimitBucket, state: LimitState): PenstockError {
  const seconds = Math.max(1, Math.ceil(state.resetMs / 1000));
  return errors.RATE_LIMIT({
    retryAfter: seconds,
    headers: {
      'ratelimit-limit': String(capacityOf(bucket)),
      'ratelimit-remaining': String(Math.max(0, state.remaining)),
      'ratelimit-reset': String(seconds),
    },
  });
}

const subjectOf = (caller: Caller, address: string): string =>
  caller.kind === 'anonymous' ? addressKey(address) : callerKey(caller);

/** One spelling of an account, so that case and spaces do not buy another budget. */
function accountOf(body: unknown, field: string): string | undefined {
  const value: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, field) : undefined;
  return typeof value === 'string'
    ? cutText(cutText(value, 1_024).normalize('NFKC').trim().toLowerCase(), 320)
    : undefined;
}
