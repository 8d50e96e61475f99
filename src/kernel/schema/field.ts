/** The normalised form of a field: one tree, whichever way it was written. */
import type { FieldAccess } from './access-rule.ts';
import type { KeyType } from './mapping/key.ts';
import type { CompiledPattern } from './pattern/compile.ts';

/** PostgreSQL type of a column (or of nothing, for fields inside jsonb). */
export type ColumnType =
  | 'text'
  | 'double precision'
  | 'integer'
  | 'bigint'
  | 'numeric'
  | 'boolean'
  | 'timestamptz(3)'
  | 'uuid'
  | 'uuid[]'
  | 'jsonb'
  | 'real[]'
  /** Only of ids in tables of others. */
  | KeyType;

interface FieldCommon {
  readonly required: boolean;
  readonly unique: boolean;
  /** `select: false`: never leaves the platform by itself. */
  readonly hidden: boolean;
  readonly indexed: boolean;
  /** Normalised value that stands in for a missing one. */
  readonly default?: unknown;
  readonly description?: string;
  /** Replaces the sentence of any broken rule (`validate.message`). */
  readonly message?: string;
  /** Who may see and set it, where that is not everybody. */
  readonly access?: FieldAccess;
}

export interface StringField extends FieldCommon {
  readonly kind: 'string';
  readonly format?: 'email' | 'url' | 'uuid' | 'objectId';
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: CompiledPattern;
  readonly enum?: readonly string[];
}

export interface NumberField extends FieldCommon {
  readonly kind: 'number';
  readonly storage: 'double precision' | 'integer' | 'bigint' | 'numeric';
  readonly min?: number;
  readonly max?: number;
  readonly exclusiveMin?: number;
  readonly exclusiveMax?: number;
  readonly integer: boolean;
  readonly enum?: readonly number[];
}

export interface PlainField extends FieldCommon {
  readonly kind: 'boolean' | 'date' | 'objectId' | 'json';
  readonly enum?: readonly unknown[];
  /** Of an `objectId`: how ids are stored where they are no UUIDs. */
  readonly idType?: KeyType;
}

export interface RelationField extends FieldCommon {
  readonly kind: 'relation';
  readonly model: string;
  /** How the ids of the target are stored where they are no UUIDs. */
  readonly idType?: KeyType;
  readonly onDelete: 'restrict' | 'cascade' | 'setNull';
}

export interface VectorField extends FieldCommon {
  readonly kind: 'vector';
  readonly dimensions: number;
  readonly similarity: 'cosine' | 'euclidean' | 'dotProduct';
}

export interface ArrayField extends FieldCommon {
  readonly kind: 'array';
  readonly items: Field;
  readonly minItems?: number;
  readonly maxItems?: number;
}

export interface ObjectField extends FieldCommon {
  readonly kind: 'object';
  readonly fields: ReadonlyMap<string, Field>;
}

export type Field = StringField | NumberField | PlainField | RelationField | VectorField | ArrayField | ObjectField;

/** The column type that a top-level field gets. */
export function columnType(field: Field): ColumnType {
  switch (field.kind) {
    case 'string':
      return 'text';
    case 'number':
      return field.storage;
    case 'boolean':
      return 'boolean';
    case 'date':
      return 'timestamptz(3)';
    case 'objectId':
    case 'relation':
      return field.idType ?? 'uuid';
    case 'vector':
      return 'real[]';
    case 'array':
      return field.items.kind === 'relation' ? 'uuid[]' : 'jsonb';
    case 'json':
    case 'object':
      return 'jsonb';
  }
}

/** The relation that a field holds, by itself or as a list. */
export function relationOf(field: Field): { readonly field: RelationField; readonly many: boolean } | undefined {
  if (field.kind === 'relation') return { field, many: false };
  if (field.kind === 'array' && field.items.kind === 'relation') return { field: field.items, many: true };
  return undefined;
}

/** What must not change about a stored field: equal text, equal type. */
function typeSignature(field: Field): string {
  switch (field.kind) {
    case 'number':
      return `number:${field.storage}`;
    case 'relation':
      return `relation:${field.model}`;
    case 'vector':
      return `vector:${field.dimensions}`;
    case 'array':
      return `[${typeSignature(field.items)}]`;
    default:
      return field.kind;
  }
}

/** The type of every field of a tree, by dotted path; fields of array elements count as below the array. */
export function typeSignatures(fields: ReadonlyMap<string, Field>, prefix = ''): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, field] of fields) {
    const path = prefix + name;
    found.set(path, typeSignature(field));
    const inner = innermost(field);
    if (inner.kind === 'object') for (const [key, value] of typeSignatures(inner.fields, `${path}.`)) found.set(key, value);
  }
  return found;
}

/** The element of (nested) arrays, or the field itself. */
export function innermost(field: Field): Field {
  return field.kind === 'array' ? innermost(field.items) : field;
}
