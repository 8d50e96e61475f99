/** JSON Schema as the pipeline reads it. TypeBox types are exactly this at run time. */
import type { TSchema } from 'typebox';

export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | JsonSchema;
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema | readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly format?: string;
  readonly description?: string;
  readonly contentMediaType?: string;
  readonly $id?: string;
  readonly $ref?: string;
  /** Ours: the schema whose records this describes. Not published. */
  readonly record?: string;
  /** Ours: what relations to records of that schema show where no list shows them whole. Not published. */
  readonly partOf?: string;
  /** Ours: this is the id of a record of that schema, or in answers the record itself. Not published. */
  readonly relation?: string;
  /** Ours: text that is an instant although no `format` says so, because a date alone is taken too. Not published. */
  readonly instant?: boolean;
  /** Ours: replaces the sentence of any broken rule (`validate.message` of a field). Not published. */
  readonly sentence?: string;
  /** Ours: text that is the id of a record although it is no UUID. Not published. */
  readonly recordId?: boolean;
  /** Ours: a whole number that may need more than 32 bits. Not published. */
  readonly wide?: boolean;
  /**
   * Ours: in a body, keys that this does not declare are refused, and not dropped: all of them, also in what is in
   * it, or those that begin with `$`. Not published.
   */
  readonly closed?: 'all' | 'operators';
  /** Ours: the name under which documents publish this once. Unlike `$id` it means nothing to validators and GraphQL. */
  readonly component?: string;
  /** Ours: the same properties, of which none is required: documents may publish this as more than that. */
  readonly lesser?: JsonSchema;
  /** Ours: a property that every answer has, although the shape does not require it. Not published as such. */
  readonly answered?: boolean;
  /** Ours: null is let through, for the handler to refuse, but no document offers it. Not published as such. */
  readonly notNull?: boolean;
  /** Ours: published in place of this, where a validator could not be made from it (it refers to itself). */
  readonly published?: () => JsonSchema;
}

export const jsonSchema = (schema: TSchema): JsonSchema => schema as JsonSchema;

/** The schema and, through anyOf, oneOf and allOf, everything a value may (or must) look like. */
export function alternatives(schema: JsonSchema): readonly JsonSchema[] {
  const nested = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return nested.length === 0 ? [schema] : nested.flatMap(alternatives);
}

/** The types a value may have. Empty: any. */
export function typesOf(schema: JsonSchema): ReadonlySet<string> {
  const types = new Set<string>();
  for (const one of alternatives(schema)) {
    const found = ownTypes(one);
    if (found.length === 0) return new Set();
    for (const type of found) types.add(type);
  }
  return types;
}

function ownTypes(schema: JsonSchema): readonly string[] {
  if (typeof schema.type === 'string') return [schema.type];
  if (schema.type) return schema.type;
  if (schema.enum) return [...new Set(schema.enum.map(typeOfValue))];
  if ('const' in schema) return [typeOfValue(schema.const)];
  if (schema.properties) return ['object'];
  return schema.items ? ['array'] : [];
}

function typeOfValue(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** True when `null` is a value of its own here, not merely another spelling of "absent". */
export function acceptsNull(schema: JsonSchema): boolean {
  const types = typesOf(schema);
  return types.size === 0 || types.has('null');
}

/** A default as a value of its own for each call. Most are no objects, and copying takes microseconds whatever it copies. */
export const ownDefault = (value: unknown): unknown =>
  typeof value === 'object' && value !== null ? structuredClone(value) : value;
