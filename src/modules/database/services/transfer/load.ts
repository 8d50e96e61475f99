/**
 * One batch of rows into the record engine. What of a batch cannot be stored is
 * found out without giving up the rest: the engine names the rows that are not
 * valid, and where the database refuses a statement, halves of it are tried.
 */
import { recordErrors } from '../../../../data/records/errors.ts';
import { externalTableErrors } from '../../../../data/records/external-table-errors.ts';
import { idsTest } from '../../../../data/records/sql/row-id.ts';
import type {
  RecordInput,
  RecordStore,
  UnresolvedReference,
  WriteOptions,
} from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { canonicalId, isRecordId } from '../../../../data/schema/language/record-key.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../../kernel/database/database.ts';
import { errors, PenstockError, type Problem, relocated } from '../../../../kernel/errors.ts';
import type { Outcome } from './report.ts';
import { isLoadable, type LoadRow, type ReadRow } from './rows.ts';

/* Statements of the import that the record engine has no word for. */

/** Those of the ids that records have. */
export async function storedIds(
  database: Queryable,
  schema: CompiledSchema,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  if (ids.length === 0) return new Set();
  const text = `select t0."_id"::text as id from ${schema.rows} t0 where ${idsTest(schema, 't0', '$1')}`;
  const { rows } = await database.query<{ id: string }>({ text, values: [ids] });
  return new Set(rows.map(({ id }) => id));
}

/** Relations are looked at when `checkRelations` says so: a row may refer to one that comes later. */
export const postponeRelations = (database: Queryable): Promise<unknown> =>
  database.query({ text: 'set constraints all deferred' });

/** Throws PostgreSQL's error 23503 when a relation leads nowhere. The transaction lives on. */
export const checkRelations = (database: Database): Promise<unknown> =>
  database.part((part) => part.query({ text: 'set constraints all immediate' }));

export interface Loading {
  readonly records: RecordStore;
  readonly database: Database;
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  /** `upsert` changes records that are there already, by `_id`. */
  readonly mode: 'insert' | 'upsert';
  /** Who will own new records of a row-authorised schema, as `<Type>:<id>`; nobody unless given. */
  readonly owner?: string | undefined;
  /** Takes links to records of the same schema that may come later; without it they are problems. */
  readonly later?: LaterLink[] | undefined;
}

export interface LaterLink {
  readonly line: number;
  /** Name of the field, and the place in its list. */
  readonly path: string;
  readonly id: string;
}

/** Links that are remembered; what is more must come in the right order. */
const MAX_LATER = 100_000;

/** Must run in a transaction: what it stored of a batch whose error it throws is undone with that. */
export async function loadBatch(loading: Loading, batch: readonly ReadRow[]): Promise<Outcome> {
  const unread = batch.flatMap(({ line, problems }) => (problems ? [{ line, problems }] : []));
  const rows = batch.filter(isLoadable);
  const known =
    loading.mode === 'upsert'
      ? await storedIds(loading.database, loading.schema, rows.flatMap(idOf(loading.schema)))
      : noIds;
  const isKnown = (row: LoadRow): boolean => idOf(loading.schema)(row).some((id) => known.has(id));
  const updated = await storeWhatFits(loading, rows.filter(isKnown), updateRows);
  const created = await storeWhatFits(
    loading,
    rows.filter((row) => !isKnown(row)),
    createRows,
  );
  return {
    created: created.stored,
    updated: updated.stored,
    failures: [...unread, ...updated.failures, ...created.failures].sort(byLine),
  };
}

const noIds: ReadonlySet<string> = new Set();
const byLine = (a: RowFailure, b: RowFailure): number => a.line - b.line;

/** The id that a row has, or none. What is no id is left to the engine to refuse. */
const idOf =
  ({ key }: CompiledSchema) =>
  ({ input: { _id } }: LoadRow): readonly string[] =>
    isRecordId(key, _id) ? [canonicalId(key, _id)] : [];

type Store = (
  loading: Loading,
  inputs: readonly RecordInput[],
  options: WriteOptions,
) => Promise<unknown>;

const createRows: Store = async ({ records, caller, schema, owner }, inputs, options) => {
  try {
    return await records.createMany(caller, schema.name, inputs, {
      ...options,
      restore: true,
      ...(owner !== undefined && { scope: owner }),
    });
  } catch (error) {
    throw relocated(error, (path) => (path === 'scope' ? 'owner' : path));
  }
};

const updateRows: Store = ({ records, caller, schema }, inputs, options) =>
  records.updateMany(caller, schema.name, inputs, options);

type RowFailure = Outcome['failures'][number];

interface Stored {
  readonly stored: number;
  readonly failures: readonly RowFailure[];
}

/** Nobody looks at what comes back of an import. */
const idsOnly = true;

async function storeWhatFits(
  loading: Loading,
  rows: readonly LoadRow[],
  store: Store,
): Promise<Stored> {
  if (rows.length === 0) return { stored: 0, failures: [] };
  const inputs = rows.map(({ input }) => input);
  const { database, later } = loading;
  const links: UnresolvedReference[] = [];
  const options =
    later && later.length < MAX_LATER
      ? { idsOnly, unresolved: (link: UnresolvedReference) => void links.push(link) }
      : { idsOnly };
  const error = await refusalOf(database, () => store(loading, inputs, options));
  if (!error) {
    later?.push(...links.map(({ id, path }) => laterLink(rows, path, id)));
    return { stored: rows.length, failures: [] };
  }
  const named = problemsByRow(error, rows.length);
  if (named) {
    const failures = rows.flatMap(({ line }, i) => failuresOf(line, named.get(i)));
    const others = await storeWhatFits(
      loading,
      rows.filter((_, i) => !named.has(i)),
      store,
    );
    return together({ stored: 0, failures }, others);
  }
  if (rows.length === 1)
    return {
      stored: 0,
      failures: rows.flatMap(({ line }) => failuresOf(line, ownProblems(error))),
    };
  const middle = Math.ceil(rows.length / 2);
  const first = await storeWhatFits(loading, rows.slice(0, middle), store);
  return together(first, await storeWhatFits(loading, rows.slice(middle), store));
}

const failuresOf = (
  line: number,
  problems: readonly Problem[] | undefined,
): readonly RowFailure[] => (problems ? [{ line, problems }] : []);

const together = (a: Stored, b: Stored): Stored => ({
  stored: a.stored + b.stored,
  failures: [...a.failures, ...b.failures],
});

/** Errors that are about the rows; everything else ends the import. */
const aboutRows: ReadonlySet<string> = new Set(
  [
    recordErrors.RECORD_INVALID,
    recordErrors.RECORD_NOT_UNIQUE,
    recordErrors.RECORD_NOT_FOUND,
    externalTableErrors.CONSTRAINT_VIOLATED,
    // What a trigger of a table of others has against a row.
    errors.CONFLICT,
  ].map(({ code }) => code),
);

async function refusalOf(
  database: Database,
  store: () => Promise<unknown>,
): Promise<PenstockError | undefined> {
  try {
    await database.part(store);
    return undefined;
  } catch (error) {
    if (error instanceof PenstockError && aboutRows.has(error.code)) return error;
    throw error;
  }
}

/** The engine says `docs.3.title` when it knows the row. `undefined`: it does not. */
function problemsByRow(
  { errors = [] }: PenstockError,
  count: number,
): ReadonlyMap<number, readonly Problem[]> | undefined {
  const found = new Map<number, Problem[]>();
  for (const { path, ...problem } of errors) {
    const { index, field } = placeOf(path);
    if (index === undefined || index >= count) return undefined;
    found.set(index, [...(found.get(index) ?? []), { path: field, ...problem }]);
  }
  return found.size > 0 ? found : undefined;
}

function placeOf(path: string): { readonly index: number | undefined; readonly field: string } {
  const [, index, field = ''] = /^docs\.(\d{1,9})(?:\.(.*))?$/s.exec(path) ?? [];
  return { index: index === undefined ? undefined : Number(index), field };
}

function laterLink(rows: readonly LoadRow[], path: string, id: string): LaterLink {
  const { index = 0, field } = placeOf(path);
  return { line: rows[index]?.line ?? 0, path: field, id };
}

const ownProblems = ({ errors, code, message }: PenstockError): readonly Problem[] =>
  errors && errors.length > 0 ? errors : [{ path: '', rule: code, message }];
