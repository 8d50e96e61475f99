/**
 * Which network addresses the platform may call by itself. Names come from operators, but what a name
 * resolves to, and what a provider's own documents point at, is decided by others: so the address is
 * judged at the moment of the connection (no DNS answer can change in between).
 */
import { BlockList, isIP } from 'node:net';

type Range = readonly [network: string, prefix: number, family: 'ipv4' | 'ipv6'];

/** Never called: nothing that an operator wants lives there, but the metadata service of clouds does. */
const forbidden: readonly Range[] = [
  ['0.0.0.0', 8, 'ipv4'],
  ['169.254.0.0', 16, 'ipv4'],
  ['192.0.0.0', 24, 'ipv4'],
  ['192.88.99.0', 24, 'ipv4'],
  ['198.18.0.0', 15, 'ipv4'],
  ['224.0.0.0', 4, 'ipv4'],
  ['240.0.0.0', 4, 'ipv4'],
  ['::', 128, 'ipv6'],
  // Tunnels and translators of somebody's own: where these lead cannot be read off the address.
  ['64:ff9b:1::', 48, 'ipv6'],
  ['2001::', 32, 'ipv6'],
  ['fd00:ec2::254', 128, 'ipv6'],
  ['fe80::', 10, 'ipv6'],
  ['ff00::', 8, 'ipv6'],
];

/** Called only where the operator said so. */
const internal: readonly Range[] = [
  ['10.0.0.0', 8, 'ipv4'],
  ['100.64.0.0', 10, 'ipv4'],
  ['127.0.0.0', 8, 'ipv4'],
  ['172.16.0.0', 12, 'ipv4'],
  ['192.168.0.0', 16, 'ipv4'],
  ['::1', 128, 'ipv6'],
  ['fc00::', 7, 'ipv6'],
  ['fec0::', 10, 'ipv6'],
];

const forbiddenList = listOf(forbidden);
const internalList = listOf(internal);

export type AddressClass = 'public' | 'internal' | 'forbidden';

/** What kind of address an IP literal is. IPv4 inside IPv6 (mapped, compatible, translated, 6to4) counts as the IPv4 that it reaches. */
export function addressClass(address: string): AddressClass {
  const family = isIP(address);
  if (family === 0) return 'forbidden';
  const embedded = family === 6 ? embeddedIPv4(address) : undefined;
  if (embedded !== undefined) return addressClass(embedded);
  const name = family === 6 ? 'ipv6' : 'ipv4';
  if (forbiddenList.check(address, name)) return 'forbidden';
  return internalList.check(address, name) ? 'internal' : 'public';
}

function listOf(ranges: readonly Range[]): BlockList {
  const list = new BlockList();
  for (const [network, prefix, family] of ranges) list.addSubnet(network, prefix, family);
  return list;
}

/** Prefixes under which an IPv6 address stands for an IPv4 one, and the group at which that one begins. */
const carriers: readonly (readonly [groups: readonly number[], at: number])[] = [
  [[0, 0, 0, 0, 0, 0], 6],
  [[0, 0, 0, 0, 0, 0xffff], 6],
  [[0, 0, 0, 0, 0xffff, 0], 6],
  [[0x64, 0xff9b, 0, 0, 0, 0], 6],
  [[0x2002], 1],
];

function embeddedIPv4(address: string): string | undefined {
  const groups = groupsOf(address);
  if (isItself(groups)) return undefined;
  const at = carriers.find(([prefix]) => prefix.every((group, i) => groups[i] === group))?.[1];
  if (at === undefined) return undefined;
  const [high = 0, low = 0] = groups.slice(at, at + 2);
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
}

/** `::` and `::1` stand where IPv4 addresses would, and mean themselves. */
const isItself = (groups: readonly number[]): boolean => groups.every((group, i) => (i === 7 ? group <= 1 : group === 0));

/** The eight groups of an IPv6 literal; a dotted end and `::` are written out by the URL parser first. */
function groupsOf(address: string): readonly number[] {
  const canonical = new URL(`http://[${address.split('%', 1)[0]}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const parse = (text: string): number[] => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  if (tail === undefined) return parse(head);
  const [left, right] = [parse(head), parse(tail)];
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => 0), ...right];
}
