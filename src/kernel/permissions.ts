/**
 * The port of the permission engine. The authorization module implements it;
 * while it does not run, schemas with row authorization answer 503.
 */
import type { ActionUses } from './action-uses.ts';
import type { Caller } from './caller.ts';
import type { MaybePromise } from './maybe-promise.ts';
import type { RecordCheck } from './record-check.ts';

/**
 * Longest text by which a request names an object or a set (`<Type>:<id>#<relation>`): longer than any that is valid, so
 * that what is wrong with it is told by its grammar.
 */
export const maxReferenceLength = 1_300;

export type RecordAction = 'read' | 'edit' | 'delete';

/** `refer`: to write a record that leads to it, and lets those who read that record read this one. */
export type RowAction = RecordAction | 'refer';

/**
 * Where a predicate stands: on a row that is found by its id, on rows that are sought, on rows in an order that no index
 * gives (all are looked at, however few are requested), or on all rows for their number. Only speed hangs on it.
 */
export type RowUse = 'row' | 'rows' | 'sorted' | 'count';

/** What a caller may act on, as SQL for the statement that reads or writes it. Values are parameters. */
export interface RowPredicate {
  /** True for rows that the subject may act on. `next(value)` adds a parameter and answers its placeholder. `alias` is that of the row itself. */
  compile(
    idExpression: string,
    next: (value: unknown) => string,
    use?: RowUse,
    alias?: string,
  ): string;
  /** The same beside other conditions in an `or`, where an index can answer it because the rows are few. */
  readonly few?: (idExpression: string, next: (value: unknown) => string, alias?: string) => string;
  /** Faster ways to the first rows in an order, where there are any. */
  readonly first?: FirstRows;
  /** Set where the rows are few: all of them, for a page and its number from the same rows. */
  readonly reached?: ReachedRows;
  /** A faster way to the number of all rows of a table (its quoted name), as an expression, where there is one. */
  readonly number?: (table: string, next: (value: unknown) => string) => string;
  /** The rows are many: of few others each is asked (`rows`), for many of them they are found first (`count`). */
  readonly many?: boolean;
  /** Asked about one row it looks at a few indexes, with few values. */
  readonly isLight?: boolean;
  /** Stable key of the text shape, for the plan cache. */
  readonly shape: string;
  /** Predicates with the same object here and the same shape add the same values: they need not be compiled again. */
  readonly identity?: object;
  /**
   * Set when the predicate rests on what the node remembers (`PermissionEngine.cachedPredicate`): asks whether that is true now.
   * If not, what was read with it counts for nothing.
   */
  readonly confirm?: (() => Promise<boolean>) | undefined;
  /** The same as an expression of the statement itself, where that is possible: what it answers is right if this is true. */
  readonly guard?: ((next: (value: unknown) => string) => string) | undefined;
  /**
   * Set where many rows may be taken away in front of all others: finds out where those begin, for later pages. To be called
   * after a page by ids for which the rows along the order were not enough.
   */
  readonly rememberStart?: () => Promise<void>;
  /**
   * Set when it rests on more than `confirm` and `guard` ask about, which was looked up for it: asks whether that comes to
   * the same now. Of a predicate that was certain: whether all that it rests on does.
   */
  readonly recheck?: (() => Promise<boolean>) | undefined;
}

/** An order of rows: that of the ids, one that an index gives, or one for which all of them are sorted. */
export type RowOrder = 'ids' | 'indexed' | 'sorted';

export interface FirstRows {
  /** A way to so many first rows that is faster than asking each row in turn, or finding all; `undefined` where there is none. */
  way(count: number, order: RowOrder): FirstWay | undefined;
}

/** All rows on which a subject may act, which are few. */
export interface ReachedRows {
  /** Up to some hundred, as far as is known, found with few values. */
  readonly isBounded: boolean;
  /** A query of those that are in `rows` (what stands behind `from`), each once and as a whole. */
  compile(rows: string, next: (value: unknown) => string): string;
}

export interface FirstWay {
  /** What beside the shape of the predicate decides the text. */
  readonly key: string;
  /**
   * A query of whole rows of `rows` (what stands behind `from`) on which the subject may act; the first `count` (SQL) of
   * all are among them, by `order` (SQL over rows `d`) or else by the ids.
   */
  compile(
    requested: {
      readonly rows: string;
      readonly count: string;
      readonly order?: string | undefined;
      /** An id (SQL) that stands in front of all of `rows`. */
      readonly after?: string | undefined;
    },
    next: (value: unknown) => string,
  ): string;
  /** It looks at some hundred rows along the order, however many there are, with few values. */
  readonly isBounded?: boolean;
  /** Set where it may give fewer than `count` although there are more: this one then gives them. */
  readonly otherwise?: FirstWay;
}

/** An object of a type, as the permission engine knows it. */
export interface Owner {
  readonly type: string;
  readonly id: string;
  /** The record says it itself, in columns of its table (`RecordTuples.columns`). */
  readonly inRecord?: true;
}

/** An owner for records by what is in memory, if something still holds. */
export interface CachedOwner {
  readonly owner: Owner;
  /** A value, and what the statement asks with it (SQL, from its placeholder). */
  readonly holds: { readonly value: unknown; text(place: string): string };
  /** Fields of the records are relations: what they say is told with the records. */
  readonly tells: boolean;
  /** As `creation` says it. What it refuses may be refused because of what does not hold any more. */
  readonly rule?: CreationRule;
}

/** A column of a record beside its fields, and its value. */
export interface OwnerColumn {
  readonly name: string;
  /** Of PostgreSQL. */
  readonly type: string;
  readonly value: string | null;
}

/** What becomes of the records that a schema has when row authorization is switched on for it. */
export interface Adoption {
  /** `assignOwner` makes the user that `ownerField` names the owner; `leaveUnowned` leaves them to operators. */
  readonly mode: 'assignOwner' | 'leaveUnowned';
  readonly ownerField?: string;
}

/** A relation that went with its resource, as the event about it names it. */
export interface LostRelation {
  /** `Type:id` or `Type:id#relation`. */
  readonly subject: string;
  readonly relation?: string;
  /** An action that was granted directly, in place of a relation. */
  readonly permission?: string;
  readonly resource: string;
  /** Name of the condition that had to hold, and what it looked at. */
  readonly condition?: string;
  readonly attributes?: Readonly<Record<string, unknown>>;
  /** ISO 8601. */
  readonly expiresAt?: string;
  /** It was a field of the record. */
  readonly source?: 'record';
}

/** What is known of a record that was deleted. */
export interface GoneRecord {
  /** With those of what it led to, where that went too. Absent: not all of them could be found. */
  readonly relations: readonly LostRelation[] | undefined;
  /** Id of the user in its owner field, where that says who reads. */
  readonly owner: string | undefined;
}

/**
 * Throws 403 for records, as they will be written, that the caller may not create; false where that cannot be said yet.
 * `placeOf`, of many records: where one stands in the request, such as `docs.3`.
 */
export type RequireCreation = (
  records: readonly Readonly<Record<string, unknown>>[],
  placeOf?: (index: number) => string,
) => Promise<boolean>;

/** What the action `create` of a type asks of records that somebody creates. */
export interface CreationRule {
  /** Asked before they are written. Absent where their values decide. */
  readonly before?: RequireCreation;
  /** Where that does not say it: they must be among these rows once they are written, or nothing is. */
  after(): Promise<RowPredicate>;
}

/** Where the records of a type may be put: what its action `create` says about records that are there. */
export interface Placement {
  /** Fields by which it says who may create. */
  readonly fields: ReadonlySet<string>;
  /** Records that the caller may create as they are. Throws 401. */
  predicate(): Promise<RowPredicate>;
}

/** Rows that a predicate is about. */
export interface AskedRows {
  /** In whose place the caller acts. */
  readonly scope?: string | undefined;
  /**
   * Ids of the records, where they are known: it is right for these alone, and a few of them are decided without
   * everything that the caller reaches.
   */
  readonly ids?: readonly string[] | undefined;
  /**
   * No rows, in place of a refusal, where the caller may not act for the scope in this way, and where the type does not
   * know the action: a part of the answer depends on it, and not the answer.
   */
  readonly orNone?: boolean;
}

/** Types of other records on which the permissions on records of a type depend. */
export interface RecordDependencies {
  /** Types whose field values are read by rules. */
  readonly values: ReadonlySet<string>;
  /** Types through which permissions are derived: their existence matters. */
  readonly presence: ReadonlySet<string>;
}

export interface PermissionEngine {
  check(caller: Caller, action: string, resource: string, scope?: string): Promise<boolean>;
  /**
   * Whether the caller could do this before the resource was deleted: by what holds now, and by the relations that went
   * with it. What was taken away earlier does not count.
   */
  could(
    caller: Caller,
    action: string,
    resource: string,
    lost: readonly LostRelation[],
  ): Promise<boolean>;
  /**
   * Predicate for lists and single rows; `action` is one of the type, or a relation. Throws 403 when the caller may not
   * act for the scope, and 401 for visitors where nothing is public.
   */
  predicate(
    caller: Caller,
    action: string,
    schema: string,
    asked?: AskedRows,
  ): MaybePromise<RowPredicate>;
  /**
   * The same without waiting for what the database says about changes: for reads that are done again, with `predicate`,
   * when it is not confirmed. Absent: nothing is remembered.
   */
  cachedPredicate?(
    caller: Caller,
    action: string,
    schema: string,
    asked?: AskedRows,
  ): MaybePromise<RowPredicate>;
  /**
   * Whether the caller may do this to one record, by what is written about it; `undefined` where that will hardly say it,
   * and `predicate` does. Throws 401 for visitors. Absent: it never says it.
   */
  recordCheck?(
    caller: Caller,
    action: string,
    schema: string,
    id: string,
  ): MaybePromise<RecordCheck | undefined>;
  /** Whether the type has this action, or relation; where it is not defined, whether it will have it with row authorization. */
  knows(schema: string, action: string): Promise<boolean>;
  /** False where the definition of a type, as this node has it, shows nothing to visitors. Absent: nothing is known of it. */
  admitsVisitors?(schema: string): boolean;
  /** Whether the definition of a type by itself gives one action to whoever has another. */
  includes(schema: string, held: string, given: string): Promise<boolean>;
  /** Names of the roles that the caller holds. */
  roles(caller: Caller): Promise<ReadonlySet<string>>;
  /** Who owns what the caller creates: the caller, or the scope, which they must be allowed to edit; to read, where `create` of the type says who may create in it. Throws 403. */
  owner(caller: Caller, schema: string, scope?: string): Promise<Owner>;
  /**
   * The same, without asking anything, for what the caller creates for themselves: by the definitions that this node has
   * in memory. `undefined` where something has to be asked; that they are in force, the statement of the record asks.
   */
  cachedOwner?(caller: Caller, schema: string): Promise<CachedOwner | undefined>;
  /**
   * What records must fulfil that the caller creates for this owner, by the action `create` of their type; `undefined`
   * where the type has none: then the schema alone says who may create.
   */
  creation(caller: Caller, schema: string, owner: Owner): Promise<CreationRule | undefined>;
  /** Whether users can have rights through another user, so that a relation of one changes what others may do. Absent: none can. */
  reachesThroughUsers?(): Promise<boolean>;
  /** On which other records the permissions on this schema depend: their changes come as changes of records, not of permissions. Absent: on none. */
  dependenciesOf?(schema: string): Promise<RecordDependencies>;
  /**
   * Whether users write relations about records of the type by themselves, which holds the record meanwhile. Who deletes
   * one must have locked it before the statement that takes its relations along. Absent: nobody does.
   */
  heldByUsers?(schema: string): Promise<boolean>;
  /** Makes this the only owner of records that are there, in the transaction of the caller. */
  changeOwner(caller: Caller, schema: string, ids: readonly string[], owner: Owner): Promise<void>;
  /** What holds for changes that lead records elsewhere; `undefined` where the type has no action `create`. */
  placement(caller: Caller, schema: string): Promise<Placement | undefined>;
  /** Makes sure that the schema's type is defined. Throws 409 when a definition of that name does not fit records. */
  prepare(caller: Caller, schema: string): Promise<void>;
  /** Gives the records that are there their owners, as a durable job. Throws 400 for a field that names no user. */
  adopt(schema: string, adoption: Adoption): Promise<void>;
  /** Takes the type away with everything that is written about its records, which are gone with their table. */
  abandon(caller: Caller, schema: string): Promise<void>;
}

/** Part of a statement of the record engine. */
export interface TupleStatement {
  /** A relation of the statement, with the column `_id`. */
  readonly rows: string;
  readonly schema: string;
  /** Placeholder of `callerKey` of the caller. */
  readonly actor: string;
}

/**
 * Common table expressions (`name as (...)`) that keep tuples in step with records, within the
 * statement that writes the records. They need no running engine.
 */
export interface RecordTuples {
  /** What a new record holds beside its fields, for an owner that it says itself. */
  columns(owner: Owner): readonly OwnerColumn[];
  /**
   * Makes `owner` (placeholders of type and id) the owner of the rows, which the statement adds to `table` (its quoted
   * name). Writes no event: that of the records names the owner (`payload.owner`, as `type:id`, and `ownerStored`).
   */
  own(statement: TupleStatement & { readonly table: string }, owner: Owner): readonly string[];
  /**
   * Tells what fields of the rows say that are relations: of new rows, or, beside the rows as they were (`old`, with `_id`
   * and these fields), what came and what went.
   */
  tell(
    statement: TupleStatement & {
      readonly old?: { readonly rows: string; readonly fields: readonly string[] } | undefined;
    },
  ): readonly string[];
  /**
   * Takes away everything that is written about the rows, on either side. `table`: the quoted name of what they are
   * deleted from, where that is a table of the platform.
   */
  forget(statement: TupleStatement & { readonly table: string | undefined }): readonly string[];
}

/**
 * Which rows of a schema a caller may act on, as the module says that owns the schema; `undefined`: all of them.
 * Asked instead of the engine, which the module may ask in turn: `engine`, as whoever reads asks it.
 */
export type RowRule = (
  caller: Caller,
  action: RowAction,
  asked: Pick<AskedRows, 'scope' | 'ids'>,
  engine?: PermissionEngine,
) => Promise<RowPredicate | undefined>;

export interface PermissionPort {
  engine: PermissionEngine | undefined;
  /** By the name of the schema. They hold for schemas with row authorization. */
  readonly rules: Map<string, RowRule>;
  /** What asks its callers for actions, by the module that keeps it. */
  readonly uses: Map<string, ActionUses>;
  /** `undefined` where no tuples are kept at all. */
  readonly tuples: RecordTuples | undefined;
  /**
   * Whether the definition of a schema takes relations from fields of its records, as this node knows it: true where it
   * does not know. A change of definitions answers when every node has taken it in.
   */
  takesFields(schema: string): boolean;
}

export const createPermissionPort = (tuples?: RecordTuples): PermissionPort => ({
  engine: undefined,
  rules: new Map(),
  uses: new Map(),
  tuples,
  takesFields: () => false,
});
