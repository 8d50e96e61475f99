/** What is sent and fetched, how often, and how many at once. */
import type { Target } from './targets.ts';

const KILOBYTE = 1_024;
export const MEGABYTE = 1_048_576;
/** So many at least: a handful says more of the moment than of the server. */
const RANGES = 2_400;

export type Kind = 'upload' | 'download' | 'range';
export const kinds: readonly Kind[] = ['upload', 'download', 'range'];

export interface Work {
  readonly name: string;
  readonly bytes: number;
  /** How often, and how many at once. */
  readonly times: number;
  readonly atOnce: number;
  /** The part of the bare program's rate that is asked for. */
  readonly goal: number;
}

export const sizes: readonly Work[] = [
  { name: '4 KiB', bytes: 4 * KILOBYTE, times: 1_200, atOnce: 8, goal: 0.5 },
  { name: '1 MiB', bytes: MEGABYTE, times: 160, atOnce: 4, goal: 0.8 },
  { name: '100 MiB', bytes: 100 * MEGABYTE, times: 4, atOnce: 2, goal: 0.8 },
];

interface Transfers extends Work {
  readonly kind: Kind;
  readonly content: Buffer;
  /** Of files that are there; uploads add theirs. */
  readonly addresses: string[];
}

/** A few files to read. */
export async function addressesOf(target: Target, work: Work): Promise<string[]> {
  const addresses: string[] = [];
  const content = Buffer.alloc(work.bytes, 'penstock');
  const few = { ...work, times: Math.min(work.times, 16), kind: 'upload' as const };
  await transfers(target, { ...few, content, addresses });
  return addresses;
}

/** Does all of them and answers how many there were. */
export async function transfers(
  target: Target,
  { kind, bytes, times, atOnce, content, addresses }: Transfers,
): Promise<number> {
  const half = Math.floor(bytes / 2);
  const piece = `bytes=${half}-${half + Math.min(half, 64 * KILOBYTE) - 1}`;
  const addressOf = (index: number): string => addresses[index % addresses.length] ?? '';
  const once: Record<Kind, (index: number) => Promise<unknown>> = {
    upload: async (index) => {
      addresses[index] = await target.upload(content);
    },
    download: async (index) => {
      if ((await target.download(addressOf(index))) !== bytes) throw new Error('Not whole');
    },
    range: (index) => target.download(addressOf(index), piece),
  };
  const all = kind === 'range' ? RANGES : times;
  let next = 0;
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      while (next < all) await once[kind](next++);
    }),
  );
  return all;
}
