/**
 * Addresses and networks. One grammar for JavaScript and SQL: PostgreSQL reads only what these patterns
 * admit, so that no stored text can make a statement fail.
 */

const octet = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])';
const group = '[0-9A-Fa-f]{1,4}';
const version4 = `(${octet}\\.){3}${octet}`;
const version6 = [
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
  return text.includes(':')
    ? { version: 6, number: joined(groupsOf(text), 16n) }
    : { version: 4, number: joined(text.split('.').map(Number), 8n) };
}

export function readNetwork(text: string): Network | undefined {
  if (text.length > MAX_TEXT || !isNetwork.test(text)) return undefined;
  const [address = '', bits = ''] = text.split('/');
  const found = readAddress(address);
  return found && { ...found, bits: Number(bits) };
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
