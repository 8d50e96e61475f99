/**
 * The contract of the record engine. Reads answer JSON text that PostgreSQL has
 * rendered (passed through to the wire), or parsed records for modules. Writes
 * make the record and its event in one statement.
 */
import type { Caller } from '../caller.ts';

/** A record on its way out. */
export interface RecordText {
  readonly id: string;
  /** The record as JSON. */
  readonly json: string;
  /** Counts up with each change; the ETag. */
  readonly version: number;
}

export interface ReadOptions {
  /** Relation paths, dotted for depth: `author.company`. */
  readonly populate?: readonly string[];
  readonly scope?: string;
}

export interface ListOptions extends ReadOptions {
  readonly skip?: number;
  readonly limit?: number;
  /** Field names, `-` in front for descending. */
  readonly sort?: readonly string[];
}

export interface WriteOptions {
  readonly scope?: string;
  readonly populate?: readonly string[];
  /** Version the caller saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
}

export type RecordInput = Readonly<Record<string, unknown>>;

/** Every call names its caller; permissions, visibility and validation are applied inside. */
export interface RecordStore {
  /** `{"documents":[...],"count":n}` as text. */
  list(caller: Caller, schema: string, options?: ListOptions): Promise<string>;
  /** Throws 404 when absent or invisible. */
  get(caller: Caller, schema: string, id: string, options?: ReadOptions): Promise<RecordText>;
  create(caller: Caller, schema: string, input: RecordInput, options?: WriteOptions): Promise<RecordText>;
  createMany(caller: Caller, schema: string, inputs: readonly RecordInput[], options?: WriteOptions): Promise<readonly RecordText[]>;
  /** Changes the given fields; `null` clears an optional one. */
  update(caller: Caller, schema: string, id: string, input: RecordInput, options?: WriteOptions): Promise<RecordText>;
  updateMany(caller: Caller, schema: string, inputs: readonly RecordInput[], options?: WriteOptions): Promise<readonly RecordText[]>;
  /** Replaces the record: fields that are left out take their default or become null. */
  replace(caller: Caller, schema: string, id: string, input: RecordInput, options?: WriteOptions): Promise<RecordText>;
  replaceMany(caller: Caller, schema: string, inputs: readonly RecordInput[], options?: WriteOptions): Promise<readonly RecordText[]>;
  remove(caller: Caller, schema: string, id: string, options?: WriteOptions): Promise<void>;
}
