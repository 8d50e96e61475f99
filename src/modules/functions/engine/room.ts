/**
 * How many runs compute at once of functions that cost much, and of functions of which nobody knows what they cost. Each
 * needs an isolate and the processor, and what all of them take is missing to everybody else. More wait in line until
 * another one has ended, or waits for a call itself. What is known to behave never waits here.
 */
import type { KnownFunctions, Standing } from './known-functions.ts';
import { type Active, isComputing } from './pool-runs.ts';
import type { ProcessUse } from './sandbox-process.ts';

/** Runs of functions that cost much, and of those that had to be ended lately, in all processes. */
const MAX_COSTLY_RUNS = 8;
/**
 * Runs of functions of which none has ended by itself, for each process. With more than so many, a process has little time
 * for its own work, and each of them gets too little to tell hostile ones from those that begin for the first time.
 */
export const MAX_UNPROVEN_RUNS = 6;
/** Of one function until a run of it has ended by itself. */
const MAX_UNPROVEN_OF_ONE = 2;

type Lane = Exclude<Standing, 'trusted'>;

const laneOf: Readonly<Record<ProcessUse, Lane>> = {
  ...{ usual: 'unknown', costly: 'costly', offenders: 'offender' },
};

interface RoomParts {
  readonly known: KnownFunctions;
  /** All that have not ended. */
  readonly runs: () => Iterable<Active>;
  readonly processes: number;
}

/** Whether a run of a function may begin. It counts those that it lets begin, and is good for one turn of the event loop. */
export function roomFor({ known, runs, processes }: RoomParts): (key: string) => boolean {
  const most = {
    unknown: MAX_UNPROVEN_RUNS * processes,
    costly: MAX_COSTLY_RUNS,
    offender: MAX_COSTLY_RUNS,
  };
  let counts: Map<string, number> | undefined;
  const add = (name: string): unknown => counts?.set(name, (counts.get(name) ?? 0) + 1);
  const count = (lane: Lane, key: string, isProven: boolean): void => {
    if (lane !== 'unknown' || !isProven) add(lane);
    if (!isProven) add(`of ${key}`);
  };
  const countAll = (): void => {
    counts = new Map();
    for (const one of runs())
      if (isComputing(one) && one.process)
        count(laneOf[one.process.use], one.run.key, known.isProven(one.run.key));
  };
  return (key) => {
    const lane = known.standing(key);
    if (lane === 'trusted') return true;
    if (!counts) countAll();
    const isProven = known.isProven(key);
    const isFull = (counts?.get(lane) ?? 0) >= most[lane];
    if (isFull || (!isProven && (counts?.get(`of ${key}`) ?? 0) >= MAX_UNPROVEN_OF_ONE))
      return false;
    count(lane, key, isProven);
    return true;
  };
}
