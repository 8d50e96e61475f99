/** The normalised form of a field: one tree, whichever way it was written. */

import { cutText } from '../../../kernel/text.ts';
import type { CompiledPattern } from './pattern/compile.ts';
import type { KeyType } from './record-key.ts';

/* Who may see or set a single field: the rules that a definition can name. */

/**
 * - `public`: everybody who may read or write the record
 * - `user`: signed-in users
 * - `owner`: the user that the owner field names, or the `owner` relation of row authorization
 * - `role`: users who hold a role
 * - `relation`: users who have a relation to the record, or an action on it, by row authorization
 * - `admin`: no client at all
 */
export type AccessRule =
  | { readonly kind: 'public' | 'user' | 'owner' | 'admin' }
  | { readonly kind: 'role' | 'relation'; readonly name: string };

export interface FieldAccess {
  readonly read: AccessRule;
  readonly write: AccessRule;
}

const everybody: AccessRule = { kind: 'public' };
const plainKinds = ['public', 'user', 'owner', 'admin'] as const;
const named = /^(role|relation|action):([A-Za-z_][\w .-]{0,63})$/;
const choices = 'public, user, owner, admin, role:<name>, relation:<name> or action:<name>';

/** The rule that a text means, if any. */
export function readRule(text: unknown): AccessRule | undefined {
  const kind = plainKinds.find((one) => one === text);
  if (kind) return { kind };
  const [, prefix, name] = typeof text === 'string' ? (named.exec(text) ?? []) : [];
  return prefix && name ? { kind: prefix === 'role' ? 'role' : 'relation', name } : undefined;
}

/** The `access` option of a field; problems are reported with their place below it. */
export function readAccess(
  value: unknown,
  report: (place: string, message: string) => undefined,
): FieldAccess | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return report('', 'must be an object with read, write or both');
  const stray = Object.keys(value).find((key) => key !== 'read' && key !== 'write');
  if (stray !== undefined)
    return report(`.${cutText(stray, 64)}`, 'is not known: there are read and write');
  const { read: requestedRead = 'public', write: requestedWrite = 'public' } = value as {
    read?: unknown;
    write?: unknown;
  };
  const [read, write] = [readRule(requestedRead), readRule(requestedWrite)];
  if (!read) report('.read', `must be ${choices}`);
  if (!write) report('.write', `must be ${choices}`);
  return read && write ? { read, write } : undefined;
}

/** Who may see a field. */
export const readRuleOf = ({ access }: { readonly access?: FieldAccess }): AccessRule =>
  access?.read ?? everybody;
/** Who may set it. */
export const writeRuleOf = ({ access }: { readonly access?: FieldAccess }): AccessRule =>
  access?.write ?? everybody;

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
  /** `index: false`: a relation without the index that relations have. Another one begins with it. */
  readonly unindexed?: true;
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

interface PlainField extends FieldCommon {
  readonly kind: 'boolean' | 'date' | 'objectId' | 'json';
  readonly enum?: readonly unknown[];
  /** Of an `objectId`: how ids are stored where they are no UUIDs. */
  readonly idType?: KeyType;
  /** Of a `date`: in a table of others, whose microseconds count. */
  readonly exact?: boolean;
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

export type Field =
  | StringField
  | NumberField
  | PlainField
  | RelationField
  | VectorField
  | ArrayField
  | ObjectField;

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
      return field.exact ? 'timestamptz' : 'timestamptz(3)';
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
export function relationOf(
  field: Field,
): { readonly field: RelationField; readonly many: boolean } | undefined {
  if (field.kind === 'relation') return { field, many: false };
  if (field.kind === 'array' && field.items.kind === 'relation')
    return { field: field.items, many: true };
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
export function typeSignatures(
  fields: ReadonlyMap<string, Field>,
  prefix = '',
): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, field] of fields) {
    const path = prefix + name;
    found.set(path, typeSignature(field));
    const inner = innermost(field);
    if (inner.kind === 'object')
      for (const [key, value] of typeSignatures(inner.fields, `${path}.`)) found.set(key, value);
  }
  return found;
}

/** The element of (nested) arrays, or the field itself. */
function innermost(field: Field): Field {
  return field.kind === 'array' ? innermost(field.items) : field;
}
