/** Which addresses may become accounts (spec/authentication.md 5.12). The reason of a refusal is logged, not answered. */
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';

type Rules = AuthenticationConfig['emailRestrictions'];

/** The domain of the addresses that anonymous users get. Nobody registers there, nor below it. */
export const anonymousDomain = 'anonymous.com';

/** Throws EMAIL_NOT_ALLOWED for a canonical address that the rules refuse. `path` names the input field in the answer. */
export type EmailGate = (email: string, path?: string) => void;

export const createEmailGate =
  (rules: () => Rules, log: Logger): EmailGate =>
  (email, path = 'email') => {
    const reason = refusal(email, rules());
    if (reason === undefined) return;
    log.info({ reason }, 'An address was refused by the e-mail restrictions');
    const message = 'addresses of this kind cannot be used here';
    throw authErrors.EMAIL_NOT_ALLOWED({ message: `${path}: ${message}`, errors: [{ path, rule: 'restricted', message }] });
  };

/** Why a canonical address is refused, or nothing. The order of the rules is that of the spec. */
export function refusal(email: string, rules: Rules): string | undefined {
  const at = email.lastIndexOf('@');
  const [local, domain] = [email.slice(0, at), email.slice(at + 1)];
  if (isWithin(domain, anonymousDomain)) return 'reserved domain';
  if (!rules.enabled) return undefined;
  if (isListed(rules.allowedAddresses, email) || isInDomains(rules.allowedDomains, domain)) return undefined;
  if (rules.blockPlusAddressing && local.includes('+')) return 'plus addressing';
  if (isListed(rules.blockedAddresses, email)) return 'blocked address';
  if (isInDomains(rules.blockedDomains, domain)) return 'blocked domain';
  return rules.blockDisposableEmails && isDisposable(domain) ? 'disposable address' : undefined;
}

const isListed = (addresses: readonly string[], email: string): boolean =>
  addresses.some((address) => address.trim().toLowerCase() === email);

/** Entries without a dot are ignored: a whole top-level domain is a mistake. */
const isInDomains = (domains: readonly string[], domain: string): boolean =>
  domains.map((entry) => entry.trim().toLowerCase().replace(/^@/, '')).some((entry) => entry.includes('.') && isWithin(domain, entry));

/** The domain itself or one below it: `evilexample.com` is not within `example.com`. */
const isWithin = (domain: string, parent: string): boolean => domain === parent || domain.endsWith(`.${parent}`);

let disposableDomains: ReadonlySet<string> | undefined;

/** Throw-away services often use a new name below the same domain. The list is read when it is first needed. */
function isDisposable(domain: string): boolean {
  disposableDomains ??= disposableEmailBlocklistSet();
  const known = disposableDomains;
  const labels = domain.split('.');
  return labels.slice(0, -1).some((_label, i) => known.has(labels.slice(i).join('.')));
}
