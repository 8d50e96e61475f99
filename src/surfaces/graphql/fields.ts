/** A root field per operation: its name, its arguments and its type (spec/router.md 5.8). */
import {
  type GraphQLArgumentConfig,
  type GraphQLFieldConfig,
  type GraphQLFieldResolver,
  GraphQLNonNull,
} from 'graphql';
import { type CompiledOperation, compileOperation } from '../../kernel/operations/compile.ts';
import { type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import { isStreamed, type Operation } from '../../kernel/operations/operation.ts';
import { camelName } from '../../kernel/operations/registry.ts';
import { compare } from '../openapi/schemas.ts';
import { scalars } from './scalars.ts';
import { camelHeader, createNamePool, isInteger, readShape } from './shape.ts';
import { REQUEST, type TypeBuilder } from './types.ts';

/** Where the value of an argument goes. */
export interface ArgumentPlace {
  readonly argument: string;
  readonly place: 'params' | 'query' | 'headers';
  readonly key: string;
  readonly schema: JsonSchema;
  /** Stands in when the argument is left out or null. */
  readonly fallback: unknown;
}

/** What a resolver needs to know about its operation. */
export interface OperationField {
  readonly name: string;
  readonly compiled: CompiledOperation;
  readonly arguments: readonly ArgumentPlace[];
  /** The argument that is the body. */
  readonly body: { readonly argument: string; readonly schema: JsonSchema } | undefined;
  /** Whether relations that are selected can be asked for. */
  readonly populates: boolean;
  /** The argument that says how long the list is, and what it is when nobody says so. */
  readonly page: { readonly argument: string; readonly fallback: number } | undefined;
}

export type ResolveOperation = (field: OperationField) => GraphQLFieldResolver<unknown, unknown>;

/** Client operations that have a field; other spellings of a route (aliases, the 0.16 line), uploads and downloads have none. */
export const isField = (operation: Operation): boolean =>
  operation.surface === 'client' &&
  operation.graphql !== false &&
  !operation.legacy &&
  !isStreamed(operation);

/**
 * Each operation with its name. Where two paths would have one name (`/a-b` and `/ab`), the one that is
 * spelled like the name keeps it, then the first in order of path; the other gets a number.
 */
export function namedOperations(
  operations: readonly Operation[],
): readonly { readonly name: string; readonly operation: Operation }[] {
  const requested = operations.map((operation) => ({
    operation,
    name: camelName(operation.method, operation.path),
  }));
  const bent = (path: string): number => (/[^\w/]/.test(path) ? 1 : 0);
  requested.sort(
    (a, b) =>
      bent(a.operation.path) - bent(b.operation.path) ||
      compare(a.operation.path, b.operation.path),
  );
  const pool = createNamePool([]);
  return requested
    .map(({ name, operation }) => ({ operation, name: pool.take(name) }))
    .sort(
      (a, b) =>
        compare(a.operation.path, b.operation.path) ||
        compare(a.operation.method, b.operation.method),
    );
}

export function operationField(
  { name, operation }: { readonly name: string; readonly operation: Operation },
  types: TypeBuilder,
  resolveWith: ResolveOperation,
): { readonly field: OperationField; readonly config: GraphQLFieldConfig<unknown, unknown> } {
  const { places, args } = argumentsOf(name, operation, types);
  const properties = operation.input.query
    ? jsonSchema(operation.input.query).properties
    : undefined;
  const page = places.find(({ place, key }) => place === 'query' && key === 'limit');
  const field: OperationField = {
    name,
    compiled: compileOperation(operation),
    arguments: places,
    body:
      operation.input.body && BODY in args
        ? { argument: BODY, schema: jsonSchema(operation.input.body) }
        : undefined,
    populates: properties?.populate !== undefined,
    page: page && {
      argument: page.argument,
      fallback: typeof page.fallback === 'number' ? page.fallback : UNKNOWN_LIST,
    },
  };
  const config: GraphQLFieldConfig<unknown, unknown> = {
    type: types.output(jsonSchema(operation.output), `${name}Response`),
    args,
    description: descriptionOf(operation),
    resolve: resolveWith(field),
    ...(operation.deprecated ? { deprecationReason: 'See the description of the operation' } : {}),
  };
  return { field, config };
}

/** How long a list counts whose length nobody says. */
export const UNKNOWN_LIST = 25;

const BODY = 'params';

/** Headers that a GraphQL request has for itself. */
const ofTheRequest: ReadonlySet<string> = new Set([
  'accept',
  'content-type',
  'authorization',
  'idempotency-key',
]);

function argumentsOf(name: string, { input }: Operation, types: TypeBuilder) {
  const places: ArgumentPlace[] = [];
  const args = Object.create(null) as Record<string, GraphQLArgumentConfig>;
  const pool = createNamePool(input.body ? [BODY] : []);
  const add = (place: ArgumentPlace['place'], schema: JsonSchema | undefined): void => {
    const required = new Set(schema?.required);
    for (const [key, property] of Object.entries(schema?.properties ?? {})) {
      if (place === 'headers' && ofTheRequest.has(key)) continue;
      const argument = pool.take(place === 'headers' ? camelHeader(key) : key);
      places.push({ argument, place, key, schema: property, fallback: property.default });
      args[argument] = argumentConfig(
        property,
        required.has(key),
        place === 'query' && isInteger(property)
          ? scalars.Int // Nobody skips more than 32 bits of rows, and `$skip: Int` is what clients declare.
          : types.input(property, `${name}_${argument}`),
      );
    }
  };
  add('params', input.params && jsonSchema(input.params));
  const body = input.body && bodyArgument(name, jsonSchema(input.body), types);
  if (body) args[BODY] = body;
  add('query', input.query && jsonSchema(input.query));
  add('headers', input.headers && jsonSchema(input.headers));
  return { places, args };
}

function argumentConfig(
  schema: JsonSchema,
  required: boolean,
  type: GraphQLArgumentConfig['type'],
): GraphQLArgumentConfig {
  const { default: fallback, description } = schema;
  const needed = required && fallback === undefined && !readShape(schema).nullable;
  const plain = ['string', 'number', 'boolean'].includes(typeof fallback);
  return {
    type: needed ? new GraphQLNonNull(type) : type,
    ...(description === undefined ? {} : { description }),
    ...(plain ? { defaultValue: fallback } : {}),
  };
}

/** Nothing at all for a body that has no fields. */
function bodyArgument(
  name: string,
  schema: JsonSchema,
  types: TypeBuilder,
): GraphQLArgumentConfig | undefined {
  const { shape, nullable } = readShape(schema);
  if (
    schema.type === 'object' &&
    schema.properties &&
    Object.keys(schema.properties).length === 0 &&
    !schema.additionalProperties
  ) {
    return undefined;
  }
  const needed =
    !nullable &&
    (shape.kind === 'object' ? shape.object.required.size > 0 : schema.type !== 'object');
  const type = types.input(schema, name + REQUEST);
  return {
    type: needed ? new GraphQLNonNull(type) : type,
    description: 'The body of the request.',
  };
}

function descriptionOf(operation: Operation): string {
  const errors = new Set(operation.errors?.map(({ code, status }) => `${code} (${status})`));
  const words = [
    operation.summary,
    operation.description,
    errors.size > 0 ? `Errors: ${[...errors].join(', ')}.` : undefined,
  ];
  return words.filter((word) => word !== undefined).join('\n\n');
}
