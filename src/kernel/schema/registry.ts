/** The contract of the schema registry: what schemas exist, and how they change. */
import type { Caller } from '../caller.ts';
import type { CompiledSchema } from './compiled.ts';
import type { DataChange } from './data-changes.ts';
import type { FieldMap, IndexDefinition, PlatformOptions, SchemaDefinition } from './definition.ts';
import type { ForeignKeyLayout, IndexLayout } from './layout.ts';
import type { TableMapping } from './mapping/mapping.ts';
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
  /** Removes the declaration; the table and its rows only with `deleteData`. */
  remove(caller: Caller, ids: readonly string[], options: { deleteData: boolean }): Promise<void>;
  /** Does what is asked for, all of it or nothing. Answers the schemas that it names, but for those that are gone. */
  apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]>;
  /** What it would do, without doing it. */
  plan(caller: Caller, request: SchemaRequest): Promise<SchemaPlan>;
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

/** A schema that comes from somewhere else, with what was done to its records there. */
export interface ArrivingSchema extends NewSchema, Pick<SchemaChange, 'renames' | 'backfill'> {
  /** Done here unless it was; known by id. */
  readonly migrations?: readonly DataChange[];
}

export interface SchemaChange {
  /** The whole new field map; fields that are left out are hidden (soft drop), not destroyed. */
  readonly fields?: FieldMap;
  readonly options?: PlatformOptions;
  /** Old name to new name of top-level fields, which keep their data; `fields` has the new names. */
  readonly renames?: Readonly<Record<string, string>>;
  /** Values for records that have none, by top-level field. */
  readonly backfill?: Readonly<Record<string, unknown>>;
  /** The version that the author saw (`If-Match`); another one stored is 412. */
  readonly expectedVersion?: number;
}

/** Something that is asked of the set of schemas. */
export type SchemaRequest =
  | { readonly kind: 'create'; readonly input: NewSchema }
  | { readonly kind: 'update'; readonly changes: readonly { readonly id: string; readonly change: SchemaChange }[] }
  /** Creates what is new and changes what exists under the same name. Drops no schema and no extension. */
  | { readonly kind: 'import'; readonly schemas: readonly ArrivingSchema[]; readonly extensions: readonly NewExtension[] }
  | { readonly kind: 'remove'; readonly ids: readonly string[]; readonly deleteData: boolean }
  /** Sets the fields of one owner's extension; none takes it away. */
  | { readonly kind: 'extend'; readonly id: string; readonly owner: string; readonly fields: FieldMap; readonly expectedVersion?: number }
  /** Brings a field back that was taken out. */
  | { readonly kind: 'restore'; readonly id: string; readonly field: string; readonly backfill?: unknown }
  /** Destroys the data of fields that were taken out. */
  | { readonly kind: 'purge'; readonly fields: readonly { readonly id: string; readonly field: string }[] }
  | { readonly kind: 'indexes'; readonly changes: readonly IndexChange[] }
  /** Lays schemas over tables that others made. The tables stay as they are. Tables that have a schema get it anew. */
  | { readonly kind: 'adopt'; readonly tables: readonly AdoptedTable[] };

/** A table of others, and the schema over it (mapping/mapping.ts). */
export interface AdoptedTable {
  readonly name: string;
  readonly fields: FieldMap;
  /** All of them: what is left out has its default. */
  readonly options: PlatformOptions;
  readonly mapping: TableMapping;
  /** Every column that can be shown, as what it is. */
  readonly columns: FieldMap;
  /** By the names that the database uses in its refusals. */
  readonly indexes: Readonly<Record<string, IndexLayout>>;
  readonly foreignKeys: Readonly<Record<string, ForeignKeyLayout>>;
}

export interface NewExtension {
  /** Name of the schema. */
  readonly schema: string;
  readonly owner: string;
  readonly fields: FieldMap;
  /** Values for records that have none, by field. */
  readonly backfill?: Readonly<Record<string, unknown>>;
}

export interface IndexChange {
  readonly id: string;
  readonly add: readonly IndexDefinition[];
  /** Names as the list of indexes shows them. */
  readonly remove: readonly string[];
}
