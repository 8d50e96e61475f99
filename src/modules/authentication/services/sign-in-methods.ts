/** Puts second factors, passkeys, phones, device keys and anonymous users together, over the parts that every way into an account shares. */
import type { Kernel } from '../../../host/kernel.ts';
import { createAuthenticator } from '../../../kernel/security/second-factor/authenticator.ts';
import {
  createRecoveryCodes,
  digitCodes,
  type RecoveryCodes,
} from '../../../kernel/security/second-factor/recovery-codes.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { Messages } from '../../communications/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { Links } from '../redirects.ts';
import { walletProvider } from '../strategies.ts';
import {
  type AccountCreation,
  type AccountErasure,
  createAnonymousUsers,
} from './accounts/account-lifecycle.ts';
import type { Verification } from './accounts/verification.ts';
import {
  type AccountTakeoverGuard,
  createIdentities,
  type Identities,
  type SecondFactorReset,
} from './credentials/credentials.ts';
import { countDeviceKeys, passkeysOf } from './credentials/key-queries.ts';
import {
  deleteSecondFactor,
  phoneNumberOf,
  recoveryCodeTable,
  totpTable,
} from './credentials/queries.ts';
import { createOwners } from './external/account-owners.ts';
import { createAppSignIn } from './external/app-sign-in.ts';
import { createAttempts } from './external/attempts.ts';
import { createLinking } from './external/linking.ts';
import {
  createAskProvider,
  createProviderTools,
  createProving,
  type Providers,
  providersOf,
} from './external/providers.ts';
import { createWalletSignIn } from './external/wallet-sign-in.ts';
import { createWebSignIn } from './external/web-sign-in.ts';
import { createPhoneSignIn } from './login/phone-sign-in.ts';
import type { MailGuard } from './mail/mail-requests.ts';
import type { Notices } from './mail/notices.ts';
import { createDeviceKeys } from './passkeys/device-keys.ts';
import { createChallenges, createPasskeySignIn, relyingParty } from './passkeys/passkey-sign-in.ts';
import { createPasskeys } from './passkeys/passkeys.ts';
import { createEnrolment } from './second-factor/enrolment.ts';
import {
  type Alternative,
  createSecondFactor,
  createSecondStep,
} from './second-factor/second-factor.ts';
import { createFactorQuota, createSmsCodes, createSmsQuota } from './second-factor/sms-codes.ts';
import type { SecurityLog } from './security-log.ts';
import type { Sessions } from './sessions/sessions.ts';
import type { SignIn } from './sessions/sign-in.ts';
import type { TokenDelivery } from './sessions/token-cookies.ts';
import type { OneTimeTokens } from './tokens/one-time-tokens.ts';

/* Puts sign-in at other providers and with wallets together, over the parts that every way into an account shares. */

interface ExternalFoundation extends Pick<Kernel, 'database' | 'events' | 'secrets'> {
  readonly config: () => AuthenticationConfig;
  readonly creation: AccountCreation;
  readonly takeoverGuard: AccountTakeoverGuard;
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

export function createExternalSignIn(foundation: ExternalFoundation) {
  const { config, links, log } = foundation;
  const tools = createProviderTools(() => config().externalSignIn.allowInternalAddresses);
  const providers = latest(config, (current) => providersOf(current, tools));
  const ask = createAskProvider(log);
  const proving = createProving(foundation.signIn);
  const attempts = createAttempts(foundation);
  const serves = (name: string) =>
    name === walletProvider ? config().metamask.enabled : providers().get(name) !== undefined;
  const verifies = () =>
    config().local.verification.send_email || config().local.verification.required;
  const owners = createOwners({ ...foundation, verifies });
  const linking = createLinking({ ...foundation, attempts, owners, providers, ask });
  return {
    providers,
    linking,
    web: createWebSignIn({
      ...foundation,
      attempts,
      owners,
      linking,
      publicUrl: () => links.to(''),
      ask,
      proving,
    }),
    apps: createAppSignIn({ ...foundation, attempts, owners, tools, ask, proving }),
    wallet: createWalletSignIn({ ...foundation, owners, publicUrl: () => links.to('') }),
    identities: createIdentities({ ...foundation, serves }),
  };
}

export type External = ReturnType<typeof createExternalSignIn>;

/** Made once per version of the configuration. */
function latest(
  config: () => AuthenticationConfig,
  make: (config: AuthenticationConfig) => Providers,
): () => Providers {
  let made: { readonly from: AuthenticationConfig; readonly providers: Providers } | undefined;
  return () => {
    const from = config();
    if (made?.from !== from) made = { from, providers: make(from) };
    return made.providers;
  };
}

interface FactorFoundation
  extends Pick<Kernel, 'database' | 'events' | 'durableLimits' | 'secrets'> {
  readonly config: () => AuthenticationConfig;
  readonly messages: Messages;
  readonly tokens: OneTimeTokens;
  readonly guard: MailGuard;
  readonly creation: AccountCreation;
  readonly erasure: AccountErasure;
  readonly secondFactor: SecondFactorReset;
  readonly sessions: Sessions;
  readonly signIn: SignIn;
  readonly notices: Notices;
  readonly securityLog: SecurityLog;
  readonly identities: Identities;
  /** Where browsers reach the platform. */
  readonly publicUrl: () => string;
}

export function createFactors(foundation: FactorFoundation) {
  const { config, durableLimits, publicUrl } = foundation;
  const quota = createFactorQuota(durableLimits);
  const maySend = createSmsQuota(foundation);
  const methods = {
    quota,
    authenticator: createAuthenticator({
      ...foundation,
      ...totpTable,
      context: 'authentication:totp',
      issuer: () => config().twoFa.issuer,
    }),
    smsCodes: createSmsCodes({
      ...foundation,
      quota,
      maySend,
      lifetimeMs: () => config().phoneAuthentication.codeLifetime,
    }),
    recoveryCodes: createRecoveryCodes({
      ...foundation,
      ...recoveryCodeTable,
      context: 'authentication:recovery-code',
      format: digitCodes,
    }),
  };
  const step = createSecondStep({
    ...foundation,
    ...methods,
    alternatives: createAlternatives(foundation, methods.recoveryCodes),
  });
  const ceremonies = {
    challenges: createChallenges(foundation),
    party: () => relyingParty(config(), publicUrl()),
  };
  takePart(foundation);
  return {
    step,
    enrolment: createEnrolment({ ...foundation, ...methods, step }),
    secondFactor: createSecondFactor({ ...foundation, ...methods, step }),
    passkeys: createPasskeys({ ...foundation, ...ceremonies }),
    passkeySignIn: createPasskeySignIn({ ...foundation, ...ceremonies, step }),
    phone: createPhoneSignIn({ ...foundation, maySend }),
    deviceKeys: createDeviceKeys(foundation),
    anonymousUsers: createAnonymousUsers(foundation),
  };
}

export type Factors = ReturnType<typeof createFactors>;

const createAlternatives =
  ({ database, config }: FactorFoundation, recoveryCodes: RecoveryCodes) =>
  async (userId: string): Promise<readonly Alternative[]> => {
    const hasPasskey = config().passkeys.enabled && (await passkeysOf(database, userId)).length > 0;
    const hasCode = config().twoFa.backUpCodes.enabled && (await recoveryCodes.left(userId)) > 0;
    return [
      ...(hasPasskey ? (['passkey'] as const) : []),
      ...(hasCode ? (['recoveryCode'] as const) : []),
    ];
  };

/** What these credentials mean for others: they keep the account open when another way goes. */
function takePart({ secondFactor, identities, config }: FactorFoundation): void {
  secondFactor.onReset(deleteSecondFactor);
  identities.onWaysIn(
    async (transaction, { userId }) =>
      config().passkeys.enabled && (await passkeysOf(transaction, userId)).length > 0,
  );
  identities.onWaysIn(
    async (transaction, { userId }) =>
      config().phoneAuthentication.enabled && (await phoneNumberOf(transaction, userId)) !== null,
  );
  identities.onWaysIn(
    async (transaction, { userId }) =>
      config().biometricAuthentication.enabled && (await countDeviceKeys(transaction, userId)) > 0,
  );
}
