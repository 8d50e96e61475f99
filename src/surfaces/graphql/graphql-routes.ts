/** The routes of GraphQL. They are operations like all others, so they stand in the route table and the API description. */
import Type from 'typebox';
import { errors } from '../../kernel/errors.ts';
import { defineOperation, type Operation, Reply } from '../../kernel/operations/operation.ts';
import { MEGABYTE } from '../../kernel/pipeline/request-limits.ts';
import { loadedLater, type ProtocolHandler } from '../http/exchange.ts';
import type { GraphqlEngine, GraphqlParts } from './engine.ts';
import { explorerAsset } from './explorer.ts';
import type { GraphqlOptionsSource } from './options.ts';

/** The group of these operations in the registry. */
const OWNER = 'router/graphql';
const EXECUTE = 'graphql.execute';
const QUERY = 'graphql.query';

export interface ServedGraphql {
  /** Who handles the routes, by id of the operation. */
  readonly handlers: ReadonlyMap<string, ProtocolHandler>;
  readonly options: GraphqlOptionsSource;
  /** Loads what GraphQL needs at run time. */
  engine(): Promise<GraphqlEngine>;
}

/** Adds the routes and keeps them in step with the options. */
export function serveGraphql(parts: GraphqlParts): ServedGraphql {
  const { registry, options } = parts;
  const register = (): void => {
    const { enabled, explorer } = options.current();
    registry.replace(OWNER, enabled ? [execute, query, ...(explorer ? [asset] : [])] : []);
  };
  options.onChange(register);
  register();
  let loading: Promise<GraphqlEngine> | undefined;
  const engine = (): Promise<GraphqlEngine> => {
    loading ??= import('./engine.ts').then(({ createGraphqlEngine }) => createGraphqlEngine(parts));
    return loading;
  };
  const handler = loadedLater(async () => (await engine()).handler);
  const handlers = new Map([
    [EXECUTE, handler],
    [QUERY, handler],
  ]);
  return { handlers, options, engine };
}

const GraphqlError = Type.Object({
  message: Type.String(),
  locations: Type.Optional(
    Type.Array(Type.Object({ line: Type.Integer(), column: Type.Integer() })),
  ),
  path: Type.Optional(Type.Array(Type.Union([Type.String(), Type.Integer()]))),
  extensions: Type.Object({
    code: Type.Union([Type.String(), Type.Integer()], {
      description: 'The HTTP status of an operation, or what is wrong with the document',
    }),
    conduitCode: Type.Optional(
      Type.String({ description: 'Stable name of the failure of an operation' }),
    ),
    name: Type.Optional(Type.String()),
    status: Type.Integer(),
    requestId: Type.String(),
    errors: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Each thing that is wrong with the input' }),
    ),
    retryAfter: Type.Optional(Type.Integer({ description: 'Seconds' })),
  }),
});

const output = Type.Object({
  data: Type.Optional(Type.Unknown()),
  errors: Type.Optional(Type.Array(GraphqlError)),
});

const refusals = {
  400: 'The request or its document is not valid, or asks for too much.',
  413: 'The request is too large.',
  415: 'The body is not JSON.',
  429: 'Too many requests. The Retry-After header says when to try again.',
};

/** The answers of all fields are parsed and put together anew here, which takes several times their size. */
const account = { bytesOut: 8 * MEGABYTE };

const common = {
  surface: 'client',
  path: '/graphql',
  access: 'optionalUser',
  limit: 'standard',
  mcp: false,
  graphql: false,
  heavy: true,
  account,
} as const;

const source = { description: 'The document, in the GraphQL language' };
const name = { maxLength: 256, description: 'Which operation of the document to run' };
const nullable = <T extends Type.TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()]));
const values = Type.Record(Type.String(), Type.Unknown(), { description: 'Values of variables' });
const extensions = Type.Record(Type.String(), Type.Unknown(), {
  description:
    'Not used. A persisted query without its document is answered with PERSISTED_QUERY_NOT_SUPPORTED, so that clients send the document',
});

/** The handler has the whole exchange; a surface that calls the operation itself would have nothing to give it. */
const handledWhole = (): never => {
  throw new Error('GraphQL requests are handled whole');
};

const execute: Operation = defineOperation({
  ...common,
  id: EXECUTE,
  method: 'POST',
  idempotency: false,
  input: {
    body: Type.Object({
      query: Type.Optional(Type.String(source)),
      variables: nullable(values),
      operationName: nullable(Type.String(name)),
      extensions: nullable(extensions),
    }),
  },
  output,
  otherStatuses: refusals,
  summary: 'Run a GraphQL operation',
  description:
    'Every operation of this surface is a field: reads of Query, all others of Mutation. An error of an operation stands in `errors` beside the data. An Idempotency-Key counts for each field. A list of up to 10 such bodies is answered by a list, in its order, within the limits of one request.',
  handler: handledWhole,
});

const query: Operation = defineOperation({
  ...common,
  id: QUERY,
  method: 'GET',
  input: {
    query: Type.Object({
      query: Type.Optional(Type.String(source)),
      variables: Type.Optional(values),
      operationName: Type.Optional(Type.String(name)),
      extensions: Type.Optional(extensions),
    }),
  },
  output,
  otherStatuses: { ...refusals, 405: 'The operation is a mutation: send it with POST.' },
  summary: 'Run a GraphQL query',
  description:
    'Queries only. A browser gets a page to try things out on, where that is switched on.',
  handler: handledWhole,
});

const asset: Operation = defineOperation({
  id: 'graphql.asset',
  surface: 'client',
  method: 'GET',
  path: '/graphql/assets/:file',
  access: 'public',
  limit: 'standard',
  mcp: false,
  graphql: false,
  input: {
    params: Type.Object({ file: Type.String({ description: 'Name of a file of the explorer.' }) }),
  },
  output: Type.String({ contentMediaType: 'text/plain' }),
  errors: [errors.NOT_FOUND],
  summary: 'Get a file of the GraphQL explorer',
  handler: (_context, { params }) => {
    const found = explorerAsset(params.file);
    if (!found) throw errors.NOT_FOUND();
    return Reply.text(found.text, found.type, 200, { 'cache-control': 'public, max-age=3600' });
  },
});
