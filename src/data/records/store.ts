/**
 * The contract of the record engine. Reads answer JSON text that PostgreSQL has rendered (passed through to the wire),
 * or parsed records for modules. Writes make the record and its event in one statement.
 */
import type { Caller } from '../../kernel/caller.ts';
import type { Condition } from '../conditions/condition.ts';
import type {
  Grant,
  LiveRecords,
  ReadOptions,
  RecordAccess,
  VisibleLink,
} from './read-contract.ts';

export type {
  FittingRecords,
  Grant,
  LiveOptions,
  LiveRecords,
  NeededAction,
  ReadOptions,
  RecordAccess,
  VisibleLink,
} from './read-contract.ts';

/** A record on its way out. */
export interface RecordText {
  readonly id: string;
  /** The record as JSON. */
  readonly json: string;
  /** Counts up with each change; the number in the ETag. */
  readonly version: number;
}

export interface ListOptions extends ReadOptions {
  readonly skip?: number;
  readonly limit?: number;
  /** Field names, `-` in front for descending. */
  readonly sort?: readonly string[];
  /** How the answer's `count` is made; `exact` unless set. */
  readonly count?: CountMode;
  /**
   * Instead of `skip`: where an earlier page ended (its `nextCursor`), empty or `start` for the first page. The
   * answer then has `nextCursor`, null on the last page. Records that come or go meanwhile are neither
   * repeated nor do they push others out.
   */
  readonly cursor?: string;
}

/**
 * - `exact`: all records that the caller may see; its cost grows with them
 * - `estimated`: exact up to 10,000; beyond, the planner's figure for a whole table, and 10,001 (for "more") where
 *   permissions, a filter or a trash narrow it. The answer says `estimated: true` when it is one
 * - `none`: no `count` in the answer
 */
export type CountMode = 'exact' | 'estimated' | 'none';

/** Reading by condition. */
export interface SelectOptions extends ListOptions, Grant {
  readonly filter: Condition;
}

/** Reading everything that fits a condition. */
export interface StreamOptions extends ReadOptions, Grant {
  readonly filter: Condition;
  readonly sort?: readonly string[];
  /** Names of fields; all unless given. */
  readonly select?: readonly string[];
  /** Ends the reading, also while nobody asks for more. */
  readonly signal?: AbortSignal;
}

/** Writing by condition. */
export interface SelectionOptions extends Grant {
  readonly filter: Condition;
  readonly scope?: string;
}

/** Asking which records a write would change. */
export interface MeantOptions extends SelectionOptions {
  /** Fields that are to be set: some may be set in some records only. */
  readonly fields?: readonly string[];
  /** Ids among which the records are. */
  readonly among?: readonly string[];
  readonly limit: number;
}

export interface MeantRecord {
  readonly id: string;
  /** Undefined for tables that count no versions. */
  readonly version: number | undefined;
}

/** Looking for the records whose vectors are nearest to a given one. */
export interface NearestOptions extends SelectionOptions {
  /** A field of type Vector. */
  readonly field: string;
  readonly vector: readonly number[];
  /** Hits, at most 1,000. */
  readonly limit: number;
  /** Names of fields; all unless given. */
  readonly select?: readonly string[];
}

/** Which records of a search may be shown. */
export interface MatchingOptions extends SelectionOptions {
  readonly limit: number;
  /** Fields that the search looks into: callers who do not see one of them get 403. */
  readonly looksInto: readonly string[];
}

/** Records in an order that was made elsewhere. */
export interface RankedOptions extends MatchingOptions {
  /** Ids, best first. Those of records that are gone are passed over. */
  readonly ids: readonly string[];
  /** Names of fields; all unless given. */
  readonly select?: readonly string[];
  readonly populate?: readonly string[];
  /** The records themselves are not requested. */
  readonly idsOnly?: boolean;
}

export interface RankedRecord {
  readonly id: string;
  /** Where it stands in the given order, from 0. */
  readonly place: number;
  /** The record as JSON; empty with `idsOnly`. */
  readonly json: string;
}

/** Results over the records that fit a condition. */
export interface AggregateOptions extends SelectionOptions {
  /** Ids among which the records are, however many. */
  readonly among?: readonly string[];
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
  /** Where the value stands in the input; problems are reported there. */
  readonly place: string;
}

/** A link that leads nowhere so far. */
export interface UnresolvedReference {
  readonly id: string;
  /** Where it stands in the input: `docs.3.parents.0`. */
  readonly path: string;
}

export interface WriteOptions extends Grant {
  /** Creating many, by operators and the platform only: the inputs say `_id`, `createdAt` and `updatedAt` themselves, where they do. */
  readonly restore?: boolean;
  /** Writing many: is told of links to records of the same schema that are not there yet, which are then no problem. */
  readonly unresolved?: (link: UnresolvedReference) => void;
  /** Writing many: records are answered by id and version, with an empty text. */
  readonly idsOnly?: boolean;
  readonly scope?: string;
  readonly populate?: readonly string[];
  /** Version the caller saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
  /** Replacing: the record is created under this id when it is not there. */
  readonly upsert?: boolean;
  /** Changing one record: further changes, in their order, by code of the platform. Then operators are taken of everybody. */
  readonly assigned?: readonly Assignment[];
  /** With `upsert`: nothing but a new record is written; 412 where it is there. */
  readonly absent?: boolean;
}

export interface MoveOptions extends Pick<WriteOptions, 'scope' | 'expectedVersion'> {
  /** The new owner, as `Type:id`. */
  readonly to?: string | undefined;
}

/** A page of the earlier versions of a record. */
export interface HistoryOptions {
  readonly skip?: number;
  readonly limit?: number;
  readonly scope?: string;
}

export interface VersionOptions {
  /** What the changes lead to: the version that came next, unless set, or the record as it is now. */
  readonly compare?: 'next' | 'current';
  readonly scope?: string;
}

/** What records were before they were changed, for schemas that keep it. What a caller may not see now they do not see there. */
export interface RecordHistory {
  /** `{"versions":[...],"count":n}` as text, the youngest first. Operators see it also of records that are gone. */
  list(caller: Caller, schema: string, id: string, options?: HistoryOptions): Promise<string>;
  /** One version with its fields, and what changed after it, as JSON text. */
  get(
    caller: Caller,
    schema: string,
    id: string,
    version: number,
    options?: VersionOptions,
  ): Promise<string>;
  /** Makes the record what it was, as a new version. An operator brings back also a record that was destroyed. */
  restore(
    caller: Caller,
    schema: string,
    id: string,
    version: number,
    options?: WriteOptions,
  ): Promise<RecordText>;
  /** Lets go of versions that are older than the schema keeps them. Answers how many. */
  prune(caller: Caller, schema: string, signal: AbortSignal): Promise<number>;
}

/** Deleted records, for schemas that keep them. */
export interface RecordTrash {
  /** Makes a record alive again, with what was deleted because of it. */
  restore(caller: Caller, schema: string, id: string, options?: WriteOptions): Promise<RecordText>;
  /** Destroys those of the records that are in the trash. Operators only. Answers how many. */
  purge(caller: Caller, schema: string, ids: readonly string[]): Promise<number>;
  /** Destroys what was in the trash for as long as the schema keeps it. Answers how many. */
  purgeExpired(caller: Caller, schema: string, signal: AbortSignal): Promise<number>;
}

export type RecordInput = Readonly<Record<string, unknown>>;

/** Records that one transaction is about to change. */
export interface RecordHolder {
  /** Throws 401, 403, 404 or 503 when the caller may change no record of the schema in this way. */
  add(
    schema: string,
    operation: 'update' | 'delete',
    id: string,
    options?: { readonly scope?: string | undefined },
  ): Promise<void>;
  /** Locks those that the caller may change, in one order for everybody. Inside a transaction. */
  lock(): Promise<void>;
}

/** Every call names its caller; permissions, visibility and validation are applied inside. */
export interface RecordStore extends RecordAccess, LiveRecords {
  /** `{"documents":[...],"count":n}` as text; without `count`, or with `estimated`, as the options say. */
  list(caller: Caller, schema: string, options?: ListOptions): Promise<string>;
  /** The same for the records that fit a condition. */
  select(caller: Caller, schema: string, options: SelectOptions): Promise<string>;
  /** All records that fit a condition as a JSON list, at most 1,000; throws 400 when there are more. */
  find(
    caller: Caller,
    schema: string,
    options: Omit<SelectOptions, 'skip' | 'limit' | 'count' | 'cursor'>,
  ): Promise<string>;
  /**
   * All records that fit a condition, however many, as JSON in batches of about a megabyte. They are those of one
   * moment; a connection is held while they are read, so few can be read at once (503).
   */
  stream(caller: Caller, schema: string, options: StreamOptions): AsyncIterable<readonly string[]>;
  /**
   * A JSON list of `{document, score, distance, metric, provider}`, nearest first. All vectors that fit the filter are
   * looked at: exact, and at most 50,000. A hidden field only for operators and with `granted`.
   */
  nearest(caller: Caller, schema: string, options: NearestOptions): Promise<string>;
  /** Those of the given records that fit a condition and that the caller may read, in the given order, as many as requested. */
  ranked(caller: Caller, schema: string, options: RankedOptions): Promise<readonly RankedRecord[]>;
  /** Ids of records that fit a condition and that the caller may read, in no order, as many as requested. */
  matching(caller: Caller, schema: string, options: MatchingOptions): Promise<readonly string[]>;
  /** Whether the caller may read a record that links to another one in a field that they see in it. Throws as `list` does. */
  shows(caller: Caller, schema: string, link: VisibleLink): Promise<boolean>;
  /** A JSON list with one object per group. */
  aggregate(caller: Caller, schema: string, options: AggregateOptions): Promise<string>;
  /** Throws 404 when absent or invisible. */
  get(caller: Caller, schema: string, id: string, options?: ReadOptions): Promise<RecordText>;
  create(
    caller: Caller,
    schema: string,
    input: RecordInput,
    options?: WriteOptions,
  ): Promise<RecordText>;
  createMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
    options?: WriteOptions,
  ): Promise<readonly RecordText[]>;
  /** Changes the given fields; `null` clears an optional one. */
  update(
    caller: Caller,
    schema: string,
    id: string,
    input: RecordInput,
    options?: WriteOptions,
  ): Promise<RecordText>;
  updateMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
    options?: WriteOptions,
  ): Promise<readonly RecordText[]>;
  /** Replaces the record: fields that are left out take their default or become null. */
  replace(
    caller: Caller,
    schema: string,
    id: string,
    input: RecordInput,
    options?: WriteOptions,
  ): Promise<RecordText>;
  replaceMany(
    caller: Caller,
    schema: string,
    inputs: readonly RecordInput[],
    options?: WriteOptions,
  ): Promise<readonly RecordText[]>;
  remove(caller: Caller, schema: string, id: string, options?: WriteOptions): Promise<void>;
  /** Gives records another owner (`to`, the caller unless given). All of them or none. */
  move(
    caller: Caller,
    schema: string,
    ids: readonly string[],
    options?: MoveOptions,
  ): Promise<readonly RecordText[]>;
  /** Changes every record that fits a condition, by one statement; answers how many. All or nothing. */
  updateWhere(
    caller: Caller,
    schema: string,
    assignments: readonly Assignment[],
    options: SelectionOptions,
  ): Promise<number>;
  /** Deletes every record that fits a condition; answers how many. All or nothing. */
  removeWhere(caller: Caller, schema: string, options: SelectionOptions): Promise<number>;
  /** The records that a write by this condition would change now, in the order of their ids. */
  meant(
    caller: Caller,
    schema: string,
    operation: 'update' | 'delete',
    options: MeantOptions,
  ): Promise<readonly MeantRecord[]>;
  /** For transactions that change several records by their ids. */
  holder(caller: Caller): RecordHolder;
  readonly trash: RecordTrash;
  readonly history: RecordHistory;
}
