/** Puts sign-in at other providers and with wallets together, over the parts that every way into an account shares. */
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../../config.ts';
import type { AccountCreation } from '../account-creation.ts';
import type { Claiming } from '../claiming.ts';
import { createIdentities } from '../identities.ts';
import type { Links } from '../links.ts';
import type { Notices } from '../notices.ts';
import type { OneTimeTokens } from '../one-time-tokens.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions.ts';
import type { SignIn } from '../sign-in.ts';
import type { TokenDelivery } from '../token-delivery.ts';
import type { Verification } from '../verification.ts';
import { walletProvider } from '../wallet/provider.ts';
import { createWalletSignIn } from '../wallet/wallet-sign-in.ts';
import { createAppSignIn } from './app-sign-in.ts';
import { createAttempts } from './attempts.ts';
import { createAskProvider, createProving } from './failures.ts';
import { createLinking } from './linking.ts';
import { createOwners } from './owners.ts';
import { createProviderTools, type Providers, providersOf } from './providers.ts';
import { createWebSignIn } from './web-sign-in.ts';

interface Foundation extends Pick<Kernel, 'database' | 'events' | 'secrets'> {
  readonly config: () => AuthenticationConfig;
  readonly creation: AccountCreation;
  readonly claiming: Claiming;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly securityLog: SecurityLog;
  readonly verification: Verification;
  readonly tokens: OneTimeTokens;
  readonly links: Links;
  readonly signIn: SignIn;
  readonly delivery: TokenDelivery;
  readonly log: Logger;
}

export function assembleExternal(foundation: Foundation) {
  const { config, links, log } = foundation;
  const tools = createProviderTools(() => config().externalSignIn.allowInternalAddresses);
  const providers = latest(config, (current) => providersOf(current, tools));
  const ask = createAskProvider(log);
  const proving = createProving(foundation.signIn);
  const attempts = createAttempts(foundation);
  const serves = (name: string) => (name === walletProvider ? config().metamask.enabled : providers().get(name) !== undefined);
  const verifies = () => config().local.verification.send_email || config().local.verification.required;
  const owners = createOwners({ ...foundation, verifies });
  const linking = createLinking({ ...foundation, attempts, owners, providers, ask });
  return {
    providers,
    linking,
    web: createWebSignIn({ ...foundation, attempts, owners, linking, publicUrl: () => links.to(''), ask, proving }),
    apps: createAppSignIn({ ...foundation, attempts, owners, tools, ask, proving }),
    wallet: createWalletSignIn({ ...foundation, owners, publicUrl: () => links.to('') }),
    identities: createIdentities({ ...foundation, serves }),
  };
}

export type External = ReturnType<typeof assembleExternal>;

/** Made once per version of the configuration. */
function latest(config: () => AuthenticationConfig, make: (config: AuthenticationConfig) => Providers): () => Providers {
  let made: { readonly from: AuthenticationConfig; readonly providers: Providers } | undefined;
  return () => {
    const from = config();
    if (made?.from !== from) made = { from, providers: make(from) };
    return made.providers;
  };
}
