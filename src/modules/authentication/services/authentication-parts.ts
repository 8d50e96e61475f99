/**
 * Puts the parts together that every way into an account shares. What has its own routes (teams, other
 * providers, second factors) builds on these.
 */
import type { ModuleContext } from '../../../host/module.ts';
import type { communications } from '../../communications/index.ts';
import type { router } from '../../router/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import { createLinks } from '../redirects.ts';
import { createAccountCreation, createAccountErasure } from './accounts/account-lifecycle.ts';
import { createAccounts } from './accounts/accounts.ts';
import { createEmailChange } from './accounts/email-change.ts';
import { createEmailGate } from './accounts/identifiers.ts';
import { createRegistration } from './accounts/registration.ts';
import { createProfiles } from './accounts/user-data.ts';
import { createVerification } from './accounts/verification.ts';
import { createAccountTakeoverGuard, createSecondFactorReset } from './credentials/credentials.ts';
import { createLocalLogin, createPasswordRecovery } from './login/local-login.ts';
import { createMailSignIn } from './login/mail-sign-in.ts';
import { createStepUp } from './login/step-up.ts';
import { createMailGuard, createMailRequests } from './mail/mail-requests.ts';
import { createNotices } from './mail/notices.ts';
import { createOpenid } from './openid/provider.ts';
import { createBreachCheck, createNewPassword } from './passwords.ts';
import { createSecurityLog } from './security-log.ts';
import { createLoginProtection } from './sessions/login-guard.ts';
import { createRenewal } from './sessions/renewal.ts';
import {
  createPairMaker,
  createSessionOpener,
  createTokenHooks,
} from './sessions/session-opening.ts';
import { createSessions, type SessionStates } from './sessions/sessions.ts';
import { createSignIn } from './sessions/sign-in.ts';
import {
  createEndPreviousSession,
  createTokenCookies,
  createTokenDelivery,
} from './sessions/token-cookies.ts';
import { createExternalSignIn, createFactors } from './sign-in-methods.ts';
import type { AccessTokens } from './tokens/access-tokens.ts';
import { createOneTimeTokens } from './tokens/one-time-tokens.ts';
import type { SigningKeys } from './tokens/signing-keys.ts';

/** The modules that authentication builds on. */
export type Requirements = {
  readonly communications: typeof communications;
  readonly router: typeof router;
};

/** What lives as long as the process, beyond a start of the module. */
export interface ProcessServices {
  readonly accessTokens: AccessTokens;
  readonly states: SessionStates;
  readonly keys: SigningKeys;
}

type Context = Pick<
  ModuleContext<AuthenticationConfig, Requirements>,
  'kernel' | 'config' | 'services' | 'log'
>;

/** What concerns accounts and their sessions, whatever the way in. */
function foundation(
  { kernel, config: handle, services, log }: Context,
  { accessTokens, states, keys }: ProcessServices,
) {
  const config = () => handle.current();
  const { messages, devices } = services.communications;
  const makePair = createPairMaker(accessTokens, config);
  const sessions = createSessions({ ...kernel, states, devices });
  const hooks = createTokenHooks(kernel.hooks, log);
  const openSession = createSessionOpener({ ...kernel, states, makePair, hooks, config });
  const requireAllowedEmail = createEmailGate(() => config().emailRestrictions, log);
  const isBreached = createBreachCheck(() => config().passwords.breached, log);
  const tokens = createOneTimeTokens(kernel);
  const securityLog = createSecurityLog(kernel);
  const publicUrl = () => services.router.publicUrl();
  const tokenCookies = createTokenCookies({ ...kernel, accessTokens, publicUrl, config });
  const notices = createNotices(messages);
  const requests = createMailRequests({ ...kernel, securityLog });
  const protection = createLoginProtection({ ...kernel, requests, notices, messages, config });
  const own = { ...kernel, tokens, tokenCookies, sessions };
  const userDataConfig = () => config().userData;
  const resendThreshold = () => config().local.verification.resend_threshold;
  return {
    ...protection,
    config,
    messages,
    router: services.router,
    sessions,
    makePair,
    secondFactor: createSecondFactorReset({ ...kernel, sessions }),
    renewal: createRenewal({ ...kernel, states, devices, makePair, securityLog, config, log }),
    tokens,
    signIn: createSignIn({ ...kernel, ...protection, openSession, securityLog, config }),
    tokenCookies,
    endPreviousSession: createEndPreviousSession({ ...own, accessTokens }),
    delivery: createTokenDelivery({ ...own, how: () => config().redirectUris.tokenDelivery }),
    guard: createMailGuard(kernel.durableLimits, resendThreshold),
    links: createLinks(publicUrl),
    requests,
    securityLog,
    tokenHooks: hooks,
    requireAllowedEmail,
    newPassword: createNewPassword({ ...kernel, isBreached, config: () => config().passwords }),
    creation: createAccountCreation({ ...own, requireAllowedEmail, log, userDataConfig }),
    erasure: createAccountErasure({ ...kernel, sessions, messages }),
    openid: createOpenid({ ...own, keys, config, publicUrl }),
    takeoverGuard: createAccountTakeoverGuard({ ...kernel, sessions, tokens }),
    notices,
  };
}

/** The foundation with what works with addresses, names and passwords on top. */
export function createAuthenticationParts(context: Context, lasting: ProcessServices) {
  const base = foundation(context, lasting);
  const parts = { ...context.kernel, ...base };
  const verification = createVerification(parts);
  const external = createExternalSignIn({ ...parts, verification, log: context.log });
  const factors = createFactors({
    ...parts,
    identities: external.identities,
    publicUrl: () => base.links.to(''),
  });
  return {
    ...base,
    verification,
    register: createRegistration(parts),
    local: createLocalLogin({ ...parts, guard: base.loginGuard }),
    profiles: createProfiles(context.kernel),
    accounts: createAccounts({ ...parts, guard: base.loginGuard }),
    recovery: createPasswordRecovery(parts),
    emailChange: createEmailChange(parts),
    mailSignIn: createMailSignIn(parts),
    external,
    factors,
    stepUp: createStepUp({ ...parts, ...factors, guard: base.loginGuard }),
  };
}

export type Parts = ReturnType<typeof createAuthenticationParts>;
