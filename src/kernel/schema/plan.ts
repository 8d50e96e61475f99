/** What a schema change will do, shown before it is done. */
export interface SchemaPlan {
  readonly schema: string;
  readonly steps: readonly PlanStep[];
  /** Some step destroys data. */
  readonly destructive: boolean;
}

export interface PlanStep {
  readonly statement: string;
  /** In words: what changes. */
  readonly summary: string;
  /** PostgreSQL lock mode on the table. */
  readonly lock: string;
  readonly destructive: boolean;
}
