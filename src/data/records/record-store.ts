/** Puts the record engine together (contract: store.ts). */
import type { Database } from '../../kernel/database/database.ts';
import type { Events } from '../../kernel/events/events.ts';
import type { PermissionPort } from '../../kernel/permissions.ts';
import type { SecretBox } from '../../kernel/security/secret-box.ts';
import type { SchemaRegistry } from '../schema/registry/registry.ts';
import { rightsOf } from './access/field-access.ts';
import { createRequestScopes, type RequestScope } from './access/request-scope.ts';
import { createCursors } from './page/keyset.ts';
import { createLiveRecords } from './read/live.ts';
import { createRecordAccess } from './read/readable.ts';
import { createReads, retryingHistory, retryingReads } from './read/record-reads.ts';
import { createPlanCache } from './sql/prepared-statements.ts';
import type { RecordStore } from './store.ts';
import { createHistory, createTrash } from './write/archive.ts';
import { createRecords, replaceRecords, updateRecords } from './write/bulk.ts';
import { createMoves } from './write/move.ts';
import { createRecordLocks } from './write/record-locks.ts';
import { removeRecord } from './write/removal.ts';
import { type OpenWrite, openWrite, type WriteDependencies } from './write/write-context.ts';
import { createRecord, replaceRecord, updateRecord, upsertRecord } from './write/write-record.ts';
import { removeSelected, updateSelected } from './write/write-selected.ts';

export interface RecordStoreOptions {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly events: Events;
  /** Seals the cursors of lists, the same on every node. */
  readonly secrets: Pick<SecretBox, 'digest'>;
  /** Milliseconds that the statement of a list or search by a client may run. */
  readonly searchLimitMs?: number;
}

export function createRecordStore(options: RecordStoreOptions): RecordStore {
  const dependencies: WriteDependencies = {
    ...options,
    plans: createPlanCache(),
    cursors: createCursors(options.secrets),
  };
  const requestScopeOf = createRequestScopes(dependencies);

  const write: OpenWrite = (caller, name, operation, writeOptions = {}) => {
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
    return requestScope instanceof Promise ? requestScope.then(open) : open(requestScope);
  };

  return {
    ...retryingReads(options.database, createReads(requestScopeOf)),
    ...createRecordAccess(requestScopeOf),
    ...createLiveRecords(requestScopeOf, dependencies),
    create: async (caller, name, input, writeOptions) =>
      createRecord(await write(caller, name, 'create', writeOptions), input),
    createMany: async (caller, name, inputs, writeOptions) =>
      createRecords(await write(caller, name, 'create', writeOptions), inputs),
    async update(...[caller, name, id, input, writeOptions]) {
      return updateRecord(await write(caller, name, 'update', writeOptions), id, input);
    },
    updateMany: async (caller, name, inputs, writeOptions) =>
      updateRecords(await write(caller, name, 'update', writeOptions), inputs),
    async replace(...[caller, name, id, input, writeOptions]) {
      const replace = () => write(caller, name, 'update', writeOptions);
      if (!writeOptions?.upsert) return replaceRecord(await replace(), id, input);
      return upsertRecord(
        { replace, create: () => write(caller, name, 'create', writeOptions) },
        id,
        input,
      );
    },
    replaceMany: async (caller, name, inputs, writeOptions) =>
      replaceRecords(await write(caller, name, 'update', writeOptions), inputs),
    remove: async (caller, name, id, writeOptions) =>
      removeRecord(await write(caller, name, 'delete', writeOptions), id),
    move: createMoves(write),
    async updateWhere(...[caller, name, assignments, { filter, ...writeOptions }]) {
      return updateSelected(await write(caller, name, 'update', writeOptions), filter, assignments);
    },
    async removeWhere(caller, name, { filter, ...writeOptions }) {
      return removeSelected(await write(caller, name, 'delete', writeOptions), filter);
    },
    holder: (caller) => createRecordLocks(write, caller),
    trash: createTrash(write),
    history: retryingHistory(options.database, createHistory(requestScopeOf, write)),
  };
}
