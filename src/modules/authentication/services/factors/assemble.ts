/** Puts second factors, passkeys, phones, device keys and anonymous users together, over the parts that every way into an account shares. */
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { countDeviceKeys } from '../../device-key-queries.ts';
import { deleteSecondFactor, phoneNumberOf } from '../../factor-queries.ts';
import { passkeysOf } from '../../passkey-queries.ts';
import type { AccountCreation } from '../account-creation.ts';
import type { AccountErasure } from '../account-erasure.ts';
import { createAnonymousUsers } from '../anonymous.ts';
import { createDeviceKeys } from '../device-keys.ts';
import type { Identities } from '../identities.ts';
import type { MailGuard } from '../mail-guard.ts';
import type { Notices } from '../notices.ts';
import type { OneTimeTokens } from '../one-time-tokens.ts';
import { createChallenges } from '../passkeys/challenges.ts';
import { createPasskeySignIn } from '../passkeys/passkey-sign-in.ts';
import { createPasskeys } from '../passkeys/passkeys.ts';
import { relyingParty } from '../passkeys/relying-party.ts';
import { createPhoneSignIn } from '../phone-sign-in.ts';
import type { SecondFactorReset } from '../second-factor-reset.ts';
import type { SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions.ts';
import type { SignIn } from '../sign-in.ts';
import { createAuthenticator } from './authenticator.ts';
import { createFactorBudget } from './budget.ts';
import { createEnrolment } from './enrolment.ts';
import { createRecoveryCodes, type RecoveryCodes } from './recovery-codes.ts';
import { createSecondFactor } from './second-factor.ts';
import { type Alternative, createSecondStep } from './second-step.ts';
import { createSmsCodes } from './sms-codes.ts';
import { createSmsSpending } from './sms-spending.ts';

interface Foundation extends Pick<Kernel, 'database' | 'events' | 'durableLimits' | 'secrets'> {
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

export function assembleFactors(foundation: Foundation) {
  const { config, durableLimits, publicUrl } = foundation;
  const budget = createFactorBudget(durableLimits);
  const maySend = createSmsSpending(foundation);
  const methods = {
    budget,
    authenticator: createAuthenticator({ ...foundation, issuer: () => config().twoFa.issuer }),
    smsCodes: createSmsCodes({ ...foundation, budget, maySend, lifetimeMs: () => config().phoneAuthentication.codeLifetime }),
    recoveryCodes: createRecoveryCodes(foundation),
  };
  const step = createSecondStep({ ...foundation, ...methods, alternatives: createAlternatives(foundation, methods.recoveryCodes) });
  const ceremonies = { challenges: createChallenges(foundation), party: () => relyingParty(config(), publicUrl()) };
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

export type Factors = ReturnType<typeof assembleFactors>;

const createAlternatives =
  ({ database, config }: Foundation, recoveryCodes: RecoveryCodes) =>
  async (userId: string): Promise<readonly Alternative[]> => {
    const hasPasskey = config().passkeys.enabled && (await passkeysOf(database, userId)).length > 0;
    const hasCode = config().twoFa.backUpCodes.enabled && (await recoveryCodes.left(userId)) > 0;
    return [...(hasPasskey ? (['passkey'] as const) : []), ...(hasCode ? (['recoveryCode'] as const) : [])];
  };

/** What these credentials mean for others: they keep the account open when another way goes. */
function takePart({ secondFactor, identities, config }: Foundation): void {
  secondFactor.onReset(deleteSecondFactor);
  identities.onWaysIn(async (transaction, { userId }) => config().passkeys.enabled && (await passkeysOf(transaction, userId)).length > 0);
  identities.onWaysIn(
    async (transaction, { userId }) => config().phoneAuthentication.enabled && (await phoneNumberOf(transaction, userId)) !== null,
  );
  identities.onWaysIn(
    async (transaction, { userId }) => config().biometricAuthentication.enabled && (await countDeviceKeys(transaction, userId)) > 0,
  );
}
