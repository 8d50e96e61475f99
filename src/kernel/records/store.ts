/**
 * The contract of the record engine. Reads answer JSON text that PostgreSQL has
 * rendered (passed through to the wire), or parsed records for modules. Writes
 * make the record and its event in one statement.
 */
import type { Caller } from '../caller.ts';
import type { Condition } from './filter/condition.ts';

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
  /** How the answer's `count` is made; `exact` unless set. */
  readonly count?: CountMode;
}

/**
 * - `exact`: all records that the caller may see; its cost grows with them
 * - `estimated`: exact up to 10,000; beyond, the planner's figure for a whole table, and 10,001 (for "more") where
 *   permissions narrow it. The answer says `estimated: true` when it is one
 * - `none`: no `count` in the answer
 */
export type CountMode = 'exact' | 'estimated' | 'none';

/**
 * `granted`: the caller was offered this in another way than by the client routes of the schema (a
 * custom endpoint), so that their switches do not count. Permissions on rows always do.
 */
export interface Grant {
  readonly granted?: boolean;
}

/** Reading by condition. */
export interface SelectOptions extends Omit<ListOptions, 'count'>, Grant {
  readonly filter: Condition;
}

/** Writing by condition. */
export interface SelectionOptions extends Grant {
  readonly filter: Condition;
  readonly scope?: string;
}

/** Results over the records that fit a condition. */
export interface AggregateOptions extends SelectionOptions {
  /** Fields (dots lead into nested ones) by whose values the records are grouped; none: all are one group. */
  readonly groupBy: readonly string[];
  readonly values: readonly {
    /** Name of the result. */
    readonly as: string;
    /** `distinct` counts different values; `count` without a field counts records. */
    readonly function: 'count' | 'sum' | 'avg' | 'min' | 'max' | 'distinct';
    readonly field?: string | undefined;
  }[];
  /** Names of results and groups, `-` in front for descending. */
  readonly sort?: readonly string[];
  readonly skip?: number;
  /** Groups, at most 1,000. */
  readonly limit?: number;
}

/** One change of a field, the same for every record that is changed. */
export interface Assignment {
  readonly field: string;
  /** `append` and `remove` are about elements of a list: one value, or a list of them. */
  readonly action: 'set' | 'increment' | 'decrement' | 'append' | 'remove';
  readonly value: unknown;
  /** Where the value stands in the input; faults are reported there. */
  readonly place: string;
}

export interface WriteOptions extends Grant {
  readonly scope?: string;
  readonly populate?: readonly string[];
  /** Version the caller saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
}

export type RecordInput = Readonly<Record<string, unknown>>;

/** Every call names its caller; permissions, visibility and validation are applied inside. */
export interface RecordStore {
  /** `{"documents":[...],"count":n}` as text; without `count`, or with `estimated`, as the options say. */
  list(caller: Caller, schema: string, options?: ListOptions): Promise<string>;
  /** The same for the records that fit a condition. */
  select(caller: Caller, schema: string, options: SelectOptions): Promise<string>;
  /** All records that fit a condition as a JSON list, at most 1,000; throws 400 when there are more. */
  find(caller: Caller, schema: string, options: Omit<SelectOptions, 'skip' | 'limit'>): Promise<string>;
  /** A JSON list with one object per group. */
  aggregate(caller: Caller, schema: string, options: AggregateOptions): Promise<string>;
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
  /** Changes every record that fits a condition, by one statement; answers how many. All or nothing. */
  updateWhere(caller: Caller, schema: string, assignments: readonly Assignment[], options: SelectionOptions): Promise<number>;
  /** Deletes every record that fits a condition; answers how many. All or nothing. */
  removeWhere(caller: Caller, schema: string, options: SelectionOptions): Promise<number>;
}
