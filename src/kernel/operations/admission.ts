/** Who is calling, decided from the presented credential and the operation's `access` alone. Denies by default. */
import { type AdminCaller, anonymous, type Caller, type UserCaller } from '../caller.ts';
import { errors, type PenstockError } from '../errors.ts';
import type { AdminIdentity, ClientIdentity, Identity, PresentedCredentials } from '../identity.ts';
import { isSuperAdmin } from '../identity.ts';
import type { Operation } from '../operation.ts';
import type { Call } from './context.ts';
import { operationErrors } from './errors.ts';

/** Seconds after which a caller may try again when a module that checks credentials does not run. */
const RETRY_AFTER_SECONDS = 2;

export type CallerOrPromise = Caller | Promise<Caller>;

/** Throws 401, 403 or, while nobody can check the credential, 503. */
export function authenticate(identity: Identity, call: Pick<Call, 'compiled' | 'credentials'>): CallerOrPromise {
  const { operation } = call.compiled;
  if (operation.access === 'public') return anonymous;
  const { credentials } = call;
  switch (operation.access) {
    case 'refreshToken':
    case 'adminSecondFactor':
      if (credentials.bearer === undefined) throw noCredential();
      return anonymous;
    case 'optionalUser':
      return presentsUser(credentials) ? user(identity, credentials, completeUser) : anonymous;
    case 'user':
      return user(identity, credentials, completeUser);
    case 'partialUser':
      return user(identity, credentials, anyUser);
    case 'masterKey':
      return adminPort(identity).masterKey(credentials);
    case 'admin':
    case 'superAdmin':
      return admin(identity, operation, credentials);
  }
}

const noCredential = (): PenstockError => errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });

const notRunning = (what: string): PenstockError =>
  errors.UNAVAILABLE({ message: `${what} is not available now: try again shortly`, retryAfter: RETRY_AFTER_SECONDS });

const presentsUser = (credentials: PresentedCredentials): boolean =>
  credentials.bearer !== undefined || credentials.cookies.accessToken !== undefined;

function user(identity: Identity, credentials: PresentedCredentials, check: (caller: UserCaller) => UserCaller): CallerOrPromise {
  if (!presentsUser(credentials)) throw noCredential();
  const caller = clientPort(identity).authenticate(credentials);
  return caller instanceof Promise ? caller.then(check) : check(caller);
}

const anyUser = (caller: UserCaller): UserCaller => caller;

function completeUser(caller: UserCaller): UserCaller {
  if (!caller.complete) throw operationErrors.SECOND_FACTOR_REQUIRED();
  return caller;
}

function admin(identity: Identity, operation: Operation, credentials: PresentedCredentials): CallerOrPromise {
  if (credentials.bearer === undefined && credentials.masterKey === undefined && credentials.apiToken === undefined) throw noCredential();
  const caller = adminPort(identity).authenticate(credentials);
  return caller instanceof Promise ? caller.then((later) => permittedAdmin(operation, later)) : permittedAdmin(operation, caller);
}

function permittedAdmin(operation: Operation, caller: AdminCaller): AdminCaller {
  if (caller.mustChangePassword && !operation.beforePasswordChange) throw operationErrors.PASSWORD_CHANGE_REQUIRED();
  if (operation.access === 'superAdmin' && !isSuperAdmin(caller)) throw errors.FORBIDDEN({ message: 'Only a super admin may do this' });
  return caller;
}

function clientPort(identity: Identity): ClientIdentity {
  if (!identity.client) throw notRunning('Authentication');
  return identity.client;
}

function adminPort(identity: Identity): AdminIdentity {
  if (!identity.admin) throw notRunning('Admin authentication');
  return identity.admin;
}
