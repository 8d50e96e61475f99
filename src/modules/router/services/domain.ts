/** Where the pages of a web app may come from: a host name, all names below one, or any. Compared label by label. */
import { domainToASCII } from 'node:url';
import { routerErrors } from '../errors.ts';

const label = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The pattern in its one form: lower case, names in ASCII. Throws INVALID_DOMAIN. */
export function canonicalDomain(text: string): string {
  const pattern = text.trim().toLowerCase();
  if (pattern === '*') return pattern;
  const wild = pattern.startsWith('*.');
  const name = wild ? pattern.slice(2) : pattern;
  // The conversion stops at such signs and would answer the part before them.
  const host = /[\s/\\:?#@[\]%*<>|^]/.test(name) ? '' : domainToASCII(name);
  if (host === '' || host.length > 253 || !host.split('.').every((part) => label.test(part))) {
    const message = 'give a host name such as app.example.com, *.example.com for all below it, or * for any';
    throw routerErrors.INVALID_DOMAIN({ errors: [{ path: 'domain', rule: 'format', message }] });
  }
  return wild ? `*.${host}` : host;
}

/** Whether a host falls under a pattern. `*.example.com` is everything below example.com, not example.com itself. */
export function hostMatches(host: string, pattern: string): boolean {
  if (pattern === '*') return true;
  if (!pattern.startsWith('*.')) return host === pattern;
  const suffix = pattern.slice(1);
  return host.length > suffix.length && host.endsWith(suffix);
}

/** The host name of an `Origin` header (`null` and nonsense have none). */
export function hostOfOrigin(origin: string): string | undefined {
  if (!URL.canParse(origin)) return undefined;
  const { protocol, hostname, origin: parsed } = new URL(origin);
  return (protocol === 'https:' || protocol === 'http:') && parsed === origin.toLowerCase() ? hostname : undefined;
}

/** The host name of a `Host` header. */
export const hostOfHeader = (host: string): string | undefined =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined;
