/**
 * The port of the permission engine. The authorization module implements it;
 * while it does not run, schemas with row authorization answer 503.
 */
import type { Caller } from './caller.ts';

export type RecordAction = 'read' | 'edit' | 'delete';

/** SQL over the record's id that is true for rows the subject may act on. Values are parameters. */
export interface RowPredicate {
  /** `next(value)` adds a parameter and answers its placeholder. */
  compile(idExpression: string, next: (value: unknown) => string): string;
  /** Stable key of the text shape, for the plan cache. */
  readonly shape: string;
}

export interface PermissionEngine {
  check(caller: Caller, action: string, resource: string, scope?: string): Promise<boolean>;
  /** Predicate for lists and single rows. Throws 403 when the caller may not act for `scope`. */
  predicate(caller: Caller, action: RecordAction, schema: string, scope?: string): Promise<RowPredicate>;
}

export interface PermissionPort {
  engine: PermissionEngine | undefined;
}

export const createPermissionPort = (): PermissionPort => ({ engine: undefined });
