/** One form for each value: keys sorted, nothing undefined. Equal values have equal texts, and differences are small. */
import { createHash } from 'node:crypto';
import { createTimeSlices, type Pause } from './time-slices.ts';

/** Orders by code units, the same on every machine. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A copy of a JSON value with sorted keys. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => canonical(item ?? null));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(sortedEntries(value).map(([key, item]) => [key, canonical(item)]));
}

const sortedEntries = (value: object): readonly (readonly [string, unknown])[] =>
  Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => byText(a, b));

export const canonicalText = (value: unknown): string => JSON.stringify(canonical(value));

export const sameValue = (one: unknown, other: unknown): boolean =>
  canonicalText(one) === canonicalText(other);

/** Hex digest; equal values have equal ones. */
export const checksumOf = (value: unknown): string =>
  createHash('sha256').update(canonicalText(value)).digest('hex');

/* The same of what may be large, in slices of time. */

/** Levels that are taken apart: what is below, such as one document of thousands, is small. */
const LEVELS = 4;

/** Hands out the text of `canonicalText` in pieces. */
async function takePieces(
  value: unknown,
  { take, pause }: { readonly take: (piece: string) => void; readonly pause: Pause },
  levels = LEVELS,
): Promise<void> {
  if (levels === 0 || typeof value !== 'object' || value === null) {
    take(canonicalText(value));
    return pause();
  }
  const isList = Array.isArray(value);
  const parts = isList ? value.map((item) => ['', item ?? null] as const) : ordered(value);
  take(isList ? '[' : '{');
  for (const [i, [key, item]] of parts.entries()) {
    take(`${i > 0 ? ',' : ''}${isList ? '' : `${JSON.stringify(key)}:`}`);
    await takePieces(item, { take, pause }, levels - 1);
  }
  take(isList ? ']' : '}');
}

/** Entries in the order in which the canonical copy has them. */
const ordered = (value: object): readonly (readonly [string, unknown])[] =>
  Object.entries(Object.fromEntries(sortedEntries(value)));

export async function canonicalTextInSlices(value: unknown): Promise<string> {
  const pieces: string[] = [];
  await takePieces(value, { take: (piece) => pieces.push(piece), pause: createTimeSlices() });
  return pieces.join('');
}

/** What `checksumOf` answers. */
export async function checksumInSlices(value: unknown): Promise<string> {
  const hash = createHash('sha256');
  await takePieces(value, { take: (piece) => hash.update(piece), pause: createTimeSlices() });
  return hash.digest('hex');
}
