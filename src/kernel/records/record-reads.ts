/** The reading half of the record store: each call with the schemas as its caller sees them. */
import type { Caller } from '../caller.ts';
import { errors } from '../errors.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { isTrusted, requireOffered } from './access.ts';
import { readBelieved, readGuarded } from './believed.ts';
import type { OpenDesk } from './desk.ts';
import { getRecord, listRecords, viewOf } from './reads.ts';
import { aggregateSelected } from './selection/aggregate.ts';
import { findSelected, listSelected } from './selection/find.ts';
import { nearestSelected } from './selection/nearest.ts';
import { selectionOf } from './selection/selection.ts';
import { createRecordStreams } from './selection/stream.ts';
import { trashOf } from './soft-delete.ts';
import type { ReadOptions, RecordStore } from './store.ts';
import type { WriteDependencies } from './write-context.ts';

export type RecordReads = Pick<RecordStore, 'list' | 'get' | 'select' | 'find' | 'stream' | 'nearest' | 'aggregate'>;

export function createReads(deskOf: OpenDesk): RecordReads {
  return {
    async list(caller, name, listOptions = {}) {
      const desk = deskOf(caller, name);
      const { dependencies: own, schema: find } = desk instanceof Promise ? await desk : desk;
      const schema = readable(caller, find(name), listOptions);
      return readGuarded(searching(own, caller), (given) => {
        const view = viewOf(given, caller, schema, listOptions);
        if (view instanceof Promise) return view.then((found) => listRecords(given, schema, listOptions, found));
        return listRecords(given, schema, listOptions, view);
      });
    },
    async get(caller, name, id, readOptions = {}) {
      const desk = deskOf(caller, name);
      const { dependencies: own, schema: find } = desk instanceof Promise ? await desk : desk;
      const schema = readable(caller, find(name), readOptions);
      return readBelieved(own, (given) => {
        const view = viewOf(given, caller, schema, readOptions);
        if (view instanceof Promise) return view.then((found) => getRecord(given, schema, id, found));
        return getRecord(given, schema, id, view);
      });
    },
    async select(caller, name, selectOptions) {
      const { dependencies: own, schema: find } = await deskOf(caller, name);
      const schema = wanted(caller, find(name), selectOptions);
      return readBelieved(searching(own, caller, selectOptions.granted), async (given) =>
        listSelected(given, await selectionOf(given, { caller, schema }, selectOptions), selectOptions),
      );
    },
    async find(caller, name, selectOptions) {
      const { dependencies: own, schema: find } = await deskOf(caller, name);
      const schema = wanted(caller, find(name), selectOptions);
      return readBelieved(searching(own, caller, selectOptions.granted), async (given) =>
        findSelected(given, await selectionOf(given, { caller, schema }, selectOptions), selectOptions.sort ?? []),
      );
    },
    stream: createStream(deskOf),
    async nearest(caller, name, nearestOptions) {
      const { filter, granted = false, scope } = nearestOptions;
      const { dependencies: own, schema: find } = await deskOf(caller, name);
      const schema = find(name);
      const rows = { filter, granted, ...(scope !== undefined && { scope }) };
      const request = { ...nearestOptions, hidden: (granted || isTrusted(caller)) && !schema.sight };
      const limited = searching(own, caller, granted);
      return readBelieved(limited, async (given) => nearestSelected(given, await selectionOf(given, { caller, schema }, rows), request));
    },
    async aggregate(caller, name, aggregateOptions) {
      const { filter, granted = false, scope } = aggregateOptions;
      const { dependencies: own, schema: find } = await deskOf(caller, name);
      const rows = { filter, granted, ...(scope !== undefined && { scope }) };
      const schema = find(name);
      return readBelieved(searching(own, caller, granted), async (given) =>
        aggregateSelected(given, await selectionOf(given, { caller, schema }, rows), aggregateOptions),
      );
    },
  };
}

/** What clients put together themselves may run for a shorter time than what operators have made for them. */
function searching(dependencies: WriteDependencies, caller: Caller, granted = false): WriteDependencies {
  if (granted || isTrusted(caller)) return dependencies;
  return { ...dependencies, limitMs: dependencies.searchLimitMs };
}

/** The rows that are asked for: those that are alive, or for operators those in the trash. Throws 403 and 404. */
function wanted(caller: Caller, schema: CompiledSchema, { deleted = false }: ReadOptions): CompiledSchema {
  if (!deleted) return schema;
  if (!isTrusted(caller)) throw errors.FORBIDDEN();
  return trashOf(schema);
}

function readable(caller: Caller, schema: CompiledSchema, options: ReadOptions): CompiledSchema {
  requireOffered(caller, schema, 'read');
  return wanted(caller, schema, options);
}

function createStream(deskOf: OpenDesk): RecordStore['stream'] {
  const streams = createRecordStreams();
  return async function* stream(caller, name, options) {
    const { dependencies, schema: find } = await deskOf(caller, name);
    const schema = wanted(caller, find(name), options);
    yield* streams.read(dependencies, await selectionOf(dependencies, { caller, schema }, options), options);
  };
}
