/**
 * Divides room among the parts of a value that has too little of it. A part that needs less than its share leaves
 * the rest to the others, so that a large part is cut and small ones stay whole: whoever pads a request cannot push
 * out of a row what they changed.
 */

export interface Part {
  readonly name: string;
  readonly value: unknown;
  /** UTF-16 units that it may take. */
  readonly share: number;
}

export interface Parts {
  readonly kept: readonly Part[];
  /** How many there was no room for. */
  readonly omitted: number;
}

/** Room that each part has at least: its name and a few characters. */
const LEAST = 24;
/** Levels that are measured; what is deeper is nobody's text. */
const MAX_DEPTH = 64;
const MAX_NAME = 128;

/** Gives each entry its share of `room`; where not even the names fit, the first and the last ones are kept. */
export function shared(entries: readonly (readonly [string, unknown])[], room: number): Parts {
  const whole = inFull(entries, room);
  if (whole) return { kept: whole, omitted: 0 };
  const places = Math.max(2, Math.floor(room / LEAST));
  const kept = entries.length > places ? [...entries.slice(0, places >> 1), ...entries.slice(-(places >> 1))] : entries;
  const needs = kept.map(([name, value]) => need(name) + measured(value, room, MAX_DEPTH));
  const shares = new Array<number>(kept.length).fill(0);
  let left = room;
  const bySize = needs.map((size, index) => ({ size, index })).sort((a, b) => a.size - b.size);
  for (const [done, { size, index }] of bySize.entries()) {
    const share = Math.min(size, Math.max(LEAST, Math.floor(left / (bySize.length - done))));
    shares[index] = share;
    left = Math.max(0, left - share);
  }
  const parts = kept.map(([name, value], index) => ({ name, value, share: Math.max(1, (shares[index] ?? 0) - need(name)) }));
  return { kept: parts, omitted: entries.length - kept.length };
}

/** The parts with all that they need, when there is room for it. */
function inFull(entries: readonly (readonly [string, unknown])[], room: number): readonly Part[] | undefined {
  const kept: Part[] = [];
  let left = room;
  for (const [name, value] of entries) {
    const share = measured(value, left, MAX_DEPTH);
    left -= need(name) + share;
    if (left < 0) return undefined;
    kept.push({ name, value, share });
  }
  return kept;
}

/** True when the value takes at most so many units. */
export const isSmall = (value: unknown, room: number): boolean => measured(value, room, MAX_DEPTH) <= room;

/** Quotes, colon and comma included. */
const need = (name: string): number => Math.min(name.length, MAX_NAME) + 4;

/** About the length of the value's JSON. Stops soon after `enough`, so that it costs no more than that. */
function measured(value: unknown, enough: number, depth: number): number {
  if (typeof value === 'string') return value.length + 2;
  if (typeof value !== 'object' || value === null) return 8;
  if (value instanceof Error || value instanceof Date || ArrayBuffer.isView(value) || depth === 0) return 32;
  let sum = 2;
  if (Array.isArray(value)) {
    for (const item of value) {
      if (sum > enough) break;
      sum += need('') + measured(item, enough - sum, depth - 1);
    }
    return sum;
  }
  for (const key in value) {
    if (sum > enough) break;
    sum += need(key) + measured((value as Record<string, unknown>)[key], enough - sum, depth - 1);
  }
  return sum;
}
