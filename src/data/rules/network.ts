/**
 * Addresses and networks. One grammar for JavaScript and SQL: PostgreSQL reads only what these patterns
 * admit, so that no stored text can make a statement fail. IPv4 addresses that are written as IPv6 (`::ffff:192.0.2.1`,
 * as servers report them that listen on both) are the IPv4 addresses.
 */

const octet = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const group = '[0-9A-Fa-f]{1,4}';
const version4 = `(${octet}\\.){3}${octet}`;
const zeros = '0{1,4}:';
const version6 = [
  `((${zeros}){5}|::(${zeros}){0,4}|(${zeros}){1,4}:)[Ff]{4}:${version4}`,
  `(${group}:){7}${group}`,
  ...[1, 2, 3, 4, 5, 6].map((before) => `(${group}:){1,${7 - before}}(:${group}){1,${before}}`),
  `(${group}:){1,7}:`,
  `:(:${group}){1,7}`,
  '::',
].join('|');

/** Patterns that mean the same in PostgreSQL and JavaScript. */
export const addressPattern = `^(${version4}|${version6})$`;
export const networkPattern = `^((${version4})/(3[0-2]|[12]?[0-9])|(${version6})/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))$`;

const isAddress = new RegExp(addressPattern);
const isNetwork = new RegExp(networkPattern);
/** Longer texts are no addresses. */
const MAX_TEXT = 50;

export interface Address {
  readonly version: 4 | 6;
  readonly number: bigint;
}

export interface Network extends Address {
  /** Bits that the addresses of the network share. */
  readonly bits: number;
}

/** Nothing for what is no address. */
export function readAddress(text: string): Address | undefined {
  if (text.length > MAX_TEXT || !isAddress.test(text)) return undefined;
  if (!text.includes(':')) return { version: 4, number: version4Of(text) };
  // With a dot the last two groups are written as an IPv4 address.
  const last = text.includes('.') ? text.slice(text.lastIndexOf(':') + 1) : '';
  const low = version4Of(last);
  const groups =
    last === ''
      ? text
      : text.replace(last, `${(low >> 16n).toString(16)}:${(low & 0xffffn).toString(16)}`);
  const number = joined(groupsOf(groups), 16n);
  return isMapped(number) ? { version: 4, number: number & 0xffff_ffffn } : { version: 6, number };
}

const version4Of = (text: string): bigint => joined(text.split('.').map(Number), 8n);

/** Of the network `::ffff:0:0/96`, whose addresses are those of IPv4. */
const isMapped = (number: bigint): boolean => number >> 32n === 0xffffn;
const mappedBits = 96;

export function readNetwork(text: string): Network | undefined {
  if (text.length > MAX_TEXT || !isNetwork.test(text)) return undefined;
  const [address = '', bits = ''] = text.split('/');
  const found = readAddress(address);
  if (!found) return undefined;
  if (found.version === 6 || !address.includes(':')) return { ...found, bits: Number(bits) };
  if (Number(bits) >= mappedBits) return { ...found, bits: Number(bits) - mappedBits };
  // Larger than all of IPv4: a network of IPv6.
  return { version: 6, number: (0xffffn << 32n) | found.number, bits: Number(bits) };
}

const joined = (parts: readonly number[], width: bigint): bigint =>
  parts.reduce((sum, part) => (sum << width) | BigInt(part), 0n);

/** The eight groups, those that `::` stands for included. */
function groupsOf(text: string): readonly number[] {
  const [left = '', right] = text.split('::');
  const read = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((one) => Number.parseInt(one, 16));
  const [head, tail] = [read(left), read(right ?? '')];
  return [...head, ...new Array<number>(8 - head.length - tail.length).fill(0), ...tail];
}

const sizeOf = ({ version }: Address): number => (version === 4 ? 32 : 128);

/** True when the address, or the whole of the other network, lies in the network. */
export function contains(network: Network, other: Address | Network): boolean {
  if (network.version !== other.version) return false;
  const bits = 'bits' in other ? other.bits : sizeOf(other);
  const shift = BigInt(sizeOf(network) - network.bits);
  return bits >= network.bits && network.number >> shift === other.number >> shift;
}

/** As PostgreSQL reads it. */
export function networkText({ version, number, bits }: Network): string {
  return `${addressText({ version, number })}/${bits}`;
}

export function addressText({ version, number }: Address): string {
  const [width, count] = version === 4 ? [8n, 4] : [16n, 8];
  const parts = Array.from({ length: count }, (_, i) => {
    const part = (number >> (width * BigInt(count - 1 - i))) & ((1n << width) - 1n);
    return version === 4 ? String(part) : part.toString(16);
  });
  return parts.join(version === 4 ? '.' : ':');
}
