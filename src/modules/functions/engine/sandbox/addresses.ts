/**
 * Addresses that code reads. The parser needs the square of the length of a host for one with letters of other scripts:
 * minutes for what fits into one request, on a thread that others wait for.
 */

export interface AskedUrl {
  readonly href?: string;
  readonly base?: string;
  readonly set?: readonly [name: 'href' | 'search' | 'host' | 'hostname', value: string];
}

/** Characters; a name has 253, and credentials may stand before it. */
const MAX_HOST = 2_048;

/** Where a host stands in what the parser reads, over all the ways to write it. */
const hostPlace = /^(?:(?:https?|wss?|ftp|file):[/\\]*|[/\\]{2,})([^/?#\\]*)/i;
/** The parser leaves out the first ones anywhere, and these and all before `!` at the beginning. */
const leftOut = /[\t\n\r]/g;
const before = /^[^!-\uffff]+/;

export const hasLongHost = (text: string): boolean =>
  text.length > MAX_HOST &&
  (hostPlace.exec(text.replaceAll(leftOut, '').replace(before, ''))?.[1]?.length ?? 0) > MAX_HOST;

/** Throws for what is no address, and for one whose host is too long. */
export function urlOf({ href = '', base, set }: AskedUrl): unknown {
  const [name, value = ''] = set ?? [];
  const isLong =
    hasLongHost(href) || hasLongHost(base ?? '') || hasLongHost(name === 'href' ? value : '');
  if (isLong || (name?.startsWith('host') && value.length > MAX_HOST))
    throw new Error('The host of an address is too long');
  const url = base === undefined ? new URL(href) : new URL(href, base);
  if (set && set[0] in url) (url as unknown as Record<string, string>)[set[0]] = set[1];
  const { origin, protocol, username, password, host, hostname, port, pathname, search, hash } =
    url;
  return {
    href: url.href,
    origin,
    protocol,
    username,
    password,
    host,
    hostname,
    port,
    pathname,
    search,
    hash,
  };
}
