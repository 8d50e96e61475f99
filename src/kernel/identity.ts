/**
 * The ports through which surfaces learn who is calling. The kernel knows no
 * module: authentication implements the client port, core the admin port.
 */

import type { IncomingHttpHeaders } from 'node:http';
import type { AdminCaller, Caller, UserCaller } from './caller.ts';
import type { Transaction } from './database/database.ts';
import { headerOf } from './request-header.ts';

/*
 * Which app a request of the client surface comes from ("security client" of the interface: the headers
 * `clientid` and `clientsecret`). The router module keeps the apps and decides; surfaces and the pipeline only ask.
 */

/** What a request says about the app that sends it, before anything is believed. */
export interface PresentedApp {
  readonly clientId: string | undefined;
  readonly clientSecret: string | undefined;
  /** `Origin`, which browsers send and pages cannot set. */
  readonly origin: string | undefined;
  readonly host: string | undefined;
}

export interface AppGate {
  /**
   * The id of the registered app that a request comes from; nothing while apps are not told apart.
   * Throws 401. Answers without a promise when the app is cached.
   */
  admit(app: PresentedApp): string | undefined | Promise<string | undefined>;
}

/** The app of every request while apps are not told apart. */
export const anonymousApp = 'anonymous-client';

export const noApp: PresentedApp = Object.freeze({
  clientId: undefined,
  clientSecret: undefined,
  origin: undefined,
  host: undefined,
});

/** Longer headers are nobody's. */
const maxLength = 512;

/** What the headers of a request say. */
export function presentedApp(headers: IncomingHttpHeaders): PresentedApp {
  return {
    clientId: single(headerOf(headers, 'clientid')),
    clientSecret: single(headerOf(headers, 'clientsecret')),
    origin: headerOf(headers, 'origin'),
    host: headerOf(headers, 'host'),
  };
}

const single = (value: string | readonly string[] | undefined): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= maxLength ? value : undefined;

/** Credentials as presented, before anything is believed. */
export interface PresentedCredentials {
  /** Value after `Bearer `; `undefined` when there is no Authorization header. A malformed header is refused earlier. */
  readonly bearer: string | undefined;
  /** `masterkey` header; an empty one counts as absent. */
  readonly masterKey: string | undefined;
  /** `credential` header (`cdt_` token). */
  readonly apiToken: string | undefined;
  readonly cookies: Readonly<Record<string, string>>;
  /** Where a request with cookies comes from; only there, since browsers send cookies without being asked. */
  readonly sender?: CookieSender | undefined;
  readonly address: string;
}

/** What a browser says of the page behind a request. Pages cannot set these headers, but for the last one. */
export interface CookieSender {
  readonly method: string;
  readonly origin: string | undefined;
  readonly host: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
  /** `X-CSRF-Token`. */
  readonly csrfToken: string | undefined;
}

/** Tokens in cookies, as far as the configuration lets them count. */
export interface CookieTokens {
  accessToken(cookies: PresentedCredentials['cookies']): string | undefined;
  /** Throws 403 when a page of somebody else may have sent it. */
  refreshToken(credentials: PresentedCredentials): string | undefined;
}

export interface ClientIdentity {
  /**
   * The user of an access token: signature, expiry, session and account, with immediate effect of
   * revocation. A bearer goes before a cookie. Throws 401 or 403. Answers synchronously when everything is cached.
   */
  authenticate(credentials: PresentedCredentials): UserCaller | Promise<UserCaller>;
  /** Absent: cookies are no credentials. */
  readonly cookieTokens?: CookieTokens;
  /** Keeps the session of this caller from ending before the transaction does. Throws 401 where it has ended. */
  holdSession?(transaction: Transaction, caller: UserCaller): Promise<void>;
  /**
   * Ends the sessions in which this admin acts as users, for the transaction that ends the admin's own. Absent: there
   * are none.
   */
  endImpersonations?(transaction: Transaction, adminId: string): Promise<void>;
}

export interface AdminIdentity {
  /** One of the three credentials (spec/core.md 2.2). Throws 401. */
  authenticate(credentials: PresentedCredentials): AdminCaller | Promise<AdminCaller>;
  /**
   * Keeps the credential of this operator from ending before the transaction does: for what outlives the request. Throws
   * 401 where it has ended, 403 where its rights have.
   */
  holdCredential?(transaction: Transaction, caller: AdminCaller): Promise<void>;
  /** Only the master key (`/login`). Throws 401. */
  masterKey(credentials: PresentedCredentials): Promise<AdminCaller>;
}

/** What may have ended: whoever holds something open for it looks at it again. */
export interface EndedCredentials {
  /** Ids of sessions of users. */
  readonly sessions?: readonly string[];
  /** Client ids of apps. */
  readonly apps?: readonly string[];
  /** Apps are told apart from now on: whoever came without one may not stay. */
  readonly withoutApp?: true;
}

/**
 * What is open longer than a request, such as a socket, is told on its node of credentials that end, before the call that
 * ends them returns: events about that come later than what goes to sockets at once.
 */
export interface CredentialEnds {
  /** Settles when all have looked. */
  tell(ended: EndedCredentials): Promise<void>;
  /** Answers how to stop listening. */
  subscribe(look: (ended: EndedCredentials) => Promise<unknown>): () => void;
}

function createCredentialEnds(): CredentialEnds {
  const looks = new Set<(ended: EndedCredentials) => Promise<unknown>>();
  return {
    async tell(ended) {
      await Promise.all([...looks].map((look) => look(ended)));
    },
    subscribe(look) {
      looks.add(look);
      return () => void looks.delete(look);
    },
  };
}

/** Slots that modules fill while they run. An empty slot means 503 for whoever needs it. */
export interface Identity {
  client: ClientIdentity | undefined;
  admin: AdminIdentity | undefined;
  /** Empty: every request of the client surface counts as of one app. */
  apps?: AppGate | undefined;
  readonly ends: CredentialEnds;
}

export const createIdentity = (): Identity => ({
  client: undefined,
  admin: undefined,
  ends: createCredentialEnds(),
});

/** True for the caller that may do what only a super admin may. */
export const isSuperAdmin = (caller: Caller): boolean =>
  caller.kind === 'system' || (caller.kind === 'admin' && caller.isSuperAdmin);
