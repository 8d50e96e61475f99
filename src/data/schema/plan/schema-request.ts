/** What may be asked of the schema registry: new schemas, changes, imports, extensions, indexes, external tables. */
import type { DataChange } from '../compile/compiled.ts';
import type { ForeignKeyLayout, IndexLayout } from '../compile/layout.ts';
import type { FieldMap, IndexDefinition, PlatformOptions } from '../language/definition.ts';
import type { TableMapping } from '../mapping/table-mapping.ts';

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
  | {
      readonly kind: 'update';
      readonly changes: readonly { readonly id: string; readonly change: SchemaChange }[];
    }
  /** Creates what is new and changes what exists under the same name. Drops no schema and no extension. */
  | {
      readonly kind: 'import';
      readonly schemas: readonly ArrivingSchema[];
      readonly extensions: readonly NewExtension[];
    }
  | { readonly kind: 'remove'; readonly ids: readonly string[]; readonly deleteData: boolean }
  /** Sets the fields of one owner's extension; none takes it away. */
  | {
      readonly kind: 'extend';
      readonly id: string;
      readonly owner: string;
      readonly fields: FieldMap;
      readonly expectedVersion?: number;
    }
  /** Brings a field back that was taken out. */
  | {
      readonly kind: 'restore';
      readonly id: string;
      readonly field: string;
      readonly backfill?: unknown;
    }
  /** Destroys the data of fields that were taken out. */
  | {
      readonly kind: 'purge';
      readonly fields: readonly { readonly id: string; readonly field: string }[];
    }
  | { readonly kind: 'indexes'; readonly changes: readonly IndexChange[] }
  /** Lays schemas over tables that others made. The tables stay as they are. Tables that have a schema get it anew. */
  | { readonly kind: 'adopt'; readonly tables: readonly ImportedTable[] };

/** A table of others, and the schema over it (mapping/mapping.ts). */
export interface ImportedTable {
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
