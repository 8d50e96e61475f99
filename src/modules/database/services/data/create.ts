/** The data for other modules: a typed face of the record engine (contract.ts). */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Caller } from '../../../../kernel/caller.ts';
import { system } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { errors, PenstockError } from '../../../../kernel/errors.ts';
import { recordErrors } from '../../../../kernel/records/errors.ts';
import { parseFilter } from '../../../../kernel/records/filter/parse.ts';
import { recordFields } from '../../../../kernel/records/selection/stream.ts';
import type { RecordInput, RecordStore, RecordText } from '../../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../../kernel/schema/compiled.ts';
import { schemaErrors } from '../../../../kernel/schema/errors.ts';
import type { SchemaRegistry } from '../../../../kernel/schema/registry.ts';
import { holdQuery } from '../../data-queries.ts';
import type { Views } from '../views/create.ts';
import { assignmentsOf, createdBy, flatChanges } from './changes.ts';
import type { DataRecord, DataService, FindOptions, ModuleData, Query } from './contract.ts';
import { rawQuery } from './raw-query.ts';
import { type Change, requireRight } from './rights.ts';

export interface DataParts {
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
  readonly database: Database;
  readonly views: Views;
}

export const createDataService = (parts: DataParts): DataService => ({
  forModule: (name) => ({ ...reads(parts), ...writes(parts, name), ...others(parts, name) }),
});

/** The caller was offered this by the module: switches of client routes do not count, permissions on rows do. */
const granted = { granted: true } as const;

const parsed = ({ json }: RecordText): DataRecord => JSON.parse(json) as DataRecord;

function known({ schemas }: DataParts, name: string): CompiledSchema {
  const schema = schemas.get(name);
  if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
  return schema;
}

type Reads = Pick<ModuleData, 'findOne' | 'findMany' | 'cursor' | 'countDocuments' | 'aggregate'>;

function reads({ records }: DataParts): Reads {
  const findMany: Reads['findMany'] = async (caller, schema, query, { select, ...options } = {}) => {
    const text = await records.select(caller, schema, { ...granted, count: 'none', ...options, filter: parseFilter(query) });
    const { documents } = JSON.parse(text) as { documents: DataRecord[] };
    return select ? documents.map((document) => chosen(document, select)) : documents;
  };
  return {
    findMany,
    findOne: async (caller, schema, query, options) => (await findMany(caller, schema, query, { ...options, limit: 1 }))[0],
    async *cursor(caller, schema, query, { select, ...options } = {}) {
      for await (const batch of records.stream(caller, schema, { ...granted, ...options, filter: parseFilter(query) })) {
        for (const json of batch) {
          const document = JSON.parse(json) as DataRecord;
          yield select ? chosen(document, select) : document;
        }
      }
    },
    async countDocuments(caller, schema, query) {
      const values = [{ as: 'count', function: 'count' }] as const;
      const [row] = JSON.parse(
        await records.aggregate(caller, schema, { ...granted, filter: parseFilter(query), groupBy: [], values }),
      ) as {
        count: number;
      }[];
      return row?.count ?? 0;
    },
    aggregate: async (caller, schema, query, options) =>
      JSON.parse(await records.aggregate(caller, schema, { ...granted, ...options, filter: parseFilter(query) })) as unknown[],
  };
}

const chosen = (document: DataRecord, select: NonNullable<FindOptions['select']>): DataRecord =>
  Object.fromEntries(Object.entries(document).filter(([name]) => name === '_id' || name === '__v' || select.includes(name))) as DataRecord;

type Writes = Omit<ModuleData, keyof Reads | keyof Others>;

function writes(parts: DataParts, module: string): Writes {
  const { records } = parts;
  const may = (name: string, change: Change, inputs: readonly RecordInput[] = []): void =>
    requireRight(module, known(parts, name), change, inputs);
  const one = pickOne(parts);
  const updateOne: Writes['updateOne'] = async (caller, schema, query, changes) => {
    const flat = flatChanges(changes);
    may(schema, 'modify', [flat]);
    return one(caller, { schema, query }, async ({ _id, __v }) =>
      parsed(await records.update(caller, schema, _id, flat, { ...granted, expectedVersion: __v })),
    );
  };
  return {
    async create(caller, schema, input, options) {
      may(schema, 'create');
      return parsed(await records.create(caller, schema, input, { ...granted, ...options }));
    },
    async createMany(caller, schema, inputs, options) {
      may(schema, 'create');
      return (await records.createMany(caller, schema, inputs, { ...granted, ...options })).map(parsed);
    },
    async findByIdAndUpdate(...[caller, schema, id, changes, options]) {
      const flat = flatChanges(changes);
      may(schema, 'modify', [flat]);
      return parsed(await records.update(caller, schema, id, flat, { ...granted, ...options }));
    },
    async findByIdAndReplace(...[caller, schema, id, input, options]) {
      may(schema, 'modify', [wholeOf(known(parts, schema))]);
      return parsed(await records.replace(caller, schema, id, input, { ...granted, ...options }));
    },
    updateOne,
    async replaceOne(caller, schema, query, input) {
      may(schema, 'modify', [wholeOf(known(parts, schema))]);
      return one(caller, { schema, query }, async ({ _id, __v }) =>
        parsed(await records.replace(caller, schema, _id, input, { ...granted, expectedVersion: __v })),
      );
    },
    async upsert(caller, schema, query, input) {
      may(schema, 'create');
      return parts.database.transaction(async (transaction) => {
        await holdQuery(transaction, schema, query);
        return (
          (await updateOne(caller, schema, query, input)) ??
          parsed(await records.create(caller, schema, createdBy(flatChanges(input)), granted))
        );
      });
    },
    async updateMany(caller, schema, query, changes) {
      const flat = flatChanges(changes);
      may(schema, 'modify', [flat]);
      return records.updateWhere(caller, schema, assignmentsOf(flat), { ...granted, filter: parseFilter(query) });
    },
    async deleteOne(caller, schema, query) {
      may(schema, 'delete');
      const removed = await one(caller, { schema, query }, async ({ _id, __v }) => {
        await records.remove(caller, schema, _id, { ...granted, expectedVersion: __v });
        return true;
      });
      return removed ?? false;
    },
    async deleteMany(caller, schema, query) {
      may(schema, 'delete');
      return records.removeWhere(caller, schema, { ...granted, filter: parseFilter(query) });
    },
  };
}

/** A replacement names every field, whatever its input says. */
const wholeOf = (schema: CompiledSchema): RecordInput => Object.fromEntries([...schema.tree.fields.keys()].map((name) => [name, null]));

const MAX_TRIES = 10;
const PAUSE_MS = 5;

/** Does something to one record that fits, as it was found: whoever is faster wins, and the question is asked again. */
function pickOne(parts: DataParts) {
  const { findOne } = reads(parts);
  return async <T>(
    caller: Caller,
    { schema, query }: { schema: string; query: Query },
    work: (found: DataRecord) => Promise<T>,
  ): Promise<T | undefined> => {
    for (let tries = 1; ; tries++) {
      const found = await findOne(caller, schema, query, { select: [] });
      if (!found) return undefined;
      try {
        return await parts.database.part(() => work(found));
      } catch (error) {
        if (tries >= MAX_TRIES || !isLost(error)) throw error;
        await sleep(PAUSE_MS * tries * Math.random());
      }
    }
  };
}

const lostCodes: ReadonlySet<string> = new Set([errors.PRECONDITION_FAILED.code, recordErrors.RECORD_NOT_FOUND.code]);
const isLost = (error: unknown): boolean => error instanceof PenstockError && lostCodes.has(error.code);

type Others = Pick<
  ModuleData,
  'transaction' | 'rawQuery' | 'createView' | 'deleteView' | 'columnExistence' | 'getSchema' | 'getSchemas' | 'setSchemaExtension'
>;

function others(parts: DataParts, module: string): Others {
  const { schemas, database } = parts;
  return {
    transaction: (work) => database.transaction(work),
    rawQuery: (...[caller, text, values, options]) => rawQuery(database, caller, { text, values: values ?? [], ...options }),
    createView: (caller, view) => parts.views.create(caller, view),
    deleteView: (caller, name) => parts.views.remove(caller, name),
    columnExistence(name, columns) {
      const fields = new Set([...recordFields(known(parts, name)), ...known(parts, name).tree.fields.keys()]);
      return columns.every((column) => fields.has(column));
    },
    getSchema: (name) => schemas.get(name),
    getSchemas: () => schemas.all(),
    async setSchemaExtension(name, fields) {
      const [schema] = await schemas.apply(system(module), { kind: 'extend', id: known(parts, name)._id, owner: module, fields });
      return schema ?? known(parts, name);
    },
  };
}
