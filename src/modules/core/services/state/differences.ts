/** What differs between two documents, leaf by leaf. */
import type { ConfigDifference } from '../../../../kernel/config/service.ts';
import { changedLeaves, valueAt } from '../../../../kernel/config/tree.ts';
import { canonical } from '../../../../kernel/state/canonical.ts';

/** Leaves that differ, by dotted path. */
export function differencesOf(before: unknown, after: unknown): readonly ConfigDifference[] {
  const [from, to] = [canonical(before ?? {}), canonical(after ?? {})];
  return changedLeaves(from, to).map((path) => ({
    path: path.join('.'),
    from: valueAt(from, path) ?? null,
    to: valueAt(to, path) ?? null,
  }));
}
