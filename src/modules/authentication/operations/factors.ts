/** Which operations of second factors, passkeys, phones, devices and anonymous users there are under a configuration. */
import type { Operation } from '../../../kernel/operation.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { Factors } from '../services/factors/assemble.ts';
import { deviceKeyOperations } from './device-keys.ts';
import { passkeyOperations, passkeyStepOperations } from './passkeys.ts';
import { anonymousOperation, phoneOperations } from './phone.ts';
import { recoverOperation, stepOperations } from './second-step.ts';
import { codeOperations, disableOperation, enableOperations } from './two-factor.ts';

/** `sms`: whether text messages are sent now. */
export function factorOperations(factors: Factors, config: AuthenticationConfig, sms: boolean): readonly Operation[] {
  const { twoFa, passkeys, phoneAuthentication, biometricAuthentication } = config;
  return [
    ...stepOperations(factors),
    ...passkeyStepOperations(factors),
    disableOperation(factors),
    ...(twoFa.enabled ? enableOperations(factors) : []),
    ...(twoFa.backUpCodes.enabled ? [recoverOperation(factors)] : []),
    ...(twoFa.enabled && twoFa.backUpCodes.enabled ? codeOperations(factors) : []),
    ...(passkeys.enabled ? passkeyOperations(factors) : []),
    ...(phoneAuthentication.enabled && sms ? phoneOperations(factors) : []),
    ...(biometricAuthentication.enabled ? deviceKeyOperations(factors) : []),
    ...(mayBeAnonymous(config) ? [anonymousOperation(factors)] : []),
  ];
}

/** Somebody without a name has no invitation either. */
const mayBeAnonymous = ({ anonymousUsers, teams }: AuthenticationConfig): boolean =>
  anonymousUsers.enabled && (!teams.enabled || teams.allowRegistrationWithoutInvite);
