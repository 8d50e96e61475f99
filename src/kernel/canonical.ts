/** One form for each value: keys sorted, nothing undefined. Equal values have equal texts, and differences are small. */
import { createHash } from 'node:crypto';

/** Orders by code units, the same on every machine. */
export const byText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A copy of a JSON value with sorted keys. */
export function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => canonical(item ?? null));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  return Object.fromEntries(
    entries.sort(([a], [b]) => byText(a, b)).map(([key, item]) => [key, canonical(item)]),
  );
}

export const canonicalText = (value: unknown): string => JSON.stringify(canonical(value));

export const sameValue = (one: unknown, other: unknown): boolean =>
  canonicalText(one) === canonicalText(other);

/** Hex digest; equal values have equal ones. */
export const checksumOf = (value: unknown): string =>
  createHash('sha256').update(canonicalText(value)).digest('hex');
