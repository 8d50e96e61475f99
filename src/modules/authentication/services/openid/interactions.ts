/**
 * Signing in to an app, from the side of the user: what the app asks for, whose session answers it, what it may know.
 * A user proves who they are to the operations of authentication, as everywhere; here their session is only bound to
 * the sign-in that the cookies of their browser belong to.
 */
import type { Provider } from 'oidc-provider';
import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { openidProviderErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { openidLibrary } from './library.ts';
import type { InteractionView, SignInWays } from './pages.ts';
import type { OpenidRequest, OpenidServer } from './provider.ts';
import {
  type ConsentRow,
  claimsRow,
  consentsOf,
  giveConsent,
  removeItemsOf,
  withdrawConsent,
} from './queries.ts';

/* What users have agreed to. */

export interface Consents {
  list(caller: UserCaller): Promise<readonly ConsentRow[]>;
  /** Ends everything that the app has of the user. 404 when there is nothing. */
  withdraw(caller: UserCaller, clientId: string): Promise<void>;
}

export const createConsents = ({ database }: Pick<Kernel, 'database'>): Consents => ({
  list: ({ userId }) => consentsOf(database, userId),
  withdraw: ({ userId }, clientId) =>
    database.transaction(async (transaction) => {
      if (!(await withdrawConsent(transaction, userId, clientId)))
        throw openidProviderErrors.OPENID_CLIENT_NOT_FOUND();
      await removeItemsOf(transaction, userId, clientId);
    }),
});

export interface Interactions {
  /** Throws 400 when the sign-in is over, or is that of another browser. */
  view(request: OpenidRequest): Promise<InteractionView>;
  /** Answers where the browser goes on. Throws 403 when the app wants a fresh login and this is none. */
  signIn(request: OpenidRequest, caller: UserCaller): Promise<string>;
  /** The user agrees, or does not; answers where the browser goes on. */
  decide(request: OpenidRequest, allow: boolean): Promise<string>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly server: OpenidServer;
  readonly ways: () => SignInWays;
}

type Interaction = Awaited<ReturnType<Provider['interactionDetails']>>;
type Exchange = Parameters<Provider['interactionDetails']>;

export function createInteractions({ database, server, ways }: Dependencies): Interactions {
  const within = <T>(
    request: OpenidRequest,
    work: (provider: Provider, interaction: Interaction, exchange: Exchange) => Promise<T>,
  ): Promise<T> =>
    server
      .within(request, async (provider, ...exchange) =>
        work(provider, await provider.interactionDetails(...exchange), exchange),
      )
      .catch((error: unknown) => {
        throw error instanceof openidLibrary().errors.SessionNotFound
          ? openidProviderErrors.OPENID_INTERACTION_INVALID()
          : error;
      });

  return {
    view: (request) =>
      within(request, async (provider, interaction) => viewOf(provider, interaction, ways())),
    signIn: (request, caller) =>
      within(request, async (provider, interaction, exchange) => {
        await requireUsable({ database }, interaction, caller);
        return provider.interactionResult(...exchange, {
          login: {
            accountId: caller.userId,
            ts: Math.floor(caller.authenticatedAt / 1000),
            // For `adapter.ts`: what the browser's session at the provider ends with.
            platformSession: caller.sessionId,
          },
        });
      }),
    decide: (request, allow) =>
      within(request, async (provider, interaction, exchange) => {
        if (!allow)
          return provider.interactionResult(
            ...exchange,
            { error: 'access_denied', error_description: 'The user did not agree' },
            { mergeWithLastSubmission: false },
          );
        if (interaction.prompt.name !== 'consent')
          throw openidProviderErrors.OPENID_LOGIN_REQUIRED();
        const grantId = await agree({ database }, provider, interaction);
        return provider.interactionResult(...exchange, { consent: { grantId } });
      }),
  };
}

async function viewOf(
  provider: Provider,
  { uid, prompt, params }: Interaction,
  methods: SignInWays,
): Promise<InteractionView> {
  const clientId = String(params.client_id);
  const client = await provider.Client.find(clientId);
  if (!client) throw openidProviderErrors.OPENID_INTERACTION_INVALID();
  return {
    interaction: uid,
    prompt: prompt.name === 'consent' ? 'consent' : 'login',
    reasons: prompt.reasons,
    client: { clientId, name: client.clientName ?? clientId },
    scopes: typeof params.scope === 'string' ? params.scope.split(' ') : [],
    methods,
  };
}

/** Clocks of ours are one; a login at the very moment of the request counts. Seconds. */
const slackSeconds = 2;

/** An operator who acts as a user signs in nowhere else; nor does somebody without an account. */
async function requireUsable(
  { database }: Pick<Kernel, 'database'>,
  { prompt, params, iat }: Interaction,
  { userId, authenticatedAt, impersonatedBy }: UserCaller,
): Promise<void> {
  if (impersonatedBy !== undefined || !(await claimsRow(database, userId)))
    throw authErrors.USER_ANONYMOUS();
  const at = authenticatedAt / 1000;
  const wantsLogin = prompt.reasons.includes('login_prompt');
  const maxAge = params.max_age === undefined ? Number.POSITIVE_INFINITY : Number(params.max_age);
  const fresh = wantsLogin ? at >= iat - slackSeconds : true;
  const young = maxAge === 0 ? at >= iat - slackSeconds : Date.now() / 1000 - at <= maxAge;
  if (!fresh || !young) throw openidProviderErrors.OPENID_LOGIN_REQUIRED();
}

/** Stores what the user agrees to, for this sign-in and for later ones. */
async function agree(
  { database }: Pick<Kernel, 'database'>,
  provider: Provider,
  { prompt, params, session, grantId }: Interaction,
): Promise<string> {
  const accountId = session?.accountId;
  if (accountId === undefined) throw openidProviderErrors.OPENID_LOGIN_REQUIRED();
  const clientId = String(params.client_id);
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId);
  const grant = known ?? new provider.Grant({ accountId, clientId });
  const { missingOIDCScope } = prompt.details;
  const requested = typeof params.scope === 'string' ? params.scope.split(' ') : [];
  const scopes = Array.isArray(missingOIDCScope) ? missingOIDCScope.map(String) : requested;
  grant.addOIDCScope(scopes.join(' '));
  await giveConsent(database, accountId, clientId, requested);
  return grant.save();
}
