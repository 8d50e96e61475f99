/** A schema as the platform uses it: normalised, with everything derived from it once. */

import type { FieldInput, FieldMap, ModelOptions } from '../language/definition.ts';
import type { SchemaExtension } from '../language/extension.ts';
import type { AccessRule, ObjectField } from '../language/field.ts';
import type { ResolvedOptions } from '../language/options.ts';
import type { RecordKey } from '../language/record-key.ts';
import type { History, SoftDelete } from '../language/record-options.ts';
import type { TableMapping } from '../mapping/table-mapping.ts';
import type { TableLayout } from './layout.ts';
import type { RecordShapes } from './shapes.ts';

/** The stored declaration, as the admin surface shows it. */
export interface StoredSchema {
  readonly _id: string;
  readonly name: string;
  readonly parentSchema: string | null;
  /** As written, with `_id` and timestamps added. */
  readonly fields: FieldMap;
  readonly extensions: readonly SchemaExtension[];
  readonly compiledFields: FieldMap;
  readonly modelOptions: ModelOptions & {
    readonly timestamps: boolean;
    readonly conduit: ResolvedOptions;
  };
  readonly ownerModule: string;
  readonly collectionName: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly __v: number;
}

/** How a schema as somebody sees it differs from the schema itself; the fields in question are marked as hidden. */
export interface FieldVisibility {
  /** The same for everybody who sees the same. */
  readonly key: string;
  /** Hidden fields that are shown nevertheless in records where the rule holds. */
  readonly conditional: ReadonlyMap<string, AccessRule>;
}

export interface CompiledSchema extends StoredSchema {
  /** Why it is left out: what is stored of it cannot be used. It has an id and is shown to operators, and is nothing else. */
  readonly problem?: string;
  /** Set for what a reference shows to callers who may not read the schema itself (public-view.ts). */
  readonly isPublicView?: true;
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
  /** The same with what is known about each. */
  readonly dropped: DroppedFields;
  /** What its changes did to stored records, oldest first. */
  readonly changes: readonly DataChange[];
  /** Quoted name of the table: what writes go to. */
  readonly table: string;
  /** What reads come from: the table, or the rows of it that are not in the trash. Stands where a table may stand. */
  readonly rows: string;
  /** Set for a schema over a table of others: then `rows` shows that table the way the record engine knows tables. */
  readonly mapping: TableMapping | undefined;
  /** What ids of its records are made of; none: they have no ids. */
  readonly key: RecordKey;
  /** Set for a schema that keeps deleted records in a trash. */
  readonly softDelete: SoftDelete | undefined;
  /** Set for a schema that keeps what its records were. */
  readonly history: History | undefined;
  readonly layout: TableLayout;
  /** Set on a schema as somebody sees it who may not see every field (records/field-access.ts). */
  readonly fieldVisibility?: FieldVisibility;
  /** Top-level fields that a caller may sort by. */
  readonly sortable: ReadonlySet<string>;
}

export interface DataChange {
  /** The same on every platform that has done it. */
  readonly id: string;
  /** Old name to new name of top-level fields. */
  readonly renames?: Readonly<Record<string, string>>;
  /** Values for records that had none, by top-level field. */
  readonly backfill?: Readonly<Record<string, unknown>>;
}

export interface DroppedField {
  /** Type signature of what is stored (field.ts). */
  readonly type: string;
  /** As it was written; absent for fields that were taken out before this was kept. */
  readonly definition?: FieldInput;
  /** Owner of the extension that it was a field of. */
  readonly extension?: string;
  /** ISO 8601. */
  readonly at: string;
}

/** By dotted path; fields of list elements count as below the list. */
export type DroppedFields = Readonly<Record<string, DroppedField>>;
