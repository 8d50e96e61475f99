/** GraphQL input types from JSON Schemas. */
import { type GraphQLInputFieldConfigMap, GraphQLInputObjectType, type GraphQLInputType, GraphQLList, GraphQLNonNull } from 'graphql';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { capitalised, isLegalName, type NamePool } from './names.ts';
import { JsonScalar, scalars } from './scalars.ts';
import { described, type ObjectShape, readShape } from './shape.ts';

/** What the names of body types end in (spec/router.md 5.8). */
export const REQUEST = 'Request';

/** Null is for the caller to exclude. */
export type InputTypes = (schema: JsonSchema, name: string) => GraphQLInputType;

export function createInputTypes(names: NamePool): InputTypes {
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
    const type = new GraphQLInputObjectType({ name: typeName, ...described(source), fields: () => fieldsOf(object, typeName) });
    // The body of each operation has a type of its own; what is nested in it is shared.
    if (!name.endsWith(REQUEST)) known.set(source, type);
    return type;
  };

  const fieldsOf = ({ properties, required }: ObjectShape, typeName: string): GraphQLInputFieldConfigMap => {
    const fields = Object.create(null) as GraphQLInputFieldConfigMap;
    for (const [property, schema] of properties) {
      const type = input(schema, typeName + capitalised(property));
      const needed = required.has(property) && !readShape(schema).nullable && schema.default === undefined;
      fields[property] = { type: needed ? new GraphQLNonNull(type) : type, ...described(schema) };
    }
    return fields;
  };

  return input;
}
