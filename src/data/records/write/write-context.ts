/** What every write has in common: the rights of its caller, and what its failures mean. */

import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import type { PermissionPort, RecordAction, RowPredicate } from '../../../kernel/permissions.ts';
import { currentAccount } from '../../../kernel/request-account/request-account.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { AccessRule } from '../../schema/language/field.ts';
import { isRecordId, keyHint } from '../../schema/language/record-key.ts';
import type { WriteRights } from '../access/field-access.ts';
import { asksMore, grantedRows, lacksRows } from '../access/granted-rows.ts';
import {
  isRowAuthorised,
  isTrusted,
  requireGranted,
  requireOffered,
  rowPredicate,
} from '../access/operation-access.ts';
import { fieldsForbidden, recordError, recordErrors } from '../errors.ts';
import { externalTableErrors } from '../external-table-errors.ts';
import {
  conditionsOf,
  isRestricted,
  noPopulate,
  type PopulateTree,
  populateShape,
  type RowConditions,
  resolvePopulate,
} from '../read/projection.ts';
import { chargeJson, classOf, type RecordDependencies, viewOf } from '../read/record-view.ts';
import type { GatedChange, RecordGate } from '../record-gate.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { idsTest, idTest } from '../sql/row-id.ts';
import type { WriteOptions } from '../store.ts';
import type { Ownership } from './ownership.ts';

export interface WriteDependencies extends RecordDependencies {
  readonly events: Events;
  /** Who is asked about records that no call names. */
  readonly gate?: RecordGate | undefined;
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
  /** Which fields they may set. */
  readonly rights: WriteRights;
  /** For fields that depend on the record. */
  readonly conditions: RowConditions | undefined;
}

/** Opens a write of a schema that is called by its name. Throws 401, 403, 404 or 503. */
export type OpenWrite = (
  caller: Caller,
  schema: string,
  operation: WriteOperation,
  options?: OpenOptions,
) => WriteContext | Promise<WriteContext>;

interface OpenOptions extends WriteOptions {
  /** The records that it is about, where they are known. */
  readonly ids?: readonly string[] | undefined;
}

interface WriteRequest {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly operation: WriteOperation;
  readonly options: OpenOptions;
  readonly rights: WriteRights;
}

/** Applies the rules of the schema to the caller; waits only when something has to be asked. Throws 401, 403, 404 or 503. */
export function openWrite(
  dependencies: WriteDependencies,
  request: WriteRequest,
): WriteContext | Promise<WriteContext> {
  const { caller, schema, operation, options } = request;
  if (schema.mapping?.writable === false) throw externalTableErrors.TABLE_READ_ONLY();
  if (options.granted) requireGranted(caller, schema, operation);
  else requireOffered(caller, schema, operation);
  if (asksFirst(request)) return resolveWrite(dependencies, request);
  return {
    ...request,
    dependencies,
    predicate: undefined,
    ownership: undefined,
    populate: noPopulate,
    conditions: undefined,
  };
}

function asksFirst(request: WriteRequest): boolean {
  const { caller, schema, operation, options, rights } = request;
  const byRow = operation !== 'create' && isRowAuthorised(caller, schema, actionOf(operation));
  const more = asksMore(caller, options);
  const byField = rights.guarded.size > 0 || (schema.fieldVisibility?.conditional.size ?? 0) > 0;
  return byRow || more || byField || (options.populate?.length ?? 0) > 0 || namesOwner(request);
}

const actionOf = (operation: 'update' | 'delete'): RecordAction =>
  operation === 'delete' ? 'delete' : 'edit';

/** A trusted caller creates records that nobody owns, unless they say whose they are. */
function namesOwner({ caller, schema, operation, options }: WriteRequest): boolean {
  if (operation !== 'create' || !schema.modelOptions.conduit.authorization.enabled) return false;
  return !isTrusted(caller) || options.scope !== undefined;
}

async function resolveWrite(
  dependencies: WriteDependencies,
  request: WriteRequest,
): Promise<WriteContext> {
  const { caller, schema, operation, options } = request;
  const { scope, ids, populate: paths = [] } = options;
  const ownership = namesOwner(request)
    ? await ownershipOf(dependencies.permissions, request)
    : undefined;
  const predicate =
    operation !== 'create' && isRowAuthorised(caller, schema, actionOf(operation))
      ? await rowPredicate(dependencies.permissions, {
          caller,
          schema,
          action: actionOf(operation),
          ...(options.action !== undefined && { asked: options.action }),
          scope,
          ids,
        })
      : undefined;
  const { needs } = options;
  const rows = await grantedRows(dependencies, { caller, scope, needs, ids }, predicate);
  const populate = await resolvePopulate(dependencies, { caller, schema, paths, scope });
  const conditions = await conditionsOf(dependencies.permissions, {
    ...{ caller, schema, populate, scope },
    rules: rulesOf(request),
  });
  return { ...request, dependencies, predicate: rows, ownership, populate, conditions };
}

/** Of fields, where they depend on the record. */
export const rulesOf = ({
  schema,
  rights,
}: Pick<WriteContext, 'schema' | 'rights'>): readonly AccessRule[] => [
  ...(schema.fieldVisibility?.conditional.values() ?? []),
  ...rights.guarded.values(),
];

/** Who will own the new records: the caller, or the scope that they may act for. Throws 403 or 503. */
async function ownershipOf(
  { engine, tuples }: PermissionPort,
  { caller, schema, options }: WriteRequest,
): Promise<Ownership> {
  if (!engine || !tuples) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  const asked = async (): Promise<Ownership> => {
    const owner = await engine.owner(caller, schema.name, options.scope);
    return { owner, tuples, rule: await engine.creation(caller, schema.name, owner) };
  };
  const cached =
    options.scope === undefined ? await engine.cachedOwner?.(caller, schema.name) : undefined;
  if (!cached) return asked();
  return { owner: cached.owner, tuples, cached: { ...cached, asked } };
}

/** The same write with an owner that was asked for. */
export async function withAskedOwner<C extends WriteContext>(context: C): Promise<C> {
  const { ownership } = context;
  return ownership?.cached ? { ...context, ownership: await ownership.cached.asked() } : context;
}

/** Runs a statement on the context's schema; refusals of the database become errors of the catalogue. */
export async function runWrite<R>(
  context: WriteContext,
  statement: Statement,
  database?: Queryable,
): Promise<R[]> {
  const { schema, operation, dependencies } = context;
  try {
    const { rows } = await (database ?? dependencies.database).query<R>(statement);
    // A lone statement has committed by now: what it costs counts, but no longer refuses what is done.
    if (dependencies.database.inTransaction()) {
      currentAccount()?.charge('lockedRows', rows.length);
      chargeJson(rows);
    } else currentAccount()?.take('lockedRows', rows.length);
    return rows;
  } catch (error) {
    throw recordError(error, {
      schema,
      deleting: operation === 'delete',
      seesHidden: isTrusted(context.caller),
      schemas: () => dependencies.schemas.all(),
    });
  }
}

/** Asks who is to be asked about records that are locked. Throws what refuses the change. */
export async function askGate(
  { caller, dependencies: { gate } }: WriteContext,
  change: GatedChange,
): Promise<void> {
  if (change.ids.length > 0 && gate?.asks(change)) await gate.ask(caller, change);
}

/** What of a context decides the text of an answer. */
export const answerShape = ({ populate, conditions }: WriteContext): string =>
  `${populateShape(populate)}|${conditions?.shape ?? ''}`;
/** True when the answer needs values of its own. */
export const isDynamicAnswer = ({ populate, conditions }: WriteContext): boolean =>
  conditions !== undefined || isRestricted(populate);

/** Events were written by the statement itself: the relay learns of them when they are committed, which outside of a transaction they are. */
export function announceEvents({ database, events }: WriteDependencies): void {
  if (database.inTransaction()) database.afterCommit(() => events.wake());
  else events.wake();
}

/** A malformed id in a write is the caller's mistake: 400. */
export function requireId(
  { key }: Pick<CompiledSchema, 'key'>,
  id: unknown,
  place: string,
): asserts id is string {
  if (!isRecordId(key, id)) throw invalid(place, 'format', keyHint(key));
}

interface Miss {
  readonly database?: Queryable | undefined;
  /** Fields that were to be set. */
  readonly columns?: readonly string[];
  /** In front of their names: empty, or `docs.3.`. */
  readonly place?: string;
}

interface Held {
  readonly version: number | null;
  readonly may: boolean | null;
}

/** Why a statement found no row to change: 404 when the caller cannot see one, else 412, 403 or 409. */
export async function missError(
  context: WriteContext,
  id: string,
  { database, columns = [], place = '' }: Miss = {},
): Promise<Error> {
  const { schema, caller, dependencies, options } = context;
  const view = await viewOf(dependencies, caller, schema, {
    ...(options.scope !== undefined && { scope: options.scope }),
  });
  const guarded = columns.filter((name) => context.rights.guarded.has(name));
  const may = guarded.length > 0 ? context.predicate : undefined;
  const asksVersion = options.expectedVersion !== undefined;
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `seen|${guarded.length > 0}|${asksVersion}|${view.predicate?.shape ?? ''}|${may?.shape ?? ''}`,
      values: [id],
      dynamic: view.predicate !== undefined || may !== undefined,
      class: classOf(view),
    },
    (parameters) => {
      const held = may?.compile('t0."_id"', parameters.next, 'row', 't0') ?? 'true';
      const version = asksVersion ? 't0."__v"' : 'null';
      const seen = `${version} as version, ${guarded.length > 0 ? `(${held}) is true` : 'null'} as may`;
      return `select ${seen} from ${schema.rows} t0 where ${idTest(schema, 't0', '$1')}${restriction(view.predicate, 't0', parameters, 'row')}`;
    },
  );
  const [row] = await runWrite<Held>(context, statement, database);
  if (!row) return recordErrors.RECORD_NOT_FOUND();
  // Of the version that was seen something else is in the way.
  if (options.expectedVersion !== undefined && row.version !== options.expectedVersion)
    return errors.PRECONDITION_FAILED();
  // Who may not change the record at all is told that, and not about fields.
  if (guarded.length > 0 && row.may) return fieldsForbidden(guarded.map((name) => place + name));
  // Nothing forbids it: the record came, or came back, after the statement had looked for it.
  return context.predicate ? lacksRows(context) : recordErrors.WRITE_CONFLICT({ retryAfter: 1 });
}

/** One of several records that a statement did not find. */
export interface MissedRecord {
  readonly id: string;
  /** Where it stands in the request, such as `docs.3.`. */
  readonly place: string;
  /** Fields that were to be set. */
  readonly columns: readonly string[];
}

/** Why a statement did not find several rows to change: 404 that names those that the caller cannot see, else 403 or 409. */
export async function missErrors(
  context: WriteContext,
  missed: readonly MissedRecord[],
  database: Queryable,
): Promise<Error> {
  const { rights, predicate } = context;
  const forbidden = missed.flatMap(({ place, columns }) =>
    columns.filter((name) => rights.guarded.has(name)).map((name) => place + name),
  );
  // Without a rule nothing but its absence keeps a row from being found.
  const isRuled = predicate !== undefined || forbidden.length > 0;
  const seen = isRuled ? await seenAmong(context, missed, database) : new Set<string>();
  const absent = missed.filter(({ id }) => !seen.has(id));
  if (absent.length > 0) {
    const message = 'there is no such record';
    const problems = absent.map(({ place }) => ({ path: `${place}_id`, rule: 'exists', message }));
    return recordErrors.RECORD_NOT_FOUND({ errors: problems });
  }
  if (forbidden.length > 0) return fieldsForbidden(forbidden);
  if (!predicate) return recordErrors.WRITE_CONFLICT({ retryAfter: 1 });
  const message = 'you may not change this record';
  const problems = missed.map(({ place }) => ({ path: `${place}_id`, rule: 'access', message }));
  return errors.FORBIDDEN({ message: lacksRows(context).message, errors: problems });
}

/** Ids of those that the caller may read. */
export async function seenAmong(
  context: WriteContext,
  missed: readonly Pick<MissedRecord, 'id'>[],
  database: Queryable,
): Promise<ReadonlySet<string>> {
  const { schema, caller, dependencies, options } = context;
  const { scope } = options;
  const view = await viewOf(dependencies, caller, schema, scope === undefined ? {} : { scope });
  const statement = dependencies.plans.statement(
    {
      schema,
      shape: `seenMany|${view.predicate?.shape ?? ''}`,
      values: [missed.map(({ id }) => id)],
      dynamic: view.predicate !== undefined,
      class: view.predicate === undefined ? classOf(view) : 'pooled',
    },
    (parameters) =>
      `select t0."_id"::text as id from ${schema.rows} t0 where ${idsTest(schema, 't0', '$1')}${restriction(view.predicate, 't0', parameters, 'row')}`,
  );
  const rows = await runWrite<{ id: string }>(context, statement, database);
  return new Set(rows.map(({ id }) => id));
}
