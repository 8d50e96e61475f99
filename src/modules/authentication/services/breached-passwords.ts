/**
 * Looks a password up in a list of leaked ones without telling it: only the first five of forty
 * characters of its SHA-1 leave the platform, and the answer (hundreds of candidates, padded) is searched
 * here. The protocol is that of https://haveibeenpwned.com/API/v3#PwnedPasswords, which other services offer too.
 */
import { createHash } from 'node:crypto';
import { createOutboundFetch } from '../../../kernel/outbound/fetch.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';

/** True for a password that was leaked. Throws BREACH_CHECK_UNAVAILABLE where the configuration wants that. */
export type BreachCheck = (password: string) => Promise<boolean>;

const timeoutMs = 3000;
const maxBytes = 1024 * 1024;

export function createBreachCheck(config: () => AuthenticationConfig['passwords']['breached'], log: Logger): BreachCheck {
  // The address comes from an operator, who may run the list in his own network.
  const fetch = createOutboundFetch({ allowInternal: () => true, timeoutMs, maxBytes });

  const lookUp = async (url: string, password: string): Promise<boolean> => {
    const hash = createHash('sha1').update(password.normalize('NFKC')).digest('hex').toUpperCase();
    const response = await fetch(`${url}${hash.slice(0, 5)}`, { headers: { 'add-padding': 'true' } });
    if (response.status !== 200) throw new Error(`the service answered ${response.status}`);
    return isListed(await response.text(), hash.slice(5));
  };

  return async (password) => {
    const { enabled, url, failClosed } = config();
    if (!enabled) return false;
    try {
      return await lookUp(url, password);
    } catch (error) {
      log.warn({ err: error, refused: failClosed }, 'A new password could not be looked up in the list of leaked ones');
      if (failClosed) throw authErrors.BREACH_CHECK_UNAVAILABLE({ retryAfter: 30, cause: error });
      return false;
    }
  };
}

/** Lines `<35 characters of the hash>:<count>`; padding has the count 0. */
const isListed = (lines: string, suffix: string): boolean =>
  lines.split('\n').some((line) => {
    const [candidate, count] = line.trim().split(':', 2);
    return candidate?.toUpperCase() === suffix && Number(count) > 0;
  });
