/**
 * The best records that somebody may read. An order knows nothing of permissions, so more and more of it is asked for
 * until enough of its records may be shown; who may read only few records has those put in order instead. Either way the
 * answer is what a search through nothing but the readable records would give.
 */

export interface Ranked {
  readonly id: string;
}

/** An order of records, best first. */
export interface Ranking<T extends Ranked> {
  /** The first `k`, or of `within` only. */
  best(k: number, within?: readonly string[]): Promise<readonly T[]>;
}

/** What of it may be shown. */
export interface Readable {
  /** Those of the ids that may be shown, in their order, the first `limit` of them. */
  keep(ids: readonly string[], limit: number): Promise<readonly string[]>;
  /** At most `limit` of all that may be shown. */
  some(limit: number): Promise<readonly string[]>;
}

/** Who may read no more than these has them put in order one by one. */
const FEW = 5_000;
const FIRST = 100;
/** Each further look goes so many times as deep. */
const DEEPER = 8;

export async function bestReadable<T extends Ranked>(
  ranking: Ranking<T>,
  readable: Readable,
  limit: number,
): Promise<readonly T[]> {
  for (let k = Math.max(10 * limit, FIRST), isFirst = true; ; k *= DEEPER, isFirst = false) {
    const ranked = await ranking.best(k);
    const permitted = await permittedOf(ranked, readable, limit);
    if (permitted.length >= limit || ranked.length < k) return permitted;
    if (isFirst) {
      const few = await readable.some(FEW + 1);
      // They are permitted; the records themselves are read with their permissions once more.
      if (few.length <= FEW) return ranking.best(limit, few);
    }
  }
}

async function permittedOf<T extends Ranked>(
  ranked: readonly T[],
  readable: Readable,
  limit: number,
): Promise<readonly T[]> {
  // Asked also when there is nothing to be shown: who may not search at all is told so.
  const kept = await readable.keep(
    ranked.map(({ id }) => id),
    limit,
  );
  const byId = new Map(ranked.map((one) => [one.id, one]));
  return kept.flatMap((id) => byId.get(id) ?? []);
}
