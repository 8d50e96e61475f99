/** Everything that GraphQL needs at run time. Loaded with the first request: who does not use GraphQL does not pay for it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { __Schema, type GraphQLSchema } from 'graphql';
import type { Identity } from '../../kernel/identity.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { SocketNamespaces } from '../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { ProtocolHandler } from '../http/exchange.ts';
import type { MeasureField } from '../http/request-metrics.ts';
import { createDocuments } from './documents.ts';
import { createGraphqlHandler } from './handle-request.ts';
import type { GraphqlOptionsSource } from './options.ts';
import { resolveOperation } from './run-field.ts';
import type { GraphqlState } from './run-request.ts';
import { type BuiltSchema, createSchemaSource } from './schema.ts';
import { subscribeToField } from './subscriber.ts';

/* Asking for the whole schema: some 20 fields for each of what may be thousands of types, in slices of time. */

/** Types that are answered in one turn of the event loop: about 5 ms. */
const TYPES_PER_TURN = 25;

/**
 * From now on `__schema { types }` hands its types over a few in each turn. The executor goes on with an item of a list
 * when its promise resolves, and answers once all have. The field belongs to the library and is the same for all schemas.
 */
function introspectInSlices(): void {
  const { types } = __Schema.getFields();
  if (types) types.resolve = (schema: GraphQLSchema) => inTurns(Object.values(schema.getTypeMap()));
}

/** The items, all but the first few as promises that resolve in later turns. */
function inTurns<T>(items: readonly T[]): readonly (T | Promise<T>)[] {
  let turn: Promise<void> | undefined;
  return items.map((item, index) => {
    if (index > 0 && index % TYPES_PER_TURN === 0)
      turn = turn ? turn.then(() => nextTurn()) : nextTurn();
    return turn ? turn.then(() => item) : item;
  });
}

export interface GraphqlParts {
  readonly registry: OperationRegistry;
  /** What sockets are told is told to subscribers too. */
  readonly sockets?: Pick<SocketNamespaces, 'all'> | undefined;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly options: GraphqlOptionsSource;
  readonly log: Logger;
  readonly measure?: MeasureField;
}

export interface GraphqlEngine {
  readonly handler: ProtocolHandler;
  /** What the next request runs against. */
  state(): GraphqlState | Promise<GraphqlState>;
}

export function createGraphqlEngine({
  registry,
  sockets,
  pipeline,
  identity,
  options,
  log,
  measure,
}: GraphqlParts): GraphqlEngine {
  introspectInSlices();
  const parts = { resolveWith: resolveOperation, subscribeWith: subscribeToField, log };
  const schemas = createSchemaSource(registry, parts, sockets);
  let current: GraphqlState | undefined;
  /** Prepared documents are for one schema and one set of options. */
  const stateOf = (built: BuiltSchema): GraphqlState => {
    const now = options.current();
    if (current?.built !== built || current.options !== now)
      current = { built, options: now, documents: createDocuments(built, now) };
    return current;
  };
  const state = (): GraphqlState | Promise<GraphqlState> => {
    const built = schemas.current();
    return built instanceof Promise ? built.then(stateOf) : stateOf(built);
  };
  return {
    handler: createGraphqlHandler({ state, options, pipeline, identity, log, measure }),
    state,
  };
}
