/** GraphQL object types from JSON Schemas: one type per schema object, however often it is used. */
import {
  type GraphQLFieldConfig,
  type GraphQLFieldConfigMap,
  GraphQLList,
  GraphQLNonNull,
  GraphQLObjectType,
  type GraphQLOutputType,
} from 'graphql';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { capitalised, createNamePool, isLegalName, type NamePool } from './names.ts';
import { scalars } from './scalars.ts';
import { described, type ObjectShape, readShape } from './shape.ts';

/** The relation fields of a type: GraphQL name to the name on the wire. */
export type RelationFields = ReadonlyMap<string, string>;

export interface OutputTypes {
  /** `name` is taken unless the schema brings its own or was seen before. Null is for the caller to exclude. */
  typeOf(schema: JsonSchema, name: string): GraphQLOutputType;
  relationsOf(type: GraphQLObjectType): RelationFields;
}

type Fields = GraphQLFieldConfigMap<unknown, unknown>;

/** `readable`: schemas whose records can be read, so that relations to them are objects; all others are ids. */
export function createOutputTypes(names: NamePool, readable: ReadonlyMap<string, JsonSchema>): OutputTypes {
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
    const made = known.get(source) ?? (shared === undefined ? undefined : known.get(shared));
    if (made) return made;
    const type: GraphQLObjectType = new GraphQLObjectType({
      name: names.take(shared ?? name),
      ...described(source),
      fields: () => fieldsOf(type, object),
    });
    known.set(source, type);
    if (shared !== undefined) known.set(shared, type);
    return type;
  };

  const fieldsOf = (type: GraphQLObjectType, object: ObjectShape): Fields => {
    const fieldNames = createNamePool([]);
    const related = new Map<string, string>();
    const fields = Object.create(null) as Fields;
    for (const [property, schema] of legalFirst(object.properties)) {
      const field = fieldNames.take(property);
      const target = object.source.record === undefined ? undefined : targetOf(schema);
      if (target) related.set(field, property);
      const valueType = target ?? typeOf(schema, type.name + capitalised(property));
      const renamed: Partial<GraphQLFieldConfig<unknown, unknown>> = field === property ? {} : { resolve: readProperty(property) };
      fields[field] = { type: isSure(object, property) ? new GraphQLNonNull(valueType) : valueType, ...described(schema), ...renamed };
    }
    relations.set(type, related);
    return fields;
  };

  /** The type of a relation field whose records can be read. */
  const targetOf = (schema: JsonSchema): GraphQLOutputType | undefined => {
    const { shape } = readShape(schema);
    if (shape.kind === 'relation') {
      const target = readable.get(shape.model);
      return target && typeOf(target, shape.model);
    }
    if (shape.kind !== 'list' || readShape(shape.items).shape.kind !== 'relation') return undefined;
    const item = targetOf(shape.items);
    return item && new GraphQLList(item);
  };

  // Records have the first choice of names.
  for (const [model, schema] of readable) typeOf(schema, model);
  return {
    typeOf,
    relationsOf(type) {
      type.getFields();
      return relations.get(type) ?? noRelations;
    },
  };
}

const TEXT_RESULT = 'TextResult';

/** `{"result": "..."}`, which many operations answer. */
function isTextResult({ properties, required }: ObjectShape): boolean {
  return properties.size === 1 && required.has('result') && properties.get('result')?.type === 'string';
}

const noRelations: RelationFields = new Map();

/** Whether a value is always there. A record that may not be read stands as its id alone, so only that is sure. */
function isSure({ source, properties, required }: ObjectShape, property: string): boolean {
  if (source.record !== undefined) return property === '_id';
  return required.has(property) && !readShape(properties.get(property) ?? {}).nullable;
}

/** Legal names first, so that none has to give way to one that was made legal. */
const legalFirst = (properties: ReadonlyMap<string, JsonSchema>): readonly (readonly [string, JsonSchema])[] => [
  ...[...properties].filter(([name]) => isLegalName(name)),
  ...[...properties].filter(([name]) => !isLegalName(name)),
];

const readProperty =
  (property: string) =>
  (source: unknown): unknown =>
    typeof source === 'object' && source !== null && Object.hasOwn(source, property) ? Reflect.get(source, property) : undefined;
