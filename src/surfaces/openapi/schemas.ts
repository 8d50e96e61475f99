/**
 * TypeBox schemas are JSON Schema already; here they become fit to publish: words of our own are dropped, and what
 * has a name stands once, under `components.schemas`. Records have two forms: `Track`, whose relations are ids, and
 * `TrackPopulated`, where a relation may stand as the record it names.
 */
import type { TSchema } from 'typebox';
import { alternatives, type JsonSchema } from '../../kernel/operations/json-schema.ts';
import { exampleOf } from './examples.ts';

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

/** Whether relations of records may stand as records, because the caller may ask for that. */
export type RecordForm = 'ids' | 'populated';

export interface SchemaPublisher {
  publish(schema: TSchema, form?: RecordForm): Json;
  /** What was collected for `components.schemas`, by name. */
  components(): Readonly<Record<string, Json>>;
}

/** `records`: those whose shape may be told, by schema; relations to others are described as an object with an id. */
export function createSchemaPublisher(
  records: ReadonlyMap<string, JsonSchema> = new Map(),
  { isLarge = false }: { readonly isLarge?: boolean } = {},
): SchemaPublisher {
  const components = new Map<string, Json>();
  const nameOf = createComponentNames();

  const publish = (schema: Json, form: RecordForm): Json => {
    if (typeof schema.published === 'function') return publish(schema.published() as Json, form);
    const name = nameOf(schema, form);
    if (name === undefined) return clean(schema, form);
    if (!components.has(name)) {
      components.set(name, {}); // A schema may refer to itself.
      const cleaned = inParts({ publish, clean, isLarge }, schema, form);
      const example = hasExample(schema, name) ? { example: exampleOf(schema as JsonSchema) } : {};
      components.set(name, { ...cleaned, ...example });
    }
    return { $ref: `#/components/schemas/${name}` };
  };

  const publishValue = (value: unknown, form: RecordForm): unknown =>
    typeof value === 'object' && value !== null ? publish(value as Json, form) : value;

  const publishKeyword = (key: string, value: unknown, form: RecordForm): unknown => {
    if (plain.has(key)) return value;
    if (nested.has(key)) return publishValue(value, form);
    if (lists.has(key))
      return (value as readonly unknown[]).map((part) => publishValue(part, form));
    return maps.has(key) ? publishMap(value as Json, form) : undefined;
  };

  const clean = (schema: Json, form: RecordForm): Json => {
    if (typeof schema.relation === 'string' && schema.anyOf)
      return relation(schema, schema.relation, form);
    const published: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(schema)) {
      const fit = publishKeyword(key, value, form);
      if (fit !== undefined) published[key] = fit;
    }
    const required = requiredOf(schema);
    if (required.length > 0) published.required = required;
    return withNull(published);
  };

  /** An id; where the caller may ask for the record: that too. */
  const relation = (schema: Json, model: string, form: RecordForm): Json => {
    const [id, found] = (schema.anyOf as readonly Json[]).map((part) => clean(part, form));
    if (form === 'ids' || !id || !found) return id ?? {};
    const target = records.get(model);
    const whole = target ? publish(target as Json, form) : found;
    return { anyOf: [isLarge ? { ...id, description: undefined } : id, whole] };
  };

  const publishMap = (map: Json, form: RecordForm): Json =>
    Object.fromEntries(
      Object.entries(map).map(([name, value]) => [name, publishValue(sure(value), form)]),
    );

  return {
    publish: (schema, form = 'ids') => publish(schema as Json, form),
    components: () => Object.fromEntries([...components].sort(([a], [b]) => compare(a, b))),
  };
}

interface PartPublisher {
  readonly isLarge: boolean;
  publish(schema: Json, form: RecordForm): Json;
  clean(schema: Json, form: RecordForm): Json;
}

/** What several schemas have in common stands once. */
function inParts(publisher: PartPublisher, schema: Json, form: RecordForm): Json {
  const { isLarge, publish, clean } = publisher;
  if (typeof schema.record !== 'string')
    return (isLarge && asMoreThan(publisher, schema)) || clean(schema, form);
  const parts = partsOf(schema, isLarge);
  if (parts.length === 1) return clean(schema, form);
  return { allOf: parts.map((part) => publish(part, part.component ? 'ids' : form)) };
}

/** The body of a creation as the body of a change of which some fields are required. */
function asMoreThan(
  { publish, clean }: PartPublisher,
  { required, properties, lesser }: Json,
): Json | undefined {
  if (!required || !lesser) return undefined;
  const { properties: found } = lesser as Json;
  const [all, lesserAll] = [properties, found].map((one) =>
    JSON.stringify(clean({ properties: one }, 'ids')),
  );
  return all === lesserAll ? { allOf: [publish(lesser as Json, 'ids')], required } : undefined;
}

/**
 * Parts of a record, each with the properties of its own: what all records have (where there are many of them), what
 * its two forms have in common, and its relations, which differ in them.
 */
function partsOf(schema: Json, isLarge: boolean): readonly Json[] {
  const { properties, required = [], record, ...others } = schema;
  const all = Object.entries(properties as Json);
  const partNames = ['all', 'own', 'related'] as const;
  const partOf = ([name, value]: readonly [string, unknown]) => {
    if (isLarge && ofEveryRecord.has(name)) return 'all';
    return hasRelation(value) ? 'related' : 'own';
  };
  const names = { all: 'RecordBase', own: `${record}Fields`, related: undefined };
  const found = partNames.map((part) => {
    const members = all.filter((entry) => partOf(entry) === part);
    const own = new Set(members.map(([name]) => name));
    return {
      ...others,
      type: 'object',
      properties: Object.fromEntries(members),
      required: (required as readonly string[]).filter((name) => own.has(name)),
      component: names[part],
    };
  });
  const parts = found.filter((part) => Object.keys(part.properties).length > 0);
  // Without relations there is one form, of which the fields need no name.
  const isOneForm = parts.every(({ component }) => component !== undefined);
  return isOneForm
    ? parts.map((part) => (part.component === names.own ? { ...part, component: undefined } : part))
    : parts;
}

const ofEveryRecord: ReadonlySet<string> = new Set(['_id', 'createdAt', 'updatedAt', '__v']);

/** Names under which schemas stand once; undefined for those that stand where they are used. */
function createComponentNames(): (schema: Json, form: RecordForm) => string | undefined {
  const sources = new Map<string, Json>();
  const populates = new WeakMap<object, boolean>();

  const suffix = (schema: Json, form: RecordForm): string => {
    if (form === 'ids') return '';
    const known = populates.get(schema) ?? hasRelation(schema);
    populates.set(schema, known);
    return known ? 'Populated' : '';
  };

  return (schema, form) => {
    const { record, component, $id } = schema;
    if (typeof $id === 'string') return componentName.test($id) ? $id : undefined;
    const base = typeof record === 'string' ? `${record}${suffix(schema, form)}` : component;
    if (typeof base !== 'string' || !componentName.test(base)) return undefined;
    let name = base;
    // Other records of that name get a number.
    for (let i = 2; !isSame(sources.get(name) ?? schema, schema); i++) name = base + i;
    sources.set(name, schema);
    return name;
  };
}

const isSame = (one: unknown, other: unknown): boolean =>
  one === other || JSON.stringify(one) === JSON.stringify(other);

/** Records, and bodies that need something. The populated form looks like the other one. */
const hasExample = ({ record, component, required }: Json, name: string): boolean =>
  (record !== undefined && !name.endsWith('Populated')) ||
  (component !== undefined && required !== undefined);

/** Whether some property, however deep, is a relation. */
const hasRelation = (schema: unknown): boolean =>
  typeof schema === 'object' &&
  schema !== null &&
  ('relation' in schema || Object.values(schema).some(hasRelation));

/** Properties that must be there, and those that always are. */
function requiredOf({ required = [], properties = {} }: Json): readonly string[] {
  const always = Object.entries(properties as Readonly<Record<string, JsonSchema>>)
    .filter(([, { answered }]) => answered)
    .map(([name]) => name);
  return [...new Set([...(required as readonly string[]), ...always])];
}

/** Without the null that the value of a required field never is. */
function sure(schema: unknown): unknown {
  const { notNull, anyOf } = schema as JsonSchema;
  return notNull && anyOf ? anyOf.find(({ type }) => type !== 'null') : schema;
}

/** A type or null, in the short form: generators of types read it better than a choice of two. */
function withNull(schema: Json): Json {
  const { anyOf, ...others } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema;
  const [value, none] = anyOf as readonly Json[];
  if (value === undefined || none?.type !== 'null' || Object.keys(none).length !== 1) return schema;
  if (Array.isArray(value.anyOf) && Object.keys(value).length === 1)
    return { ...others, anyOf: [...value.anyOf, none] };
  if (Object.keys(value).every((key) => key === 'description')) return { ...value, ...others };
  if (typeof value.type !== 'string' || value.const !== undefined) return schema;
  const choice = Array.isArray(value.enum) ? { enum: [...value.enum, null] } : {};
  return { ...value, ...others, type: [value.type, 'null'], ...choice };
}

/** The records that a list of these operations shows, by schema: relations to them can be described whole. */
export function recordsIn(outputs: readonly JsonSchema[]): ReadonlyMap<string, JsonSchema> {
  const found = new Map<string, JsonSchema>();
  const profiles = new Map<string, JsonSchema>();
  for (const output of outputs) {
    const documents = output.properties?.documents?.items;
    if (!documents || Array.isArray(documents)) continue;
    for (const part of alternatives(documents as JsonSchema)) {
      if (part.partOf !== undefined) profiles.set(part.partOf, part);
      else if (part.record !== undefined) found.set(part.record, part);
    }
  }
  return new Map([...profiles, ...found]);
}

/** The name, with a number where it is taken already. */
export function freeName(requested: string, taken: ReadonlyMap<string, unknown>): string {
  let name = requested;
  for (let i = 2; taken.has(name); i++) name = `${requested}.${i}`;
  return name;
}

/** Order by code unit: the same everywhere, whatever the locale. */
export const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
