/** Forward-only changes to the tables that the platform itself owns (never to user schemas: those have plans). */
import type { Queryable } from './database.ts';

export interface Migration {
  /** Stable and ordered within its owner: `0001-config`. */
  readonly id: string;
  run(database: Queryable): Promise<void>;
}

/** Migrations of one owner (`kernel`, or a module). */
export interface MigrationSet {
  readonly owner: string;
  readonly migrations: readonly Migration[];
}
