/** Who is calling, decided from the presented credential and the operation's `access` alone. Denies by default. */
import { isReadOnly, requireAuthority, withinScopes } from '../authority.ts';
import { anonymous, type Caller, type UserCaller } from '../caller.ts';
import { codeOf } from '../database/failures.ts';
import { errors, type PenstockError } from '../errors.ts';
import {
  type AdminIdentity,
  type ClientIdentity,
  type Identity,
  isSuperAdmin,
  type PresentedCredentials,
} from '../identity.ts';
import { operationErrors } from '../operations/errors.ts';
import type { Operation } from '../operations/operation.ts';
import type { DecodedInput } from '../operations/operation-input.ts';
import type { ActionLog } from './admin-actions.ts';
import { admitApp, type Call, requireOwnToken } from './context.ts';
import { type ObjectDirectory, requireInputObjects } from './input-authority.ts';
import type { OperationLimiter } from './rate-limits.ts';

/** Seconds after which a caller may try again when a module that checks credentials does not run. */
const RETRY_AFTER_SECONDS = 2;

type CallerOrPromise = Caller | Promise<Caller>;

/** Throws 401 or, while nobody can check the credential, 503. What an admin may do is asked of `requireRights`. */
export function authenticate(
  identity: Identity,
  call: Pick<Call, 'compiled' | 'credentials'>,
): CallerOrPromise {
  const { operation } = call.compiled;
  if (operation.access === 'public') return anonymous;
  const { credentials } = call;
  switch (operation.access) {
    case 'refreshToken':
      if (
        credentials.bearer === undefined &&
        identity.client?.cookieTokens?.refreshToken(credentials) === undefined
      )
        throw noCredential();
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

const noCredential = (): PenstockError =>
  errors.UNAUTHORIZED({ headers: { 'www-authenticate': 'Bearer' } });

const notRunning = (what: string): PenstockError =>
  errors.UNAVAILABLE({
    message: `${what} is not available now: try again shortly`,
    retryAfter: RETRY_AFTER_SECONDS,
  });

const presentsUser = ({ client }: Identity, { bearer, cookies }: PresentedCredentials): boolean =>
  bearer !== undefined || client?.cookieTokens?.accessToken(cookies) !== undefined;

type UserCall = Pick<Call, 'compiled' | 'credentials'>;

const noCookieHere = 'A GET that changes something takes no cookie: send the token as a bearer';

function user(
  identity: Identity,
  { credentials, compiled }: UserCall,
  check: (caller: UserCaller) => UserCaller,
): CallerOrPromise {
  if (!presentsUser(identity, credentials)) throw noCredential();
  if (compiled.operation.changes && credentials.bearer === undefined)
    throw operationErrors.CSRF_REFUSED({ message: noCookieHere });
  const caller = clientPort(identity).authenticate(credentials);
  return caller instanceof Promise ? caller.then(check) : check(caller);
}

const anyUser = (caller: UserCaller): UserCaller => caller;

function completeUser(caller: UserCaller): UserCaller {
  if (!caller.complete) throw operationErrors.SECOND_FACTOR_REQUIRED();
  return caller;
}

function admin(identity: Identity, credentials: PresentedCredentials): CallerOrPromise {
  if (
    credentials.bearer === undefined &&
    credentials.masterKey === undefined &&
    credentials.apiToken === undefined
  )
    throw noCredential();
  return adminPort(identity).authenticate(credentials);
}

/**
 * Throws 403 where the input is about something that the caller's scopes do not reach, or asks for secrets with a token
 * that may only read: they open doors to more than that.
 */
export function requireInput(
  caller: Caller,
  operation: Operation,
  input: DecodedInput,
  objects: ObjectDirectory | undefined,
): void {
  if (caller.kind !== 'admin' || caller.scopes === undefined) return;
  if (isReadOnly(caller) && operation.reveals?.(input))
    throw operationErrors.SCOPE_EXCEEDED({ message: 'A token that may only read sees no secrets' });
  if (objects) requireInputObjects(caller, operation, input, objects);
}

/** Throws 403 when this caller, who is known by now, may not do this. */
function requireRights(caller: Caller, operation: Operation): void {
  if (
    caller.kind !== 'admin' ||
    (operation.access !== 'admin' && operation.access !== 'superAdmin')
  )
    return;
  if (!withinScopes(caller, operation)) throw operationErrors.SCOPE_EXCEEDED();
  if (operation.unscoped) requireAuthority(caller, { kind: 'credentials' });
  if (caller.mustChangePassword && !operation.beforePasswordChange)
    throw operationErrors.PASSWORD_CHANGE_REQUIRED();
  if (operation.access === 'superAdmin' && !isSuperAdmin(caller))
    throw errors.FORBIDDEN({ message: 'Only a super admin may do this' });
}

function clientPort(identity: Identity): ClientIdentity {
  if (!identity.client) throw notRunning('Authentication');
  return identity.client;
}

function adminPort(identity: Identity): AdminIdentity {
  if (!identity.admin) throw notRunning('Admin authentication');
  return identity.admin;
}

/* The first step of a call: credential -> caller, then the limits that need no body. */

/** How a call is admitted that shares its request with others (GraphQL). */
export interface SharedRequest {
  /** Remembers what the credential of the request was worth. */
  readonly identity: Identity;
  /** The request paid the standard budget for this call. */
  readonly prepaid: boolean;
}

interface AdmitParts {
  readonly identity: Identity;
  readonly limiter: OperationLimiter;
  readonly actions: Pick<ActionLog, 'refused'>;
}

/** Throws or rejects with 401, 403, 429 or 503. */
type Admit = (call: Call, shared?: SharedRequest) => Caller | Promise<Caller>;

export function createAdmit({ identity, limiter, actions }: AdmitParts): Admit {
  const permitted = (call: Call, caller: Caller, prepaid = false): Caller | Promise<Caller> => {
    try {
      requireRights(caller, call.compiled.operation);
    } catch (error) {
      return refused(call, error, caller);
    }
    const done = limiter.admit(call.compiled.operation, caller, call.address, prepaid);
    return done instanceof Promise ? done.then(() => caller) : caller;
  };

  /** A refused credential costs the address, so that guessing is limited too. */
  const refused = async (
    call: Call,
    error: unknown,
    caller: Caller = anonymous,
  ): Promise<never> => {
    await limiter.admitAddress(call.address, call.compiled.operation.surface);
    await actions.refused(call, caller, error);
    throw error;
  };

  return (call, shared) => {
    let caller: Caller | Promise<Caller>;
    try {
      caller = knownCaller(shared?.identity ?? identity, call);
    } catch (error) {
      return refused(call, error);
    }
    if (!(caller instanceof Promise)) return permitted(call, caller, shared?.prepaid);
    return caller.then(
      (known) => permitted(call, known, shared?.prepaid),
      (error: unknown) => refused(call, error),
    );
  };
}

/** First the app, then who is signed in with it. Throws 401, 403 or 503. */
function knownCaller(identity: Identity, call: Call): Caller | Promise<Caller> {
  const app = admitApp(identity, call);
  return app instanceof Promise
    ? app.then(() => callerOfApp(identity, call))
    : callerOfApp(identity, call);
}

function callerOfApp(identity: Identity, call: Call): Caller | Promise<Caller> {
  const caller = authenticate(identity, call);
  if (caller instanceof Promise) return caller.then((known) => ofThisApp(known, call));
  return ofThisApp(caller, call);
}

function ofThisApp(caller: Caller, call: Call): Caller {
  requireOwnToken(caller, call);
  return caller;
}

/*
 * A user may be deleted between the check of the credential and the statement that writes something of theirs.
 * PostgreSQL then refuses the row, whichever service wrote it. To the caller this is what it would be a moment
 * later: a credential that opens nothing, or, for an operator, a user who is not there.
 */

/** Foreign keys of the platform's own tables to users, as PostgreSQL names them. */
const userKeys = /_(?:user_id|invited_by)_fkey$/;

interface ForeignKeyError {
  readonly schema?: unknown;
  readonly constraint?: unknown;
}

/** Throws what the caller is told of an error; any other as it is. */
export const refusalOf =
  (caller: Caller) =>
  (error: unknown): never => {
    throw userDeletedMeanwhile(error, caller);
  };

function userDeletedMeanwhile(error: unknown, caller: Caller): unknown {
  if (codeOf(error) !== '23503') return lostRace(error);
  const { schema, constraint } = error as ForeignKeyError;
  if (schema !== 'penstock' || typeof constraint !== 'string' || !userKeys.test(constraint))
    return lostRace(error);
  if (caller.kind === 'admin')
    return errors.NOT_FOUND({ message: 'There is no such user any more', cause: error });
  return caller.kind === 'system' ? error : errors.UNAUTHORIZED({ cause: error });
}

/**
 * What PostgreSQL refuses because somebody else was faster, and no service has words of its own for: nothing was changed,
 * and the same request means something else now.
 */
const races: ReadonlyMap<string, string> = new Map([
  ['23503', 'Something that this is about was deleted or referred to meanwhile: read it again'],
  ['23505', 'Somebody else made the same meanwhile: read it again'],
  ['40001', 'Others change the same all the time: try again'],
  ['40P01', 'Others change the same all the time: try again'],
]);

function lostRace(error: unknown): unknown {
  const message = races.get(codeOf(error) ?? '');
  return message === undefined ? error : errors.CONFLICT({ message, retryAfter: 1, cause: error });
}
