/**
 * Reads with the rights that the node remembers. Whether they still hold is asked by the statement itself, or after it. Not
 * before: what was changed in between would be shown to somebody who had lost the right to it by then
 * (docs/decisions/553-rights-are-confirmed-after-the-read.md).
 */
import { codeOf } from '../../../kernel/database/failures.ts';
import { concluded, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { PermissionPort, RowPredicate } from '../../../kernel/permissions.ts';
import { withCachedGrants } from '../access/cached-grants.ts';

interface Dependencies {
  readonly permissions: PermissionPort;
}

/**
 * Rights that change again and again while they are used are looked up so often; then as they were a moment before the read.
 */
export const MAX_ATTEMPTS = 10;

/**
 * Runs a read with the rights that the node remembers. When one of them turns out not to hold any more, what was read
 * counts for nothing, and it is read again with the rights that hold now.
 */
export const readOptimistically = <D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T>,
): Promise<T> => readRemembered(dependencies, read, 'confirmed');

/**
 * The same for a read whose statement asks itself: it puts the `guard` of its predicate in, and answers `undefined` when
 * that is not true any more. Where it does not put it in, the database is asked afterwards.
 */
export async function readGuarded<D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T | undefined>,
): Promise<T> {
  const answer = await readRemembered(dependencies, read, 'guarded');
  if (answer === undefined) throw new Error('A predicate that is certain has a guard');
  return answer;
}

async function readRemembered<D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T>,
  asking: 'guarded' | 'confirmed',
): Promise<T> {
  // A guard asks by types of objects, and a type may change all the time: what is read once more is confirmed by subjects.
  for (let n = 0; n < MAX_ATTEMPTS; n += 1) {
    const answer = await attempt(dependencies, read, n === 0 ? asking : 'confirmed');
    if (answer) return answer.value;
  }
  return read(dependencies);
}

/** Nothing when the rights did not hold. Throws what the read throws with rights that hold. */
async function attempt<D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T>,
  asking: 'guarded' | 'confirmed',
): Promise<{ readonly value: T } | undefined> {
  const used = new Set<() => Promise<boolean>>();
  const unasked = new Set<() => Promise<boolean>>();
  const rechecks = new Set<() => Promise<boolean>>();
  const given = withCachedGrants(dependencies, (predicate) => {
    const { confirm, guard, recheck } = predicate;
    if (recheck) rechecks.add(recheck);
    if (!confirm) return predicate;
    used.add(confirm);
    unasked.add(confirm);
    const asked: RowPredicate['guard'] =
      asking === 'guarded' && guard
        ? (next) => {
            unasked.delete(confirm);
            return guard(next);
          }
        : undefined;
    return { ...predicate, confirm: undefined, guard: asked };
  });
  const stillStand = async (confirmations: ReadonlySet<() => Promise<boolean>>) =>
    (await allStand(confirmations)) && (await allStand(rechecks));
  const answer = await resolved(() => read(given));
  if (answer.status === 'fulfilled') {
    const isCurrent = used.size === 0 || answer.value !== undefined || asking === 'confirmed';
    if (isCurrent && (await stillStand(unasked))) return answer;
    // What has changed is known then.
    if (!isCurrent) await allStand(used);
    return undefined;
  }
  if (isOverload(answer.reason) || (await stillStand(used))) throw answer.reason;
  return undefined;
}

const allStand = async (confirmations: ReadonlySet<() => Promise<boolean>>): Promise<boolean> =>
  confirmations.size === 0 ||
  (await Promise.all([...confirmations].map((confirm) => confirm()))).every(Boolean);

/** `Promise.allSettled` of one, with fewer promises: most reads rest on nothing that is remembered. */
const resolved = <T>(work: () => Promise<T>): MaybePromise<PromiseSettledResult<T>> =>
  concluded<T, PromiseSettledResult<T>>(work, fulfilled, rejected);
const fulfilled = <T>(value: T): PromiseSettledResult<T> => ({ status: 'fulfilled', value });
const rejected = (reason: unknown): PromiseRejectedResult => ({ status: 'rejected', reason });

/** The time of the statement was over, or it found no turn: sent again it would take as long again. */
const isOverload = (error: unknown): boolean =>
  ['TIMEOUT', 'COUNT_TIMEOUT', 'UNAVAILABLE'].includes(String(codeOf(error)));
