/** Everything that GraphQL needs at run time. Loaded with the first request: who does not use GraphQL does not pay for it. */
import type { Identity } from '../../kernel/identity.ts';
import type { OperationRegistry } from '../../kernel/operations/registry.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { ProtocolHandler } from '../http/exchange.ts';
import { createDocuments } from './documents.ts';
import { createGraphqlHandler, type GraphqlState } from './handle-request.ts';
import type { GraphqlOptionsSource } from './options.ts';
import { resolveOperation } from './run-field.ts';
import { createSchemaSource } from './schema.ts';

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
  const schemas = createSchemaSource(registry, resolveOperation, log);
  let current: GraphqlState | undefined;
  /** Prepared documents are for one schema and one set of options. */
  const state = (): GraphqlState => {
    const [built, now] = [schemas.current(), options.current()];
    if (current?.built !== built || current.options !== now)
      current = { built, options: now, documents: createDocuments(built, now) };
    return current;
  };
  return createGraphqlHandler({ state, pipeline, identity, log });
}
