/** What a schema change will do, shown before it is done. */
import type { PenstockError, Problem } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import { type IndexLayout, tableName } from '../compile/layout.ts';
import { schemaErrors } from '../errors.ts';

export interface SchemaPlan {
  /** Names of the schemas that were asked for. */
  readonly schema: string;
  readonly steps: readonly PlanStep[];
  /** Some step destroys data. */
  readonly destructive: boolean;
  /** Fields that will have another name, with their data. */
  readonly renames: readonly PlanRename[];
  /** Fields that will be hidden; their data stays and comes back with them. */
  readonly hides: readonly PlanLoss[];
  /** What will be destroyed. */
  readonly loses: readonly PlanLoss[];
  /** Why the change would be refused as the records are now. */
  readonly obstacles: readonly (Problem & { readonly schema: string })[];
  /** Digest of the statements: equal plans have equal ones. */
  readonly checksum: string;
  /** The schemas as they would be. */
  readonly after: readonly CompiledSchema[];
}

export interface PlanStep {
  readonly schema: string;
  readonly statement: string;
  /** In words: what changes. */
  readonly summary: string;
  /** PostgreSQL lock mode on the table. */
  readonly lock: string;
  readonly destructive: boolean;
  /** Records that the statement reads or writes, as far as the database knows without counting them all. */
  readonly rows: number;
  /** It runs after the change, beside reads and writes of the table. */
  readonly later?: boolean;
}

export interface PlanRename {
  readonly schema: string;
  readonly from: string;
  readonly to: string;
}

export interface PlanLoss {
  readonly schema: string;
  /** Path of a field; `*`: the records themselves. */
  readonly field: string;
  /** Records that have a value there. */
  readonly records: number;
}

/* One statement of a schema change, with what must hold before it may run. */

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

export const alterTable = (schema: string, action: string): string =>
  `alter table ${tableName(schema)} ${action}`;

/** The stored records do not fit: a 409 that names the field. */
export function dataConflict(column: string, rule: string, message: string): PenstockError {
  const problem: Problem = { path: `fields.${column}`, rule, message };
  return schemaErrors.SCHEMA_DATA_CONFLICT({ message: `${column}: ${message}`, errors: [problem] });
}
