/** The routes of MCP. They are operations like all others, so they stand in the route table and the API description. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../kernel/operations/operation.ts';
import { MEGABYTE } from '../../kernel/pipeline/request-limits.ts';
import { loadedLater, type ProtocolHandler } from '../http/exchange.ts';
import type { McpEngineParts } from './engine.ts';
import type { McpHandlers } from './handle-request.ts';
import { metadataPath, publicAddress } from './options.ts';

/** The group of these operations in the registry. */
const OWNER = 'core/mcp';
const CALL = 'mcp.call';
const HEALTH = 'mcp.health';
const METADATA = 'mcp.metadata';

/** Adds the routes and keeps them in step with the options. Answers who handles them, by id of the operation. */
export function serveMcp(parts: McpEngineParts): ReadonlyMap<string, ProtocolHandler> {
  const { registry, source } = parts;
  const register = (): void =>
    registry.replace(OWNER, source.current().enabled ? [call, health, metadata] : []);
  source.onChange(register);
  register();
  let loading: Promise<McpHandlers> | undefined;
  const engine = (): Promise<McpHandlers> => {
    loading ??= import('./engine.ts').then(({ createMcpEngine }) => createMcpEngine(parts));
    return loading;
  };
  return new Map([
    [CALL, loadedLater(async () => (await engine()).call)],
    [HEALTH, loadedLater(async () => (await engine()).health)],
    [METADATA, metadataHandler(parts)],
  ]);
}

function handledWhole(): never {
  throw new Error('MCP requests are handled whole');
}

const call: Operation = defineOperation({
  id: CALL,
  surface: 'admin',
  method: 'POST',
  path: '/mcp',
  access: 'admin',
  limit: 'standard',
  mcp: false,
  graphql: false,
  heavy: true,
  account: { bytesOut: 2 * MEGABYTE },
  idempotency: false,
  audit: false,
  readOnly: true,
  about: { modules: 'open' },
  input: {
    query: Type.Object({
      modules: Type.Optional(
        Type.String({
          maxLength: 1_024,
          description: 'Names of modules whose tools are loaded, separated by commas, or `all`',
        }),
      ),
    }),
    body: Type.Unknown({ description: 'A JSON-RPC message of the Model Context Protocol' }),
  },
  output: Type.Unknown({ description: 'The answer to it' }),
  otherStatuses: {
    202: 'A notification was taken.',
    400: 'The message is not valid.',
    429: 'Too many tool calls.',
  },
  summary: 'Speak the Model Context Protocol',
  description:
    'For agents. The tools are operations of this surface, with the rights of the credential that the request carries; core is loaded, other modules on request. Stateless: no session, no stream.',
  handler: handledWhole,
});

const health: Operation = defineOperation({
  id: HEALTH,
  surface: 'admin',
  method: 'GET',
  path: '/mcp/health',
  access: 'admin',
  limit: 'standard',
  mcp: false,
  graphql: false,
  about: { modules: 'open' },
  input: { query: call.input.query as NonNullable<typeof call.input.query> },
  output: Type.Object({
    status: Type.String({ description: 'Always `healthy`' }),
    protocol: Type.String(),
    version: Type.String({ description: 'The newest version of the protocol that is spoken' }),
    serverInfo: Type.Object({ name: Type.String(), title: Type.String(), version: Type.String() }),
    tools: Type.Object({
      total: Type.Integer(),
      enabled: Type.Integer({ description: 'Loaded by `modules`' }),
    }),
    resources: Type.Object({ total: Type.Integer(), list: Type.Array(Type.String()) }),
    modules: Type.Object({
      total: Type.Integer(),
      loaded: Type.Integer(),
      list: Type.Array(
        Type.Object({ name: Type.String(), toolCount: Type.Integer(), loaded: Type.Boolean() }),
      ),
    }),
    uptime: Type.Integer({ description: 'Seconds' }),
  }),
  summary: 'Say what the MCP address offers',
  description:
    'The tools that this credential may use, and how many of them an address with these `modules` loads.',
  handler: handledWhole,
});

/** RFC 9728. Without an authorization server, clients use the header that they were given. */
const metadata: Operation = defineOperation({
  id: METADATA,
  surface: 'admin',
  method: 'GET',
  path: metadataPath,
  aliases: [{ method: 'GET', path: `${metadataPath}/mcp` }],
  access: 'public',
  limit: 'standard',
  mcp: false,
  graphql: false,
  input: {},
  output: Type.Object({
    resource: Type.String(),
    resource_name: Type.String(),
    bearer_methods_supported: Type.Array(Type.String()),
  }),
  summary: 'Say how the MCP address takes credentials',
  handler: handledWhole,
});

/** Clients compare the address in it with the one that they were given, so it is the one that this request came to. */
const metadataHandler =
  ({ pipeline, surface }: McpEngineParts): ProtocolHandler =>
  async (exchange) => {
    await pipeline.admit(exchange);
    const resource = `${publicAddress(surface, exchange)}/mcp`;
    const body = JSON.stringify({
      resource,
      resource_name: 'Penstock',
      bearer_methods_supported: ['header'],
    });
    return { status: 200, headers: {}, body, json: true };
  };
