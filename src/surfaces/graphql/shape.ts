/** What a JSON Schema is in the words of GraphQL. Total: whatever has no such words is free JSON. */
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';

/* Names that the GraphQL grammar allows, each used once. */

/** Names of types that mean something already. */
const reserved = [
  'String',
  'Int',
  'Float',
  'Boolean',
  'ID',
  'Date',
  'Number',
  'BigInt',
  'Decimal',
  'JSONObject',
  'Query',
  'Mutation',
  'Subscription',
];

const legal = /^(?!__)[A-Za-z_]\w*$/;

export const isLegalName = (name: string): boolean => legal.test(name);

/** The nearest name that the grammar allows: what it does not know becomes `_`, and nothing starts with two of them. */
function legalName(name: string): string {
  const plain = name.replace(/\W/g, '_').replace(/^_{2,}/, '_');
  return isLegalName(plain) ? plain : `_${plain}`;
}

/** Hands out names. Who comes second to a name gets it with a number: `Post2`. */
export interface NamePool {
  take(requested: string): string;
}

export function createNamePool(taken: readonly string[] = reserved): NamePool {
  const used = new Set(taken);
  return {
    take(requested) {
      const plain = legalName(requested);
      let name = plain;
      for (let i = 2; used.has(name); i++) name = `${plain}${i}`;
      used.add(name);
      return name;
    },
  };
}

/** `if-match` becomes `ifMatch`. */
export const camelHeader = (header: string): string =>
  header.replace(/-+(\w?)/g, (_, letter: string) => letter.toUpperCase());

/** For names of types inside types: `Post` and `place` make `PostPlace`. */
export const capitalised = (name: string): string => name.slice(0, 1).toUpperCase() + name.slice(1);

export type ScalarName =
  | 'String'
  | 'Int'
  | 'Float'
  | 'BigInt'
  | 'Decimal'
  | 'Boolean'
  | 'ID'
  | 'Date'
  | 'JSONObject';

type Shape =
  | { readonly kind: 'scalar'; readonly scalar: ScalarName }
  | { readonly kind: 'list'; readonly items: JsonSchema }
  | { readonly kind: 'object'; readonly object: ObjectShape }
  | { readonly kind: 'relation'; readonly model: string };

export interface ObjectShape {
  /** The schema it was read from: the same one gives the same type. */
  readonly source: JsonSchema;
  readonly properties: ReadonlyMap<string, JsonSchema>;
  readonly required: ReadonlySet<string>;
}

interface Reading {
  readonly shape: Shape;
  readonly nullable: boolean;
}

const json: Shape = { kind: 'scalar', scalar: 'JSONObject' };
const scalar = (name: ScalarName): Shape => ({ kind: 'scalar', scalar: name });

export function readShape(schema: JsonSchema): Reading {
  const parts = choices(schema);
  const others = parts.filter((part) => !isNull(part));
  const nullable =
    others.length < parts.length || (others.length > 0 && others.every(takesAnything));
  const relation = [schema, ...others].find(
    (part) => part.relation !== undefined && part.anyOf,
  )?.relation;
  if (relation !== undefined)
    return { shape: { kind: 'relation', model: relation }, nullable: nullable || hasNull(schema) };
  return { shape: shapeOfChoices(schema, others), nullable };
}

/** `anyOf` and `oneOf`, opened; a relation stays whole. */
function choices(schema: JsonSchema): readonly JsonSchema[] {
  const variants = schema.anyOf ?? schema.oneOf;
  return variants === undefined || schema.relation !== undefined
    ? [schema]
    : variants.flatMap(choices);
}

/** Whether text may stand here, alone or beside other things. */
export const takesText = (schema: JsonSchema): boolean =>
  choices(schema).some((part) => typesIn(part).includes('string'));

const isNull = (schema: JsonSchema): boolean =>
  schema.type === 'null' || ('const' in schema && schema.const === null);
const hasNull = (schema: JsonSchema): boolean => (schema.anyOf ?? []).some(isNull);

const takesAnything = (schema: JsonSchema): boolean =>
  typesIn(schema).length === 0 &&
  schema.anyOf === undefined &&
  schema.allOf === undefined &&
  schema.properties === undefined;

function shapeOfChoices(schema: JsonSchema, others: readonly JsonSchema[]): Shape {
  const [only] = others;
  if (only === undefined) return json;
  if (others.length === 1) return shapeOfOne(only);
  const shapes = others.map(shapeOfOne);
  if (shapes.every((shape) => shape.kind === 'object')) {
    return {
      kind: 'object',
      object: united(
        schema,
        shapes.map(({ object }) => object),
      ),
    };
  }
  const names = new Set(
    shapes.map((shape) => (shape.kind === 'scalar' ? shape.scalar : 'JSONObject')),
  );
  if (names.size === 1) return scalar([...names][0] ?? 'JSONObject');
  if (names.size === 2 && names.has('String') && others.some(isNumber))
    return scalar(others.some(isInteger) ? 'BigInt' : 'Decimal');
  const allText = [...names].every((name) => name === 'String' || name === 'ID' || name === 'Date');
  return scalar(allText ? 'String' : 'JSONObject');
}

function shapeOfOne(schema: JsonSchema): Shape {
  if (schema.allOf) return intersected(schema, schema.allOf);
  const types = typesIn(schema).filter((type) => type !== 'null');
  const [type] = types;
  if (types.length !== 1)
    return types.length > 1 && types.every((one) => one === 'number' || one === 'integer')
      ? scalar('Float')
      : json;
  switch (type) {
    case 'string':
      return scalar(textScalar(schema));
    case 'number':
    case 'integer':
      return scalar(isInteger(schema) && !isWide(schema) ? 'Int' : 'Float');
    case 'boolean':
      return scalar('Boolean');
    case 'array':
      return {
        kind: 'list',
        items:
          (Array.isArray(schema.items) ? undefined : (schema.items as JsonSchema | undefined)) ??
          {},
      };
    case 'object':
      return objectShape(schema);
    default:
      return json;
  }
}

export const isInteger = (schema: JsonSchema): boolean => typesIn(schema).includes('integer');
const isNumber = (schema: JsonSchema): boolean =>
  isInteger(schema) || typesIn(schema).includes('number');

/** What `Int` holds: 32 bits with a sign. */
const isWide = ({ wide = false, minimum = 0, maximum = 0 }: JsonSchema): boolean =>
  wide || minimum < -(2 ** 31) || maximum >= 2 ** 31;

function textScalar({ format, instant, recordId }: JsonSchema): ScalarName {
  if (format === 'uuid' || recordId) return 'ID';
  return format === 'date-time' || instant ? 'Date' : 'String';
}

function typesIn(schema: JsonSchema): readonly string[] {
  if (typeof schema.type === 'string') return [schema.type];
  if (schema.type) return schema.type;
  if ('const' in schema) return [typeof schema.const];
  if (schema.enum) return [...new Set(schema.enum.map((value) => typeof value))];
  if (schema.properties) return ['object'];
  return schema.items ? ['array'] : [];
}

/** An object without named properties is a map: free JSON. */
function objectShape(schema: JsonSchema): Shape {
  const properties = new Map(Object.entries(schema.properties ?? {}));
  if (properties.size === 0) return json;
  return {
    kind: 'object',
    object: { source: schema, properties, required: new Set(schema.required) },
  };
}

/** One of several objects: every property of each, and required where all require it. */
function united(source: JsonSchema, objects: readonly ObjectShape[]): ObjectShape {
  const properties = mergedProperties(objects);
  const required = [...properties.keys()].filter((name) =>
    objects.every((object) => object.required.has(name)),
  );
  return { source, properties, required: new Set(required) };
}

/** All of several objects at once. */
function intersected(source: JsonSchema, parts: readonly JsonSchema[]): Shape {
  const shapes = parts.map((part) => readShape(part).shape);
  if (!shapes.every((shape) => shape.kind === 'object')) return json;
  const objects = shapes.map(({ object }) => object);
  const required = new Set(objects.flatMap((object) => [...object.required]));
  return { kind: 'object', object: { source, properties: mergedProperties(objects), required } };
}

function mergedProperties(objects: readonly ObjectShape[]): ReadonlyMap<string, JsonSchema> {
  const found = new Map<string, JsonSchema[]>();
  for (const { properties } of objects) {
    for (const [name, schema] of properties) found.set(name, [...(found.get(name) ?? []), schema]);
  }
  return new Map(
    [...found].map(([name, schemas]) => [
      name,
      schemas.length === 1 && schemas[0] ? schemas[0] : { anyOf: schemas },
    ]),
  );
}

/** The description of a schema, or of the part of it that is not null. */
export function described(schema: JsonSchema): { readonly description?: string } {
  const description =
    schema.description ?? schema.anyOf?.find((part) => part.description !== undefined)?.description;
  return description === undefined ? {} : { description };
}
