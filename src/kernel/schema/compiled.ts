/** A schema as the platform uses it: normalised, with everything derived from it once. */
import type { TSchema } from 'typebox';
import type { FieldMap, ModelOptions, PlatformOptions } from './definition.ts';

/** The stored declaration, as the admin surface shows it. */
export interface StoredSchema {
  readonly _id: string;
  readonly name: string;
  readonly parentSchema: string | null;
  /** As written, with `_id` and timestamps added. */
  readonly fields: FieldMap;
  readonly extensions: readonly unknown[];
  readonly compiledFields: FieldMap;
  readonly modelOptions: ModelOptions & { readonly timestamps: boolean; readonly conduit: PlatformOptions };
  readonly ownerModule: string;
  readonly collectionName: string;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly __v: number;
}

export interface CompiledSchema extends StoredSchema {
  /** JSON Schemas of records on the wire, for operations and their documents. */
  readonly shapes: {
    /** Body of a create or a replacement. */
    readonly create: TSchema;
    /** Body of a PATCH: nothing is required, optional fields may be null. */
    readonly update: TSchema;
    /** A record in an answer; relations are ids, or records when populated. */
    readonly record: TSchema;
  };
  /** Relation fields (top level) and the schema each points to. */
  readonly relations: ReadonlyMap<string, { readonly model: string; readonly many: boolean }>;
  /** Relation targets that do not exist yet; such fields are served as bare ids. */
  readonly pendingRelations: readonly string[];
}
