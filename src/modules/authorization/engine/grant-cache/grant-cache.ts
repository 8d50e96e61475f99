/**
 * What subjects reach on the way up, kept until something on that way changes.
 * Each entry rests on the tuples of the subjects it was found through, and on
 * the time until which those count. The change tracker (change-tracker.ts) says what
 * changed; whoever uses an entry asks it to catch up and looks whether the
 * entry still stands.
 */
import { LRUCache } from 'lru-cache';
import type { Queryable } from '../../../../kernel/database/database.ts';
import {
  type ChangeCursor,
  type CursorGuard,
  createChangeTracker,
  type DatabaseSnapshot,
} from './change-tracker.ts';

/** Sum over all entries of what they rest on: some 50 MB. */
const MAX_SUBJECTS = 200_000;

/** What was found, and on what it rests. */
export interface CacheEntry<T extends object> {
  readonly value: T;
  /** `Type:id`; a change of their tuples may change the value. */
  readonly subjects: readonly string[];
  /** By the clock of the database, ms since 1970: when the first tuple of the way stops to count. */
  readonly until: number | undefined;
}

/** Where something is kept. */
export interface CachePlace {
  /** What is searched for; the same key always means the same search. */
  readonly key: string;
  /** Types of the resources on the way. */
  readonly types: readonly string[];
}

interface CacheLookup<T extends object> extends CachePlace {
  find(): Promise<CacheEntry<T>>;
}

/** Something that was true when it was found. */
export interface CachedValue<T extends object> {
  readonly value: T;
  /** Whether it is true at the moment of the last `catchUp`; call it after one. */
  stands(moment: DatabaseSnapshot): boolean;
  /** What was kept stood at this position, and rests on this; for `guardText`. */
  readonly rests?: Omit<CursorGuard, 'revision'>;
}

/** What stands at a place is what its search finds: of one place it has always the same type. */
export interface GrantCache {
  /** What is kept and can be asked for in a statement; nothing is searched. */
  kept<T extends object>(place: CachePlace): CachedValue<T> | undefined;
  /** What is kept, else what is found now. */
  read<T extends object>(search: CacheLookup<T>): Promise<CachedValue<T>>;
  /** Takes in what was committed before the call. */
  catchUp(): Promise<DatabaseSnapshot>;
  position(): ChangeCursor | undefined;
}

/** A search that is under way: changes that are told meanwhile may or may not be in what it finds. */
interface RunningSearch {
  readonly missed: Set<string>;
  missedAll: boolean;
}

export function createGrantCache(database: Queryable): GrantCache {
  const types = new Set<string>();
  /** The types that the last statement asked for. Changes of others may have passed unnoticed. */
  let followed: ReadonlySet<string> = new Set();
  const bySubject = new Map<string, Set<string>>();
  const flights = new Set<RunningSearch>();

  const entries = createEntries(bySubject);

  const tracker = createChangeTracker(database, {
    types() {
      followed = new Set(types);
      return [...types];
    },
    changed(subjects) {
      for (const subject of subjects) {
        for (const key of [...(bySubject.get(subject) ?? [])]) entries.delete(key);
        for (const flight of flights) flight.missed.add(subject);
      }
    },
    everythingChanged() {
      entries.clear();
      for (const flight of flights) flight.missedAll = true;
    },
  });

  function keep(key: string, found: CacheEntry<object>): void {
    entries.set(key, found);
    if (!entries.has(key)) return;
    for (const subject of found.subjects) addToIndex(bySubject, subject, key);
  }

  /** `missed`: something about it was changed meanwhile. */
  async function search<T extends object>({ key, types: requested, find }: CacheLookup<T>) {
    const isFollowed = requested.every((type) => followed.has(type));
    for (const type of requested) types.add(type);
    // From then on changes about these types are told.
    if (!isFollowed) await tracker.catchUp();
    const flight: RunningSearch = { missed: new Set(), missedAll: false };
    flights.add(flight);
    try {
      const found = await find();
      const { missed, missedAll } = flight;
      const isMissed = missedAll || found.subjects.some((subject) => missed.has(subject));
      if (!isMissed) keep(key, found);
      return { found, isMissed };
    } finally {
      flights.delete(flight);
    }
  }

  async function searched<T extends object>(requested: CacheLookup<T>): Promise<CachedValue<T>> {
    const { found, isMissed } = await search(requested);
    // What has been found may be used later than it was true: it stands as long as it is kept.
    const kept = cachedAt<T>(requested, entries, tracker.position());
    if (kept?.value === found.value) return kept;
    // More than is kept cannot be confirmed.
    return { value: found.value, stands: () => !isMissed };
  }

  return {
    kept<T extends object>(place: CachePlace) {
      const found = cachedAt<T>(place, entries, tracker.position());
      return found?.rests && found;
    },
    read: async <T extends object>(requested: CacheLookup<T>) =>
      cachedAt<T>(requested, entries, tracker.position()) ?? searched(requested),
    catchUp: tracker.catchUp,
    position: tracker.position,
  };
}

/** What is kept at a place, if anything. */
function cachedAt<T extends object>(
  { key, types }: CachePlace,
  entries: LRUCache<string, CacheEntry<object>>,
  position: ChangeCursor | undefined,
): CachedValue<T> | undefined {
  const kept = entries.get(key) as CacheEntry<T> | undefined;
  if (!kept) return undefined;
  const isKept = (): boolean => entries.peek(key) === kept;
  const stands = ({ now }: DatabaseSnapshot): boolean => {
    const inTime = kept.until === undefined || kept.until > now;
    if (!inTime && isKept()) entries.delete(key);
    return inTime && isKept();
  };
  const rests = restsOn(position, types, kept.until);
  return { value: kept.value, stands, ...(rests && { rests }) };
}

/** `bySubject`: keys of the entries that hang on a subject. */
const createEntries = (bySubject: Map<string, Set<string>>): LRUCache<string, CacheEntry<object>> =>
  new LRUCache({
    maxSize: MAX_SUBJECTS,
    sizeCalculation: ({ subjects }) => 1 + subjects.length,
    dispose: ({ subjects }, key) => {
      for (const subject of subjects) removeFromIndex(bySubject, subject, key);
    },
  });

/** Both stand. `first` was read first: what was noted since then is asked for both. */
export function together(
  first: CachedValue<object>,
  second: CachedValue<object>,
): Omit<CachedValue<object>, 'value'> {
  const stands = (moment: DatabaseSnapshot): boolean =>
    first.stands(moment) && second.stands(moment);
  if (!first.rests || !second.rests) return { stands };
  const until = Math.min(first.rests.until, second.rests.until);
  const types = joinedTypes(first.rests.types, second.rests.types);
  return { stands, rests: { ...first.rests, until, types } };
}

const joined = new WeakMap<readonly string[], WeakMap<readonly string[], readonly string[]>>();

/** The same list for the same two: guards are compared, and written, by their lists. */
function joinedTypes(one: readonly string[], other: readonly string[]): readonly string[] {
  const known = joined.get(one) ?? new WeakMap();
  joined.set(one, known);
  const types = known.get(other) ?? [...new Set([...one, ...other])];
  known.set(other, types);
  return types;
}

/** What a cached answer rests on, as a statement can ask for it. */
function restsOn<P extends { readonly until: number }>(
  position: P | undefined,
  types: readonly string[],
  until = Number.POSITIVE_INFINITY,
) {
  return position && { ...position, types, until: Math.min(position.until, until) };
}

function addToIndex(index: Map<string, Set<string>>, subject: string, key: string): void {
  const keys = index.get(subject);
  if (keys) keys.add(key);
  else index.set(subject, new Set([key]));
}

function removeFromIndex(index: Map<string, Set<string>>, subject: string, key: string): void {
  const keys = index.get(subject);
  keys?.delete(key);
  if (keys?.size === 0) index.delete(subject);
}
