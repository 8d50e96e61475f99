/**
 * The one form in which an e-mail address is stored and compared. Unicode is normalised first and
 * checked afterwards (the other order is GHSA-7rqj-j65f-68wh), so two texts that mean one mailbox
 * cannot become two accounts, and a look-alike cannot pass as somebody else's address.
 */
import { domainToASCII } from 'node:url';
import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import { invalid } from '../../../../kernel/errors.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';

/* Which addresses may become accounts (spec/authentication.md 5.12). The reason of a refusal is logged, not answered. */

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
    throw authErrors.EMAIL_NOT_ALLOWED({
      message: `${path}: ${message}`,
      errors: [{ path, rule: 'restricted', message }],
    });
  };

/** Why a canonical address is refused, or nothing. The order of the rules is that of the spec. */
export function refusal(email: string, rules: Rules): string | undefined {
  const at = email.lastIndexOf('@');
  const [local, domain] = [email.slice(0, at), email.slice(at + 1)];
  if (isWithin(domain, anonymousDomain)) return 'reserved domain';
  if (!rules.enabled) return undefined;
  if (isListed(rules.allowedAddresses, email) || isInDomains(rules.allowedDomains, domain))
    return undefined;
  if (rules.blockPlusAddressing && local.includes('+')) return 'plus addressing';
  if (isListed(rules.blockedAddresses, email)) return 'blocked address';
  if (isInDomains(rules.blockedDomains, domain)) return 'blocked domain';
  return rules.blockDisposableEmails && isDisposable(domain) ? 'disposable address' : undefined;
}

const isListed = (addresses: readonly string[], email: string): boolean =>
  addresses.some((address) => address.trim().toLowerCase() === email);

/** Entries without a dot are ignored: a whole top-level domain is a mistake. */
const isInDomains = (domains: readonly string[], domain: string): boolean =>
  domains
    .map((entry) => entry.trim().toLowerCase().replace(/^@/, ''))
    .some((entry) => entry.includes('.') && isWithin(domain, entry));

/** The domain itself or one below it: `evilexample.com` is not within `example.com`. */
const isWithin = (domain: string, parent: string): boolean =>
  domain === parent || domain.endsWith(`.${parent}`);

let disposableDomains: ReadonlySet<string> | undefined;

/** Throw-away services often use a new name below the same domain. The list is read when it is first needed. */
function isDisposable(domain: string): boolean {
  disposableDomains ??= disposableEmailBlocklistSet();
  const known = disposableDomains;
  const labels = domain.split('.');
  return labels.slice(0, -1).some((_label, i) => known.has(labels.slice(i).join('.')));
}

/* The one form in which a user name is stored and compared. */

const shape = /^[a-z0-9](?:[a-z0-9._-]{1,62})[a-z0-9]$/;
/** E.164: a plus sign, then up to 15 digits that do not start with zero. */
const e164 = /^\+[1-9]\d{6,14}$/;

/** Lower case and normalised; throws USERNAME_INVALID. */
export function canonicalUsername(text: string): string {
  const name = text.normalize('NFKC').toLowerCase();
  if (shape.test(name)) return name;
  const message =
    'use 3 to 64 of the characters a-z, 0-9, dot, dash and underscore, with a letter or digit at both ends';
  throw authErrors.USERNAME_INVALID({
    message: `username: ${message}`,
    errors: [{ path: 'username', rule: 'pattern', message }],
  });
}

/** A phone number without spaces, dashes and brackets; throws 400. */
export function canonicalPhoneNumber(text: string): string {
  const number = text.replace(/[\s()-]/g, '');
  if (!e164.test(number))
    throw invalid('phoneNumber', 'format', 'write the number with its country, like +306900000000');
  return number;
}

/** Longest address that mail can be sent to (RFC 5321 4.5.3.1.3, without the angle brackets). */
const maxLength = 254;
const maxLocalLength = 64;
/** A dot-atom of RFC 5322: no quotes, no comments, no dot at the ends or twice in a row. */
const localPart = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
const domainLabel = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const topLevelLabel = /^(?:[a-z]{2,63}|xn--[a-z0-9-]{1,59})$/;

/** The canonical form; throws EMAIL_INVALID. `path` names the input field in the answer. */
export function canonicalEmail(text: string, path = 'email'): string {
  const email = parse(text);
  if (email !== undefined) return email;
  const message = 'this is not an e-mail address that can be used';
  throw authErrors.EMAIL_INVALID({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'email', message }],
  });
}

function parse(text: string): string | undefined {
  if (text.length > maxLength) return undefined;
  const at = text.indexOf('@');
  if (at < 1 || text.indexOf('@', at + 1) !== -1) return undefined;
  const normal = text.normalize('NFKC').toLowerCase();
  const [local, domain, ...rest] = normal.split('@');
  if (local === undefined || domain === undefined || rest.length > 0) return undefined;
  if (local.length > maxLocalLength || !localPart.test(local)) return undefined;
  const host = asciiDomain(domain);
  const email = host === undefined ? undefined : `${local}@${host}`;
  return email !== undefined && email.length <= maxLength ? email : undefined;
}

/** The domain in ASCII (international names in Punycode), or nothing when it is no name of a mail host. */
function asciiDomain(domain: string): string | undefined {
  if (/[\s/\\:?#[\]%<>|^]/.test(domain)) return undefined;
  const labels = domainToASCII(domain).split('.');
  const top = labels.at(-1);
  if (labels.length < 2 || top === undefined || !topLevelLabel.test(top)) return undefined;
  return labels.every((label) => domainLabel.test(label)) ? labels.join('.') : undefined;
}
