/** How this module writes SQL whose text is put together from its own constants. */
import type { Row, Statement } from '../../../kernel/database/database.ts';
import { statementName } from '../../../kernel/database/sql.ts';

/** A prepared statement that touches few rows by an index. The text comes from a bounded set. */
export const statement = (text: string, values: readonly unknown[]): Statement => ({
  text,
  values,
  name: statementName(text),
  class: 'short',
});

export const firstOf = async <R = Row>(
  result: Promise<{ readonly rows: readonly R[] }>,
): Promise<R | undefined> => (await result).rows[0];

/** What no module keeps for itself, or what is in these containers (`given`: their names; null: all). */
export const ofModules = (container: string, given: string): string =>
  `(${given}::text[] is null or not starts_with(${container}, 'module-') or ${container} = any(${given}))`;
