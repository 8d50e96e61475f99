/**
 * The address a request counts for. Forwarding headers are believed only as far
 * as the proxies that wrote them are trusted; by default none is, so nobody can
 * choose an address.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { headerOf } from '../../kernel/request-header.ts';
import { StartError } from '../../kernel/start-error.ts';

export type AddressOf = (request: IncomingMessage) => string;

/** `trusted`: addresses, CIDR ranges, or one number: how many proxies stand in front. */
export function createAddressOf(trusted: readonly string[]): AddressOf {
  if (trusted.length === 0) return peerOf;
  const [first = ''] = trusted;
  if (trusted.length === 1 && /^\d+$/.test(first))
    return (request) => behindHops(request, Number(first));
  const isTrusted = trustTest(trusted);
  return (request) => behindTrusted(request, isTrusted);
}

const peerOf: AddressOf = (request) => normalise(request.socket.remoteAddress ?? 'unknown');

/** One spelling for an IPv4 address that came through an IPv6 socket. */
const normalise = (address: string): string =>
  address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;

function trustTest(trusted: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const entry of trusted) {
    const [network = '', bits] = entry.split('/', 2);
    const family = isIP(network) === 6 ? 'ipv6' : 'ipv4';
    try {
      if (bits === undefined) list.addAddress(network, family);
      else list.addSubnet(network, Number(bits), family);
    } catch (cause) {
      throw new StartError(
        `TRUSTED_PROXIES: "${entry}" is neither an address, a CIDR range nor a number of proxies`,
        { cause },
      );
    }
  }
  return (address) =>
    isIP(address) !== 0 && list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** From the nearest proxy outwards: the first address that is not a trusted proxy is the client. */
function behindTrusted(request: IncomingMessage, isTrusted: (address: string) => boolean): string {
  let address = peerOf(request);
  for (const hop of hopsOf(request).reverse()) {
    if (!isTrusted(address) || hop === undefined) return address;
    address = hop;
  }
  return address;
}

function behindHops(request: IncomingMessage, hops: number): string {
  const chain = [...hopsOf(request), peerOf(request)];
  for (let i = chain.length - 1 - hops; i < chain.length; i++) {
    const address = chain[Math.max(i, 0)];
    if (address !== undefined) return address;
  }
  return peerOf(request);
}

/** The entries of X-Forwarded-For in order; `undefined` where one is not an address. */
function hopsOf(request: IncomingMessage): (string | undefined)[] {
  const header = headerOf(request.headers, 'x-forwarded-for');
  if (header === undefined) return [];
  return String(header)
    .split(',')
    .map((entry) => addressIn(entry.trim()));
}

/** The address of `1.2.3.4`, `1.2.3.4:80`, `::1` or `[::1]:80`. */
function addressIn(entry: string): string | undefined {
  const bare =
    /^\[([^\]]+)\](?::\d+)?$/.exec(entry)?.[1] ??
    /^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(entry)?.[1] ??
    entry;
  return isIP(bare) === 0 ? undefined : normalise(bare);
}
