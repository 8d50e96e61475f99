/** Several operations on records as one transaction, later ones with results of earlier ones. */

import { recordErrors } from '../../../data/records/errors.ts';
import type {
  RecordInput,
  RecordStore,
  RecordText,
  WriteOptions,
} from '../../../data/records/store.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid, PenstockError, relocated } from '../../../kernel/errors.ts';
import { currentAccount } from '../../../kernel/request-account/request-account.ts';
import {
  type BatchOperation,
  type Results,
  referredNames,
  requireNames,
  resolved,
  resolvedData,
} from './batch-references.ts';

interface BatchParts {
  readonly database: Database;
  readonly records: RecordStore;
}

/** JSON texts of the results. Throws what an operation throws, with its place; then nothing has happened. */
export async function runBatch(
  parts: BatchParts,
  caller: Caller,
  operations: readonly BatchOperation[],
): Promise<readonly string[]> {
  requireNames(operations);
  const kept = referredNames(operations);
  const changes = changesOf(operations);
  return parts.database.transaction(async () => {
    const running = { ...parts, caller, kept, results: new Map<string, unknown>() };
    const texts: string[] = [];
    const holder = parts.records.holder(caller);
    if (changes.length > 1) {
      for (const { place, schema, operation, id, scope } of changes)
        await atPlace(place, () => holder.add(schema, operation, id, { scope }));
    }
    for (const [index, operation] of operations.entries()) {
      // No earlier than needed: nobody waits for what this batch only reads before.
      if (changes.length > 1 && changes[0]?.place === index) await holder.lock();
      texts.push(await atPlace(index, () => runOne(running, operation, index)));
    }
    return texts;
  });
}

async function atPlace<T>(index: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw placed(error, `operations.${index}`);
  }
}

interface KnownChange {
  readonly place: number;
  readonly schema: string;
  readonly operation: 'update' | 'delete';
  readonly id: string;
  readonly scope: string | undefined;
}

/**
 * The changes whose ids are known before. Batches change records in the order of their authors; two that share several in
 * opposite orders would end each other, so each takes all of them first, in one order for everybody.
 */
const changesOf = (operations: readonly BatchOperation[]): readonly KnownChange[] =>
  operations.flatMap(({ op, schema, id, scope }, place) =>
    op === 'create' || op === 'read' || typeof id !== 'string'
      ? []
      : [{ place, schema, operation: op === 'delete' ? op : 'update', id, scope } as const],
  );

/** Every operation for itself: one that fails leaves its error in its place and the others as they are. */
export async function runEach(
  parts: BatchParts,
  caller: Caller,
  operations: readonly BatchOperation[],
): Promise<readonly string[]> {
  requireNames(operations);
  const running = {
    ...parts,
    caller,
    kept: referredNames(operations),
    results: new Map<string, unknown>(),
  };
  const texts: string[] = [];
  let overdrawn: PenstockError | undefined;
  for (const [index, operation] of operations.entries()) {
    try {
      // What the request may use is used up: nothing more is done, and what was done is told.
      if (overdrawn) throw overdrawn;
      texts.push(await runOne(running, operation, index));
    } catch (error) {
      if (!(error instanceof PenstockError)) throw error;
      if (currentAccount()?.overdrawn) overdrawn = error;
      const { name, status, message, code, errors } = error;
      texts.push(
        JSON.stringify({
          op: operation.op,
          schema: operation.schema,
          error: { name, status, message, code, ...(errors && { errors }) },
        }),
      );
    }
  }
  return texts;
}

interface Running extends BatchParts {
  readonly caller: Caller;
  readonly results: Results;
  /** Names and places whose results are referred to. */
  readonly kept: ReadonlySet<string>;
}

async function runOne(running: Running, operation: BatchOperation, index: number): Promise<string> {
  const { op, schema, ref } = operation;
  const record = await apply(running, operation);
  const head = `{"op":${JSON.stringify(op)},"schema":${JSON.stringify(schema)}`;
  const names = [String(index), ...(ref === undefined ? [] : [ref])].filter((name) =>
    running.kept.has(name),
  );
  if (names.length > 0) {
    const document: unknown =
      record.json === undefined ? { _id: record.id } : JSON.parse(record.json);
    for (const name of names) running.results.set(name, document);
  }
  return `${head},${record.json === undefined ? `"id":${JSON.stringify(record.id)}` : `"document":${record.json}`}}`;
}

async function apply(
  running: Running,
  operation: BatchOperation,
): Promise<Pick<RecordText, 'id'> & { readonly json?: string }> {
  const { records, caller, results } = running;
  const { op, schema, data, scope, version } = operation;
  const options: WriteOptions = {
    ...(scope !== undefined && { scope }),
    ...(version !== undefined && { expectedVersion: version }),
  };
  const input = (): RecordInput => {
    if (!data) throw invalid('data', 'required', 'is required');
    return resolvedData(data, results) as RecordInput;
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
    case 'move':
      return moved(running, { ...operation, id });
    case 'delete':
      await records.remove(caller, schema, id, options);
      return { id };
  }
}

async function moved(
  { records, caller, results }: Running,
  { schema, id, data = {}, scope, version }: BatchOperation & { readonly id: string },
): Promise<RecordText> {
  const { to, ...others } = resolvedData(data, results) as RecordInput;
  const [stray] = Object.keys(others);
  if (stray !== undefined) throw invalid('data', 'field', 'a move takes `to` and nothing else');
  if (to !== undefined && (typeof to !== 'string' || to === ''))
    throw invalid('data.to', 'type', 'must be a text that is not empty');
  const options = {
    ...(scope !== undefined && { scope }),
    ...(version !== undefined && { expectedVersion: version }),
    to,
  };
  try {
    const [record] = await records.move(caller, schema, [id], options);
    if (!record) throw recordErrors.RECORD_NOT_FOUND();
    return record;
  } catch (error) {
    throw relocated(error, (path) => (path === 'to' ? 'data.to' : path));
  }
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
