/**
 * Hooks before records are written, whoever writes: clients, endpoints, operators, batches, GraphQL and functions all
 * come through the record store. A hook sees the input and the record as it is, and the write holds only if the record
 * is still that one: nothing is locked while foreign code runs.
 */
import { changeMany, inParallel, removeSelected, updateSelected } from './hooked-batches.ts';
import { changeOne, removeOne } from './hooked-writes.ts';
import {
  askWith,
  type HookedParts,
  type RecordHookOperation,
  recordHookPoint,
} from './record-hook-value.ts';
import type { RecordStore } from './store.ts';

export function withRecordHooks(parts: HookedParts): RecordStore {
  const { store } = parts;
  const hooked = (schema: string, operation: RecordHookOperation): boolean =>
    parts.hooks.has(recordHookPoint(schema, operation));
  const ask = askWith(parts);

  return {
    ...store,
    async create(caller, schema, input, options) {
      if (!hooked(schema, 'create')) return store.create(caller, schema, input, options);
      return store.create(
        caller,
        schema,
        await ask(caller, { schema, operation: 'create', input }),
        options,
      );
    },
    async createMany(caller, schema, inputs, options) {
      if (!hooked(schema, 'create')) return store.createMany(caller, schema, inputs, options);
      const changed = await inParallel(inputs, (input) =>
        ask(caller, { schema, operation: 'create', input }),
      );
      return store.createMany(caller, schema, changed, options);
    },
    update: (...given) =>
      hooked(given[1], 'update') ? changeOne(parts, 'update', given) : store.update(...given),
    replace(...given) {
      const isHooked =
        hooked(given[1], 'update') || (given[4]?.upsert && hooked(given[1], 'create'));
      return isHooked ? changeOne(parts, 'replace', given) : store.replace(...given);
    },
    updateMany: (...given) =>
      hooked(given[1], 'update') ? changeMany(parts, 'update', given) : store.updateMany(...given),
    replaceMany: (...given) =>
      hooked(given[1], 'update')
        ? changeMany(parts, 'replace', given)
        : store.replaceMany(...given),
    remove: (...given) =>
      hooked(given[1], 'delete') ? removeOne(parts, given) : store.remove(...given),
    updateWhere: (...given) =>
      hooked(given[1], 'update') ? updateSelected(parts, given) : store.updateWhere(...given),
    removeWhere: (...given) =>
      hooked(given[1], 'delete') ? removeSelected(parts, given) : store.removeWhere(...given),
  };
}
