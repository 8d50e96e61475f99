/** Several operations on records as one transaction, later ones with results of earlier ones. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { invalid, PenstockError } from '../../../kernel/errors.ts';
import type { RecordInput, RecordStore, RecordText, WriteOptions } from '../../../kernel/records/store.ts';
import { shown } from '../../../kernel/schema/names.ts';

export interface BatchOperation {
  readonly op: 'create' | 'read' | 'update' | 'replace' | 'delete';
  readonly schema: string;
  /** Or `{"$ref": "<operation>.<path>"}`. */
  readonly id?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
  /** Name by which later operations refer to the result; its place in the list works too. */
  readonly ref?: string;
  readonly scope?: string;
  /** The version that the caller saw; another one stored is 412. */
  readonly version?: number;
}

interface BatchParts {
  readonly database: Database;
  readonly records: RecordStore;
}

/** JSON texts of the results. Throws what an operation throws, with its place; then nothing has happened. */
export async function runBatch(parts: BatchParts, caller: Caller, operations: readonly BatchOperation[]): Promise<readonly string[]> {
  requireNames(operations);
  const changed = changedRecords(operations);
  return parts.database.transaction(async (transaction) => {
    if (changed.length > 1) await holdTurn(transaction, changed);
    const results: Results = new Map();
    const texts: string[] = [];
    for (const [index, operation] of operations.entries()) {
      try {
        texts.push(await runOne({ ...parts, caller, results }, operation, index));
      } catch (error) {
        throw placed(error, `operations.${index}`);
      }
    }
    return texts;
  });
}

/** The records that operations change by ids that are known before, each once. */
function changedRecords(operations: readonly BatchOperation[]): readonly string[] {
  const known = operations.flatMap(({ op, schema, id }) =>
    op !== 'create' && op !== 'read' && typeof id === 'string' ? [`${schema}:${id.toLowerCase()}`] : [],
  );
  return [...new Set(known)];
}

/**
 * Batches take the records that they change in the order of their authors: two that share several in opposite orders
 * would end each other. So they wait for each other first, for all of the records and in one order for everybody.
 */
async function holdTurn(transaction: Queryable, records: readonly string[]): Promise<void> {
  const keys = 'select distinct hashtextextended(r, 0) as key from unnest($1::text[]) r order by key';
  await transaction.query({ text: `select pg_advisory_xact_lock(k.key) from (${keys}) k`, values: [records] });
}

/** Every operation for itself: one that fails leaves its error in its place and the others as they are. */
export async function runEach(parts: BatchParts, caller: Caller, operations: readonly BatchOperation[]): Promise<readonly string[]> {
  requireNames(operations);
  const results: Results = new Map();
  const texts: string[] = [];
  for (const [index, operation] of operations.entries()) {
    try {
      texts.push(await runOne({ ...parts, caller, results }, operation, index));
    } catch (error) {
      if (!(error instanceof PenstockError)) throw error;
      const { name, status, message, code, errors } = error;
      texts.push(
        JSON.stringify({ op: operation.op, schema: operation.schema, error: { name, status, message, code, ...(errors && { errors }) } }),
      );
    }
  }
  return texts;
}

type Results = Map<string, unknown>;

interface Running extends BatchParts {
  readonly caller: Caller;
  readonly results: Results;
}

function requireNames(operations: readonly BatchOperation[]): void {
  const seen = new Set<string>();
  for (const [index, { ref }] of operations.entries()) {
    if (ref === undefined) continue;
    if (seen.has(ref) || /^\d+$|\./.test(ref)) {
      throw invalid(`operations.${index}.ref`, 'unique', 'must be a name that no other operation has, without dots, and no number');
    }
    seen.add(ref);
  }
}

async function runOne(running: Running, operation: BatchOperation, index: number): Promise<string> {
  const { op, schema, ref } = operation;
  const record = await apply(running, operation);
  const head = `{"op":${JSON.stringify(op)},"schema":${JSON.stringify(schema)}`;
  const document: unknown = record.json === undefined ? { _id: record.id } : JSON.parse(record.json);
  running.results.set(String(index), document);
  if (ref !== undefined) running.results.set(ref, document);
  return `${head},${record.json === undefined ? `"id":${JSON.stringify(record.id)}` : `"document":${record.json}`}}`;
}

async function apply(running: Running, operation: BatchOperation): Promise<Pick<RecordText, 'id'> & { readonly json?: string }> {
  const { records, caller, results } = running;
  const { op, schema, data, scope, version } = operation;
  const options: WriteOptions = { ...(scope !== undefined && { scope }), ...(version !== undefined && { expectedVersion: version }) };
  const input = (): RecordInput => {
    if (!data) throw invalid('data', 'required', 'is required');
    return resolved(data, { results, place: 'data' }) as RecordInput;
  };
  if (op === 'create') return records.create(caller, schema, input(), options);
  const id = resolved(operation.id, { results, place: 'id' });
  if (typeof id !== 'string') throw invalid('id', 'required', 'must be an id');
  switch (op) {
    case 'read':
      return records.get(caller, schema, id, scope === undefined ? {} : { scope });
    case 'update':
      return records.update(caller, schema, id, input(), options);
    case 'replace':
      return records.replace(caller, schema, id, input(), options);
    case 'delete':
      await records.remove(caller, schema, id, options);
      return { id };
  }
}

interface Resolving {
  readonly results: Results;
  readonly place: string;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The value with every `{"$ref": "..."}` in it replaced. */
function resolved(value: unknown, { results, place }: Resolving): unknown {
  if (Array.isArray(value)) return value.map((item, index) => resolved(item, { results, place: `${place}.${index}` }));
  if (!isObject(value)) return value;
  if (typeof value.$ref === 'string' && Object.keys(value).length === 1) return referred(value.$ref, { results, place });
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, resolved(item, { results, place: `${place}.${shown(key)}` })]),
  );
}

/** `author` is the id of what that operation made; `author.name` a field of it. */
function referred(path: string, { results, place }: Resolving): unknown {
  const [name = '', ...rest] = path.split('.');
  if (!results.has(name)) throw invalid(place, 'reference', `"${shown(name)}" is not an earlier operation that succeeded`);
  let value = results.get(name);
  for (const key of rest.length > 0 ? rest : ['_id']) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) {
      throw invalid(place, 'reference', `"${shown(path)}" leads to nothing`);
    }
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** The same error, with the place of the operation in front of its places. */
function placed(error: unknown, place: string): unknown {
  if (!(error instanceof PenstockError)) return error;
  const { code, status, message, errors, detail, retryAfter, headers } = error;
  const problems = errors?.map((problem) => ({ ...problem, path: `${place}.${problem.path}` })) ?? [
    { path: place, rule: code.toLowerCase(), message },
  ];
  return new PenstockError(code, status, `${place}: ${message}`, {
    errors: problems,
    ...(detail !== undefined && { detail }),
    ...(retryAfter !== undefined && { retryAfter }),
    ...(headers && { headers }),
    cause: error,
  });
}
