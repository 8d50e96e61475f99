/** The contract of the schema registry: what schemas exist, and how they change. */
import type { Caller } from '../caller.ts';
import type { CompiledSchema } from './compiled.ts';
import type { FieldMap, IndexDefinition, PlatformOptions, SchemaDefinition } from './definition.ts';
import type { SchemaPlan } from './plan.ts';

export interface SchemaRegistry {
  /** Brings a module's own schemas up to date (no statement at all when nothing changed). */
  install(owner: string, definitions: readonly SchemaDefinition[]): Promise<void>;
  get(name: string): CompiledSchema | undefined;
  byId(id: string): CompiledSchema | undefined;
  /** All schemas, by name. */
  all(): readonly CompiledSchema[];
  /** Declares a schema: planned, applied in one transaction, live on every node when it returns. */
  create(caller: Caller, input: NewSchema): Promise<CompiledSchema>;
  update(caller: Caller, id: string, change: SchemaChange): Promise<CompiledSchema>;
  /** Several changes as one: all of them happen, or none. */
  updateMany(
    caller: Caller,
    changes: readonly { readonly id: string; readonly change: SchemaChange }[],
  ): Promise<readonly CompiledSchema[]>;
  /** Creates what is new and updates what exists under the same name, as one change. Drops no schema. */
  import(caller: Caller, inputs: readonly NewSchema[]): Promise<readonly CompiledSchema[]>;
  /** Removes the declaration; the table and its rows only with `deleteData`. */
  remove(caller: Caller, ids: readonly string[], options: { deleteData: boolean }): Promise<void>;
  /** What a change would do, without doing it. */
  plan(caller: Caller, id: string, change: SchemaChange): Promise<SchemaPlan>;
  /** Runs on every node after the registry has taken in a change, before the changing call returns. */
  onChange(listener: (changed: readonly string[]) => void | Promise<void>): void;
}

export interface NewSchema {
  readonly name: string;
  readonly fields: FieldMap;
  readonly options?: PlatformOptions;
  readonly timestamps?: boolean;
  readonly indexes?: readonly IndexDefinition[];
}

export interface SchemaChange {
  /** The whole new field map; fields that are left out are hidden (soft drop), not destroyed. */
  readonly fields?: FieldMap;
  readonly options?: PlatformOptions;
}
