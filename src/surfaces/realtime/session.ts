/**
 * The signed-in user behind a socket. A socket lives longer than a request, so
 * the credential is checked again for everything that is sent or delivered.
 */
import type { PresentedApp } from '../../kernel/apps.ts';
import type { UserCaller } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { CookieSender, Identity } from '../../kernel/identity.ts';
import { operationErrors } from '../../kernel/operations/errors.ts';
import { realtimeErrors } from './errors.ts';

export interface Session {
  readonly userId: string;
  /** The user, if the credential still holds; throws 401, 403 or 503. Without a promise when all is cached. */
  caller(): UserCaller | Promise<UserCaller>;
  /** Goes on with another token of the same user. */
  renew(token: string): Promise<void>;
  /** Milliseconds until the token says that it ends; `undefined` when it does not say. A hint: `caller` decides. */
  endsIn(): number | undefined;
}

/** Seconds after which to try again while nobody can check credentials. */
const retryAfterSeconds = 2;

/** What a socket presents. */
export interface Presented {
  readonly token: string | undefined;
  /** Count only without a token. */
  readonly cookies: Readonly<Record<string, string>>;
  readonly sender: CookieSender | undefined;
  readonly app: PresentedApp;
  readonly address: string;
}

/** Signs the bearer of a token in. Throws 401, 403 or 503. */
export async function openSession(identity: Identity, { token, cookies, sender, app, address }: Presented): Promise<Session> {
  let current = token;
  const check = (bearer: string | undefined): UserCaller | Promise<UserCaller> => {
    const admitted = identity.apps?.admit(app);
    if (admitted instanceof Promise) return admitted.then((known) => signedIn(bearer, known));
    return signedIn(bearer, admitted);
  };
  const signedIn = (bearer: string | undefined, appId: string | undefined): UserCaller | Promise<UserCaller> => {
    if (bearer === undefined && identity.client?.cookieTokens?.accessToken(cookies) === undefined) {
      throw errors.UNAUTHORIZED({ message: 'Connect with an access token: Authorization: Bearer <token>' });
    }
    if (!identity.client) {
      throw errors.UNAVAILABLE({ message: 'Authentication is not available now: try again shortly', retryAfter: retryAfterSeconds });
    }
    const caller = identity.client.authenticate({ bearer, masterKey: undefined, apiToken: undefined, cookies, sender, address });
    return caller instanceof Promise ? caller.then((known) => accepted(known, appId)) : accepted(caller, appId);
  };
  const { userId } = await check(token);
  return {
    userId,
    caller: () => check(current),
    async renew(fresh) {
      const caller = await check(fresh);
      if (caller.userId !== userId) throw realtimeErrors.OTHER_USER();
      current = fresh;
    },
    endsIn: () => remainingLife(current ?? ''),
  };
}

/** Throws 401 for a token of another app, and while a second factor is owed. */
function accepted(caller: UserCaller, appId: string | undefined): UserCaller {
  if (appId !== undefined && caller.clientId !== appId) throw errors.UNAUTHORIZED({ message: 'This token belongs to another app' });
  if (!caller.complete) throw operationErrors.SECOND_FACTOR_REQUIRED();
  return caller;
}

/** Reads `exp` of a token that was verified before, if it is a JWT. */
function remainingLife(token: string): number | undefined {
  const [, payload, signature] = token.split('.');
  if (payload === undefined || signature === undefined) return undefined;
  try {
    const { exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 - Date.now() : undefined;
  } catch {
    return undefined;
  }
}
