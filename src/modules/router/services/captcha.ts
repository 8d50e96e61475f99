/**
 * Captchas of three services behind one question. The token that a page got is checked at the service, by POST, with
 * the secret in the body. What cannot be checked does not count: an unreachable service is 503, never a yes.
 */
import { createOutboundFetch } from '../../../kernel/outbound.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { RouterConfig } from '../config.ts';
import { routerErrors } from '../errors.ts';

/** `disabled`: no captcha is switched on. */
export type CaptchaVerdict = 'disabled' | 'missing' | 'failed' | 'success';

export interface Captcha {
  /** `address`: of whoever sent the token. Throws CAPTCHA_UNAVAILABLE while nobody can tell. */
  check(token: string | undefined, address: string): Promise<CaptchaVerdict>;
}

type CaptchaConfig = RouterConfig['captcha'];

/** All three answer the same form: https://developers.google.com/recaptcha/docs/verify and its likes. */
const addresses: Readonly<Record<CaptchaConfig['provider'], string>> = {
  recaptcha: 'https://www.google.com/recaptcha/api/siteverify',
  hcaptcha: 'https://api.hcaptcha.com/siteverify',
  turnstile: 'https://challenges.cloudflare.com/turnstile/v0/siteverify',
};

interface ServiceAnswer {
  readonly success?: unknown;
  readonly hostname?: unknown;
  /** Of reCAPTCHA v3: 0 (a machine) to 1. */
  readonly score?: unknown;
  readonly 'error-codes'?: unknown;
}

const maxTokenLength = 8192;
/** Our mistake, not that of whoever sent the token. */
const ownErrors = [
  'missing-input-secret',
  'invalid-input-secret',
  'sitekey-secret-mismatch',
  'bad-request',
  'internal-error',
];

export function createCaptcha(config: () => CaptchaConfig, log: Logger): Captcha {
  // Another address than that of the service is the super admin's word, who may mean their own network.
  const fetch = createOutboundFetch({
    allowInternal: () => config().verifyUrl !== '',
    timeoutMs: 5000,
    maxBytes: 65_536,
  });

  const ask = async (token: string, address: string): Promise<ServiceAnswer> => {
    const { provider, secretKey, verifyUrl } = config();
    const response = await fetch(verifyUrl || addresses[provider], {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        secret: secretKey,
        response: token,
        remoteip: address,
      }).toString(),
    });
    if (response.status !== 200) throw new Error(`the service answered ${response.status}`);
    const answer: unknown = await response.json();
    if (typeof answer !== 'object' || answer === null)
      throw new Error('the service answered no object');
    const reason = codesOf(answer).find((code) => ownErrors.includes(code));
    if (reason !== undefined) throw new Error(`the service answered ${reason}`);
    return answer;
  };

  return {
    async check(token, address) {
      if (!config().enabled) return 'disabled';
      if (token === undefined || token === '') return 'missing';
      if (token.length > maxTokenLength) return 'failed';
      try {
        return passes(await ask(token, address), config()) ? 'success' : 'failed';
      } catch (error) {
        log.error({ err: error }, 'Captchas cannot be checked: whatever needs one is refused');
        throw routerErrors.CAPTCHA_UNAVAILABLE({ retryAfter: 30, cause: error });
      }
    },
  };
}

function codesOf(answer: ServiceAnswer): readonly string[] {
  const codes = answer['error-codes'];
  return Array.isArray(codes) ? codes.filter((code) => typeof code === 'string') : [];
}

/**
 * A token of another site's page is none of ours. Only reCAPTCHA v3 answers how human somebody is; the score of hCaptcha
 * Enterprise is a risk (https://docs.hcaptcha.com/#verify-the-user-response-server-side), and its `success` says what the site made of it.
 */
function passes(
  { success, hostname, score }: ServiceAnswer,
  { provider, hostnames, minimumScore }: CaptchaConfig,
): boolean {
  if (success !== true) return false;
  if (hostnames.length > 0 && !hostnames.some((allowed) => allowed === hostname)) return false;
  if (provider !== 'recaptcha' || score === undefined) return true;
  return typeof score === 'number' && score >= minimumScore;
}
