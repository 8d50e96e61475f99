/** `ctx.secrets`, `ctx.fetch` and `ctx.realtime`: what the function keeps, asks of servers of others, and says over sockets. */
import { errors, invalid } from '../../../../kernel/errors.ts';
import { createOutboundFetch, OutboundError } from '../../../../kernel/outbound.ts';
import type { Realtime } from '../../../router/index.ts';
import type { FunctionsConfig } from '../../config.ts';
import { hasLongHost } from '../../engine/sandbox/addresses.ts';
import type { FunctionSecrets } from '../functions.ts';
import { type GivenCall, type HostCall, notForCode, textArgument } from '../host-calls.ts';

interface Parts {
  readonly config: () => FunctionsConfig;
  readonly secrets: Pick<FunctionSecrets, 'read'>;
  readonly realtime: Realtime;
}

export const outsideCalls = (parts: Parts): ReadonlyMap<string, HostCall> =>
  new Map<string, HostCall>([
    ['secrets.get', secretCall(parts)],
    ['fetch', fetchCall(parts)],
    ['realtime.publish', publishCall(parts)],
    ['realtime.toUser', toUserCall(parts)],
  ]);

const secretCall =
  ({ secrets }: Parts): HostCall =>
  async (scope, given) => {
    const key = textArgument(given, 0, 'name');
    scope.require(`secrets:${key}`);
    const value = await secrets.read(scope.facts.function._id, key);
    if (value !== undefined) scope.noteSecret(value);
    return value ?? null;
  };

/** The third and the second argument: code leaves the name of the event out where one is enough. */
const sayingOf = ({ args = [] }: GivenCall) => {
  const [, event, data] = args;
  return args.length < 3 ? { event: 'message', data: event } : { event: event as string, data };
};

const publishCall =
  ({ realtime }: Parts): HostCall =>
  async (scope, given) => {
    const channel = textArgument(given, 0, 'channel');
    scope.require(`realtime:publish:${channel.split(':', 1)[0]}`);
    return realtime.publish(scope.callerOf(given), channel, sayingOf(given));
  };

const toUserCall =
  ({ realtime }: Parts): HostCall =>
  async (scope, given) => {
    scope.require('realtime:toUser');
    realtime.toUser(scope.callerOf(given), textArgument(given, 0, 'userId'), sayingOf(given));
  };

/** Headers that the platform itself writes, or that would say who it is not. */
const ownHeaders: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
]);
const methods: ReadonlySet<string> = new Set([
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'PATCH',
  'DELETE',
  'OPTIONS',
]);

function fetchCall({ config }: Parts): HostCall {
  return async (scope, given) => {
    const { url, method, headers, body } = requestOf(given);
    const { egress } = config();
    scope.require(`fetch:${url.hostname}`);
    if (!mayCall(url.hostname, egress.allow))
      throw notForCode(`Functions may not call ${url.host}`);
    const send = createOutboundFetch({
      allowInternal: () => !config().egress.denyPrivate,
      timeoutMs: egress.timeoutMs,
      maxBytes: egress.maxBytes,
    });
    try {
      const response = await send(url.href, {
        method,
        headers,
        signal: scope.ended,
        ...(body !== undefined && { body }),
      });
      return await answerOf(url, response);
    } catch (error) {
      if (!(error instanceof OutboundError)) throw error;
      throw errors.INVALID_ARGUMENTS({ message: `fetch: ${error.message}`, cause: error });
    }
  };
}

function requestOf(given: GivenCall) {
  const { url, method = 'GET', headers = [], text, base64 } = given;
  if (typeof url !== 'string' || url.length > 8_000 || hasLongHost(url) || !URL.canParse(url))
    throw invalid('url', 'format', 'must be an absolute address');
  if (typeof method !== 'string' || !methods.has(method))
    throw invalid('method', 'enum', `must be one of ${[...methods].join(', ')}`);
  const body =
    typeof text === 'string'
      ? text
      : typeof base64 === 'string'
        ? Buffer.from(base64, 'base64')
        : undefined;
  return { url: new URL(url), method, headers: headersOf(headers), body };
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$/;
const headerValue = /^[\t\x20-\x7e\x80-\xff]{0,8000}$/;

function headersOf(given: unknown): Readonly<Record<string, string>> {
  if (!Array.isArray(given) || given.length > 100)
    throw invalid('headers', 'type', 'must be names and values, at most 100');
  const pairs = given.map((pair: unknown) => {
    const [name, value] = Array.isArray(pair) ? (pair as unknown[]) : [];
    if (
      typeof name !== 'string' ||
      typeof value !== 'string' ||
      !headerName.test(name) ||
      !headerValue.test(value)
    )
      throw invalid('headers', 'format', 'must be names and values of headers');
    return [name.toLowerCase(), value] as const;
  });
  return Object.fromEntries(pairs.filter(([name]) => !ownHeaders.has(name)));
}

/** Nothing listed: whatever is public. */
const mayCall = (host: string, allowed: readonly string[]): boolean =>
  allowed.length === 0 ||
  allowed.some((pattern) =>
    pattern.startsWith('*.')
      ? host.endsWith(pattern.slice(1).toLowerCase())
      : host === pattern.toLowerCase(),
  );

async function answerOf(url: URL, response: Response) {
  const bytes = Buffer.from(await response.arrayBuffer());
  const text = bytes.toString('utf8');
  const isText = Buffer.byteLength(text) === bytes.length && !text.includes('\ufffd');
  return {
    status: response.status,
    url: url.href,
    headers: [...response.headers],
    ...(isText ? { text } : { base64: bytes.toString('base64') }),
  };
}
