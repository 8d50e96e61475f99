/**
 * The points of hooks that are not about records. Whoever asks and whoever answers know each other by this file alone:
 * the module that owns the matter asks, with the value as it would be without hooks, and goes on with what comes back.
 */

/** Asked before each account is made, in its transaction, whichever way the person came. A hook changes `userData`. */
export interface SignUpHookValue {
  /** `local`, `anonymous`, `phone`, `admin`, `internal`, or the name of a provider. */
  readonly strategy: string;
  readonly email?: string | undefined;
  readonly username?: string | undefined;
  readonly phoneNumber?: string | undefined;
  /** Whether the address is proven. */
  readonly isVerified: boolean;
  readonly isAnonymous: boolean;
  /** The anonymous user that becomes this account. */
  readonly upgrades?: string | undefined;
  /** Whether the person comes with an invitation. */
  readonly invited: boolean;
  /** Fields by which the schema User was extended. */
  readonly userData: Readonly<Record<string, unknown>>;
}

/** Asked before each session is opened, in its transaction. A hook adds to `claims`. */
export interface SignInHookValue {
  readonly userId: string;
  readonly strategy: string;
  readonly clientId: string;
  readonly address: string;
  /** A second factor is still to come: the session opens nothing but that step until then. */
  readonly secondFactorPending: boolean;
  /** What the access tokens of the session say under `claims`. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** What of a message a hook may change. */
export interface MessageHookTexts {
  /** Of a mail. */
  readonly subject?: string | undefined;
  readonly html?: string | undefined;
  readonly text: string;
  /** Of a push message. */
  readonly title?: string | undefined;
  readonly data?: Readonly<Record<string, string>> | undefined;
}

/** Asked before each attempt to send a message, outside of any transaction. */
export interface MessageHookValue extends MessageHookTexts {
  readonly id: string;
  readonly channel: 'email' | 'sms' | 'push';
  /** Address, number, or the id of the user. */
  readonly to: string;
  readonly category?: string | undefined;
  readonly attempt: number;
}

export const signUpPoint = 'users:signUp';
export const signInPoint = 'users:signIn';
export const sendPoint = 'messages:send';
