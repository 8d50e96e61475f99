/** What a schema change will do, shown before it is done. */
import type { Problem } from '../errors.ts';
import type { CompiledSchema } from './compiled.ts';

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
