/**
 * Puts the parts together that every way into an account shares. What has its own routes (teams, other
 * providers, second factors) builds on these.
 */
import type { ModuleContext } from '../../../kernel/module.ts';
import type { communications } from '../../communications/index.ts';
import type { router } from '../../router/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { AccessTokens } from './access-tokens.ts';
import { createAccountCreation } from './account-creation.ts';
import { createAccountErasure } from './account-erasure.ts';
import { createAccounts } from './accounts.ts';
import { createBreachCheck } from './breached-passwords.ts';
import { createClaiming } from './claiming.ts';
import { createEmailChange } from './email-change.ts';
import { createEmailGate } from './email-restrictions.ts';
import { assembleExternal } from './external/assemble.ts';
import { assembleFactors } from './factors/assemble.ts';
import { createLeaveSession } from './left-session.ts';
import { createLinks } from './links.ts';
import { createLocalLogin } from './local-login.ts';
import { createMailGuard } from './mail-guard.ts';
import { createMailRequests } from './mail-requests.ts';
import { createMailSignIn } from './mail-sign-in.ts';
import { createNewPassword } from './new-password.ts';
import { createNotices } from './notices.ts';
import { createOneTimeTokens } from './one-time-tokens.ts';
import { createPasswordRecovery } from './password-recovery.ts';
import { assembleProtection } from './protection.ts';
import { createRegistration } from './registration.ts';
import { createRenewal } from './renewal.ts';
import { createSecondFactorReset } from './second-factor-reset.ts';
import { createSecurityLog } from './security-log.ts';
import { createSessionOpener } from './session-opening.ts';
import type { SessionStates } from './session-states.ts';
import { createSessions } from './sessions.ts';
import { createSignIn } from './sign-in.ts';
import { createStepUp } from './step-up.ts';
import { createTokenCookies } from './token-cookies.ts';
import { createTokenDelivery } from './token-delivery.ts';
import { createTokenHooks } from './token-hooks.ts';
import { createPairMaker } from './token-pairs.ts';
import { createVerification } from './verification.ts';

/** The modules that authentication builds on. */
export type Requirements = { readonly communications: typeof communications; readonly router: typeof router };

/** What lives as long as the process, beyond a start of the module. */
export interface Lasting {
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
}

type Context = Pick<ModuleContext<AuthenticationConfig, Requirements>, 'kernel' | 'config' | 'services' | 'log'>;

/** What concerns accounts and their sessions, whatever the way in. */
function foundation({ kernel, config: handle, services, log }: Context, { accessTokens, states }: Lasting) {
  const config = () => handle.current();
  const { messages } = services.communications;
  const makePair = createPairMaker(accessTokens, config);
  const sessions = createSessions({ ...kernel, states });
  const tokenHooks = createTokenHooks(log);
  const openSession = createSessionOpener({ ...kernel, states, makePair, hooks: tokenHooks, config });
  const requireAllowedEmail = createEmailGate(() => config().emailRestrictions, log);
  const isBreached = createBreachCheck(() => config().passwords.breached, log);
  const tokens = createOneTimeTokens(kernel);
  const securityLog = createSecurityLog(kernel);
  const publicUrl = () => services.router.publicUrl();
  const tokenCookies = createTokenCookies({ ...kernel, accessTokens, publicUrl, config });
  const notices = createNotices(messages);
  const requests = createMailRequests({ ...kernel, securityLog });
  const protection = assembleProtection({ ...kernel, requests, notices, messages, config });
  return {
    ...protection,
    config,
    messages,
    router: services.router,
    sessions,
    makePair,
    secondFactor: createSecondFactorReset({ ...kernel, sessions }),
    renewal: createRenewal({ ...kernel, states, makePair, securityLog, config, log }),
    tokens,
    signIn: createSignIn({ ...kernel, openSession, securityLog, devices: protection.devices, config }),
    tokenCookies,
    leaveSession: createLeaveSession({ ...kernel, accessTokens, tokenCookies, sessions }),
    delivery: createTokenDelivery({ ...kernel, tokens, tokenCookies, how: () => config().redirectUris.tokenDelivery }),
    guard: createMailGuard(kernel.durableLimits, () => config().local.verification.resend_threshold),
    links: createLinks(publicUrl),
    requests,
    securityLog,
    tokenHooks,
    requireAllowedEmail,
    newPassword: createNewPassword({ passwords: kernel.passwords, isBreached, config: () => config().passwords }),
    creation: createAccountCreation({ ...kernel, requireAllowedEmail, log, userDataConfig: () => config().userData }),
    erasure: createAccountErasure({ ...kernel, sessions, messages }),
    claiming: createClaiming({ ...kernel, sessions, tokens }),
    notices,
  };
}

/** The foundation with what works with addresses, names and passwords on top. */
export function assemble(context: Context, lasting: Lasting) {
  const base = foundation(context, lasting);
  const parts = { ...context.kernel, ...base };
  const verification = createVerification(parts);
  const external = assembleExternal({ ...parts, verification, log: context.log });
  const factors = assembleFactors({ ...parts, identities: external.identities, publicUrl: () => base.links.to('') });
  return {
    ...base,
    verification,
    register: createRegistration(parts),
    local: createLocalLogin({ ...parts, guard: base.loginGuard }),
    accounts: createAccounts({ ...parts, guard: base.loginGuard }),
    recovery: createPasswordRecovery(parts),
    emailChange: createEmailChange(parts),
    mailSignIn: createMailSignIn(parts),
    external,
    factors,
    stepUp: createStepUp({ ...parts, ...factors, guard: base.loginGuard }),
  };
}

export type Parts = ReturnType<typeof assemble>;
