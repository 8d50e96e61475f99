/** What an import did, or why it did nothing. */

import { setTimeout as sleep } from 'node:timers/promises';
import { PenstockError, type Problem } from '../../../../kernel/errors.ts';

interface RowProblem {
  /** Line of the upload, from 1; 0 where the database could not say which. */
  readonly line: number;
  /** Dotted name of the field; empty: the row as a whole. */
  readonly field: string;
  readonly rule: string;
  readonly message: string;
}

interface ImportCounts {
  /** Rows that were read. */
  read: number;
  created: number;
  updated: number;
  /** Rows that were not stored. */
  failed: number;
}

export interface ImportReport extends Readonly<ImportCounts> {
  readonly dryRun: boolean;
  readonly errors: RowProblem[];
  /** True when there are more errors than are listed. */
  readonly truncated: boolean;
}

/** Errors that are listed; all are counted. */
const MAX_FAULTS = 100;

/** What became of some rows. */
export interface Outcome {
  readonly created: number;
  readonly updated: number;
  readonly failures: readonly { readonly line: number; readonly problems: readonly Problem[] }[];
}

export interface ReportBuilder {
  readonly counts: Readonly<ImportCounts>;
  add(read: number, outcome: Outcome): void;
  report(dryRun: boolean): ImportReport;
}

export function createReportBuilder(): ReportBuilder {
  const counts: ImportCounts = { read: 0, created: 0, updated: 0, failed: 0 };
  const errors: RowProblem[] = [];
  let found = 0;
  return {
    counts,
    add(read, { created, updated, failures }) {
      counts.read += read;
      counts.created += created;
      counts.updated += updated;
      counts.failed += failures.length;
      for (const { line, problems } of failures) {
        found += problems.length;
        const listed = problems.slice(0, MAX_FAULTS - errors.length);
        errors.push(
          ...listed.map(({ path, rule, message }) => ({ line, field: path, rule, message })),
        );
      }
    },
    report: (dryRun) => ({
      ...counts,
      dryRun,
      errors: [...errors],
      truncated: found > errors.length,
    }),
  };
}

/* An import that tells how far it is. */

const EVERY_MS = 500;

/** Lines of JSON. What fails before the first of them is thrown; after it, the last line says so. */
export async function* progressLines(
  work: () => Promise<ImportReport>,
  builder: ReportBuilder,
): AsyncGenerator<string> {
  const running = work();
  // Waited for below; until then its failure must not count as unhandled.
  running.catch(() => undefined);
  let told = false;
  while (!(await endsWithin(running, EVERY_MS))) {
    told = true;
    yield line({ progress: builder.counts });
  }
  try {
    yield line({ result: await running });
  } catch (error) {
    if (!told || !(error instanceof PenstockError)) throw error;
    const { name, status, message, code, errors } = error;
    yield line({ error: { name, status, message, code, errors } });
  }
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

async function endsWithin(work: Promise<unknown>, milliseconds: number): Promise<boolean> {
  const timer = new AbortController();
  const pause = sleep(milliseconds, false, { signal: timer.signal }).catch(() => false);
  const ended = work.then(
    () => true,
    () => true,
  );
  const first = await Promise.race([ended, pause]);
  timer.abort();
  return first;
}
