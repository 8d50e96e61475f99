/**
 * The one form in which an e-mail address is stored and compared. Unicode is normalised first and
 * checked afterwards (the other order is GHSA-7rqj-j65f-68wh), so two texts that mean one mailbox
 * cannot become two accounts, and a look-alike cannot pass as somebody else's address.
 */
import { domainToASCII } from 'node:url';
import { authErrors } from '../errors.ts';

/** Longest address that mail can be sent to (RFC 5321 4.5.3.1.3, without the angle brackets). */
const maxLength = 254;
const maxLocalLength = 64;
/** A dot-atom of RFC 5322: no quotes, no comments, no dot at the ends or twice in a row. */
const localPart = /^[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/;
const domainLabel = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const topLevelLabel = /^(?:[a-z]{2,63}|xn--[a-z0-9-]{1,59})$/;

/** The canonical form; throws INVALID_EMAIL. `path` names the input field in the answer. */
export function canonicalEmail(text: string, path = 'email'): string {
  const email = parse(text);
  if (email !== undefined) return email;
  const message = 'this is not an e-mail address that can be used';
  throw authErrors.INVALID_EMAIL({ message: `${path}: ${message}`, errors: [{ path, rule: 'email', message }] });
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
