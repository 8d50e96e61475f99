/** The types of one schema: what goes in and what comes out, with names that are used once. */
import {
  type GraphQLFieldConfigMap,
  type GraphQLInputFieldConfigMap,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { JsonScalar, scalars } from './scalars.ts';
import {
  capitalised,
  createNamePool,
  described,
  isLegalName,
  type NamePool,
  type ObjectShape,
  readShape,
} from './shape.ts';

/* GraphQL input types from JSON Schemas. */

/** What the names of body types end in (spec/router.md 5.8). */
export const REQUEST = 'Request';

/** Null is for the caller to exclude. */
type InputTypes = (schema: JsonSchema, name: string) => GraphQLInputType;

function createInputTypes(names: NamePool): InputTypes {
  const known = new Map<JsonSchema, GraphQLInputType>();

  const input: InputTypes = (schema, name) => {
    const { shape } = readShape(schema);
    switch (shape.kind) {
      case 'scalar':
        return scalars[shape.scalar];
      case 'relation':
        return scalars.ID;
      case 'list': {
        const item = input(shape.items, name);
        return new GraphQLList(readShape(shape.items).nullable ? item : new GraphQLNonNull(item));
      }
      case 'object':
        return inputObject(shape.object, name);
    }
  };

  /** An object with a name in it that GraphQL cannot say is free JSON as a whole. */
  const inputObject = (object: ObjectShape, name: string): GraphQLInputType => {
    const { source, properties } = object;
    const made = known.get(source);
    if (made) return made;
    if (![...properties.keys()].every(isLegalName)) return JsonScalar;
    const typeName = names.take(name);
    const type = new GraphQLInputObjectType({
      name: typeName,
      ...described(source),
      fields: () => fieldsOf(object, typeName),
    });
    // The body of each operation has a type of its own; what is nested in it is shared.
    if (!name.endsWith(REQUEST)) known.set(source, type);
    return type;
  };

  const fieldsOf = (
    { properties, required }: ObjectShape,
    typeName: string,
  ): GraphQLInputFieldConfigMap => {
    const fields = Object.create(null) as GraphQLInputFieldConfigMap;
    for (const [property, schema] of properties) {
      const type = input(schema, typeName + capitalised(property));
      const needed =
        required.has(property) && !readShape(schema).nullable && schema.default === undefined;
      fields[property] = { type: needed ? new GraphQLNonNull(type) : type, ...described(schema) };
    }
    return fields;
  };

  return input;
}

/* GraphQL object types from JSON Schemas: one type per schema object, however often it is used. */

/** The relation fields of a type: GraphQL name to the name on the wire. */
type RelationFields = ReadonlyMap<string, string>;

interface OutputTypes {
  /** `name` is taken unless the schema brings its own or was seen before. Null is for the caller to exclude. */
  typeOf(schema: JsonSchema, name: string): GraphQLOutputType;
  relationsOf(type: GraphQLObjectType): RelationFields;
}

type Fields = GraphQLFieldConfigMap<unknown, unknown>;

const recordTypes = new WeakSet<GraphQLObjectType>();

/** Whether the values of a type are records of a schema. */
export const isRecordType = (type: GraphQLObjectType): boolean => recordTypes.has(type);

/** `readable`: schemas whose records can be read, so that relations to them are objects; all others are ids. */
function createOutputTypes(
  names: NamePool,
  readable: ReadonlyMap<string, JsonSchema>,
): OutputTypes {
  const known = new Map<JsonSchema | string, GraphQLObjectType>();
  const relations = new WeakMap<GraphQLObjectType, ReadonlyMap<string, string>>();

  const typeOf = (schema: JsonSchema, name: string): GraphQLOutputType => {
    const { shape } = readShape(schema);
    switch (shape.kind) {
      case 'scalar':
        return scalars[shape.scalar];
      case 'relation':
        return scalars.ID;
      case 'list':
        return new GraphQLList(typeOf(shape.items, name));
      case 'object':
        return objectType(shape.object, name);
    }
  };

  const objectType = (object: ObjectShape, name: string): GraphQLObjectType => {
    const { source } = object;
    // Equal by more than identity: records of one schema, shapes with a name of their own, and the answer of all that answer text.
    const shared = source.record ?? source.$id ?? (isTextResult(object) ? TEXT_RESULT : undefined);
    const made = known.get(source) ?? known.get(shared ?? source);
    if (made) return made;
    const type: GraphQLObjectType = new GraphQLObjectType({
      name: names.take(shared ?? name),
      ...described(source),
      fields: () => fieldsOf(type, object),
    });
    for (const key of [source, shared ?? source]) known.set(key, type);
    if (source.record !== undefined) recordTypes.add(type);
    return type;
  };

  const fieldsOf = (type: GraphQLObjectType, object: ObjectShape): Fields => {
    const fieldNames = createNamePool([]);
    const related = new Map<string, string>();
    const fields = Object.create(null) as Fields;
    for (const [property, schema] of legalFirst(object.properties)) {
      const field = fieldNames.take(property);
      const target = isRecordType(type) ? targetOf(schema, readable, typeOf) : undefined;
      if (target) related.set(field, property);
      const valueType = target ?? typeOf(schema, type.name + capitalised(property));
      fields[field] = {
        type: isSure(object, property) ? new GraphQLNonNull(valueType) : valueType,
        ...described(schema),
        ...(field !== property && { resolve: readProperty(property) }),
      };
    }
    relations.set(type, related);
    return fields;
  };

  // Records have the first choice of names.
  for (const [model, schema] of readable) typeOf(schema, schema.record ?? model);
  return {
    typeOf,
    relationsOf(type) {
      type.getFields();
      return relations.get(type) ?? noRelations;
    },
  };
}

type TypeOf = (schema: JsonSchema, name: string) => GraphQLOutputType;

/** The type of a relation field whose records can be read. */
function targetOf(
  schema: JsonSchema,
  readable: ReadonlyMap<string, JsonSchema>,
  typeOf: TypeOf,
): GraphQLOutputType | undefined {
  const { shape } = readShape(schema);
  if (shape.kind === 'relation') {
    const target = readable.get(shape.model);
    return target && typeOf(target, shape.model);
  }
  if (shape.kind !== 'list' || readShape(shape.items).shape.kind !== 'relation') return undefined;
  const item = targetOf(shape.items, readable, typeOf);
  return item && new GraphQLList(item);
}

const TEXT_RESULT = 'TextResult';

/** `{"result": "..."}`, which many operations answer. */
function isTextResult({ properties, required }: ObjectShape): boolean {
  return (
    properties.size === 1 && required.has('result') && properties.get('result')?.type === 'string'
  );
}

const noRelations: RelationFields = new Map();

/** Whether a value is always there. A record that may not be read stands as its id alone, so only that is sure. */
function isSure({ source, properties, required }: ObjectShape, property: string): boolean {
  if (source.record !== undefined) return property === '_id';
  return required.has(property) && !readShape(properties.get(property) ?? {}).nullable;
}

/** Legal names first, so that none has to give way to one that was made legal. */
const legalFirst = (
  properties: ReadonlyMap<string, JsonSchema>,
): readonly (readonly [string, JsonSchema])[] => [
  ...[...properties].filter(([name]) => isLegalName(name)),
  ...[...properties].filter(([name]) => !isLegalName(name)),
];

const readProperty =
  (property: string) =>
  (source: unknown): unknown =>
    typeof source === 'object' && source !== null && Object.hasOwn(source, property)
      ? Reflect.get(source, property)
      : undefined;

export interface TypeBuilder {
  /** A name for a type of another kind. */
  take(name: string): string;
  readonly input: InputTypes;
  output(schema: JsonSchema, name: string): GraphQLOutputType;
  readonly relationsOf: OutputTypes['relationsOf'];
}

export function createTypeBuilder(readable: ReadonlyMap<string, JsonSchema>): TypeBuilder {
  const names = createNamePool();
  const outputs = createOutputTypes(names, readable);
  return {
    take: names.take,
    input: createInputTypes(names),
    output: outputs.typeOf,
    relationsOf: outputs.relationsOf,
  };
}
