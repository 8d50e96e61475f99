/**
 * The port of the permission engine. The authorization module implements it;
 * while it does not run, schemas with row authorization answer 503.
 */
import type { Caller } from './caller.ts';

export type RecordAction = 'read' | 'edit' | 'delete';

/** SQL over the record's id that is true for rows the subject may act on. Values are parameters. */
export interface RowPredicate {
  /**
   * `next(value)` adds a parameter and answers its placeholder. `count` asks for the form that is fastest over all
   * rows; the other is fastest for single rows and for pages in the order of the rows.
   */
  compile(idExpression: string, next: (value: unknown) => string, use?: 'rows' | 'count'): string;
  /** Stable key of the text shape, for the plan cache. */
  readonly shape: string;
}

/** An object of a type, as the permission engine knows it. */
export interface Owner {
  readonly type: string;
  readonly id: string;
}

/** What becomes of the records that a schema has when row authorization is switched on for it. */
export interface Adoption {
  /** `assignOwner` makes the user that `ownerField` names the owner; `leaveUnowned` leaves them to operators. */
  readonly mode: 'assignOwner' | 'leaveUnowned';
  readonly ownerField?: string;
}

export interface PermissionEngine {
  check(caller: Caller, action: string, resource: string, scope?: string): Promise<boolean>;
  /** Predicate for lists and single rows. Throws 403 when the caller may not act for `scope`. */
  predicate(caller: Caller, action: RecordAction, schema: string, scope?: string): Promise<RowPredicate>;
  /** Who owns what the caller creates: the caller, or the scope, which he must be allowed to edit. Throws 403. */
  owner(caller: Caller, schema: string, scope?: string): Promise<Owner>;
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
  /** Makes `owner` (placeholders of type and id) the owner of the rows. */
  own(statement: TupleStatement, owner: Owner): readonly string[];
  /** Takes away everything that is written about the rows, on either side. */
  forget(statement: TupleStatement): readonly string[];
}

export interface PermissionPort {
  engine: PermissionEngine | undefined;
  /** `undefined` where no tuples are kept at all. */
  readonly tuples: RecordTuples | undefined;
}

export const createPermissionPort = (tuples?: RecordTuples): PermissionPort => ({ engine: undefined, tuples });
