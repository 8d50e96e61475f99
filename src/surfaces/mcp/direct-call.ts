/**
 * The short way of a tool call. The library costs more per message than the call itself; what is
 * exactly a tool call in one of the forms below is answered here, in the library's words. Everything
 * else is the library's.
 */
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Arguments } from './call-tool.ts';
import type { Resources } from './resources.ts';
import { type McpRequest, serverInfo } from './server.ts';
import type { Toolbox } from './toolbox.ts';

/* What this server has to offer, for panels and probes that do not speak the protocol. */

/** The newest version of the protocol that is spoken. */
const newestProtocol = '2026-07-28';

export function healthAnswer(toolbox: Toolbox, resources: Resources): Answer {
  const modules = toolbox.groups();
  const listed = resources.list().resources.map(({ uri }) => uri);
  const health = {
    status: 'healthy',
    protocol: 'mcp',
    version: newestProtocol,
    serverInfo,
    tools: { total: toolbox.all.length, enabled: toolbox.loaded.length },
    resources: { total: listed.length, list: listed },
    modules: {
      total: modules.length,
      loaded: modules.filter(({ loaded }) => loaded).length,
      list: modules,
    },
    uptime: Math.floor(process.uptime()),
  };
  return { status: 200, headers: {}, body: JSON.stringify(health), json: true };
}

/** Versions of the protocol with sessions; no header means the oldest of them. */
const withSessions: ReadonlySet<string | undefined> = new Set([
  undefined,
  '2025-03-26',
  '2025-06-18',
  '2025-11-25',
]);
const metaPrefix = 'io.modelcontextprotocol/';

interface ToolCallMessage {
  readonly id: string | number;
  readonly name: string;
  readonly args: Arguments;
  readonly era: 'sessions' | 'stateless';
}

/** Answers the call, or nothing when it is for the library. Nothing has been done then. */
export async function callDirectly(
  { toolbox, tools }: McpRequest,
  exchange: Exchange,
  body: unknown,
): Promise<Answer | undefined> {
  const message = toolCallOf(exchange.request.headers, body);
  const tool = message && toolbox.find(message.name);
  if (!message || !tool) return undefined;
  const result = await tools.call(tool, message.args);
  const complete =
    message.era === 'sessions'
      ? result
      : { ...result, resultType: 'complete', _meta: { [`${metaPrefix}serverInfo`]: serverInfo } };
  return {
    status: 200,
    headers: {},
    body: JSON.stringify({ result: complete, jsonrpc: '2.0', id: message.id }),
    json: true,
  };
}

type Headers = Exchange['request']['headers'];

function toolCallOf(headers: Headers, body: unknown): ToolCallMessage | undefined {
  const { jsonrpc, id, method, params } = fieldsOf(body);
  if (
    jsonrpc !== '2.0' ||
    method !== 'tools/call' ||
    !(typeof id === 'string' || Number.isSafeInteger(id))
  )
    return undefined;
  const { name, arguments: args = {}, _meta: meta, ...others } = fieldsOf(params);
  if (typeof name !== 'string' || !isObject(args) || Object.keys(others).length > 0)
    return undefined;
  const era = eraOf(headers, name, meta);
  return era && { id: id as string | number, name, args, era };
}

/** The version in the header decides; the one without sessions says everything twice. */
function eraOf(headers: Headers, name: string, meta: unknown): ToolCallMessage['era'] | undefined {
  const version = headers['mcp-protocol-version'];
  if (Array.isArray(version)) return undefined;
  if (withSessions.has(version)) return meta === undefined ? 'sessions' : undefined;
  const agrees =
    headers['mcp-method'] === 'tools/call' && headers['mcp-name'] === name && isPlainMeta(meta);
  return version === newestProtocol && agrees ? 'stateless' : undefined;
}

const plainMeta: ReadonlySet<string> = new Set(
  ['protocolVersion', 'clientInfo', 'clientCapabilities'].map((name) => metaPrefix + name),
);

/** Who asks and nothing more: no progress, no trace, no continuation. */
const isPlainMeta = (meta: unknown): boolean =>
  isObject(meta) &&
  meta[`${metaPrefix}protocolVersion`] === newestProtocol &&
  isObject(meta[`${metaPrefix}clientInfo`]) &&
  isObject(meta[`${metaPrefix}clientCapabilities`]) &&
  Object.keys(meta).every((key) => plainMeta.has(key));

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const fieldsOf = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});
