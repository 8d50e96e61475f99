/** Rows of an upload into a schema: in one transaction, which begins when all of it is there, or batch by batch. */

import type { RecordInput } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { automaticFields, shortName } from '../../../../data/schema/language/names.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { codeOf } from '../../../../kernel/database/failures.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { invalidValueProblem } from '../../../../kernel/operations/invalid-value.ts';
import { spool } from '../../../../kernel/spool.ts';
import { databaseErrors } from '../../errors.ts';
import { readCsv } from './csv.ts';
import {
  checkRelations,
  type LaterLink,
  type Loading,
  loadBatch,
  postponeRelations,
  storedIds,
} from './load.ts';
import type { ImportReport, Outcome, ReportBuilder } from './report.ts';
import {
  batched,
  type Delimiter,
  type Format,
  MAX_ROW_BYTES,
  NotUtf8Error,
  notRead,
  notUtf8,
  type ReadRow,
  textOf,
} from './rows.ts';

/* JSON lines: one object per line. */

/** A line that is no object is a row that says so; the others are read on. */
export async function* readJsonLines(
  schema: CompiledSchema,
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<ReadRow> {
  let line = 0;
  try {
    for await (const text of linesOf(chunks)) {
      const row = rowOf(schema, text, ++line);
      if (row) yield row;
    }
  } catch (error) {
    if (error instanceof NotUtf8Error) yield { line: line + 1, bytes: 0, problems: [notUtf8] };
    else if (error instanceof LongLineError)
      yield { line: line + 1, bytes: 0, problems: [tooLong] };
    else throw error;
  }
}

class LongLineError extends Error {}

async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = '';
  for await (const text of textOf(chunks)) {
    const pieces = (rest + text).split('\n');
    rest = pieces.pop() ?? '';
    yield* pieces;
    if (rest.length > MAX_ROW_BYTES) throw new LongLineError();
  }
  yield rest;
}

const tooLong: Problem = {
  path: '',
  rule: 'maxLength',
  message: `is longer than ${MAX_ROW_BYTES} bytes${notRead}`,
};

/** Empty lines are none. */
function rowOf(schema: CompiledSchema, text: string, line: number): ReadRow | undefined {
  const json = line === 1 && text.startsWith('\ufeff') ? text.slice(1) : text;
  if (json.trim() === '') return undefined;
  const bytes = json.length;
  const value = parsed(json);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return {
      line,
      bytes,
      problems: [{ path: '', rule: 'json', message: 'must be a JSON object on one line' }],
    };
  const refused = invalidValueProblem(value, '');
  const problems = refused ? [refused] : unknownFields(schema, value);
  return problems.length > 0
    ? { line, bytes, problems }
    : { line, bytes, input: value as RecordInput };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const unknownFields = ({ tree, name }: CompiledSchema, value: object): Problem[] =>
  Object.keys(value)
    .filter((key) => !tree.fields.has(key) && !automaticFields.has(key))
    .map((key) => ({ path: shortName(key), rule: 'field', message: `is not a field of ${name}` }));

export interface ImportRequest extends Loading {
  readonly chunks: AsyncIterable<Buffer>;
  readonly format: Format;
  readonly delimiter: Delimiter;
  /** All rows or none. Otherwise what is valid is stored, batch by batch. */
  readonly atomic: boolean;
  /** Everything happens, and is then undone. */
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  /** Where the upload waits on the disk until it is whole. */
  readonly spoolFolder: string;
}

/** Ends the transaction of an import that shall leave nothing. */
class Undone extends Error {}

/** Counts go into `builder` while it runs. Throws `IMPORT_REFUSED` when rows of an atomic import fail. */
export async function importRows(
  request: ImportRequest,
  builder: ReportBuilder,
): Promise<ImportReport> {
  const { database, atomic, dryRun } = request;
  if (atomic || dryRun) await importWhole(request, builder);
  else await loadAll(request, builder, (work) => database.transaction(work));
  if (atomic && !dryRun && builder.counts.failed > 0) throw refused(builder);
  return builder.report(dryRun);
}

/** A transaction keeps locks and old rows: who sends slowly, or not to the end, must not hold one open. */
async function importWhole(request: ImportRequest, builder: ReportBuilder): Promise<void> {
  const { database, chunks, dryRun, spoolFolder } = request;
  const upload = await spool(chunks, spoolFolder);
  try {
    const loadWhole = () =>
      loadAll({ ...request, chunks: upload.bytes }, builder, (work) => work());
    await asOne(database, loadWhole, () => dryRun || builder.counts.failed > 0);
  } finally {
    await upload.close();
  }
}

/** What was counted is counted once, so the work is never repeated. */
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
