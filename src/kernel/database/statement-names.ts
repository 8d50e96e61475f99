/**
 * Names of prepared statements as they are sent. A schema change can make a
 * prepared statement unusable on every connection that holds it; such a
 * statement gets a new name, so that it is prepared afresh.
 */
import type pg from 'pg';
import type { Statement } from './database.ts';

export interface StatementNames {
  /** The driver's form of a statement; a new object, because the driver writes into it. */
  toQuery(statement: Statement): pg.QueryConfig<unknown[]>;
  /** From now on the statement is prepared under another name than `sentAs`. */
  renew(statement: Statement, sentAs: string | undefined): void;
}

export function createStatementNames(enabled: boolean): StatementNames {
  const generations = new Map<string, number>();

  const nameOf = (name: string): string => {
    const generation = generations.get(name);
    return generation === undefined ? name : `${name.slice(0, 55)}_${generation.toString(36)}`;
  };

  return {
    toQuery({ text, values, name }) {
      if (!enabled || name === undefined) return { text, values: values as unknown[] };
      return { text, values: values as unknown[], name: generations.size === 0 ? name : nameOf(name) };
    },
    renew({ name }, sentAs) {
      // Many failures of one name arrive together: only the first of them moves it on.
      if (name !== undefined && sentAs === nameOf(name)) generations.set(name, (generations.get(name) ?? 0) + 1);
    },
  };
}
