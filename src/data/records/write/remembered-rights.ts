/**
 * Rights to one record by what the node remembers. A read asks beside its own statement whether that still holds; what is
 * written cannot be taken back so easily, so the statement that writes asks itself, and touches nothing where it does not
 * (docs/decisions/544-changes-ask-for-their-rights-themselves.md).
 */
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { PermissionPort, RowPredicate } from '../../../kernel/permissions.ts';
import { withCachedGrants } from '../access/cached-grants.ts';

/** True, as SQL, while what is remembered holds. `next(value)` adds a parameter and answers its placeholder. */
export type Guard = NonNullable<RowPredicate['guard']>;

export interface RememberedRows {
  /** What the caller may act on if the guard is true. */
  readonly predicate: RowPredicate | undefined;
  readonly guard: Guard;
}

/** The rows that `resolve` asks for. `undefined` where what is remembered can be confirmed by no statement, or where nothing is remembered. */
export function rememberedRows<D extends { readonly permissions: PermissionPort }>(
  dependencies: D,
  resolve: (dependencies: D) => MaybePromise<RowPredicate | undefined>,
): MaybePromise<RememberedRows | undefined> {
  const guards: (Guard | undefined)[] = [];
  const given = withCachedGrants(dependencies, (predicate) => {
    // A guard does not ask about what was looked up beside.
    if (predicate.recheck) guards.push(undefined);
    if (!predicate.confirm) return predicate;
    guards.push(predicate.guard);
    return { ...predicate, confirm: undefined, guard: undefined };
  });
  return andThen(resolve(given), (predicate) => {
    const [guard, ...others] = guards;
    return guard && others.length === 0 ? { predicate, guard } : undefined;
  });
}
