/** What every write has in common: the rights of its caller, and what its failures mean. */
import type { Caller } from '../caller.ts';
import type { Queryable, Statement } from '../database/database.ts';
import { errors, invalid } from '../errors.ts';
import type { Events } from '../events/events.ts';
import { isId } from '../ids.ts';
import type { PermissionPort, RowPredicate } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { isRowAuthorised, isTrusted, requireGranted, requireOffered, rowPredicate } from './access.ts';
import { recordError, recordErrors } from './errors.ts';
import { restriction } from './parameters.ts';
import { noPopulate, type PopulateTree, resolvePopulate } from './populate.ts';
import { type RecordDependencies, viewOf } from './reads.ts';
import type { Ownership } from './statements.ts';
import type { WriteOptions } from './store.ts';

export interface WriteDependencies extends RecordDependencies {
  readonly events: Events;
}

export type WriteOperation = 'create' | 'update' | 'delete';

/** A write whose caller may do it. */
export interface WriteContext {
  readonly dependencies: WriteDependencies;
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly operation: WriteOperation;
  readonly options: WriteOptions;
  /** Rows that may be changed; `undefined`: all. */
  readonly predicate: RowPredicate | undefined;
  /** Who owns the records that are created; `undefined`: nobody. */
  readonly ownership: Ownership | undefined;
  readonly populate: PopulateTree;
}

interface WriteRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly operation: WriteOperation;
  readonly options: WriteOptions;
}

/** Applies the rules of the schema to the caller; waits only when something has to be asked. Throws 401, 403, 404 or 503. */
export function openWrite(dependencies: WriteDependencies, request: WriteRequest): WriteContext | Promise<WriteContext> {
  const { caller, schema, operation, options } = request;
  if (options.granted) requireGranted(caller, schema);
  else requireOffered(caller, schema, operation);
  const asks = isRowAuthorised(caller, schema) || options.populate?.length || namesOwner(request);
  if (asks) return resolveWrite(dependencies, request);
  return { dependencies, caller, schema, operation, options, predicate: undefined, ownership: undefined, populate: noPopulate };
}

/** A trusted caller creates records that nobody owns, unless he says whose they are. */
function namesOwner({ caller, schema, operation, options }: WriteRequest): boolean {
  if (operation !== 'create' || !schema.modelOptions.conduit.authorization.enabled) return false;
  return !isTrusted(caller) || options.scope !== undefined;
}

async function resolveWrite(dependencies: WriteDependencies, request: WriteRequest): Promise<WriteContext> {
  const { caller, schema, operation, options } = request;
  const { scope, populate: paths = [] } = options;
  const ownership = namesOwner(request) ? await ownershipOf(dependencies.permissions, request) : undefined;
  const predicate =
    operation !== 'create' && isRowAuthorised(caller, schema)
      ? await rowPredicate(dependencies.permissions, { caller, schema, action: operation === 'delete' ? 'delete' : 'edit', scope })
      : undefined;
  const populate = await resolvePopulate(dependencies, { caller, schema, paths, scope });
  return { dependencies, caller, schema, operation, options, predicate, ownership, populate };
}

/** Who will own the new records: the caller, or the scope that he may act for. Throws 403 or 503. */
async function ownershipOf({ engine, tuples }: PermissionPort, { caller, schema, options }: WriteRequest): Promise<Ownership> {
  if (!engine || !tuples) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  return { owner: await engine.owner(caller, schema.name, options.scope), tuples };
}

/** Runs a statement on the context's schema; refusals of the database become errors of the catalogue. */
export async function runWrite<R>(context: WriteContext, statement: Statement, database?: Queryable): Promise<R[]> {
  const { schema, operation, dependencies } = context;
  try {
    const { rows } = await (database ?? dependencies.database).query<R>(statement);
    return rows;
  } catch (error) {
    throw recordError(error, { schema, deleting: operation === 'delete', schemas: () => dependencies.schemas.all() });
  }
}

/** Events were written by the statement itself: the relay learns of them when they are committed. */
export const announceEvents = ({ database, events }: WriteDependencies): void => database.afterCommit(() => events.wake());

/** A malformed id in a write is the caller's mistake: 400. */
export function requireId(id: unknown, place: string): asserts id is string {
  if (!isId(id)) throw invalid(place, 'format', 'must be an id (UUID)');
}

/** Why a statement found no row to change: 404 when the caller cannot see one, else 412 or 403. */
export async function missError(context: WriteContext, id: string, database?: Queryable): Promise<Error> {
  const { schema, caller, dependencies, options } = context;
  const view = await viewOf(dependencies, caller, schema, { ...(options.scope !== undefined && { scope: options.scope }) });
  const statement = dependencies.plans.statement(
    { schema, shape: `seen|${view.predicate?.shape ?? ''}`, values: [id], dynamic: view.predicate !== undefined },
    (parameters) => `select 1 from ${schema.table} t0 where t0."_id" = $1${restriction(view.predicate, 't0', parameters)}`,
  );
  const rows = await runWrite(context, statement, database);
  if (rows.length === 0) return recordErrors.RECORD_NOT_FOUND();
  return options.expectedVersion === undefined ? errors.FORBIDDEN() : errors.PRECONDITION_FAILED();
}
