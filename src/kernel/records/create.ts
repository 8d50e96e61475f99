/** Puts the record engine together (contract: store.ts). */
import type { Caller } from '../caller.ts';
import type { Database } from '../database/database.ts';
import type { Events } from '../events/events.ts';
import type { PermissionPort } from '../permissions.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { schemaErrors } from '../schema/errors.ts';
import type { SchemaRegistry } from '../schema/registry.ts';
import { requireOffered } from './access.ts';
import { createRecords, replaceRecords, updateRecords } from './bulk.ts';
import { createPlanCache } from './plan-cache.ts';
import { getRecord, listRecords, viewOf } from './reads.ts';
import { removeRecord } from './removal.ts';
import { aggregateSelected } from './selection/aggregate.ts';
import { findSelected, listSelected } from './selection/find.ts';
import { removeSelected } from './selection/remove-selected.ts';
import { selectionOf } from './selection/selection.ts';
import { updateSelected } from './selection/update-selected.ts';
import type { RecordStore, WriteOptions } from './store.ts';
import { openWrite, type WriteDependencies } from './write-context.ts';
import { createRecord, replaceRecord, updateRecord } from './writes.ts';

export interface RecordStoreOptions {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
  readonly events: Events;
}

export function createRecordStore(options: RecordStoreOptions): RecordStore {
  const dependencies: WriteDependencies = { ...options, plans: createPlanCache() };

  function known(name: string): CompiledSchema {
    const schema = options.schemas.get(name);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  }

  function readable(caller: Caller, name: string): CompiledSchema {
    const schema = known(name);
    requireOffered(caller, schema, 'read');
    return schema;
  }

  const write = (caller: Caller, name: string, operation: 'create' | 'update' | 'delete', writeOptions: WriteOptions = {}) =>
    openWrite(dependencies, { caller, schema: known(name), operation, options: writeOptions });

  return {
    async list(caller, name, listOptions = {}) {
      const schema = readable(caller, name);
      const view = viewOf(dependencies, caller, schema, listOptions);
      return listRecords(dependencies, schema, listOptions, view instanceof Promise ? await view : view);
    },
    async get(caller, name, id, readOptions = {}) {
      const schema = readable(caller, name);
      const view = viewOf(dependencies, caller, schema, readOptions);
      return getRecord(dependencies, schema, id, view instanceof Promise ? await view : view);
    },
    async select(caller, name, selectOptions) {
      const selection = await selectionOf(dependencies, { caller, schema: known(name) }, selectOptions);
      return listSelected(dependencies, selection, selectOptions);
    },
    async find(caller, name, selectOptions) {
      const selection = await selectionOf(dependencies, { caller, schema: known(name) }, selectOptions);
      return findSelected(dependencies, selection, selectOptions.sort ?? []);
    },
    async aggregate(caller, name, aggregateOptions) {
      const { filter, granted = false, scope } = aggregateOptions;
      const rows = { filter, granted, ...(scope !== undefined && { scope }) };
      const selection = await selectionOf(dependencies, { caller, schema: known(name) }, rows);
      return aggregateSelected(dependencies, selection, aggregateOptions);
    },
    create: async (caller, name, input, writeOptions) => createRecord(await write(caller, name, 'create', writeOptions), input),
    createMany: async (caller, name, inputs, writeOptions) => createRecords(await write(caller, name, 'create', writeOptions), inputs),
    async update(...[caller, name, id, input, writeOptions]) {
      return updateRecord(await write(caller, name, 'update', writeOptions), id, input);
    },
    updateMany: async (caller, name, inputs, writeOptions) => updateRecords(await write(caller, name, 'update', writeOptions), inputs),
    async replace(...[caller, name, id, input, writeOptions]) {
      return replaceRecord(await write(caller, name, 'update', writeOptions), id, input);
    },
    replaceMany: async (caller, name, inputs, writeOptions) => replaceRecords(await write(caller, name, 'update', writeOptions), inputs),
    remove: async (caller, name, id, writeOptions) => removeRecord(await write(caller, name, 'delete', writeOptions), id),
    async updateWhere(...[caller, name, assignments, { filter, ...writeOptions }]) {
      return updateSelected(await write(caller, name, 'update', writeOptions), filter, assignments);
    },
    async removeWhere(caller, name, { filter, ...writeOptions }) {
      return removeSelected(await write(caller, name, 'delete', writeOptions), filter);
    },
  };
}
