/**
 * Linking another account to one's own, in two steps. The browser comes back from the provider with a code
 * alone; only the app in which the same user is signed in can turn it into a link. So nobody can be
 * made to link their account at a provider to somebody else's account here, whatever address they are sent to.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { Reply } from '../../../../kernel/operations/operation.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { credentialsById } from '../../queries.ts';
import { withQuery } from '../../redirects.ts';
import { forbidImpersonation, requireRecentLogin } from '../caller-checks.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';
import type { Owners } from './account-owners.ts';
import { type Attempts, attemptOf, type StartRequest } from './attempts.ts';
import type { Provider } from './provider.ts';
import type { ExternalProfile } from './provider-contract.ts';
import type { AskProvider, Providers } from './providers.ts';

export interface Linking {
  /** The address at which the user signs in at the provider. Needs a fresh sign-in here; anonymous users cannot. */
  start(provider: Provider, caller: UserCaller, request: StartRequest): Promise<string>;
  /** The browser is back: sends it to the app with a code, or answers the code. */
  offer(
    provider: Provider,
    profile: ExternalProfile,
    userId: string,
    address: string,
  ): Promise<Reply>;
  /** Turns the code into a link of the user who started; answers the provider's name. */
  finish(caller: UserCaller, code: string): Promise<string>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets'> {
  readonly attempts: Attempts;
  readonly owners: Owners;
  readonly tokens: OneTimeTokens;
  readonly providers: () => Providers;
  readonly ask: AskProvider;
  readonly config: () => AuthenticationConfig;
}

const codeLifetimeMs = 5 * 60_000;
const sealContext = 'authentication:external-link';

export function createLinking({
  database,
  secrets,
  attempts,
  owners,
  tokens,
  providers,
  config,
  ask,
}: Dependencies): Linking {
  return {
    async start(provider, caller, request) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      const account = await credentialsById(database, caller.userId);
      if (!account || account.isAnonymous) throw authErrors.USER_ANONYMOUS();
      const attempt = attemptOf('link', request, config(), { user: caller });
      const proof = await attempts.begin(provider, attempt);
      return ask(provider, () => provider.authorizationUrl(proof, attempt.scopes));
    },
    async offer(provider, profile, userId, address) {
      const sealed = secrets.seal(JSON.stringify(profile), sealContext);
      const data = { kind: 'link', provider: provider.settings.name, sealed };
      const { token: linkCode } = await tokens.issue(database, {
        purpose: 'oauth-exchange',
        userId,
        data,
        lifetimeMs: codeLifetimeMs,
      });
      if (address === '')
        return Reply.json(JSON.stringify({ linkCode }), { 'cache-control': 'no-store' });
      return Reply.redirect(withQuery(address, { linkCode }));
    },
    async finish(caller, code) {
      forbidImpersonation(caller);
      const grant = await tokens.consume(database, 'oauth-exchange', code);
      const { kind, provider: name, sealed } = grant?.data ?? {};
      const provider = typeof name === 'string' ? providers().get(name) : undefined;
      if (
        kind !== 'link' ||
        typeof sealed !== 'string' ||
        !provider ||
        grant?.userId !== caller.userId
      ) {
        throw externalErrors.EXTERNAL_EXCHANGE_INVALID();
      }
      const profile = JSON.parse(secrets.open(sealed, sealContext)) as ExternalProfile;
      await owners.link(caller, provider.settings, profile, caller.userId);
      return provider.settings.name;
    },
  };
}
