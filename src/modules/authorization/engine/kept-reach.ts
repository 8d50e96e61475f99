/**
 * What subjects reach on the way up, kept until something on that way changes.
 * Each entry rests on the tuples of the subjects it was found through, and on
 * the time until which those count. The follower (follower.ts) says what
 * changed; whoever uses an entry asks it to catch up and looks whether the
 * entry still stands.
 */
import { LRUCache } from 'lru-cache';
import type { Queryable } from '../../../kernel/database/database.ts';
import { createFollower, type Guard, type Moment, type Position } from './follower.ts';

/** Sum over all entries of what they rest on: some 50 MB. */
const MOST_SUBJECTS = 200_000;

/** What was found, and on what it rests. */
export interface Found<T> {
  readonly value: T;
  /** `Type:id`; a change of their tuples may change the value. */
  readonly subjects: readonly string[];
  /** By the clock of the database, ms since 1970: when the first tuple of the way stops to count. */
  readonly until: number | undefined;
}

export interface Search<T> {
  /** What is searched for; the same key always means the same search. */
  readonly key: string;
  /** Types of the resources on the way. */
  readonly types: readonly string[];
  find(): Promise<Found<T>>;
}

/** Something that was true when it was found. */
export interface Believed<T> {
  readonly value: T;
  /** Whether it is true at the moment of the last `catchUp`; call it after one. */
  stands(moment: Moment): boolean;
  /** What was kept stood at this position, and rests on this; for `guardText`. */
  readonly rests?: Omit<Guard, 'revision'>;
}

export interface KeptReach<T> {
  /** What is kept, else what is found now. */
  believe(search: Search<T>): Promise<Believed<T>>;
  /** Takes in what was committed before the call. */
  catchUp(): Promise<Moment>;
  position(): Position | undefined;
}

/** A search that is under way: changes that are told meanwhile may or may not be in what it finds. */
interface Flight {
  readonly missed: Set<string>;
  missedAll: boolean;
}

export function createKeptReach<T extends object>(database: Queryable): KeptReach<T> {
  const types = new Set<string>();
  /** The types that the last statement asked for. Changes of others may have passed unnoticed. */
  let followed: ReadonlySet<string> = new Set();
  const bySubject = new Map<string, Set<string>>();
  const flights = new Set<Flight>();

  const entries = new LRUCache<string, Found<T>>({
    maxSize: MOST_SUBJECTS,
    sizeCalculation: ({ subjects }) => 1 + subjects.length,
    dispose: ({ subjects }, key) => {
      for (const subject of subjects) leave(bySubject, subject, key);
    },
  });

  const follower = createFollower(database, {
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

  function keep(key: string, found: Found<T>): void {
    entries.set(key, found);
    if (!entries.has(key)) return;
    for (const subject of found.subjects) enter(bySubject, subject, key);
  }

  async function search({ key, types: wanted, find }: Search<T>): Promise<Found<T>> {
    const flight: Flight = { missed: new Set(), missedAll: wanted.some((type) => !followed.has(type)) };
    for (const type of wanted) types.add(type);
    flights.add(flight);
    try {
      const found = await find();
      if (!flight.missedAll && !found.subjects.some((subject) => flight.missed.has(subject))) keep(key, found);
      return found;
    } finally {
      flights.delete(flight);
    }
  }

  return {
    async believe(wanted) {
      const kept = entries.get(wanted.key);
      if (!kept) return { value: (await search(wanted)).value, stands: () => true };
      const stands = ({ now }: Moment): boolean => {
        const inTime = kept.until === undefined || kept.until > now;
        if (!inTime && entries.peek(wanted.key) === kept) entries.delete(wanted.key);
        return inTime && entries.peek(wanted.key) === kept;
      };
      const position = follower.position();
      return {
        value: kept.value,
        stands,
        ...(position && {
          rests: { ...position, types: wanted.types, until: Math.min(position.until, kept.until ?? Number.POSITIVE_INFINITY) },
        }),
      };
    },
    catchUp: follower.catchUp,
    position: follower.position,
  };
}

function enter(index: Map<string, Set<string>>, subject: string, key: string): void {
  const keys = index.get(subject);
  if (keys) keys.add(key);
  else index.set(subject, new Set([key]));
}

function leave(index: Map<string, Set<string>>, subject: string, key: string): void {
  const keys = index.get(subject);
  keys?.delete(key);
  if (keys?.size === 0) index.delete(subject);
}
