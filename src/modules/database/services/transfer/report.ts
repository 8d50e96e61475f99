/** What an import did, or why it did nothing. */
import type { Problem } from '../../../../kernel/errors.ts';

export interface RowFault {
  /** Line of the upload, from 1; 0 where the database could not say which. */
  readonly line: number;
  /** Dotted name of the field; empty: the row as a whole. */
  readonly field: string;
  readonly rule: string;
  readonly message: string;
}

export interface ImportCounts {
  /** Rows that were read. */
  read: number;
  created: number;
  updated: number;
  /** Rows that were not stored. */
  failed: number;
}

export interface ImportReport extends Readonly<ImportCounts> {
  readonly dryRun: boolean;
  readonly errors: RowFault[];
  /** True when there are more errors than are listed. */
  readonly truncated: boolean;
}

/** Errors that are listed; all are counted. */
export const MAX_FAULTS = 100;

/** What became of some rows. */
export interface Outcome {
  readonly created: number;
  readonly updated: number;
  readonly faults: readonly { readonly line: number; readonly problems: readonly Problem[] }[];
}

export interface Tally {
  readonly counts: Readonly<ImportCounts>;
  add(read: number, outcome: Outcome): void;
  report(dryRun: boolean): ImportReport;
}

export function createTally(): Tally {
  const counts: ImportCounts = { read: 0, created: 0, updated: 0, failed: 0 };
  const errors: RowFault[] = [];
  let found = 0;
  return {
    counts,
    add(read, { created, updated, faults }) {
      counts.read += read;
      counts.created += created;
      counts.updated += updated;
      counts.failed += faults.length;
      for (const { line, problems } of faults) {
        found += problems.length;
        const listed = problems.slice(0, MAX_FAULTS - errors.length);
        errors.push(...listed.map(({ path, rule, message }) => ({ line, field: path, rule, message })));
      }
    },
    report: (dryRun) => ({ ...counts, dryRun, errors: [...errors], truncated: found > errors.length }),
  };
}
