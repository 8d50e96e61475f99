/** A schema as the platform uses it: normalised, with everything derived from it once. */
import type { FieldMap, ModelOptions } from './definition.ts';
import type { ObjectField } from './field.ts';
import type { TableLayout } from './layout.ts';
import type { ResolvedOptions } from './options.ts';
import type { RecordShapes } from './shapes.ts';

/** The stored declaration, as the admin surface shows it. */
export interface StoredSchema {
  readonly _id: string;
  readonly name: string;
  readonly parentSchema: string | null;
  /** As written, with `_id` and timestamps added. */
  readonly fields: FieldMap;
  readonly extensions: readonly unknown[];
  readonly compiledFields: FieldMap;
  readonly modelOptions: ModelOptions & { readonly timestamps: boolean; readonly conduit: ResolvedOptions };
  readonly ownerModule: string;
  readonly collectionName: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly __v: number;
}

export interface CompiledSchema extends StoredSchema {
  /** JSON Schemas of records on the wire, for operations and their documents. */
  readonly shapes: RecordShapes;
  /** Relation fields (top level) and the schema each points to. */
  readonly relations: ReadonlyMap<string, { readonly model: string; readonly many: boolean }>;
  /** Relation targets that do not exist yet; such fields are served as bare ids. */
  readonly pendingRelations: readonly string[];
  /** The normalised fields, without the automatic ones. */
  readonly tree: ObjectField;
  /** Dotted paths of fields that were taken out; their data is kept and comes back with them. */
  readonly droppedFields: readonly string[];
  /** Quoted name of the table. */
  readonly table: string;
  readonly layout: TableLayout;
  /** Top-level fields that a caller may sort by. */
  readonly sortable: ReadonlySet<string>;
}
