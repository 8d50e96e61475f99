/** Everything that GraphQL needs at run time. Loaded with the first request: who does not use GraphQL does not pay for it. */
import type { Identity } from '../../kernel/identity.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { ProtocolHandler } from '../http/exchange.ts';
import { createDocuments } from './documents.ts';
import { createGraphqlHandler } from './handle-request.ts';
import { introspectInSlices } from './introspection.ts';
import type { GraphqlOptionsSource } from './options.ts';
import { resolveOperation } from './run-field.ts';
import type { GraphqlState } from './run-request.ts';
import { type BuiltSchema, createSchemaSource } from './schema.ts';

export interface GraphqlParts {
  readonly registry: OperationRegistry;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly options: GraphqlOptionsSource;
  readonly log: Logger;
}

export function createGraphqlEngine({
  registry,
  pipeline,
  identity,
  options,
  log,
}: GraphqlParts): ProtocolHandler {
  introspectInSlices();
  const schemas = createSchemaSource(registry, resolveOperation, log);
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
  return createGraphqlHandler({ state, options, pipeline, identity, log });
}
