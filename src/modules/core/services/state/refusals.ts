/** What stands against an import. A plan shows it beside what would be done; the import itself is refused with it. */

import { canonical } from '../../../../kernel/canonical.ts';
import type { ConfigDifference } from '../../../../kernel/config/config-service.ts';
import { changedLeaves, valueAt } from '../../../../kernel/config/tree.ts';
import { errors, PenstockError, type Problem } from '../../../../kernel/errors.ts';
import { invalidInput } from '../../../../kernel/operations/problems.ts';

/* What differs between two documents, leaf by leaf. */

/** Leaves that differ, by dotted path. */
export function differencesOf(before: unknown, after: unknown): readonly ConfigDifference[] {
  const [from, to] = [canonical(before ?? {}), canonical(after ?? {})];
  return changedLeaves(from, to).map((path) => ({
    path: path.join('.'),
    from: valueAt(from, path) ?? null,
    to: valueAt(to, path) ?? null,
  }));
}

export interface Refusals {
  /** Nothing where the work refuses; what it throws as our own error goes on. */
  of<T>(work: () => Promise<T>): Promise<T | undefined>;
  /** Problems of the document. */
  addProblems(problems: readonly Problem[]): void;
  /** What the stored data does not allow. */
  addConflicts(problems: readonly Problem[]): void;
  /** Each once, with its place. */
  problems(): readonly Problem[];
  /** Throws what the caller may not do; else the first refusal with the places of all. */
  refuse(): void;
}

export function collectRefusals(): Refusals {
  const found: PenstockError[] = [];
  const problemsOf = (error: PenstockError): readonly Problem[] =>
    error.errors ?? [{ path: '', rule: error.code.toLowerCase(), message: error.message }];
  const problems = (): readonly Problem[] => {
    const seen = new Set<string>();
    const isNew = ({ path, message }: Problem): boolean => {
      const key = path === '' ? message : path;
      if (seen.has(key)) return false;
      seen.add(key);
      return true;
    };
    return found.flatMap(problemsOf).filter(isNew);
  };
  return {
    async of(work) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof PenstockError) || error.status >= 500) throw error;
        if (!found.includes(error)) found.push(error);
        return undefined;
      }
    },
    addProblems(given) {
      if (given.length > 0) found.push(invalidInput(given));
    },
    addConflicts(given) {
      if (given.length === 0) return;
      const message = `The stored records do not allow this: ${given.map(({ path, message: text }) => `${path}: ${text}`).join('; ')}`;
      found.push(errors.CONFLICT({ message, errors: given }));
    },
    problems,
    refuse() {
      // Who may not do it at all need not mend anything.
      const first = found.find(({ status }) => status === 403) ?? found[0];
      if (!first) return;
      if (first.status === 400 && first.errors)
        throw invalidInput(problems().filter(({ path }) => path !== ''));
      if (found.length === 1 || first.status === 403) throw first;
      const { code, status, retryAfter } = first;
      throw new PenstockError(code, status, first.message, {
        message: first.message,
        errors: problems(),
        ...(retryAfter === undefined ? {} : { retryAfter }),
        cause: first,
      });
    },
  };
}
