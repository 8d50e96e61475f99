/** Rows of an upload into a schema, in one transaction or batch by batch. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { codeOf } from '../../../../kernel/database/failures.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { databaseErrors } from '../../errors.ts';
import { readCsv } from './csv.ts';
import { readJsonLines } from './json-lines.ts';
import {
  checkRelations,
  type LaterLink,
  type Loading,
  loadBatch,
  postponeRelations,
  storedIds,
} from './load.ts';
import type { ImportReport, Outcome, ReportBuilder } from './report.ts';
import { batched, type Delimiter, type Format, type ReadRow } from './rows.ts';

export interface ImportRequest extends Loading {
  readonly chunks: AsyncIterable<Buffer>;
  readonly format: Format;
  readonly delimiter: Delimiter;
  /** All rows or none. Otherwise what is valid is stored, batch by batch. */
  readonly atomic: boolean;
  /** Everything happens, and is then undone. */
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

/** Ends the transaction of an import that shall leave nothing. */
class Undone extends Error {}

/** Counts go into `builder` while it runs. Throws `IMPORT_REFUSED` when rows of an atomic import fail. */
export async function importRows(
  request: ImportRequest,
  builder: ReportBuilder,
): Promise<ImportReport> {
  const { database, atomic, dryRun } = request;
  if (atomic || dryRun) {
    const loadWhole = () => loadAll(request, builder, (work) => work());
    await asOne(database, loadWhole, () => dryRun || builder.counts.failed > 0);
  } else await loadAll(request, builder, (work) => database.transaction(work));
  if (atomic && !dryRun && builder.counts.failed > 0) throw refused(builder);
  return builder.report(dryRun);
}

/** The upload can be read once, so the work is never repeated. */
async function asOne(
  database: Database,
  work: () => Promise<void>,
  undo: () => boolean,
): Promise<void> {
  try {
    await database.transaction(
      async () => {
        await work();
        if (undo()) throw new Undone();
      },
      { attempts: 1 },
    );
  } catch (error) {
    if (!(error instanceof Undone)) throw error;
  }
}

type Run = (work: () => Promise<Outcome>) => Promise<Outcome>;

async function loadAll(request: ImportRequest, builder: ReportBuilder, run: Run): Promise<void> {
  const { database, schema, signal, atomic, dryRun } = request;
  const postponed = (atomic || dryRun) && refersToItself(schema);
  if (postponed) await postponeRelations(database);
  const later: LaterLink[] = [];
  const loading = postponed ? { ...request, later } : request;
  for await (const batch of batched(rowsOf(request))) {
    signal.throwIfAborted();
    builder.add(batch.length, await run(() => loadBatch(loading, batch)));
  }
  if (!postponed) return;
  const failures = [
    ...(await finalFailures(database, schema)),
    ...(await lostLinks(database, schema, later)),
  ];
  builder.add(0, { created: 0, updated: 0, failures });
}

/** Links to ask about at once. */
const LINKS = 10_000;

/** Links of lists, and those to records that may be in a trash, are not looked after by a key. */
async function lostLinks(
  database: Database,
  schema: CompiledSchema,
  later: readonly LaterLink[],
): Promise<Outcome['failures']> {
  const failures: Outcome['failures'][number][] = [];
  for (let start = 0; start < later.length; start += LINKS) {
    const links = later.slice(start, start + LINKS);
    const found = await storedIds(database, schema, [...new Set(links.map(({ id }) => id))]);
    const lost = links.filter(({ id }) => !found.has(id));
    failures.push(
      ...lost.map(({ line, path }) => ({
        line,
        problems: [{ path, rule: 'relation', message: noRecord(schema.name) }],
      })),
    );
  }
  return failures;
}

const noRecord = (schema: string): string => `there is no such record of ${schema}`;

async function finalFailures(
  database: Database,
  schema: CompiledSchema,
): Promise<Outcome['failures']> {
  try {
    await checkRelations(database);
    return [];
  } catch (error) {
    if (codeOf(error) !== '23503') throw error;
    return [{ line: 0, problems: [relationProblem(schema, error)] }];
  }
}

function rowsOf({ format, schema, chunks, delimiter }: ImportRequest): AsyncIterable<ReadRow> {
  return format === 'csv' ? readCsv(schema, chunks, delimiter) : readJsonLines(schema, chunks);
}

const refersToItself = ({ relations, name }: CompiledSchema): boolean =>
  [...relations.values()].some(({ model }) => model === name);

/** PostgreSQL names the key and the value, and not the row. */
function relationProblem({ layout }: CompiledSchema, error: unknown): Problem {
  const { constraint = '', detail = '' } = error as {
    readonly constraint?: string;
    readonly detail?: string;
  };
  const key = layout.foreignKeys[constraint];
  const value = /\)=\(([^)]*)\)/.exec(detail)?.[1] ?? '';
  return {
    path: key?.column ?? '',
    rule: 'relation',
    message: `there is no record ${value} of ${key?.target ?? 'that schema'}`,
  };
}

function refused(builder: ReportBuilder): Error {
  const { read, failed, errors, truncated } = builder.report(false);
  return databaseErrors.IMPORT_REFUSED({
    message: `Nothing was stored: ${failed} of ${read} rows are not valid${truncated ? '. The first errors are listed' : ''}`,
    errors: errors.map(({ line, field, rule, message }) => ({
      path: field === '' ? `lines.${line}` : `lines.${line}.${field}`,
      rule,
      message,
    })),
  });
}
