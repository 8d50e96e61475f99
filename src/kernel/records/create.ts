/** Puts the record engine together (contract: store.ts). */
import type { Database } from '../database/database.ts';
import type { Events } from '../events/events.ts';
import type { PermissionPort } from '../permissions.ts';
import type { SchemaRegistry } from '../schema/registry.ts';
import type { SecretBox } from '../security/secret-box.ts';
import { historyAfresh, readsAfresh } from './afresh.ts';
import { createHistory, createTrash } from './archive.ts';
import { createRecords, replaceRecords, updateRecords } from './bulk.ts';
import { createDesks, type Desk } from './desk.ts';
import { rightsOf } from './field-access.ts';
import { createHolder } from './hold.ts';
import { createCursors } from './page/cursor.ts';
import { createPlanCache } from './plan-cache.ts';
import { createRecordAccess } from './readable.ts';
import { createReads } from './record-reads.ts';
import { removeRecord } from './removal.ts';
import { removeSelected } from './selection/remove-selected.ts';
import { updateSelected } from './selection/update-selected.ts';
import type { RecordStore } from './store.ts';
import { upsertRecord } from './upsert.ts';
import { type OpenWrite, openWrite, type WriteDependencies } from './write-context.ts';
import { createRecord, replaceRecord, updateRecord } from './writes.ts';

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
  const dependencies: WriteDependencies = { ...options, plans: createPlanCache(), cursors: createCursors(options.secrets) };
  const deskOf = createDesks(dependencies);

  const write: OpenWrite = (caller, name, operation, writeOptions = {}) => {
    const open = ({ dependencies: own, beholder, schema: find }: Desk) => {
      const schema = find(name);
      return openWrite(own, { caller, schema, operation, options: writeOptions, rights: rightsOf(schema, beholder) });
    };
    const desk = deskOf(caller, name);
    return desk instanceof Promise ? desk.then(open) : open(desk);
  };

  return {
    ...readsAfresh(options.database, createReads(deskOf)),
    ...createRecordAccess(deskOf),
    create: async (caller, name, input, writeOptions) => createRecord(await write(caller, name, 'create', writeOptions), input),
    createMany: async (caller, name, inputs, writeOptions) => createRecords(await write(caller, name, 'create', writeOptions), inputs),
    async update(...[caller, name, id, input, writeOptions]) {
      return updateRecord(await write(caller, name, 'update', writeOptions), id, input);
    },
    updateMany: async (caller, name, inputs, writeOptions) => updateRecords(await write(caller, name, 'update', writeOptions), inputs),
    async replace(...[caller, name, id, input, writeOptions]) {
      const replace = () => write(caller, name, 'update', writeOptions);
      if (!writeOptions?.upsert) return replaceRecord(await replace(), id, input);
      return upsertRecord({ replace, create: () => write(caller, name, 'create', writeOptions) }, id, input);
    },
    replaceMany: async (caller, name, inputs, writeOptions) => replaceRecords(await write(caller, name, 'update', writeOptions), inputs),
    remove: async (caller, name, id, writeOptions) => removeRecord(await write(caller, name, 'delete', writeOptions), id),
    async updateWhere(...[caller, name, assignments, { filter, ...writeOptions }]) {
      return updateSelected(await write(caller, name, 'update', writeOptions), filter, assignments);
    },
    async removeWhere(caller, name, { filter, ...writeOptions }) {
      return removeSelected(await write(caller, name, 'delete', writeOptions), filter);
    },
    holder: (caller) => createHolder(write, caller),
    trash: createTrash(write),
    history: historyAfresh(options.database, createHistory(deskOf, write)),
  };
}
