/**
 * The best records that somebody may read. An order knows nothing of permissions, so more and more of it is asked for
 * until enough of its records may be shown; who may read only few records has those put in order instead. Either way the
 * answer is what a search through nothing but the readable records would give.
 */
import { LRUCache } from 'lru-cache';

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

/**
 * What searches like this one have learned: that looks into the order find too little. It is a hint alone: with a wrong one
 * a search takes longer, and answers the same.
 */
export interface FewHint {
  /** Whether to begin with all that may be shown. */
  isLikely(): boolean;
  /** Whether there were so few that they were put in order themselves. */
  note(isFew: boolean): void;
}

/** Searches that are remembered. */
const MAX_HINTS = 5_000;
/** Characters of what tells them apart. */
const MAX_KEY = 500;
/** Searches in succession that found too little; and those that rely on it until one looks again. */
const LEARNT_AFTER = 2;
const RELIED_ON = 20;

export function createFewHints(): (key: string) => FewHint {
  const known = new LRUCache<string, { few: number; relied: number }>({ max: MAX_HINTS });
  return (whole) => {
    const key = whole.slice(0, MAX_KEY);
    return {
      isLikely() {
        const state = known.get(key);
        if (!state || state.few < LEARNT_AFTER) return false;
        if (state.relied++ < RELIED_ON) return true;
        known.set(key, { few: LEARNT_AFTER - 1, relied: 0 });
        return false;
      },
      note(isFew) {
        const { few = 0, relied = 0 } = known.get(key) ?? {};
        if (isFew) known.set(key, { few: few + 1, relied });
        else known.delete(key);
      },
    };
  };
}

/** Who may read no more than these has them put in order one by one. */
const FEW = 5_000;
const FIRST = 100;
/** Each further look goes so many times as deep. */
const DEEPER = 8;

export async function bestReadable<T extends Ranked>(
  ranking: Ranking<T>,
  readable: Readable,
  { limit, hint }: { readonly limit: number; readonly hint?: FewHint },
): Promise<readonly T[]> {
  let isAsked = false;
  /** The best of all that may be shown, when they are few. */
  const bestOfFew = async (): Promise<readonly T[] | undefined> => {
    isAsked = true;
    const few = await readable.some(FEW + 1);
    hint?.note(few.length <= FEW);
    // They are permitted; the records themselves are read with their permissions once more.
    return few.length <= FEW ? ranking.best(limit, few) : undefined;
  };
  const known = hint?.isLikely() ? await bestOfFew() : undefined;
  if (known) return known;
  for (let k = Math.max(10 * limit, FIRST); ; k *= DEEPER) {
    const ranked = await ranking.best(k);
    const permitted = await permittedOf(ranked, readable, limit);
    if (permitted.length >= limit || ranked.length < k) {
      if (!isAsked) hint?.note(false);
      return permitted;
    }
    const best = isAsked ? undefined : await bestOfFew();
    if (best) return best;
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
