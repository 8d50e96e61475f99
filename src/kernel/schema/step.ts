/** One statement of a schema change, with what must hold before it may run. */
import { identifier } from '../database/sql.ts';
import type { PenstockError, Problem } from '../errors.ts';
import { schemaErrors } from './errors.ts';
import type { IndexLayout } from './layout.ts';
import type { PlanStep } from './plan.ts';

/** What the stored records must not hold. */
export interface Obstacle {
  /** Answers rows when they do; the columns are for the sentence. */
  readonly query: string;
  readonly error: (rows: readonly Readonly<Record<string, unknown>>[]) => PenstockError;
}

export interface ChangeStep extends Omit<PlanStep, 'rows'> {
  /** Steps of all tables run by phase: keys away, old things away, tables and columns, indexes, keys. */
  readonly phase: 0 | 1 | 2 | 3 | 4;
  readonly obstacle?: Obstacle;
  /** Every record of the table is read or written. */
  readonly touchesRows?: boolean;
  /** Set for the making of an index: a large table gets it later, beside running writes (index-builds.ts). */
  readonly index?: { readonly name: string; readonly layout: IndexLayout };
}

export const tableName = (schema: string): string => `"app".${identifier(schema)}`;

export const alterTable = (schema: string, action: string): string => `alter table ${tableName(schema)} ${action}`;

/** The stored records do not fit: a 409 that names the field. */
export function dataConflict(column: string, rule: string, message: string): PenstockError {
  const problem: Problem = { path: `fields.${column}`, rule, message };
  return schemaErrors.SCHEMA_DATA_CONFLICT({ message: `${column}: ${message}`, errors: [problem] });
}
