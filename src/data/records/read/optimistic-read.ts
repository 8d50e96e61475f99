/**
 * Reads that do not wait for the permission engine to look whether what it
 * remembers is still true: the database is asked at the same time, or by the
 * statement itself.
 */
import { codeOf } from '../../../kernel/database/failures.ts';
import { concluded, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { PermissionPort, RowPredicate } from '../../../kernel/permissions.ts';
import { withCachedGrants } from '../access/cached-grants.ts';

interface Dependencies {
  readonly permissions: PermissionPort;
}

/**
 * Runs a read with the rights that the node remembers. When one of them turns out not to hold any more, what was read
 * counts for nothing, and it is read again with the rights that hold now.
 */
export async function readOptimistically<D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T>,
): Promise<T> {
  const confirmations: Promise<boolean>[] = [];
  const given = withCachedGrants(dependencies, (predicate) => {
    const { confirm } = predicate;
    if (!confirm) return predicate;
    const asked = confirm();
    // Looked at when the read has ended; it may be refused before that, when nobody waits for it.
    asked.catch(() => undefined);
    confirmations.push(asked);
    return { ...predicate, confirm: undefined, guard: undefined };
  });
  if (given === dependencies) return read(dependencies);
  const answer = await resolved(() => read(given));
  if (answer.status === 'fulfilled' && confirmations.length === 0) return answer.value;
  const confirmed = await Promise.all(confirmations);
  if (answer.status === 'rejected' && isOverload(answer.reason)) throw answer.reason;
  if (!confirmed.every(Boolean)) return read(dependencies);
  if (answer.status === 'rejected') throw answer.reason;
  return answer.value;
}

/**
 * The same for a read whose statement asks itself: it puts the `guard` of its predicate in, and answers `undefined` when
 * that is not true any more. Where it does not put it in, the database is asked afterwards.
 */
export async function readGuarded<D extends Dependencies, T>(
  dependencies: D,
  read: (dependencies: D) => Promise<T | undefined>,
): Promise<T> {
  const unasked = new Set<() => Promise<boolean>>();
  let usedCache = false;
  const given = withCachedGrants(dependencies, (predicate) => {
    const { confirm, guard } = predicate;
    if (!confirm) return predicate;
    usedCache = true;
    unasked.add(confirm);
    const asking: RowPredicate['guard'] =
      guard &&
      ((next) => {
        unasked.delete(confirm);
        return guard(next);
      });
    return { ...predicate, confirm: undefined, guard: asking };
  });
  const answer = await resolved(() => read(given));
  const stands = unasked.size === 0 || (await allStand(unasked));
  if (answer.status === 'fulfilled' && answer.value !== undefined && stands) return answer.value;
  if (answer.status === 'rejected' && (!usedCache || isOverload(answer.reason)))
    throw answer.reason;
  const certain = await read(dependencies);
  if (certain === undefined) throw new Error('A predicate that is certain has a guard');
  return certain;
}

const allStand = async (confirmations: Iterable<() => Promise<boolean>>): Promise<boolean> =>
  (await Promise.all([...confirmations].map((confirm) => confirm()))).every(Boolean);

/** `Promise.allSettled` of one, with fewer promises: most reads rest on nothing that is remembered. */
const resolved = <T>(work: () => Promise<T>): MaybePromise<PromiseSettledResult<T>> =>
  concluded<T, PromiseSettledResult<T>>(work, fulfilled, rejected);
const fulfilled = <T>(value: T): PromiseSettledResult<T> => ({ status: 'fulfilled', value });
const rejected = (reason: unknown): PromiseRejectedResult => ({ status: 'rejected', reason });

/** The time of the statement was over, or it found no turn: sent again it would take as long again. */
const isOverload = (error: unknown): boolean =>
  ['TIMEOUT', 'COUNT_TIMEOUT', 'UNAVAILABLE'].includes(String(codeOf(error)));
