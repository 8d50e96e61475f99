/** What a subject reaches beyond the rows themselves: kept, found now, or too much to be named. */
import { LRUCache } from 'lru-cache';
import { codeOf } from '../../../../kernel/database/failures.ts';
import { expansionTo, isExact } from '../../model/expansion-rules.ts';
import { formatSubject, type SubjectRef } from '../../model/grammar.ts';
import { keyOf, type Name } from '../../model/model.ts';
import type { EngineScope, EvaluationContext } from '../ask.ts';
import type { CachedValue, CacheEntry, GrantCache } from '../grant-cache/grant-cache.ts';
import { engineErrors } from '../limits.ts';
import { findReachable, type ReachableQuery } from '../principals.ts';
import type { ReachableSet } from '../reverse-expansion.ts';
import { takesConditions } from './conditional-tuples.ts';

/** What an engine remembers of what subjects reach. */
export interface ReachMemory {
  /** Absent: nothing is kept. */
  readonly reach: GrantCache<ReachableSet> | undefined;
  /** Distinguishes the model from others that share `reach`. */
  readonly scope: string;
  /** Searches that found too much to be named, a while ago: only speed hangs on it. */
  readonly large: LargeSets;
}

export interface LargeSets {
  has(key: string): boolean;
  add(key: string): void;
}

const LARGE_MS = 60_000;
const MOST_LARGE = 10_000;

export function createLargeSets(): LargeSets {
  const until = new LRUCache<string, number>({ max: MOST_LARGE });
  return {
    has: (key) => (until.get(key) ?? 0) > performance.now(),
    add: (key) => void until.set(key, performance.now() + LARGE_MS),
  };
}

export const emptyContext: EvaluationContext = { context: {}, contextual: [] };
export const nothing: ReachableSet = { reached: [], until: undefined };
/** Stands for what is too much to be named. */
export const unnamed: ReachableSet = { reached: [], until: undefined };

interface SetRequest {
  readonly goal: Name;
  readonly way: ReachableQuery;
  /** Whether what was kept may be used. */
  readonly useKept: boolean;
  /** Most objects that are named. */
  readonly bound: number;
}

/** Throws `PERMISSION_SET_TOO_LARGE`. */
async function reachableSetOf(
  engineScope: EngineScope,
  { way, useKept, bound }: SetRequest,
  { reach, scope }: ReachMemory,
): Promise<CachedValue<ReachableSet>> {
  const { subject, names } = way;
  if (names.length === 0) return restingOnNothing(nothing, reach);
  const expansion = expansionTo(engineScope.model, names);
  // Whoever starts from every object there is hangs on every tuple: not worth keeping.
  // What fields of records lead to changes without a word (decision 080).
  const ofRecords = [...expansion.direct, ...expansion.steps].some(({ type, relation }) =>
    engineScope.model.recordRelations.some((one) => one.type === type && one.relation === relation),
  );
  if (!useKept || !reach || expansion.open.length > 0 || ofRecords) {
    const value = await findReachable(engineScope, way, emptyContext, bound);
    return { value, stands: () => true };
  }
  const kept = await reach.read({
    key: `${scope} ${formatSubject(subject)} ${names.map(keyOf).join(' ')}`,
    types: [...new Set([...expansion.direct, ...expansion.steps].map((rule) => rule.type))],
    find: async () =>
      cacheEntryOf(subject, await findReachable(engineScope, way, emptyContext, bound)),
  });
  if (kept.value.reached.length > bound) throw engineErrors.PERMISSION_SET_TOO_LARGE();
  return kept;
}

/** What no tuple changes. */
export function restingOnNothing(
  value: ReachableSet,
  reach: ReachMemory['reach'],
): CachedValue<ReachableSet> {
  const position = reach?.position();
  return {
    value,
    stands: () => true,
    ...(position && { rests: { ...position, types: [] } }),
  };
}

/** The same, or `unnamed` where it is too much and each object can be asked in the database instead. */
export async function namedSetOf(
  engineScope: EngineScope,
  request: SetRequest,
  memory: ReachMemory,
): Promise<CachedValue<ReachableSet>> {
  const { goal, way, bound } = request;
  const key = `${formatSubject(way.subject)} ${keyOf(goal)} ${bound}`;
  const { model } = engineScope;
  const descends = !takesConditions(model, goal) && way.names.every((name) => isExact(model, name));
  if (descends && memory.large.has(key)) return restingOnNothing(unnamed, memory.reach);
  try {
    return await reachableSetOf(engineScope, request, memory);
  } catch (error) {
    if (!descends || codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
    memory.large.add(key);
    return restingOnNothing(unnamed, memory.reach);
  }
}

/** What was reached hangs on the tuples of the subject, of everybody of its type, and of everything on the way. */
const cacheEntryOf = ({ type, id }: SubjectRef, value: ReachableSet): CacheEntry<ReachableSet> => ({
  value,
  subjects: [
    ...new Set([`${type}:${id}`, `${type}:*`, ...value.reached.map((r) => `${r.type}:${r.id}`)]),
  ],
  until: value.until,
});
