/** Which client operations there are under a configuration, and which channels are up. */
import type { Operation } from '../../../kernel/operation.ts';
import type { SchemaRegistry } from '../../../kernel/schema/registry.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { Parts } from '../services/assemble.ts';
import { withCaptcha } from './captcha.ts';
import { externalOperations } from './external.ts';
import { factorOperations } from './factors.ts';
import { localOperations, usernameOperations } from './local.ts';
import { emailCodeOperations, exchangeOperation, magicLinkOperations } from './mail-sign-in.ts';
import { recoveryOperations } from './recovery.ts';
import { renewOperation } from './session.ts';
import { userShape } from './shapes.ts';
import { stepUpOperation } from './step-up.ts';
import { answeringInCookies, csrfOperation } from './token-cookies.ts';
import { userOperations } from './user.ts';
import { changeEmailOperations, resendOperation, verifyCodeOperation, verifyLinkOperation } from './verification.ts';

/** Made anew whenever the configuration, a channel or the schema User changes. */
export function switchableOperations(parts: Parts, schemas: Pick<SchemaRegistry, 'get'>): readonly Operation[] {
  const config = parts.config();
  const User = userShape(schemas);
  const mail = parts.messages.available('email');
  const { local, magic_link, email_code, redirectUris, refreshTokens } = config;
  const providers = parts.external.providers();
  const operations = [
    ...userOperations(parts, User),
    ...when(refreshTokens.enabled, () => [renewOperation(parts)]),
    ...when(local.enabled, () => [...localOperations(parts, User), ...addressOperations(parts, config, mail)]),
    ...when(local.username_auth_enabled, () => usernameOperations(parts)),
    ...when(magic_link.enabled && mail, () => magicLinkOperations(parts, magic_link.link_uri !== '')),
    ...when(email_code.enabled && mail, () => emailCodeOperations(parts)),
    ...when(redirectUris.tokenDelivery === 'exchange' || providers.names.length > 0, () => [exchangeOperation(parts)]),
    ...externalOperations(parts.external, config.metamask.enabled),
    ...factorOperations(parts.factors, config, parts.messages.available('sms')),
    stepUpOperation(parts),
    ...when(parts.tokenCookies.enabled(), () => [csrfOperation(parts.tokenCookies)]),
  ];
  return answeringInCookies(withCaptcha(operations, config.captcha, parts.router), parts);
}

/** What goes by way of the mailbox. Links that are out already work as long as local accounts are on. */
function addressOperations(parts: Parts, { local }: AuthenticationConfig, mail: boolean): readonly Operation[] {
  const { send_email, method } = local.verification;
  return [
    verifyLinkOperation(parts),
    ...changeEmailOperations(parts),
    ...when(mail, () => recoveryOperations(parts.recovery)),
    ...when(mail && send_email, () => [resendOperation(parts)]),
    ...when(mail && method === 'code', () => [verifyCodeOperation(parts)]),
  ];
}

const when = (wanted: boolean, operations: () => readonly Operation[]): readonly Operation[] => (wanted ? operations() : []);
