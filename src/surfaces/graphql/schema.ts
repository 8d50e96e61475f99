/** The GraphQL schema of the client surface, from its operations and from nothing else. */
import {
  GraphQLBoolean,
  type GraphQLFieldConfigMap,
  type GraphQLInputObjectType,
  type GraphQLNamedType,
  GraphQLObjectType,
  GraphQLSchema,
  type GraphQLType,
  getNamedType,
  isInputObjectType,
  isObjectType,
} from 'graphql';
import { alternatives, type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import type { Operation } from '../../kernel/operations/operation.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { SocketNamespace, SocketNamespaces } from '../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { createTimeSlices, type Pause } from '../../kernel/time-slices.ts';
import {
  isField,
  namedOperations,
  type OperationField,
  operationField,
  type ResolveOperation,
} from './fields.ts';
import { createSubscriptionFields, type SubscribeWith } from './live-fields.ts';
import { NumberScalar, scalars } from './scalars.ts';
import { createTypeBuilder, type TypeBuilder } from './types.ts';

export interface BuiltSchema {
  readonly schema: GraphQLSchema;
  /** By name; queries and mutations do not share names, because the method is part of them. */
  readonly fields: ReadonlyMap<string, OperationField>;
  readonly types: TypeBuilder;
}

export interface SchemaParts {
  readonly resolveWith: ResolveOperation;
  readonly subscribeWith: SubscribeWith;
  readonly log: Logger;
}

/** Made in slices of time: hundreds of record schemas make thousands of types. */
export async function buildSchema(
  operations: readonly Operation[],
  { resolveWith, subscribeWith, log }: SchemaParts,
  namespaces: readonly SocketNamespace[] = [],
): Promise<BuiltSchema> {
  const pause = createTimeSlices();
  const types = createTypeBuilder(readableRecords(operations));
  const fields = new Map<string, OperationField>();
  const roots = { query: newFields(), mutation: newFields(), subscription: newFields() };
  const subscriptions = createSubscriptionFields(types, subscribeWith);
  for (const named of namedOperations(operations)) {
    try {
      const { field, config } = operationField(named, types, resolveWith);
      roots[named.operation.method === 'GET' ? 'query' : 'mutation'][field.name] = config;
      fields.set(field.name, field);
      if (named.operation.live)
        roots.subscription[field.name] = subscriptions.ofOperation(field, config);
    } catch (error) {
      // One operation that cannot be described must not take all others with it.
      log.error({ error, operation: named.operation.id }, 'An operation has no GraphQL field');
    }
    await pause();
  }
  for (const namespace of namespaces) {
    const found = subscriptions.ofNamespace(namespace);
    if (found && !(found.name in roots.subscription)) roots.subscription[found.name] = found.config;
  }
  const query = rootType('Query', roots.query) ?? rootType('Query', nothingToRead);
  const mutation = rootType('Mutation', roots.mutation);
  const subscription = rootType('Subscription', roots.subscription);
  await resolveFields(
    [query, mutation, subscription].filter((root) => root !== undefined),
    pause,
  );
  const schema = new GraphQLSchema({
    ...(query && { query }),
    ...(mutation && { mutation }),
    ...(subscription && { subscription }),
    // All scalars, so that clients may declare their variables with any of a kind (document-rules.ts).
    types: [...Object.values(scalars), NumberScalar],
    // Names and types are made to be valid here; checking thousands of them again costs more than building them.
    assumeValid: true,
  });
  return { schema, fields, types };
}

/** Types make their fields when they are first asked for them: here, step by step, and not all at once by the schema. */
async function resolveFields(roots: readonly GraphQLObjectType[], pause: Pause): Promise<void> {
  const seen = new Set<GraphQLNamedType>(roots);
  // A set goes on with what is added to it meanwhile.
  for (const type of seen) {
    if (!isObjectType(type) && !isInputObjectType(type)) continue;
    for (const { type: of, args = [] } of fieldsOf(type))
      for (const one of [of, ...args.map((arg) => arg.type)]) seen.add(getNamedType(one));
    await pause();
  }
}

type Fields = GraphQLFieldConfigMap<unknown, unknown>;

interface TypedField {
  readonly type: GraphQLType;
  readonly args?: readonly { readonly type: GraphQLType }[];
}

const fieldsOf = (type: GraphQLObjectType | GraphQLInputObjectType): readonly TypedField[] =>
  Object.values(type.getFields());

const rootType = (name: string, fields: Fields): GraphQLObjectType | undefined =>
  Object.keys(fields).length > 0 ? new GraphQLObjectType({ name, fields }) : undefined;

const newFields = () => Object.create(null) as Fields;

const nothingToRead: Fields = {
  _: {
    type: GraphQLBoolean,
    description: 'There is nothing to read here yet.',
    resolve: () => true,
  },
};

/** Records that some list shows: relations to them can be followed. */
function readableRecords(operations: readonly Operation[]): ReadonlyMap<string, JsonSchema> {
  const found = new Map<string, JsonSchema>();
  const inPart = new Map<string, JsonSchema>();
  for (const { method, output } of operations) {
    const documents =
      method === 'GET' ? jsonSchema(output).properties?.documents?.items : undefined;
    if (!documents || Array.isArray(documents)) continue;
    for (const part of alternatives(documents as JsonSchema)) {
      if (part.partOf !== undefined) inPart.set(part.partOf, part);
      else if (part.record !== undefined) found.set(part.record, part);
    }
  }
  return new Map([...inPart, ...found]);
}

export interface SchemaSource {
  /** The schema of the operations as they are now; built when it is first asked for after a change that matters. */
  current(): BuiltSchema | Promise<BuiltSchema>;
}

/** Follows the registry. A request that has a schema keeps it to its end. */
export function createSchemaSource(
  registry: OperationRegistry,
  parts: SchemaParts,
  sockets?: Pick<SocketNamespaces, 'all'>,
): SchemaSource {
  let version = 0;
  let kept: KeptSchema | undefined;
  let building: Promise<unknown> = Promise.resolve();
  registry.onChange(() => {
    version += 1;
  });
  const isCurrent = (one: KeptSchema): boolean =>
    one.version === version && isSame(one.namespaces, sockets?.all() ?? none);
  const refresh = async (): Promise<BuiltSchema> => {
    if (kept && isCurrent(kept)) return kept.built;
    const of = version;
    const operations = registry
      .all()
      .map(({ operation }) => operation)
      .filter(isField);
    const namespaces = sockets?.all() ?? none;
    const same =
      kept && isSame(kept.operations, operations) && isSame(kept.namespaces, namespaces)
        ? kept.built
        : undefined;
    const built = same ?? (await buildSchema(operations, parts, namespaces));
    kept = { version: of, operations, namespaces, built };
    return built;
  };
  return {
    current() {
      if (kept && isCurrent(kept)) return kept.built;
      // One after the other: who asks after a change gets a schema that has it, even if one is being built.
      const next = building.then(refresh, refresh);
      building = next;
      return next;
    },
  };
}

const none: readonly never[] = [];

/** `version`: changes of the registry that the schema has seen. */
interface KeptSchema {
  readonly version: number;
  readonly operations: readonly Operation[];
  readonly namespaces: readonly SocketNamespace[];
  readonly built: BuiltSchema;
}

/** Operations of schemas that did not change are the same objects. */
const isSame = <T>(before: readonly T[], now: readonly T[]): boolean =>
  before.length === now.length && before.every((one, i) => one === now[i]);
