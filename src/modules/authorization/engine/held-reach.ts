/**
 * What subjects reach, for checks: the same that lists keep. Somebody who asks often about objects that hang on others
 * pays for the way up once; from then on a check looks at the tuples of its object alone, however deep it stands.
 */

import { codeOf } from '../../../kernel/database/failures.ts';
import { createLru } from '../../../kernel/lru.ts';
import type { EngineScope, Resolved } from './ask.ts';
import type { CursorGuard } from './grant-cache/change-tracker.ts';
import { engineErrors } from './limits.ts';
import { type ReachableSet, reachableKey } from './reverse-expansion.ts';
import { findKept, placeOfReach, type ReachMemory } from './rows/named-sets.ts';
import { originsBelow } from './rows/predicate-builder.ts';

/** Most objects of which it is worth to remember that somebody reaches them. */
const MAX_HELD = 5_000;
/** Questions of somebody before what they reach is searched. */
const FIRST_QUESTIONS = 2;
/** A search costs about as much as a question for so many of the objects that it finds. */
const OBJECTS_PER_QUESTION = 16;
/** Subjects and names whose questions are counted. */
const MAX_COUNTED = 20_000;

/** What an engine keeps for checks. */
export interface HeldReaches {
  find(place: string): boolean;
  /** How many objects a search has found. */
  found(place: string, objects: number): void;
  readonly memory: ReachMemory;
  objectsOf(reach: ReachableSet): ReadonlySet<string>;
  /** What was kept does not stand any more: whoever asks next has what the database says now. */
  forget(): void;
}

export function createHeldReaches(memory: ReachMemory): HeldReaches {
  const counts = createLru<string, { asked: number; needed: number }>(MAX_COUNTED);
  const objects = new WeakMap<ReachableSet, ReadonlySet<string>>();
  return {
    memory,
    find(place) {
      const count = counts.get(place) ?? { asked: 0, needed: FIRST_QUESTIONS };
      count.asked += 1;
      const isWorth = count.asked > count.needed;
      // Others who ask meanwhile do not search as well.
      if (isWorth) count.asked = 0;
      counts.set(place, count);
      return isWorth;
    },
    found: (place, size) =>
      void counts.set(place, {
        asked: 0,
        needed: Math.max(FIRST_QUESTIONS, size / OBJECTS_PER_QUESTION),
      }),
    objectsOf(reach) {
      let names = objects.get(reach);
      if (!names) {
        names = new Set(reach.reached.map(reachableKey));
        objects.set(reach, names);
      }
      return names;
    },
    // Whoever needs the answer asks for it themselves.
    forget: () => void memory.reach?.catchUp().catch(() => undefined),
  };
}

export interface HeldReach {
  readonly objects: ReadonlySet<string>;
  /** To be asked in the statement that makes use of it. */
  readonly rests: Omit<CursorGuard, 'revision'>;
}

/** What the subject of a question has on other objects; `undefined` where it is not known, or not worth to be searched. */
export async function heldReach(
  engineScope: EngineScope,
  { subject, name }: Resolved,
  held: HeldReaches,
): Promise<HeldReach | undefined> {
  const { memory, objectsOf } = held;
  const way = { subject, names: originsBelow(engineScope.model, name) };
  const place = way.names.length === 0 ? undefined : placeOfReach(engineScope, way, memory.scope);
  if (!place || !memory.reach) return undefined;
  const kept = memory.reach.kept<ReachableSet>(place);
  const { reached } = kept?.value ?? {};
  if (kept?.rests && reached && reached.length <= MAX_HELD)
    return { objects: objectsOf(kept.value), rests: kept.rests };
  if (reached || !held.find(place.key)) return undefined;
  try {
    const find = () => findKept(engineScope, way, MAX_HELD);
    await memory.reach.read({ ...place, find });
  } catch (error) {
    if (codeOf(error) !== engineErrors.PERMISSION_SET_TOO_LARGE.code) throw error;
    held.found(place.key, MAX_HELD * OBJECTS_PER_QUESTION);
    return undefined;
  }
  const fresh = memory.reach.kept<ReachableSet>(place);
  held.found(place.key, fresh?.value.reached.length ?? 0);
  if (fresh?.rests) return { objects: objectsOf(fresh.value), rests: fresh.rests };
  // What is followed for the first time is kept from the next search on.
  await memory.reach.catchUp();
  return undefined;
}
