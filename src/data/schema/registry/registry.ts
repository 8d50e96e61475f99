/** The contract of the schema registry: what schemas exist, and how they change. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { CompiledSchema } from '../compile/compiled.ts';
import type { SchemaDefinition } from '../language/definition.ts';
import type { Renames } from '../plan/column-steps.ts';
import type { SchemaPlan } from '../plan/schema-plan.ts';
import type { NewSchema, SchemaChange, SchemaRequest } from '../plan/schema-request.ts';
import type { PublicViews } from '../public-view.ts';

/**
 * Looks at changed schemas as they will be, in the transaction that changes them; `undefined`: the table goes. `renames`:
 * new names of their fields, one set after the other, by schema. `removed`: declarations that go while their tables stay.
 * Throws for what must not be.
 */
export type SchemaGuard = (
  transaction: Transaction,
  schemas: ReadonlyMap<string, CompiledSchema | undefined>,
  renames: ReadonlyMap<string, readonly Renames[]>,
  removed: ReadonlySet<string>,
) => Promise<void>;

export interface SchemaRegistry {
  /** What references show of records to callers who may not read their schema. */
  readonly publicViews: PublicViews;
  /** Brings a module's own schemas up to date (no statement at all when nothing changed). */
  install(owner: string, definitions: readonly SchemaDefinition[]): Promise<void>;
  get(name: string): CompiledSchema | undefined;
  /** In either spelling. */
  byId(id: string): CompiledSchema | undefined;
  /** All schemas, by name. */
  all(): readonly CompiledSchema[];
  /** Those that cannot be used as they are stored: `byId` finds them too, so that operators can change and remove them. */
  leftOut(): readonly CompiledSchema[];
  /** Declares a schema: planned, applied in one transaction, live on every node when it returns. */
  create(caller: Caller, input: NewSchema): Promise<CompiledSchema>;
  update(caller: Caller, id: string, change: SchemaChange): Promise<CompiledSchema>;
  /** Removes the declaration; the table and its rows only with `deleteData`. */
  remove(caller: Caller, ids: readonly string[], options: { deleteData: boolean }): Promise<void>;
  /** Does what is asked for, all of it or nothing. Answers the schemas that it names, but for those that are gone. */
  apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]>;
  /** What it would do, without doing it. */
  plan(caller: Caller, request: SchemaRequest): Promise<SchemaPlan>;
  /** Runs on every node after the registry has taken in a change, before the changing call returns. Answers how to stop. */
  onChange(listener: (changed: readonly string[]) => void | Promise<void>): () => void;
  /** Asks before every change, for as long as the process lives. */
  guard(guard: SchemaGuard): void;
}
