/** What a subject reaches beyond the rows themselves: kept, found now, or too much to be named. */

import { codeOf } from '../../../../kernel/database/failures.ts';
import { createLru } from '../../../../kernel/lru.ts';
import { expansionTo, isExact } from '../../model/expansion-rules.ts';
import { everybody, formatSubject, type SubjectRef } from '../../model/grammar.ts';
import { keyOf, type Name } from '../../model/model.ts';
import type { EngineScope, EvaluationContext } from '../ask.ts';
import type {
  CachedValue,
  CacheEntry,
  CachePlace,
  GrantCache,
} from '../grant-cache/grant-cache.ts';
import { engineErrors } from '../limits.ts';
import { findReachable, type ReachableQuery } from '../principals.ts';
import { distinct, type ReachableSet } from '../reverse-expansion.ts';
import { takesConditions } from './conditional-tuples.ts';

/** What an engine remembers of what subjects reach. */
export interface ReachMemory {
  /** Absent: nothing is kept. */
  readonly reach: GrantCache | undefined;
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
const MAX_LARGE = 10_000;

export function createLargeSets(): LargeSets {
  const until = createLru<string, number>(MAX_LARGE);
  return {
    has: (key) => (until.get(key) ?? 0) > performance.now(),
    add: (key) => void until.set(key, performance.now() + LARGE_MS),
  };
}

export const emptyContext: EvaluationContext = { context: {}, contextual: [] };
export const nothing: ReachableSet = { reached: [], until: undefined };

interface SetRequest {
  readonly goal: Name;
  readonly way: ReachableQuery;
  /** Whether what was kept may be used. */
  readonly useKept: boolean;
  /** Most objects that are named. */
  readonly bound: number;
  /** It is about a few rows that are known. */
  readonly few: boolean;
}

/** Where what somebody reaches is kept; `undefined` for what is not kept. */
export function placeOfReach(
  { model }: Pick<EngineScope, 'model'>,
  { subject, names }: ReachableQuery,
  scope: string,
): CachePlace | undefined {
  const { types, words, lasting } = model.derived(`reach ${names.map(keyOf).join(' ')}`, () => {
    const { direct, steps, open } = expansionTo(model, names);
    const rules = [...direct, ...steps];
    // Whoever starts from every object there is hangs on every tuple: not worth keeping.
    // What records say is kept where the database notes each change of it, as it does of stored tuples.
    const isNoted = rules.every(
      ({ type, relation }) =>
        !(model.fieldOf(type, relation) ?? model.columnOf(type, relation)) ||
        model.isFollowed(type, relation),
    );
    return {
      types: [...new Set(rules.map((rule) => rule.type))],
      words: names.map(keyOf).join(' '),
      lasting: open.length === 0 && isNoted,
    };
  });
  return lasting ? { key: `${scope} ${formatSubject(subject)} ${words}`, types } : undefined;
}

/** The search whose result is kept at a place. Throws `PERMISSION_SET_TOO_LARGE`. */
export const findKept = async (
  engineScope: EngineScope,
  way: ReachableQuery,
  bound: number,
): Promise<CacheEntry<ReachableSet>> =>
  cacheEntryOf(way.subject, await findReachable(engineScope, way, emptyContext, bound));

/** What is kept of it, and can be asked for in a statement. */
export function keptReach(
  engineScope: EngineScope,
  way: ReachableQuery,
  { reach, scope }: ReachMemory,
): CachedValue<ReachableSet> | undefined {
  if (way.names.length === 0) return restingOnNothing(nothing, reach);
  const place = reach && placeOfReach(engineScope, way, scope);
  return place && reach?.kept<ReachableSet>(place);
}

/** Throws `PERMISSION_SET_TOO_LARGE`. */
async function reachableSetOf(
  engineScope: EngineScope,
  { way, useKept, bound }: SetRequest,
  { reach, scope }: ReachMemory,
): Promise<CachedValue<ReachableSet>> {
  if (way.names.length === 0) return restingOnNothing(nothing, reach);
  const place = useKept && reach ? placeOfReach(engineScope, way, scope) : undefined;
  if (!place || !reach) {
    const value = await findReachable(engineScope, way, emptyContext, bound);
    return { value, stands: () => true };
  }
  const kept = await reach.read({ ...place, find: () => findKept(engineScope, way, bound) });
  if (kept.value.reached.length > bound) throw engineErrors.PERMISSION_SET_TOO_LARGE();
  return kept;
}

const noTypes: readonly string[] = [];

/** What no tuple changes. */
export function restingOnNothing(
  value: ReachableSet,
  reach: ReachMemory['reach'],
): CachedValue<ReachableSet> {
  const position = reach?.position();
  return {
    value,
    stands: () => true,
    ...(position && { rests: { ...position, types: noTypes } }),
  };
}

/**
 * The same, name by name where all together are too much, when each object can be asked in the database instead: what
 * the subject has on more objects than are named is `unnamed` then.
 */
export async function namedSetOf(
  engineScope: EngineScope,
  request: SetRequest,
  memory: ReachMemory,
): Promise<CachedValue<ReachableSet>> {
  const { goal, way, few } = request;
  const { model } = engineScope;
  const isSimple = !takesConditions(model, goal) && way.names.every((name) => isExact(model, name));
  // Of a few rows each is checked, from the smaller side, unless the way down is all there is to ask.
  const asks = !few || isSimple;
  const key = largeKey(request);
  if (asks && memory.large.has(key)) return setsByName(engineScope, request, memory);
  try {
    return await reachableSetOf(engineScope, request, memory);
  } catch (error) {
    if (!isTooLarge(error) || !asks) throw error;
    memory.large.add(key);
    return setsByName(engineScope, request, memory);
  }
}

/** Remembered: this is too much to be named. */
export const largeKey = ({ way, goal, bound }: Omit<SetRequest, 'useKept' | 'few'>): string =>
  `${formatSubject(way.subject)} ${keyOf(goal)} ${bound}`;

const isTooLarge = (error: unknown): boolean =>
  codeOf(error) === engineErrors.PERMISSION_SET_TOO_LARGE.code;

export async function setsByName(
  engineScope: EngineScope,
  request: SetRequest,
  memory: ReachMemory,
): Promise<CachedValue<ReachableSet>> {
  const { subject, names } = request.way;
  const found: CachedValue<ReachableSet>[] = [];
  const unnamed = new Set<string>();
  for (const name of names) {
    const key = `${largeKey(request)} ${keyOf(name)}`;
    const set = memory.large.has(key)
      ? undefined
      : await reachableSetOf(
          engineScope,
          { ...request, way: { subject, names: [name] } },
          memory,
        ).catch((error: unknown) => {
          if (!isTooLarge(error)) throw error;
          memory.large.add(key);
        });
    if (set) found.push(set);
    else unnamed.add(keyOf(name));
  }
  return together(found, unnamed, memory.reach);
}

/** Several sets as one. */
function together(
  sets: readonly CachedValue<ReachableSet>[],
  unnamed: ReadonlySet<string>,
  reach: ReachMemory['reach'],
): CachedValue<ReachableSet> {
  const ends = sets.flatMap(({ value }) => (value.until === undefined ? [] : [value.until]));
  const value: ReachableSet = {
    reached: distinct(sets.flatMap((set) => set.value.reached)),
    until: ends.length === 0 ? undefined : Math.min(...ends),
    unnamed,
  };
  const rests = sets.flatMap((set) => (set.rests ? [set.rests] : []));
  const [first] = rests;
  if (!first)
    return sets.length === 0 ? restingOnNothing(value, reach) : { value, stands: () => true };
  return {
    value,
    stands: (moment) => sets.every((set) => set.stands(moment)),
    // Where nothing has changed since the first was looked up, nothing has since the others were.
    ...(rests.length === sets.length && {
      rests: {
        ...first,
        types: [...new Set(rests.flatMap(({ types }) => types))],
        until: Math.min(...rests.map(({ until }) => until)),
      },
    }),
  };
}

const everybodyKey = `${everybody.type}:${everybody.id}`;

/** What was reached hangs on the tuples of the subject, of everybody of its type, of everybody, and of everything on the way. */
const cacheEntryOf = ({ type, id }: SubjectRef, value: ReachableSet): CacheEntry<ReachableSet> => ({
  value,
  subjects: [
    ...new Set([
      ...[`${type}:${id}`, `${type}:*`, everybodyKey],
      ...value.reached.map((r) => `${r.type}:${r.id}`),
    ]),
  ],
  until: value.until,
});
