/** Puts the record engine together (contract: store.ts). */
import { isDeepStrictEqual } from 'node:util';
import type { Caller } from '../../kernel/caller.ts';
import type { Database } from '../../kernel/database/database.ts';
import type { Events } from '../../kernel/events/events.ts';
import type { PermissionPort } from '../../kernel/permissions.ts';
import type { SecretBox } from '../../kernel/security/secret-box.ts';
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import { canonicalId, isRecordId } from '../schema/language/record-key.ts';
import type { SchemaRegistry } from '../schema/registry/registry.ts';
import { rightsOf } from './access/field-access.ts';
import {
  canonicalIds,
  isOwnersOnly,
  isRecordAction,
  isRowAuthorised,
  requireOffered,
  rowPredicate,
} from './access/operation-access.ts';
import {
  createRequestScopes,
  type OpenRequestScope,
  type RequestScope,
} from './access/request-scope.ts';
import { recordErrors } from './errors.ts';
import { createCursors } from './page/keyset.ts';
import { createLiveRecords } from './read/live.ts';
import { createReadsByRoles } from './read/reads-by-roles.ts';
import { retryingHistory, retryingReads } from './read/record-reads.ts';
import { type RecordDependencies, runRead } from './read/record-view.ts';
import type { RecordGate } from './record-gate.ts';
import { createParameters, createPlanCache, restriction } from './sql/prepared-statements.ts';
import { idTest, live } from './sql/row-id.ts';
import type { RecordAccess, RecordHolder, RecordStore } from './store.ts';
import { createHistory, createTrash } from './write/archive.ts';
import { createRecords, replaceRecords, updateRecords } from './write/bulk.ts';
import { confirmedWrite } from './write/confirmed-write.ts';
import { createMoves } from './write/move.ts';
import { removeRecord } from './write/removal.ts';
import { upsertRecord } from './write/upsert.ts';
import {
  type OpenWrite,
  openWrite,
  type Recheck,
  runWrite,
  type WriteContext,
  type WriteDependencies,
} from './write/write-context.ts';
import { createRecord, replaceRecord, updateRecord } from './write/write-record.ts';
import { meantRecords, removeSelected, updateSelected } from './write/write-selected.ts';

/*
 * Who may read, asked without reading: the same rules as `get`, for whoever tells of records instead of showing them
 * (realtime). There is no second reading of the options of a schema.
 */

function createRecordAccess(requestScopeOf: OpenRequestScope<RecordDependencies>): RecordAccess {
  const offered = async (caller: Caller, name: string) => {
    const { dependencies, schema: find } = await requestScopeOf(caller, name);
    const schema = find(name);
    requireOffered(caller, schema, 'read');
    return { dependencies, schema, byRow: isRowAuthorised(caller, schema, 'read') };
  };
  return {
    readable: async (caller, name) => ((await offered(caller, name)).byRow ? 'some' : 'all'),
    async mayRead(caller, name, id) {
      const { dependencies, schema, byRow } = await offered(caller, name);
      return (
        !byRow || (isRecordId(schema.key, id) && isThere(dependencies, { caller, schema, id }))
      );
    },
    async mayAct(caller, name, action, id) {
      const { dependencies, schema: find } = await requestScopeOf(caller, name);
      const schema = find(name);
      return isRecordId(schema.key, id) && isThere(dependencies, { caller, schema, id, action });
    },
    async couldRead(caller, name, id, { relations, owner }) {
      const { dependencies, schema, byRow } = await offered(caller, name);
      if (!byRow) return true;
      // In the trash it says all that it said.
      if (schema.softDelete && (await isThere(dependencies, { caller, schema, id, gone: true })))
        return true;
      const decided = byOwner(schema, caller.kind === 'user' && owner === caller.userId);
      if (decided !== undefined) return decided;
      const { engine } = dependencies.permissions;
      if (!engine) throw recordErrors.PERMISSIONS_UNAVAILABLE();
      return relations !== undefined && engine.could(caller, 'read', `${name}:${id}`, relations);
    },
  };
}

/** Whether the owner field alone says who reads; nothing where permissions have the last word. */
function byOwner(schema: CompiledSchema, isTheirs: boolean): boolean | undefined {
  if (!isOwnersOnly(schema, 'read')) return undefined;
  const { authorization, owner } = schema.modelOptions.conduit;
  if (!authorization.enabled) return isTheirs;
  return isTheirs === (owner?.combine === 'or') ? isTheirs : undefined;
}

interface Asked {
  readonly caller: Caller;
  readonly schema: CompiledSchema;
  readonly id: string;
  readonly action?: string;
  /** It may be in the trash. */
  readonly gone?: boolean;
}

async function isThere(
  dependencies: RecordDependencies,
  { caller, schema, id, action = 'read', gone = false }: Asked,
): Promise<boolean> {
  const { permissions } = dependencies;
  const predicate = isRecordAction(action)
    ? await rowPredicate(permissions, { caller, schema, action, scope: undefined, ids: [id] })
    : await permissions.engine?.predicate(caller, action, schema.name, {
        ids: canonicalIds(schema, [id]),
      });
  if (!predicate && !isRecordAction(action)) throw recordErrors.PERMISSIONS_UNAVAILABLE();
  const request = {
    schema,
    shape: `${action}|${gone}|${predicate?.shape ?? ''}`,
    values: [id],
    dynamic: true,
  };
  const statement = dependencies.plans.statement(
    request,
    (parameters) =>
      `select 1 from ${gone ? schema.table : schema.rows} t0 where ${idTest(schema, 't0', '$1')}${restriction(predicate, 't0', parameters, 'row')} limit 1`,
  );
  return (await runRead(dependencies, schema, statement)).length > 0;
}

/*
 * Locks records that one transaction is about to change, in one order for everybody: two transactions that share several
 * and change them in opposite orders would end each other. Rights come first: only those are locked that the caller may
 * change, so nobody keeps the records of others from them.
 */

/** Records of one schema that are changed with the same rights. */
interface Group {
  readonly context: WriteContext;
  readonly ids: Set<string>;
}

function createRecordLocks(write: OpenWrite, caller: Caller): RecordHolder {
  const groups = new Map<string, Group>();
  return {
    async add(schema, operation, id, { scope } = {}) {
      const key = JSON.stringify([schema, operation, scope]);
      const known = groups.get(key);
      const group = known ?? {
        context: await write(caller, schema, operation, { ...(scope !== undefined && { scope }) }),
        ids: new Set(),
      };
      groups.set(key, group);
      group.ids.add(id);
    },
    async lock() {
      const bySchema = [...Map.groupBy(groups.values(), ({ context }) => context.schema.name)];
      bySchema.sort(([one], [other]) => (one < other ? -1 : 1));
      for (const [, ofSchema] of bySchema) await lockGroups(ofSchema);
    },
  };
}

/** Of one schema. Ids that are none, and rows that are missing or not the caller's to change, are left alone. */
async function lockGroups(groups: readonly Group[]): Promise<void> {
  const [first] = groups;
  // Tables of others may be views, whose rows cannot be locked.
  if (!first || first.context.schema.mapping) return;
  const { schema } = first.context;
  const parameters = createParameters();
  const tests = groups.map(({ context, ids }) => {
    const known = [...ids]
      .filter((id) => isRecordId(schema.key, id))
      .map((id) => canonicalId(schema.key, id));
    return `(t0."_id" = any(${parameters.next(known)}::uuid[])${restriction(context.predicate, 't0', parameters)})`;
  });
  const strength = groups.some(({ context }) => context.operation === 'delete')
    ? 'update'
    : 'no key update';
  const text = `select 1 from ${schema.table} t0 where (${tests.join(' or ')})${live(schema, 't0')} order by t0."_id" for ${strength} of t0`;
  await runWrite(first.context, { text, values: parameters.values });
}

/** Opens a write and does it, by rights that still hold when it is done. */
type Writing = <T>(
  asked: Readonly<Parameters<OpenWrite>>,
  run: (context: WriteContext) => Promise<T>,
) => Promise<T>;

export interface RecordStoreOptions {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly events: Events;
  /** Seals the cursors of lists, the same on every node. */
  readonly secrets: Pick<SecretBox, 'digest'>;
  /** Milliseconds that the statement of a list or search by a client may run. */
  readonly searchLimitMs?: number;
  readonly gate?: RecordGate;
}

const createOpenWrite =
  (requestScopeOf: OpenRequestScope<WriteDependencies>): OpenWrite =>
  (caller, name, operation, writeOptions = {}) => {
    const open = ({ dependencies: own, viewer, schema: find }: RequestScope<WriteDependencies>) => {
      const schema = find(name);
      return openWrite(own, {
        caller,
        schema,
        operation,
        options: writeOptions,
        rights: rightsOf(schema, viewer),
      });
    };
    const requestScope = requestScopeOf(caller, name);
    if (!(requestScope instanceof Promise)) return open(requestScope);
    return requestScope.then(async (found) => {
      const hasRoles: Recheck = async () => {
        const { viewer } = await requestScopeOf(caller, name);
        return isDeepStrictEqual(viewer?.roles, found.viewer?.roles);
      };
      const context = await open(found);
      return found.viewer ? { ...context, rechecks: [...context.rechecks, hasRoles] } : context;
    });
  };

export function createRecordStore(options: RecordStoreOptions): RecordStore {
  const dependencies: WriteDependencies = {
    ...options,
    plans: createPlanCache(),
    cursors: createCursors(options.secrets),
  };
  const requestScopeOf = createRequestScopes(dependencies);

  const write = createOpenWrite(requestScopeOf);
  const writing: Writing = (asked, run) =>
    confirmedWrite(options.database, () => write(...asked), run);

  return {
    ...retryingReads(options.database, createReadsByRoles(requestScopeOf)),
    ...createRecordAccess(requestScopeOf),
    ...createLiveRecords(requestScopeOf, dependencies),
    create: (caller, name, input, writeOptions) =>
      writing([caller, name, 'create', writeOptions], (context) => createRecord(context, input)),
    createMany: (caller, name, inputs, writeOptions) =>
      writing([caller, name, 'create', writeOptions], (context) => createRecords(context, inputs)),
    updateMany: (caller, name, inputs, writeOptions) =>
      writing([caller, name, 'update', writeOptions], (context) => updateRecords(context, inputs)),
    replaceMany: (caller, name, inputs, writeOptions) =>
      writing([caller, name, 'update', writeOptions], (context) => replaceRecords(context, inputs)),
    ...createSingleWrites(write, writing),
    move: createMoves(write),
    updateWhere: (...[caller, name, assignments, { filter, ...writeOptions }]) =>
      writing([caller, name, 'update', writeOptions], (context) =>
        updateSelected(context, filter, assignments),
      ),
    removeWhere: (caller, name, { filter, ...writeOptions }) =>
      writing([caller, name, 'delete', writeOptions], (context) => removeSelected(context, filter)),
    async meant(caller, name, operation, { among, ...asked }) {
      const { filter: _, fields: __, limit: ___, ...writeOptions } = asked;
      const context = await write(caller, name, operation, { ...writeOptions, ids: among });
      const ids = among && canonicalIds(context.schema, among);
      return meantRecords(context, { ...asked, ...(ids && { among: ids }) });
    },
    holder: (caller) => createRecordLocks(write, caller),
    trash: createTrash(write),
    history: retryingHistory(options.database, createHistory(requestScopeOf, write)),
  };
}

/** Changes of one record that is there: its rights need not be those to all others. */
const createSingleWrites = (
  write: OpenWrite,
  writing: Writing,
): Pick<RecordStore, 'update' | 'replace' | 'remove'> => ({
  update: (...[caller, name, id, input, writeOptions]) =>
    writing([caller, name, 'update', { ...writeOptions, ids: [id], guarded: true }], (context) =>
      updateRecord(context, id, input),
    ),
  replace(...[caller, name, id, input, writeOptions]) {
    const ids = [id];
    if (!writeOptions?.upsert)
      return writing([caller, name, 'update', { ...writeOptions, ids, guarded: true }], (context) =>
        replaceRecord(context, id, input),
      );
    const replace = () => write(caller, name, 'update', { ...writeOptions, ids });
    const create = () => write(caller, name, 'create', writeOptions);
    return upsertRecord({ replace, create }, id, input);
  },
  remove: (caller, name, id, writeOptions) =>
    writing([caller, name, 'delete', { ...writeOptions, ids: [id], guarded: true }], (context) =>
      removeRecord(context, id),
    ),
});
