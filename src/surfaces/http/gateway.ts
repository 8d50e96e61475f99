/**
 * The way of a request through an HTTP surface: find the operation, admit the
 * caller, read the body, decode, run, send. Every failure ends in `refuse`, so
 * every answer is JSON with the surface's headers.
 */
import type { Caller } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { SurfaceName } from '../../kernel/operation.ts';
import type { Answer } from '../../kernel/operations/answer.ts';
import type { Pipeline } from '../../kernel/operations/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { ClientGoneError, DEFAULT_BODY_LIMIT, readJson } from './body.ts';
import { type Cors, createCors } from './cors.ts';
import type { Exchange, Outgoing } from './exchange.ts';
import { securityHeaders } from './headers.ts';
import type { SurfaceOptionsSource } from './options.ts';
import { renderError } from './render-error.ts';
import type { ObserveRequest } from './request-metrics.ts';
import type { Match, RouteTable } from './route-table.ts';

export interface GatewayParts {
  readonly surface: SurfaceName;
  readonly routes: RouteTable;
  readonly pipeline: Pipeline;
  readonly options: SurfaceOptionsSource;
  readonly observe: ObserveRequest;
  readonly log: Logger;
  /** Operations whose requests hold calls of other operations: they take the exchange whole. By operation id. */
  readonly envelopes?: ReadonlyMap<string, (exchange: Exchange, match: Match) => Promise<Answer>>;
  /** Log every request, not only the slow and the failed. */
  readonly logRequests: boolean;
}

/** Requests that take longer are logged. Milliseconds. */
const SLOW_MS = 1_000;

const noHeaders: Readonly<Record<string, string>> = Object.freeze({});

export interface Gateway {
  /** Answers the exchange; never rejects. */
  handle(exchange: Exchange): Promise<void>;
}

export function createGateway(parts: GatewayParts): Gateway {
  const { surface, routes, pipeline, log } = parts;
  const headers = createHeaders(parts.options);

  const answer = async (exchange: Exchange): Promise<Answer> => {
    const { method = 'GET' } = exchange.request;
    const match = routes.find(method === 'HEAD' ? 'GET' : method, exchange.url);
    if (match === undefined || match === 'malformed') return unmatched(parts, exchange, match);
    exchange.match = match;
    const envelope = parts.envelopes?.get(match.route.compiled.operation.id);
    if (envelope) return envelope(exchange, match);
    const admitted = pipeline.admit(exchange);
    const caller = admitted instanceof Promise ? await admitted : admitted;
    return run(parts, exchange, match, caller);
  };

  const done = (exchange: Exchange, status: number): void => {
    const milliseconds = performance.now() - exchange.startedAt;
    const { method = 'GET' } = exchange.request;
    parts.observe(exchange.match?.route, method, status, milliseconds / 1_000);
    const notable = milliseconds >= SLOW_MS || status > 500;
    if (!notable && !parts.logRequests) return;
    const fields = {
      requestId: exchange.requestId,
      method,
      route: exchange.match?.route.template,
      status,
      ms: Math.round(milliseconds),
    };
    // A 500 was logged with its error.
    if (notable) log.info(fields, 'Slow or failed request');
    else log.debug(fields, 'Request');
  };

  const send = (exchange: Exchange, outgoing: Outgoing): void => {
    exchange.send(headers().of(exchange.origin), outgoing);
    done(exchange, outgoing.status);
  };

  const refuse = (exchange: Exchange, error: unknown): void => {
    if (error instanceof ClientGoneError) return;
    const rendered = renderError(error, surface, exchange.requestId);
    if (rendered.status === 500)
      log.error({ error, requestId: exchange.requestId, route: exchange.match?.route.template }, 'A request failed');
    try {
      send(exchange, { ...rendered, json: true });
    } catch (failure) {
      // Not even the refusal can be sent, for example because of a header that is none.
      log.error({ error: failure, requestId: exchange.requestId }, 'An answer could not be sent');
      exchange.response.destroy();
    }
  };

  return {
    async handle(exchange) {
      try {
        if (exchange.request.method === 'OPTIONS') send(exchange, preflight(parts, headers().cors, exchange));
        else send(exchange, await answer(exchange));
      } catch (error) {
        refuse(exchange, error);
      }
    },
  };
}

function run({ pipeline }: GatewayParts, exchange: Exchange, match: Match, caller: Caller): Answer | Promise<Answer> {
  const { compiled } = match.route;
  const input = { params: match.params, query: match.query, headers: exchange.request.headers };
  if (!compiled.operation.input.body) return pipeline.run(exchange, caller, compiled.decode({ ...input, body: undefined }));
  const limit = compiled.operation.bodyLimit ?? DEFAULT_BODY_LIMIT;
  return readJson(exchange.request, exchange.response, limit).then((body) =>
    pipeline.run(exchange, caller, compiled.decode({ ...input, body })),
  );
}

/** 400, 404 or 405; they cost the address like anything else. */
async function unmatched({ pipeline, routes }: GatewayParts, exchange: Exchange, match: 'malformed' | undefined): Promise<never> {
  await pipeline.limiter.admitAddress(exchange.address);
  if (match === 'malformed') throw errors.INVALID_ARGUMENTS({ message: 'The address is not valid percent-encoding' });
  const allowed = routes.allowed(exchange.url);
  if (allowed.length > 0) throw errors.METHOD_NOT_ALLOWED({ headers: { allow: [...allowed, 'OPTIONS'].join(', ') } });
  throw errors.NOT_FOUND({ message: 'There is no such route' });
}

/** OPTIONS never reaches an operation. It answers what the path allows, and preflights for browsers. */
function preflight({ routes }: GatewayParts, cors: Cors, exchange: Exchange): Outgoing {
  const allowed = routes.allowed(exchange.url);
  const isPreflight = exchange.request.headers['access-control-request-method'] !== undefined;
  if (!isPreflight && allowed.length === 0) throw errors.NOT_FOUND({ message: 'There is no such route' });
  const list = isPreflight ? cors.preflight(exchange.origin) : [];
  const headers: Record<string, string> = allowed.length > 0 ? { allow: [...allowed, 'OPTIONS'].join(', ') } : {};
  for (let i = 0; i < list.length; i += 2) headers[list[i] ?? ''] = list[i + 1] ?? '';
  return { status: 204, headers: { ...noHeaders, ...headers }, body: '', json: false };
}

interface SurfaceHeaders {
  readonly cors: Cors;
  /** Security and CORS headers for a request from `origin`. */
  of(origin: string | undefined): readonly string[];
}

/** Headers are composed once per configuration and origin. */
function createHeaders(source: SurfaceOptionsSource): () => SurfaceHeaders {
  const compose = (): SurfaceHeaders => {
    const cors = createCors(source.current().cors);
    const composed = new Map<readonly string[], readonly string[]>();
    return {
      cors,
      of(origin) {
        const own = cors.headers(origin);
        let all = composed.get(own);
        if (!all) {
          all = [...securityHeaders, ...own];
          composed.set(own, all);
        }
        return all;
      },
    };
  };
  let current = compose();
  source.onChange(() => {
    current = compose();
  });
  return () => current;
}
