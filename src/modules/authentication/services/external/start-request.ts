/** What an app asks for when a sign-in starts. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { allowedRedirect } from '../redirects.ts';
import type { Attempt, AttemptMode } from './attempts.ts';

export interface StartRequest {
  readonly redirectUri?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly invitationToken?: string | undefined;
  readonly codeChallenge?: string | undefined;
}

/** Who asks. */
export interface Asker {
  /** `signIn`: an anonymous user, who becomes registered. */
  readonly user?: UserCaller | undefined;
  /** The registered app, where apps are told apart. */
  readonly clientId?: string | undefined;
}

/** The attempt of such a request. Throws for a `redirectUri` that is not on the list. */
export function attemptOf(
  mode: AttemptMode,
  request: StartRequest,
  { redirectUris }: AuthenticationConfig,
  { user, clientId }: Asker,
): Attempt {
  const { redirectUri, scopes = [], invitationToken, codeChallenge } = request;
  return {
    mode,
    scopes,
    invitationToken,
    codeChallenge,
    userId: user?.userId,
    clientId,
    ...(redirectUri === undefined ? {} : { redirectUri: allowedRedirect(redirectUri, redirectUris) }),
  };
}
