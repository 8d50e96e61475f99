/**
 * Sign-in by what an app got from a provider's own SDK. A token proves who somebody is only if it was made
 * for this app: one made for another app would sign in whoever uses that one (W4).
 */
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import { sameSecret, sha256 } from '../../../../kernel/security/tokens.ts';
import { externalErrors } from '../../credential-errors.ts';
import type { Origin } from '../origin.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import type { Owners } from './account-owners.ts';
import type { Attempts, StartRequest } from './attempts.ts';
import type { Provider, ProviderTools } from './provider.ts';
import { IdTokenError, ProviderAnswerError, readJson } from './provider-answers.ts';
import {
  type Claims,
  type ExternalProfile,
  objectOf,
  textOf,
  withName,
} from './provider-contract.ts';
import type { AskProvider, Proving } from './providers.ts';

/** What an app needs to start the sign-in on its device. */
export interface NativeStart {
  readonly client_id: string;
  readonly redirect_uri: string;
  readonly scope: string;
  readonly state: string;
  /** To be given to the provider, as it is or as its SHA-256 in hex. */
  readonly nonce: string;
}

export interface NativeAnswer {
  readonly code: string;
  readonly id_token: string;
  readonly state: string;
  readonly user?: string | undefined;
}

export interface PresentedToken {
  readonly idToken?: string | undefined;
  readonly accessToken?: string | undefined;
  /** What the app told the provider, if it did. */
  readonly nonce?: string | undefined;
  readonly invitationToken?: string | undefined;
}

/** Who asks and from where. A caller who is an anonymous user becomes registered. */
export interface Asking {
  readonly caller: Caller;
  readonly origin: Origin;
}

export interface AppSignIn {
  startNative(
    provider: Provider,
    request: Pick<StartRequest, 'scopes' | 'invitationToken'>,
    caller?: UserCaller,
  ): Promise<NativeStart>;
  /** Throws EXTERNAL_STATE_INVALID, EXTERNAL_TOKEN_INVALID, EXTERNAL_CODE_REFUSED, and what an account refuses. */
  finishNative(provider: Provider, answer: NativeAnswer, asking: Asking): Promise<LoginAnswer>;
  /** By an ID token that was made for this app. */
  byIdToken(
    provider: Provider,
    presented: PresentedToken & { readonly idToken: string },
    asking: Asking,
  ): Promise<LoginAnswer>;
  /** By an access token of Facebook, which is asked for which app it was made. */
  byFacebookToken(
    provider: Provider,
    presented: PresentedToken & { readonly accessToken: string },
    asking: Asking,
  ): Promise<LoginAnswer>;
}

interface Dependencies {
  readonly attempts: Attempts;
  readonly owners: Owners;
  readonly signIn: SignIn;
  readonly tools: ProviderTools;
  readonly ask: AskProvider;
  readonly proving: Proving;
}

export function createAppSignIn(dependencies: Dependencies): AppSignIn {
  const { attempts, tools } = dependencies;

  return {
    async startNative(provider, { scopes = [], invitationToken }, caller) {
      const { state, nonce, callbackUrl } = await attempts.begin(provider, {
        mode: 'native',
        scopes,
        invitationToken,
        userId: caller?.userId,
      });
      const { settings } = provider;
      return {
        client_id: settings.clientId,
        redirect_uri: callbackUrl,
        scope: provider.scopes(scopes).join(' '),
        state,
        nonce,
      };
    },
    finishNative: (provider, answer, asking) =>
      finishNative(dependencies, provider, answer, asking),
    async byIdToken(provider, { idToken, accessToken = '', nonce, invitationToken }, by) {
      const profile = await identify(dependencies, provider, by, async () => {
        const claims = await provider.verify(idToken);
        if (nonce !== undefined) requireNonce(claims, nonce, 'always');
        return provider.profile(claims, accessToken);
      });
      return open(dependencies, provider, profile, { ...by, invitationToken });
    },
    async byFacebookToken(provider, { accessToken, invitationToken }, by) {
      const profile = await identify(dependencies, provider, by, () =>
        facebookProfile(provider, accessToken, tools),
      );
      return open(dependencies, provider, profile, { ...by, invitationToken });
    },
  };
}

/** Who the provider says it is; a refusal is noted. */
function identify(
  { proving, ask }: Dependencies,
  provider: Provider,
  { origin }: Asking,
  work: () => Promise<ExternalProfile>,
): Promise<ExternalProfile> {
  return proving(provider, origin, () => ask(provider, work));
}

async function open(
  { proving, owners, signIn }: Dependencies,
  provider: Provider,
  profile: ExternalProfile,
  { invitationToken, userId, ...by }: Opening,
): Promise<LoginAnswer> {
  const { caller, origin } = by;
  const anonymousUserId = userId ?? (caller.kind === 'user' ? caller.userId : undefined);
  const owner = await proving(provider, origin, () =>
    owners.ownerOf(caller, provider.settings, profile, {
      origin,
      invitationToken,
      anonymousUserId,
    }),
  );
  return signIn.openById(owner, origin, provider.settings.name);
}

async function finishNative(
  dependencies: Dependencies,
  provider: Provider,
  answer: NativeAnswer,
  by: Asking,
): Promise<LoginAnswer> {
  const { proving, attempts } = dependencies;
  const { attempt, proof } = await proving(provider, by.origin, () =>
    attempts.end(provider, { state: answer.state, modes: ['native'] }),
  );
  const profile = await identify(dependencies, provider, by, async () => {
    const claims = await provider.verify(answer.id_token);
    requireNonce(claims, proof.nonce, 'whenNamed');
    const client = nativeClient(provider, claims, proof.callbackUrl);
    const redeemed = await provider.redeemNative(answer.code, client);
    // The code works once, so a stolen ID token alone signs nobody in.
    const presented = await provider.profile(claims, '');
    if (redeemed.subject !== presented.subject)
      throw new IdTokenError('the code belongs to another person');
    return withName(redeemed, answer.user);
  });
  return open(dependencies, provider, profile, {
    ...by,
    invitationToken: attempt.invitationToken,
    userId: attempt.userId,
  });
}

interface Opening extends Asking {
  readonly invitationToken?: string | undefined;
  /** The anonymous user who began. */
  readonly userId?: string | undefined;
}

/** Apple's SDKs are given the hash of the nonce by many apps. */
function requireNonce(claims: Claims, nonce: string, when: 'always' | 'whenNamed'): void {
  const named = textOf(claims, 'nonce');
  if (named === undefined && when === 'whenNamed') return;
  const fits =
    named !== undefined && [nonce, sha256(nonce)].some((expected) => sameSecret(named, expected));
  if (!fits) throw new IdTokenError('it belongs to another sign-in (nonce)');
}

/** The client that the token was made for. Only the web client gave the provider an address to come back to. */
function nativeClient(
  { settings }: Provider,
  { aud }: Claims,
  callbackUrl: string,
): { clientId: string; callbackUrl?: string } {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  const own = settings.audiences.find((clientId) => audiences.includes(clientId));
  return own === undefined ? { clientId: settings.clientId, callbackUrl } : { clientId: own };
}

/**
 * `debug_token` tells for which app a token was made, and for whom. Our secret goes in a header; the
 * token itself has no other place than the query.
 */
async function facebookProfile(
  provider: Provider,
  accessToken: string,
  { fetch }: ProviderTools,
): Promise<ExternalProfile> {
  const { clientId, clientSecret, userInfoUrl } = provider.settings;
  const me =
    userInfoUrl === '' ? provider.preset.addresses(provider.settings).userInfo : userInfoUrl;
  const address = new URL('debug_token', me);
  address.searchParams.set('input_token', accessToken);
  const facts = objectOf(
    await readJson(fetch, address.href, {
      headers: { authorization: `Bearer ${clientId}|${clientSecret}` },
    }),
    'data',
  );
  if (facts.is_valid !== true || textOf(facts, 'app_id') !== clientId)
    throw new IdTokenError('the access token was made for another app, or has ended');
  const profile = await provider.profile({}, accessToken).catch((error: unknown) => {
    throw error instanceof ProviderAnswerError && error.status !== undefined && error.status < 500
      ? externalErrors.EXTERNAL_TOKEN_INVALID()
      : error;
  });
  if (profile.subject !== textOf(facts, 'user_id'))
    throw new IdTokenError('the access token belongs to another person');
  return profile;
}
