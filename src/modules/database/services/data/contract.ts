/**
 * What other modules may ask of the data (spec/database.md 5.16). Each call names
 * its caller: `system('why')` for work of the module itself, a user for work on his
 * behalf, whose permissions on rows then hold. What a module may write is decided
 * by the schema (5.9).
 */
import type { Caller } from '../../../../kernel/caller.ts';
import type { AggregateOptions, RecordInput } from '../../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../../kernel/schema/compiled.ts';
import type { FieldMap } from '../../../../kernel/schema/definition.ts';
import type { NewView } from '../views/definition.ts';

/** In the operator language: `{ views: { $gt: 3 } }`. `{}` is every record. */
export type Query = Readonly<Record<string, unknown>>;

/** A record as on the wire. */
export type DataRecord = Readonly<Record<string, unknown>> & { readonly _id: string; readonly __v: number };

export interface FindOptions {
  /** Names of fields; all unless given. Ids and versions come always. */
  readonly select?: readonly string[];
  /** Field names, `-` in front for descending. */
  readonly sort?: readonly string[];
  readonly populate?: readonly string[];
  /** Resource on whose behalf a user acts, as `<Type>:<id>`. */
  readonly scope?: string;
}

export interface PageOptions extends FindOptions {
  readonly skip?: number;
  /** 1 to 1,000; 25 unless set. For more, `cursor`. */
  readonly limit?: number;
}

export interface ChangeOptions {
  readonly scope?: string;
  /** Version that the record must have; another one is 412. */
  readonly expectedVersion?: number;
}

export interface RawOptions {
  /** Milliseconds; 10,000 unless set, at most 60,000. */
  readonly timeoutMs?: number;
}

export interface DataService {
  /** The same for a module: what it may write is looked up under its name. */
  forModule(name: string): ModuleData;
}

export interface ModuleData {
  findOne(caller: Caller, schema: string, query: Query, options?: FindOptions): Promise<DataRecord | undefined>;
  findMany(caller: Caller, schema: string, query: Query, options?: PageOptions): Promise<readonly DataRecord[]>;
  /** All of them, however many, as they are at one moment. Few can be read at once (503). */
  cursor(caller: Caller, schema: string, query: Query, options?: FindOptions): AsyncIterable<DataRecord>;
  countDocuments(caller: Caller, schema: string, query: Query): Promise<number>;
  /** One row per group. */
  aggregate(
    caller: Caller,
    schema: string,
    query: Query,
    options: Omit<AggregateOptions, 'filter' | 'granted'>,
  ): Promise<readonly unknown[]>;
  create(caller: Caller, schema: string, input: RecordInput, options?: { readonly scope?: string }): Promise<DataRecord>;
  createMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
    options?: { readonly scope?: string },
  ): Promise<readonly DataRecord[]>;
  /** Fields and the operators `$set`, `$inc`, `$push`, `$pull`, `$unset`. Throws 404. */
  findByIdAndUpdate(caller: Caller, schema: string, id: string, changes: RecordInput, options?: ChangeOptions): Promise<DataRecord>;
  /** What is left out takes its default or becomes null. Throws 404. */
  findByIdAndReplace(caller: Caller, schema: string, id: string, input: RecordInput, options?: ChangeOptions): Promise<DataRecord>;
  /** Changes one record that fits, or none. */
  updateOne(caller: Caller, schema: string, query: Query, changes: RecordInput): Promise<DataRecord | undefined>;
  replaceOne(caller: Caller, schema: string, query: Query, input: RecordInput): Promise<DataRecord | undefined>;
  /** Changes the record that fits, or creates one. Those with the same query go one after the other. */
  upsert(caller: Caller, schema: string, query: Query, input: RecordInput): Promise<DataRecord>;
  /** By one statement; answers how many. */
  updateMany(caller: Caller, schema: string, query: Query, changes: RecordInput): Promise<number>;
  /** Answers whether there was one. */
  deleteOne(caller: Caller, schema: string, query: Query): Promise<boolean>;
  deleteMany(caller: Caller, schema: string, query: Query): Promise<number>;
  /** All calls inside happen, or none. */
  transaction<T>(work: () => Promise<T>): Promise<T>;
  /**
   * One reading statement of SQL, for what the query language cannot say. Values are parameters (`$1`); nothing can
   * be written, and rows are not a matter of permission: only the platform itself may call it. Throws 403.
   */
  rawQuery<R>(caller: Caller, text: string, values?: readonly unknown[], options?: RawOptions): Promise<readonly R[]>;
  /**
   * Some fields of the records that fit a query, as a schema of its own: read-only, with all exposure off until an
   * admin says otherwise. It shows records whatever the permissions of its source say, so only the platform
   * itself may make one (403). One of the same name is made anew.
   */
  createView(caller: Caller, view: NewView): Promise<CompiledSchema>;
  deleteView(caller: Caller, name: string): Promise<void>;
  /** Whether records of the schema have all of these fields. */
  columnExistence(schema: string, columns: readonly string[]): boolean;
  getSchema(name: string): CompiledSchema | undefined;
  getSchemas(): readonly CompiledSchema[];
  /** The fields that this module adds to a schema of somebody else; none takes them away again. */
  setSchemaExtension(schema: string, fields: FieldMap): Promise<CompiledSchema>;
}
