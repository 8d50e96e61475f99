/** What every write has in common: the rights of its caller, and what its failures mean. */

import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Events } from '../../../kernel/events/events.ts';
import type { MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { PermissionPort, RecordAction, RowPredicate } from '../../../kernel/permissions.ts';
import { currentAccount } from '../../../kernel/request-account/request-account.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { AccessRule } from '../../schema/language/field.ts';
import { isRecordId, keyHint } from '../../schema/language/record-key.ts';
import { withPreparedGrants } from '../access/cached-grants.ts';
import type { WriteRights } from '../access/field-access.ts';
import { asksMore, grantedRows } from '../access/granted-rows.ts';
import {
  isRowAuthorised,
  isTrusted,
  requireGranted,
  requireOffered,
  rowPredicate,
} from '../access/operation-access.ts';
import { recordError, recordErrors } from '../errors.ts';
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
import { chargeJson, type RecordDependencies } from '../read/record-view.ts';
import type { GatedChange, RecordGate } from '../record-gate.ts';
import type { WriteOptions } from '../store.ts';
import type { Ownership } from './ownership.ts';
import { type Guard, rememberedRows } from './remembered-rights.ts';

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
  /** Set where `predicate` rests on what the node remembers; only with `OpenOptions.guarded`. */
  readonly remembered?: RememberedRights | undefined;
  /** What its rights rest on was looked up: each asks whether that comes to the same now (confirmed-write.ts). */
  readonly rechecks: readonly Recheck[];
}

/** Whether what was looked up comes to the same now. */
export type Recheck = () => Promise<boolean>;

interface RememberedRights {
  /** The statement that writes asks this too: what it touches, it may. */
  readonly guard: Guard;
  /** The same write by the rights that hold now, for where that statement touched nothing, or more than that one is needed. */
  certain(): Promise<WriteContext>;
}

/** The same write by rights that hold now. */
export const certainly = (context: WriteContext): WriteContext | Promise<WriteContext> =>
  context.remembered?.certain() ?? context;

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
  /** Its rights may rest on what the node remembers: whoever writes looks at `remembered`. */
  readonly guarded?: boolean;
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
    rechecks: [],
  };
}

const asksFirst = (request: WriteRequest): boolean =>
  isByRow(request) || asksMoreThanRows(request) || namesOwner(request);

const isByRow = ({ caller, schema, operation }: WriteRequest): boolean =>
  operation !== 'create' && isRowAuthorised(caller, schema, actionOf(operation));

function asksMoreThanRows({ caller, schema, options, rights }: WriteRequest): boolean {
  const more = asksMore(caller, options);
  const byField = rights.guarded.size > 0 || (schema.fieldVisibility?.conditional.size ?? 0) > 0;
  return more || byField || (options.populate?.length ?? 0) > 0;
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
  const { options, schema } = request;
  // In a transaction nothing is taken from memory: it would be asked twice.
  const mayRemember =
    options.guarded && schema.mapping === undefined && !dependencies.database.inTransaction();
  const found =
    mayRemember && isByRow(request) && !asksMoreThanRows(request)
      ? await rememberedRows(dependencies, ({ permissions }) => rowsOf(permissions, request))
      : undefined;
  if (!found) return resolveCertain(dependencies, request);
  return {
    ...request,
    dependencies,
    predicate: found.predicate,
    remembered: { guard: found.guard, certain: () => certainOrAgain(dependencies, request) },
    ownership: undefined,
    populate: noPopulate,
    conditions: undefined,
    rechecks: [],
  };
}

/** What is remembered does not do, and what was looked up in its place is to be looked up again: the write begins anew. */
export class BegunAgain extends Error {
  readonly context: WriteContext;

  constructor(context: WriteContext) {
    super('The write begins again');
    this.context = context;
  }
}

/** Throws `BegunAgain`. */
async function certainOrAgain(
  dependencies: WriteDependencies,
  request: WriteRequest,
): Promise<WriteContext> {
  const context = await resolveCertain(dependencies, request);
  if (context.rechecks.length > 0) throw new BegunAgain(context);
  return context;
}

/** Rows that the caller may change. */
function rowsOf(
  permissions: PermissionPort,
  { caller, schema, operation, options }: WriteRequest,
): MaybePromise<RowPredicate | undefined> {
  if (operation === 'create') return undefined;
  const { action: asked, scope, ids } = options;
  const action = actionOf(operation);
  return rowPredicate(permissions, {
    ...{ caller, schema, action, scope, ids },
    ...(asked !== undefined && { asked }),
  });
}

async function resolveCertain(
  dependencies: WriteDependencies,
  request: WriteRequest,
): Promise<WriteContext> {
  const { caller, schema, options } = request;
  const { scope, ids, needs, populate: paths = [] } = options;
  const rechecks: Recheck[] = [];
  const permissions = withPreparedGrants(dependencies.permissions, (one) => {
    if (one.recheck) rechecks.push(one.recheck);
    return one;
  });
  const ownership = namesOwner(request)
    ? await ownershipOf(dependencies.permissions, request)
    : undefined;
  if (ownership && scope !== undefined)
    rechecks.push(() => ownsStill(dependencies.permissions, request, ownership));
  const predicate = isByRow(request) ? await rowsOf(permissions, request) : undefined;
  const asking = { ...dependencies, permissions };
  const rows = await grantedRows(asking, { caller, scope, needs, ids }, predicate);
  const populate = await resolvePopulate(dependencies, { caller, schema, paths, scope });
  const conditions = await conditionsOf(dependencies.permissions, {
    ...{ caller, schema, populate, scope },
    rules: rulesOf(request),
  });
  return { ...request, dependencies, predicate: rows, ownership, populate, conditions, rechecks };
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
  const { owner, rule, holds, tells } = cached;
  return { owner, tuples, rule, cached: { holds, tells, asked } };
}

/** Whether what is created would be owned by the same now. Throws 403 for who may not act for the scope any more. */
async function ownsStill(
  { engine }: PermissionPort,
  { caller, schema, options: { scope } }: WriteRequest,
  { owner }: Ownership,
): Promise<boolean> {
  const now = await engine?.owner(caller, schema.name, scope);
  return now?.type === owner.type && now.id === owner.id;
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
