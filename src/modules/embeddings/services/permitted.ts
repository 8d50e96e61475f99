/**
 * The best records that somebody may read. An order knows nothing of permissions, so more and more of it is asked for
 * until enough of its records may be shown; who may read only few records has those put in order instead. Either way the
 * answer is what a search through nothing but the readable records would give.
 */
import { createLru } from '../../../kernel/lru.ts';

export interface Ranked {
  readonly id: string;
}

/** An order of records, best first. */
export interface Ranking<T extends Ranked> {
  /** The first `k`, or of `within` only. */
  best(k: number, within?: readonly string[]): Promise<readonly T[]>;
  /** About how many records there are in it, after `best` was asked. */
  size?(): number;
}

/** What of it may be shown. */
export interface Readable {
  /** Those of the ids that may be shown, in their order, the first `limit` of them. */
  keep(ids: readonly string[], limit: number): Promise<readonly string[]>;
  /** At most `limit` of all that may be shown. */
  some(limit: number): Promise<readonly string[]>;
}

/**
 * What searches like this one have learned: which part of their orders may be shown. It is a hint alone: with a wrong one a
 * search takes longer, and answers the same.
 */
export interface DepthHint {
  /** How many records to look at first; or `few`: to begin with all that may be shown. */
  begin(limit: number): number | 'few';
  /** Of the records of an order, such a part (0 to 1) may be shown, if anything follows about it. */
  learn(share: number | undefined): void;
  /** There are too many that may be shown to put them in order one by one. */
  areMany(): void;
  /** What was learned, if anything, has led to a look that found too little. */
  doubt(): void;
}

/** Searches that are remembered. */
const MAX_HINTS = 5_000;
/** Characters of what tells them apart. */
const MAX_KEY = 500;
/** Searches that begin with the few after a look that found too little. */
const DOUBTED = 20;

/** Who may read no more than these has them put in order one by one. */
const FEW = 5_000;
const FIRST = 100;
/** Each further look goes so many times as deep. */
const DEEPER = 8;
/** Looking deeper takes longer than asking for all that may be shown, unless they are many. */
const DEEP = 600;
const DEEPEST = 20_000;
/** So that most looks suffice. */
const RESERVE = 1.6;
/** From fewer records that may be shown nothing follows about the others. */
const TELLING = 3;

const minDepth = (limit: number): number => Math.max(10 * limit, FIRST);
const depthFor = (limit: number, share: number): number => Math.ceil((RESERVE * limit) / share);

interface Learned {
  share: number;
  many: boolean;
  doubted: number;
}

export function createDepthHints(): (key: string) => DepthHint {
  const known = createLru<string, Learned>(MAX_HINTS);
  return (whole) => {
    const key = whole.slice(0, MAX_KEY);
    const change = (next: Partial<Learned>): void => {
      const { share = 1, many = false, doubted = 0 } = known.get(key) ?? {};
      known.set(key, { share, many, doubted, ...next });
    };
    return {
      begin(limit) {
        const min = minDepth(limit);
        const state = known.get(key);
        if (!state) return min;
        const depth = depthFor(limit, state.share);
        if (state.many) return Math.min(Math.max(min, depth), DEEPEST);
        if (state.doubted > 0) {
          state.doubted -= 1;
          return 'few';
        }
        return depth <= DEEP ? Math.max(min, depth) : 'few';
      },
      learn(share) {
        if (share === undefined) return;
        const before = known.get(key)?.share ?? share;
        change({ share: (before + share) / 2 });
      },
      areMany: () => change({ many: true }),
      doubt() {
        if (known.has(key)) change({ many: false, doubted: DOUBTED });
      },
    };
  };
}

interface Options {
  readonly limit: number;
  readonly hint: DepthHint;
}

/** For orders about which nothing is learned. */
const noHint: DepthHint = {
  begin: minDepth,
  learn: () => undefined,
  areMany: () => undefined,
  doubt: () => undefined,
};

/** All that may be shown; nothing when they are more than `max`. */
export async function fewOf(readable: Readable, max = FEW): Promise<readonly string[] | undefined> {
  const few = await readable.some(max + 1);
  return few.length > max ? undefined : few;
}

export async function bestReadable<T extends Ranked>(
  ranking: Ranking<T>,
  readable: Readable,
  { limit, hint = noHint }: { readonly limit: number; readonly hint?: DepthHint },
): Promise<readonly T[]> {
  const options = { limit, hint };
  const begin = hint.begin(limit);
  if (begin !== 'few') return lookInto(ranking, readable, { ...options, begin, isAsked: false });
  const best = await bestOfFew(ranking, readable, options);
  const looks = { ...options, begin: minDepth(limit), isAsked: true };
  return best ?? lookInto(ranking, readable, looks);
}

/** Looks deeper and deeper. `isAsked`: those that may be shown are many, as is known already. */
async function lookInto<T extends Ranked>(
  ranking: Ranking<T>,
  readable: Readable,
  { begin, isAsked, ...options }: Options & { readonly begin: number; readonly isAsked: boolean },
): Promise<readonly T[]> {
  const { limit, hint } = options;
  let areMany = isAsked;
  for (let k = begin; ; ) {
    const ranked = await ranking.best(k);
    const { permitted, share } = await permittedOf(ranked, readable, limit);
    const isEnough = permitted.length >= limit || ranked.length < k;
    if (k === begin && !isEnough) hint.doubt();
    hint.learn(share);
    if (isEnough) return permitted;
    const near = nearDepth(k, limit, share);
    const best = near || areMany ? undefined : await bestOfFew(ranking, readable, options);
    if (best) return best;
    areMany ||= !near;
    k = near ?? k * DEEPER;
  }
}

/** How deep to look next, if that is known and not too deep. */
function nearDepth(k: number, limit: number, share: number | undefined): number | undefined {
  const depth = share === undefined ? k : depthFor(limit, share);
  return depth > k && depth <= DEEP ? depth : undefined;
}

/** The best of all that may be shown; nothing when they are many. */
async function bestOfFew<T extends Ranked>(
  ranking: Ranking<T>,
  readable: Readable,
  { limit, hint }: Options,
): Promise<readonly T[] | undefined> {
  const few = await fewOf(readable);
  if (!few) {
    hint.areMany();
    return undefined;
  }
  // They are permitted; the records themselves are read with their permissions once more.
  const best = await ranking.best(limit, few);
  const size = ranking.size?.() ?? 0;
  if (size > 0) hint.learn(Math.min(1, few.length / size));
  return best;
}

interface Permitted<T> {
  readonly permitted: readonly T[];
  /** Of the records that had to be looked at for them, 0 to 1; nothing when they are too few to tell. */
  readonly share: number | undefined;
}

async function permittedOf<T extends Ranked>(
  ranked: readonly T[],
  readable: Readable,
  limit: number,
): Promise<Permitted<T>> {
  // Asked also when there is nothing to be shown: who may not search at all is told so.
  const kept = await readable.keep(
    ranked.map(({ id }) => id),
    limit,
  );
  const places = new Map(ranked.map(({ id }, place) => [id, place]));
  const last = places.get(kept.at(-1) ?? '');
  const looked = kept.length >= limit && last !== undefined ? last + 1 : ranked.length;
  return {
    permitted: kept.flatMap((id) => ranked[places.get(id) ?? -1] ?? []),
    share: kept.length < TELLING ? undefined : kept.length / looked,
  };
}
