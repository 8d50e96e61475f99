/** An MCP request from its first byte to its answer. */
import {
  createMcpHandler,
  isLegacyRequest,
  type McpRequestContext,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { type Caller, callerKey } from '../../kernel/caller.ts';
import { errors, PenstockError } from '../../kernel/errors.ts';
import type { LimitBucket, Limits } from '../../kernel/limits/limits.ts';
import type { PromptRegistry } from '../../kernel/operations/prompts.ts';
import type { ActionLog } from '../../kernel/pipeline/admin-actions.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { parseBody, type ReceivedBody, receiveBody } from '../http/body.ts';
import type { Exchange, ProtocolHandler } from '../http/exchange.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import type { Match } from '../http/route-table.ts';
import { requireOwnOrigin } from './browser-guard.ts';
import { createToolCaller } from './call-tool.ts';
import { callDirectly, healthAnswer } from './direct-call.ts';
import { type McpSource, metadataPath, publicAddress } from './options.ts';
import { createPrompts, noPrompts } from './prompts.ts';
import type { Resources } from './resources.ts';
import { createServer, type McpRequest } from './server.ts';
import { type Catalogue, createToolbox } from './toolbox.ts';

export interface McpParts {
  readonly catalogue: () => Catalogue;
  readonly resources: Resources;
  readonly prompts?: Pick<PromptRegistry, 'all'> | undefined;
  readonly pipeline: Pipeline;
  readonly actions: Pick<ActionLog, 'readByModel'>;
  readonly limits: Limits;
  readonly source: McpSource;
  readonly surface: SurfaceOptionsSource;
  /** Told of tools whose arguments do not fit. */
  readonly onInvalid?: (operation: string) => void;
  readonly log: Logger;
}

/** Bytes of a request. */
const BODY_LIMIT = 1_048_576;
/** Per principal; a model that loops is stopped before it does harm. */
const callBudget = (requests: number): LimitBucket => ({
  name: 'mcp.calls',
  requests,
  seconds: 10,
});

export interface McpHandlers {
  readonly call: ProtocolHandler;
  readonly health: ProtocolHandler;
}

export const createMcpHandlers = (parts: McpParts): McpHandlers => ({
  call: createCallHandler(parts),
  async health(exchange, match) {
    const caller = await admitted(parts, exchange);
    return healthAnswer(requestParts(parts, { exchange, match, caller }).toolbox, parts.resources);
  },
});

function createCallHandler(parts: McpParts): ProtocolHandler {
  const modern = createMcpHandler(serverOf, { legacy: 'reject', responseMode: 'auto' });
  return async (exchange, match) => {
    requireOwnOrigin(parts.surface.current(), exchange);
    const caller = await admitted(parts, exchange);
    requireJsonAnswer(exchange);
    const received = await receiveBody(exchange.request, exchange.response, { limit: BODY_LIMIT });
    return parts.pipeline.inTurn(
      exchange,
      caller,
      () => parts.pipeline.inTime(answered({ exchange, match, caller }, received)),
      { bytes: received.bytes.length },
    );
  };

  async function answered(
    { exchange, match, caller }: Asked,
    received: ReceivedBody,
  ): Promise<Answer> {
    const body = parsedBody(received);
    if (body instanceof RefusedBody) return body.answer;
    if (Array.isArray(body) && !takesBatches(exchange)) return noBatches;
    if (hasEqualIds(body)) return equalIds;
    const refusal = await payForCalls(parts, caller, body);
    if (refusal) return refusal;
    const mcp = requestParts(parts, { exchange, match, caller });
    const direct = await callDirectly(mcp, exchange, body);
    if (direct) return direct;
    const request = webRequest(exchange);
    const response = (await isLegacyRequest(request, body))
      ? await legacy(mcp, request, withoutCancellations(body))
      : await modern.fetch(request, withParts(mcp, body));
    return answerOf(response);
  }
}

/** How the parts of a request reach the server that the library asks for. */
const withParts = (mcp: McpRequest, parsedBody: unknown) => ({
  parsedBody,
  authInfo: { token: '', clientId: '', scopes: [], extra: { mcp } },
});

const serverOf = ({ authInfo }: McpRequestContext) =>
  createServer(authInfo?.extra?.mcp as McpRequest);

/** Clients of the protocol up to 2025-11-25: the same server behind the transport that they know. */
async function legacy(mcp: McpRequest, request: Request, parsedBody: unknown): Promise<Response> {
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: undefined,
    enableJsonResponse: true,
  });
  const server = createServer(mcp);
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody });
  } finally {
    void server.close();
  }
}

interface Asked {
  readonly exchange: Exchange;
  readonly match: Match;
  readonly caller: Caller;
}

function requestParts(parts: McpParts, { exchange, match, caller }: Asked): McpRequest {
  const { dynamic, allowSecrets } = parts.source.current();
  const modules = new URLSearchParams(match.query).getAll('modules').join(',');
  const toolbox = createToolbox({ catalogue: parts.catalogue(), caller, modules, dynamic });
  return {
    toolbox,
    prompts: () => createPrompts(parts.prompts ?? noPrompts, toolbox),
    tools: createToolCaller({
      pipeline: parts.pipeline,
      actions: parts.actions,
      request: exchange,
      onInvalid: parts.onInvalid,
      log: parts.log,
      allowSecrets,
    }),
    resources: parts.resources,
  };
}

/** A refused credential says where to read about credentials (RFC 9728). */
async function admitted({ pipeline, surface }: McpParts, exchange: Exchange): Promise<Caller> {
  try {
    return await pipeline.admit(exchange);
  } catch (error) {
    if (!(error instanceof PenstockError) || error.status !== 401) throw error;
    throw errors.UNAUTHORIZED({
      message: error.message,
      cause: error,
      headers: {
        'www-authenticate': `Bearer resource_metadata="${publicAddress(surface, exchange)}${metadataPath}"`,
      },
    });
  }
}

function requireJsonAnswer({ request: { headers } }: Exchange): void {
  const accept = headers.accept ?? '*/*';
  if (!/application\/(json|\*)|\*\/\*/.test(accept))
    throw errors.INVALID_ARGUMENTS({
      message: 'Accept must allow application/json: that is what this answers',
    });
}

/** JSON-RPC has answers of its own for bodies that are none. */
class RefusedBody {
  readonly answer: Answer;

  constructor(status: number, code: number, message: string) {
    this.answer = rpcError(status, code, message);
  }
}

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;
const LIMIT_EXCEEDED = -32_000;

function parsedBody(received: ReceivedBody): unknown {
  try {
    return parseBody(received).body;
  } catch (error) {
    if (error instanceof PenstockError && error.status === 400)
      return new RefusedBody(400, PARSE_ERROR, error.message);
    throw error;
  }
}

/** One version of the protocol had batches, and clients that name none are taken to speak it. */
const takesBatches = ({ request: { headers } }: Exchange): boolean =>
  (headers['mcp-protocol-version'] ?? '2025-03-26') === '2025-03-26';

/**
 * The library answers no request that is cancelled, and a batch only when all of it is answered. Nothing is kept between
 * requests, so a cancellation can only be about what stands beside it: that is answered all the same.
 */
const withoutCancellations = (body: unknown): unknown =>
  Array.isArray(body)
    ? body.filter((message) => Reflect.get(Object(message), 'method') !== 'notifications/cancelled')
    : body;

/**
 * Whoever asks may use an id once (MCP, "Requests"), since answers are told apart by nothing else: of two requests with one
 * id the library runs both and answers one. A number and its text are two ids.
 */
function hasEqualIds(body: unknown): boolean {
  if (!Array.isArray(body)) return false;
  const requests = body.filter((message) => Reflect.get(Object(message), 'method') !== undefined);
  const ids = requests
    .map((message): unknown => Reflect.get(Object(message), 'id'))
    .filter((id) => id !== undefined && id !== null);
  return new Set(ids).size < ids.length;
}

/** A tool call by itself, or everything in a batch: a hundred lists of all tools are no small work either. */
async function payForCalls(
  { limits, source }: Pick<McpParts, 'limits' | 'source'>,
  caller: Caller,
  body: unknown,
): Promise<Answer | undefined> {
  const calls = Array.isArray(body)
    ? body.length
    : Number(Reflect.get(Object(body), 'method') === 'tools/call');
  if (calls === 0) return undefined;
  const budget = callBudget(source.current().callsPer10s);
  const state = await limits.consume(budget, principalOf(caller), calls);
  if (state.allowed) return undefined;
  const answer = rpcError(
    429,
    LIMIT_EXCEEDED,
    `Too many tool calls: at most ${budget.requests} in ${budget.seconds} seconds`,
  );
  return {
    ...answer,
    headers: { 'retry-after': String(Math.max(1, Math.ceil(state.resetMs / 1_000))) },
  };
}

/** Each token of an admin is a principal of its own. */
const principalOf = (caller: Caller): string =>
  caller.kind === 'admin' && caller.tokenId ? `token:${caller.tokenId}` : callerKey(caller);

const rpcError = (status: number, code: number, message: string): Answer => ({
  status,
  headers: {},
  body: JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } }),
  json: true,
});

const noBatches = rpcError(
  400,
  INVALID_REQUEST,
  'Batches belong to version 2025-03-26 of the protocol: send one message',
);

const equalIds = rpcError(
  400,
  INVALID_REQUEST,
  'Requests of one batch need different ids ("id"): nothing was done',
);

/** Headers of the protocol; everything else about the request was read already. */
const passedHeaders = [
  'mcp-protocol-version',
  'mcp-session-id',
  'mcp-method',
  'mcp-name',
  'content-type',
] as const;

function webRequest({ request }: Exchange): Request {
  const headers = new Headers({ accept: 'application/json, text/event-stream' });
  for (const name of passedHeaders) {
    const value = request.headers[name];
    if (typeof value === 'string') headers.set(name, value);
  }
  return new Request('http://localhost/mcp', { method: 'POST', headers });
}

async function answerOf(response: Response): Promise<Answer> {
  const body = await response.text();
  return { status: response.status, headers: {}, body, json: body !== '' };
}
