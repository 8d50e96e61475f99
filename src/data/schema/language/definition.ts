/**
 * The schema language (spec/database.md 5.1, 5.2): how users and modules
 * describe data. These are the wire shapes; `compile` turns them into tables,
 * validators and serialisers.
 */
import type { FieldOptionValues, FieldRules, FieldTypeName } from './field-language.ts';

/** A field as written: `"String"`, `{type, ...}`, `[field]`, or a nested map of fields. */
export type FieldInput = FieldTypeName | FieldOptions | readonly [FieldInput] | FieldMap;

export interface FieldMap {
  readonly [name: string]: FieldInput;
}

/** A field with its options, as field-language.ts declares them. */
export interface FieldOptions extends FieldOptionValues {
  readonly type: FieldTypeName | readonly [FieldInput] | FieldMap;
  readonly validate?: FieldRules;
}

export interface CrudSwitch {
  readonly enabled?: boolean;
  readonly authenticated?: boolean;
}

/** What PATCH and PUT can do beyond plain fields; off unless it says otherwise. */
export interface UpdateSwitch extends CrudSwitch {
  /** PATCH takes `$inc`, `$push`, `$pull` and `$unset`. */
  readonly operators?: boolean;
  /** `PUT ?upsert=true` creates the record under the id that the client chose. */
  readonly upsert?: boolean;
}

/** Deleted records are hidden and can be restored; after `retainDays`, if given, they are purged. */
export type SoftDeleteOption = boolean | { readonly retainDays?: number };

/** What a record was before each change is kept: the last `max` versions, for `retainDays` if given. */
export type HistoryOption = boolean | { readonly max?: number; readonly retainDays?: number };

/** Records belong to the user that `field` names: set on create, and never by a client. */
export interface OwnerOption {
  /** A top-level Relation to User, or an ObjectId. */
  readonly field: string;
  /** What only the owner may do; nothing unless it says otherwise. */
  readonly limit?: readonly ('read' | 'update' | 'delete')[];
  /** With row authorization: both must allow it (`and`, unless it says otherwise), or one of them is enough. */
  readonly combine?: 'and' | 'or';
}

/** Lets clients filter, at `POST /database/{Schema}/query`. Off, and no field, unless it says otherwise. */
export interface QuerySwitch {
  readonly enabled?: boolean;
  /** Paths that may be asked about. */
  readonly fields?: readonly string[];
  /** Operators of the query language, such as `$gt`. */
  readonly operators?: readonly string[];
  /** Points that one query may cost (docs/decisions/014-query-language.md). */
  readonly maxCost?: number;
}

/** `modelOptions.conduit` of the wire. */
export interface PlatformOptions {
  readonly cms?: {
    readonly enabled?: boolean;
    readonly crudOperations?: { readonly [K in 'create' | 'read' | 'delete']?: CrudSwitch } & {
      readonly update?: UpdateSwitch;
    };
    readonly query?: QuerySwitch;
  };
  readonly permissions?: {
    readonly extendable?: boolean;
    readonly canCreate?: boolean;
    readonly canModify?: 'Everything' | 'Nothing' | 'ExtensionOnly';
    readonly canDelete?: boolean;
  };
  readonly authorization?: {
    readonly enabled?: boolean;
    /** What becomes of records that are there when it is switched on; not stored. */
    readonly mode?: 'assignOwner' | 'leaveUnowned';
    readonly ownerField?: string;
  };
  /** Kept for old clients; without effect on PostgreSQL. */
  readonly readPreference?: string;
  readonly realtime?: { readonly enabled?: boolean };
  /** Of an imported table: what its triggers say, and PostgreSQL about reading it, is for callers. */
  readonly triggerMessages?: boolean;
  /** What becomes of input that its client routes do not know; `core.input.unknown` decides unless set. */
  readonly unknownFields?: 'refuse' | 'report' | 'warn';
  readonly softDelete?: SoftDeleteOption;
  readonly history?: HistoryOption;
  /** `null` takes it away again. */
  readonly owner?: OwnerOption | null;
  /** Made by introspection. */
  readonly imported?: boolean;
}

export interface ModelOptions {
  readonly timestamps?: boolean;
  readonly conduit?: PlatformOptions;
  readonly indexes?: readonly IndexDefinition[];
}

/** An index over top-level fields (spec/database.md 5.13). What it means is worked out in index-definition.ts. */
export interface IndexDefinition {
  readonly fields: readonly string[];
  /** One per field: `Ascending` (unless set), `Descending` or `Text`; or the name of a method of PostgreSQL. */
  readonly types?: string | number | readonly (string | number)[];
  readonly options?: { readonly name?: string; readonly unique?: boolean } & Readonly<
    Record<string, unknown>
  >;
  readonly engine?: IndexEngine;
  /** Who added it to a schema of somebody else. */
  readonly ownerModule?: string;
}

/** What only PostgreSQL has. */
export interface IndexEngine {
  readonly method?: 'BTREE' | 'HASH' | 'GIN' | 'BRIN';
  /** Only records that fit are in the index: fields with a value, `null` or `{"$exists": true}`. */
  readonly where?: Readonly<Record<string, unknown>>;
}

/** A schema as a module or an admin declares it. */
export interface SchemaDefinition {
  readonly name: string;
  readonly fields: FieldMap;
  readonly modelOptions?: ModelOptions;
}
