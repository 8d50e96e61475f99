/** Which client operations there are under a configuration, and which channels are up. */

import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { AuthenticationConfig } from '../config.ts';
import { profileView } from '../services/accounts/user-data.ts';
import type { Parts } from '../services/authentication-parts.ts';
import { createConsents, createInteractions } from '../services/openid/interactions.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import { withCaptcha } from './captcha.ts';
import { deviceKeyOperations } from './device-keys.ts';
import { externalOperations } from './external.ts';
import { discoveryOperation } from './keys.ts';
import { localOperations, recoveryOperations, usernameOperations } from './local.ts';
import { emailCodeOperations, exchangeOperation, magicLinkOperations } from './mail-sign-in.ts';
import { openidDiscovery, openidOperations } from './openid.ts';
import { interactionOperations } from './openid-interaction.ts';
import { passkeyOperations, passkeyStepOperations } from './passkeys.ts';
import { anonymousOperation, phoneOperations } from './phone.ts';
import { recoverOperation, stepOperations, stepUpOperation } from './second-step.ts';
import { renewOperation } from './sessions.ts';
import { userShape } from './shapes.ts';
import { answeringInCookies, csrfOperation } from './token-cookies.ts';
import { codeOperations, disableOperation, enableOperations } from './two-factor.ts';
import { profileOperations, userOperations } from './user.ts';
import {
  changeEmailOperations,
  resendOperation,
  verifyCodeOperation,
  verifyLinkOperation,
} from './verification.ts';

/* Which operations of second factors, passkeys, phones, devices and anonymous users there are under a configuration. */

/** `sms`: whether text messages are sent now. */
function factorOperations(
  factors: Factors,
  config: AuthenticationConfig,
  sms: boolean,
): readonly Operation[] {
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

/** Made anew whenever the configuration, a channel or the schema User changes. */
export function clientOperations(
  parts: Parts,
  schemas: Pick<SchemaRegistry, 'get'>,
): readonly Operation[] {
  const config = parts.config();
  const User = userShape(schemas);
  const mail = parts.messages.available('email');
  const { local, magic_link, email_code, redirectUris, refreshTokens } = config;
  const providers = parts.external.providers();
  const operations = [
    ...userOperations(parts, User),
    ...profileOperations(parts.profiles, User, profileView(config.profiles)),
    ...when(refreshTokens.enabled, () => [renewOperation(parts)]),
    ...when(local.enabled, () => [
      ...localOperations(parts, User),
      ...addressOperations(parts, config, mail),
    ]),
    ...when(local.username_auth_enabled, () => usernameOperations(parts)),
    ...when(magic_link.enabled && mail, () =>
      magicLinkOperations(parts, magic_link.link_uri !== ''),
    ),
    ...when(email_code.enabled && mail, () => emailCodeOperations(parts)),
    ...when(redirectUris.tokenDelivery === 'exchange' || providers.names.length > 0, () => [
      exchangeOperation(parts),
    ]),
    ...externalOperations(parts.external, config.metamask.enabled),
    ...factorOperations(parts.factors, config, parts.messages.available('sms')),
    stepUpOperation(parts),
    ...issuerOperations(parts, config, mail),
    ...when(parts.tokenCookies.enabled(), () => [csrfOperation(parts.tokenCookies)]),
  ];
  return answeringInCookies(withCaptcha(operations, config.captcha, parts.router), parts);
}

/** What others need to trust this installation, and to let its users sign in to them. */
function issuerOperations(
  { openid, external }: Parts,
  config: AuthenticationConfig,
  mail: boolean,
): readonly Operation[] {
  const { accessTokens, openidProvider, local, email_code, passkeys } = config;
  const { issuer } = accessTokens;
  if (issuer === '') return [];
  if (!openidProvider.enabled) return [discoveryOperation(issuer)];
  const { server, database } = openid;
  const ways = () => ({
    password: local.enabled || local.username_auth_enabled,
    username: local.username_auth_enabled,
    emailCode: email_code.enabled && mail,
    passkey: passkeys.enabled,
    providers: external.providers().names,
  });
  return [
    discoveryOperation(issuer, openidDiscovery(server)),
    ...openidOperations(server),
    ...interactionOperations({
      interactions: createInteractions({ database, server, ways }),
      consents: createConsents({ database }),
      issuer,
      signInPage: openidProvider.signInPage,
    }),
  ];
}

/** What goes by way of the mailbox. Links that are out already work as long as local accounts are on. */
function addressOperations(
  parts: Parts,
  { local }: AuthenticationConfig,
  mail: boolean,
): readonly Operation[] {
  const { send_email, method } = local.verification;
  return [
    verifyLinkOperation(parts),
    ...changeEmailOperations(parts),
    ...when(mail, () => recoveryOperations(parts.recovery)),
    ...when(mail && send_email, () => [resendOperation(parts)]),
    ...when(mail && method === 'code', () => [verifyCodeOperation(parts)]),
  ];
}

const when = (requested: boolean, operations: () => readonly Operation[]): readonly Operation[] =>
  requested ? operations() : [];
