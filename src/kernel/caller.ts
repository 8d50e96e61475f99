/**
 * Who is asking. Every service call carries a caller, the platform's own work
 * included (`system`), so that no check depends on somebody having forgotten one.
 */
import { isIPv6 } from 'node:net';

/** Nobody has signed in. */
export interface AnonymousCaller {
  readonly kind: 'anonymous';
}

/** A user of the app, by an access token. */
export interface UserCaller {
  readonly kind: 'user';
  readonly userId: string;
  readonly sessionId: string;
  /** When the user last proved who they are, in ms since the epoch. */
  readonly authenticatedAt: number;
  /** False while a second factor is needed: such a caller passes only `partialUser` operations. */
  readonly complete: boolean;
  readonly clientId: string;
  /** Id of the admin who acts as this user. Such a caller never passes for one who has just proven themselves. */
  readonly impersonatedBy?: string;
}

/** An operator: the master key, an admin's JWT, or a `cdt_` token. */
export interface AdminCaller {
  readonly kind: 'admin';
  readonly via: 'masterkey' | 'jwt' | 'token';
  /** Id of the stored admin; `masterkey` for the master principal. */
  readonly adminId: string;
  readonly username: string;
  readonly isSuperAdmin: boolean;
  /** Set for a login: another one of the admin means that it has ended. */
  readonly sessionVersion?: number;
  /** Set for a `cdt_` token. */
  readonly tokenId?: string;
  /** First characters of that token, as its list shows them. */
  readonly tokenPrefix?: string;
  /** What that token is narrowed to: `read`, `write`, names of modules. Absent: everything. */
  readonly scopes?: readonly string[];
  /** The admin must change the first password before anything else. */
  readonly mustChangePassword?: boolean;
}

/** The platform itself. `reason` says which part, for logs and events. */
export interface SystemCaller {
  readonly kind: 'system';
  readonly reason: string;
}

export type Caller = AnonymousCaller | UserCaller | AdminCaller | SystemCaller;

export const anonymous: AnonymousCaller = { kind: 'anonymous' };

/** The explicit caller for work that nobody outside asked for. */
export const system = (reason: string): SystemCaller => ({ kind: 'system', reason });

/** A short stable name, for limits, idempotency keys, events and logs. Holds no secret. */
export function callerKey(caller: Caller): string {
  switch (caller.kind) {
    case 'anonymous':
      return 'anonymous';
    case 'user':
      return userKey(caller);
    case 'admin':
      return `admin:${caller.adminId}`;
    case 'system':
      return `system:${caller.reason}`;
  }
}

/** The caller of a token is one object while the token is known, and is asked for its name several times on each request. */
const userKeys = new WeakMap<UserCaller, string>();

function userKey(caller: UserCaller): string {
  const known = userKeys.get(caller);
  if (known !== undefined) return known;
  const { userId, impersonatedBy } = caller;
  const key =
    impersonatedBy === undefined ? `user:${userId}` : `user:${userId} (admin:${impersonatedBy})`;
  userKeys.set(caller, key);
  return key;
}

/** What an address counts as: itself, or its /64 for IPv6, where one customer has at least that many addresses. */
export function addressKey(address: string): string {
  if (!address.includes(':')) return address;
  if (address.startsWith('::ffff:') && address.includes('.'))
    return address.slice('::ffff:'.length);
  return isIPv6(address) ? `${network64(address)}/64` : address;
}

function network64(address: string): string {
  const plain = address.split('%', 1)[0] ?? address;
  const [head = '', tail] = plain.split('::', 2);
  const left = head === '' ? [] : head.split(':');
  const right = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right];
  return groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':');
}
