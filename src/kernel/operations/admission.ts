/** Who is calling, decided from the presented credential and the operation's `access` alone. Denies by default. */
import { type ObjectDirectory, requireInputObjects } from '../authority/about.ts';
import { requireAuthority } from '../authority/authority.ts';
import { anonymous, type Caller, type UserCaller } from '../caller.ts';
import { errors, type PenstockError } from '../errors.ts';
import type { AdminIdentity, ClientIdentity, Identity, PresentedCredentials } from '../identity.ts';
import { isSuperAdmin } from '../identity.ts';
import type { DecodedInput, Operation } from '../operation.ts';
import type { Call } from './context.ts';
import { operationErrors } from './errors.ts';
import { isReadOnly, withinScopes } from './scopes.ts';

/** Seconds after which a caller may try again when a module that checks credentials does not run. */
const RETRY_AFTER_SECONDS = 2;

export type CallerOrPromise = Caller | Promise<Caller>;

/** Throws 401 or, while nobody can check the credential, 503. What an admin may do is asked of `requireRights`. */
export function authenticate(identity: Identity, call: Pick<Call, 'compiled' | 'credentials'>): CallerOrPromise {
  const { operation } = call.compiled;
  if (operation.access === 'public') return anonymous;
  const { credentials } = call;
  switch (operation.access) {
    case 'refreshToken':
      if (credentials.bearer === undefined && identity.client?.cookieTokens?.refreshToken(credentials) === undefined) throw noCredential();
      return anonymous;
    case 'adminSecondFactor':
      if (credentials.bearer === undefined) throw noCredential();
      return anonymous;
    case 'optionalUser':
      return presentsUser(identity, credentials) ? user(identity, call, completeUser) : anonymous;
    case 'user':
      return user(identity, call, completeUser);
    case 'partialUser':
      return user(identity, call, anyUser);
    case 'masterKey':
      return adminPort(identity).masterKey(credentials);
    case 'admin':
    case 'superAdmin':
      return admin(identity, credentials);
  }
}

const noCredential = (): PenstockError => errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });

const notRunning = (what: string): PenstockError =>
  errors.UNAVAILABLE({ message: `${what} is not available now: try again shortly`, retryAfter: RETRY_AFTER_SECONDS });

const presentsUser = ({ client }: Identity, { bearer, cookies }: PresentedCredentials): boolean =>
  bearer !== undefined || client?.cookieTokens?.accessToken(cookies) !== undefined;

type UserCall = Pick<Call, 'compiled' | 'credentials'>;

const noCookieHere = 'A GET that changes something takes no cookie: send the token as a bearer';

function user(identity: Identity, { credentials, compiled }: UserCall, check: (caller: UserCaller) => UserCaller): CallerOrPromise {
  if (!presentsUser(identity, credentials)) throw noCredential();
  if (compiled.operation.changes && credentials.bearer === undefined) throw operationErrors.CSRF_REFUSED({ message: noCookieHere });
  const caller = clientPort(identity).authenticate(credentials);
  return caller instanceof Promise ? caller.then(check) : check(caller);
}

const anyUser = (caller: UserCaller): UserCaller => caller;

function completeUser(caller: UserCaller): UserCaller {
  if (!caller.complete) throw operationErrors.SECOND_FACTOR_REQUIRED();
  return caller;
}

function admin(identity: Identity, credentials: PresentedCredentials): CallerOrPromise {
  if (credentials.bearer === undefined && credentials.masterKey === undefined && credentials.apiToken === undefined) throw noCredential();
  return adminPort(identity).authenticate(credentials);
}

/**
 * Throws 403 where the input is about something that the caller's scopes do not reach, or asks for secrets with a token
 * that may only read: they open doors to more than that.
 */
export function requireInput(caller: Caller, operation: Operation, input: DecodedInput, objects: ObjectDirectory | undefined): void {
  if (caller.kind !== 'admin' || caller.scopes === undefined) return;
  if (isReadOnly(caller) && operation.reveals?.(input))
    throw operationErrors.SCOPE_EXCEEDED({ message: 'A token that may only read sees no secrets' });
  if (objects) requireInputObjects(caller, operation, input, objects);
}

/** Throws 403 when this caller, who is known by now, may not do this. */
export function requireRights(caller: Caller, operation: Operation): void {
  if (caller.kind !== 'admin' || (operation.access !== 'admin' && operation.access !== 'superAdmin')) return;
  if (!withinScopes(caller, operation)) throw operationErrors.SCOPE_EXCEEDED();
  if (operation.unscoped) requireAuthority(caller, { kind: 'credentials' });
  if (caller.mustChangePassword && !operation.beforePasswordChange) throw operationErrors.PASSWORD_CHANGE_REQUIRED();
  if (operation.access === 'superAdmin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN({ message: 'Only a super admin may do this' });
}

function clientPort(identity: Identity): ClientIdentity {
  if (!identity.client) throw notRunning('Authentication');
  return identity.client;
}

function adminPort(identity: Identity): AdminIdentity {
  if (!identity.admin) throw notRunning('Admin authentication');
  return identity.admin;
}
