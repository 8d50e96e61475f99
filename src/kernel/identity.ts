/**
 * The ports through which surfaces learn who is calling. The kernel knows no
 * module: authentication implements the client port, core the admin port.
 */
import type { AdminCaller, Caller, UserCaller } from './caller.ts';

/** Credentials as presented, before anything is believed. */
export interface PresentedCredentials {
  /** Value after `Bearer `; `undefined` when there is no Authorization header. A malformed header is refused earlier. */
  readonly bearer: string | undefined;
  /** `masterkey` header; an empty one counts as absent. */
  readonly masterKey: string | undefined;
  /** `credential` header (`cdt_` token). */
  readonly apiToken: string | undefined;
  readonly cookies: Readonly<Record<string, string>>;
  readonly address: string;
}

export interface ClientIdentity {
  /**
   * The user of an access token: signature, expiry, session and account, with immediate effect of
   * revocation. Throws 401 or 403. Answers synchronously when everything is cached.
   */
  authenticate(credentials: PresentedCredentials): UserCaller | Promise<UserCaller>;
}

export interface AdminIdentity {
  /** One of the three credentials (spec/core.md 2.2). Throws 401. */
  authenticate(credentials: PresentedCredentials): AdminCaller | Promise<AdminCaller>;
  /** Only the master key (`/login`). Throws 401. */
  masterKey(credentials: PresentedCredentials): Promise<AdminCaller>;
}

/** Slots that modules fill while they run. An empty slot means 503 for whoever needs it. */
export interface Identity {
  client: ClientIdentity | undefined;
  admin: AdminIdentity | undefined;
}

export const createIdentity = (): Identity => ({ client: undefined, admin: undefined });

/** True for the caller that may do what only a super admin may. */
export const isSuperAdmin = (caller: Caller): boolean => caller.kind === 'system' || (caller.kind === 'admin' && caller.isSuperAdmin);
