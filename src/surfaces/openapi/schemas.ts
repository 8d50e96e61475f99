/**
 * TypeBox schemas are JSON Schema already; here they become fit to publish:
 * words of our own are dropped, and schemas with an `$id` stand once, under
 * `components.schemas`.
 */
import type { TSchema } from 'typebox';

export type Json = Readonly<Record<string, unknown>>;

/** Keywords that pass as they are. */
const plain: ReadonlySet<string> = new Set(
  `type title description default example examples deprecated readOnly writeOnly enum const format pattern
   minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems
   minProperties maxProperties required contentMediaType contentEncoding $ref`.split(/\s+/),
);
const nested: ReadonlySet<string> = new Set([
  'items',
  'additionalProperties',
  'not',
  'contains',
  'propertyNames',
  'if',
  'then',
  'else',
]);
const lists: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems']);
const maps: ReadonlySet<string> = new Set(['properties', 'patternProperties', '$defs']);

const componentName = /^[A-Za-z0-9._-]+$/;

export interface SchemaPublisher {
  publish(schema: TSchema): Json;
  /** What was collected for `components.schemas`, by name. */
  components(): Readonly<Record<string, Json>>;
}

export function createSchemaPublisher(): SchemaPublisher {
  const components = new Map<string, Json>();

  const publishValue = (value: unknown): unknown =>
    typeof value === 'object' && value !== null ? publish(value as Json) : value;

  const publish = (schema: Json): Json => {
    if (typeof schema.published === 'function') return publish(schema.published() as Json);
    const id = schema.$id;
    if (typeof id !== 'string' || !componentName.test(id)) return clean(schema);
    if (!components.has(id)) {
      components.set(id, {}); // A schema may refer to itself.
      components.set(id, clean(schema));
    }
    return { $ref: `#/components/schemas/${id}` };
  };

  const clean = (schema: Json): Json => {
    const published: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(schema)) {
      if (plain.has(key)) published[key] = value;
      else if (nested.has(key)) published[key] = publishValue(value);
      else if (lists.has(key)) published[key] = (value as readonly unknown[]).map(publishValue);
      else if (maps.has(key)) published[key] = publishMap(value as Json);
    }
    return published;
  };

  const publishMap = (map: Json): Json =>
    Object.fromEntries(Object.entries(map).map(([name, value]) => [name, publishValue(value)]));

  return {
    publish: (schema) => publish(schema as Json),
    components: () => Object.fromEntries([...components].sort(([a], [b]) => compare(a, b))),
  };
}

/** Order by code unit: the same everywhere, whatever the locale. */
export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
