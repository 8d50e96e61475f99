/** Chance that is the same in every run: all draws come from one seed. */
export interface Chance {
  /** In [0, 1). */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  pick<T>(values: readonly T[]): T;
  /** True in the given share of the calls. */
  happens(share: number): boolean;
  /** `size` different values in random order. */
  sample<T>(values: readonly T[], size: number): T[];
  /** Splits a total into `parts` whole numbers, each from `low` to `high`. */
  split(total: number, parts: number, range: { low: number; high: number }): number[];
}

/** The generator is mulberry32. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;

  function next(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  const between = (low: number, high: number): number =>
    low + Math.floor(next() * (high - low + 1));

  function pick<T>(values: readonly T[]): T {
    const value = values[between(0, values.length - 1)];
    if (value === undefined) throw new Error('Nothing to pick from');
    return value;
  }

  /** The first places of a shuffle (Fisher and Yates). */
  function sample<T>(values: readonly T[], size: number): T[] {
    const pool = [...values];
    const taken = Math.min(size, pool.length);
    for (let place = 0; place < taken; place += 1) {
      const other = between(place, pool.length - 1);
      [pool[place], pool[other]] = [pool[other] as T, pool[place] as T];
    }
    return pool.slice(0, taken);
  }

  function split(
    total: number,
    parts: number,
    { low, high }: { low: number; high: number },
  ): number[] {
    if (total < parts * low || total > parts * high)
      throw new Error(`${total} does not go into ${parts} parts of ${low} to ${high}`);
    const sizes = Array.from({ length: parts }, () => low);
    for (let left = total - parts * low; left > 0; ) {
      const index = between(0, parts - 1);
      const size = sizes[index] ?? high;
      const more = Math.min(left, high - size, between(1, Math.max(1, Math.ceil(total / parts))));
      sizes[index] = size + more;
      left -= more;
    }
    return sizes;
  }

  return { next, between, pick, happens: (share) => next() < share, sample, split };
}
