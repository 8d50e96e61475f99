/**
 * The way of a request through an HTTP surface: find the operation, admit the
 * caller, read the body, decode, run, send. Every failure ends in `refuse`, so
 * every answer is JSON with the surface's headers.
 */

import type { ModuleDirectory } from '../../host/kernel.ts';
import { LARGE_BYTES, loopTurn } from '../../kernel/account/loop-turn.ts';
import { onAccount } from '../../kernel/account/request-account.ts';
import type { Caller } from '../../kernel/caller.ts';
import { errors, type PenstockError } from '../../kernel/errors.ts';
import type { Freshness } from '../../kernel/freshness/freshness.ts';
import type { SurfaceName } from '../../kernel/operation.ts';
import type { Answer } from '../../kernel/operations/answer.ts';
import type { Pipeline } from '../../kernel/operations/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { Tracing } from '../../kernel/telemetry/tracing/tracing.ts';
import { ClientGoneError, DEFAULT_BODY_LIMIT, parseBody, type ReceivedBody, receiveBody } from './body.ts';
import { openBodyStream } from './body-stream.ts';
import { type Cors, createCors } from './cors.ts';
import type { Draining } from './draining.ts';
import type { EnvelopeHandler } from './envelope.ts';
import type { Exchange } from './exchange.ts';
import { securityHeaders } from './headers.ts';
import { requireOneHost } from './host.ts';
import { requireFewValues } from './json-values.ts';
import type { SurfaceOptionsSource } from './options.ts';
import { renderError } from './render-error.ts';
import type { ObserveRequest } from './request-metrics.ts';
import type { Match, RouteTable } from './route-table.ts';

export interface GatewayParts {
  readonly surface: SurfaceName;
  readonly routes: RouteTable;
  readonly pipeline: Pipeline;
  readonly options: SurfaceOptionsSource;
  readonly draining: Draining;
  readonly observe: ObserveRequest;
  readonly log: Logger;
  /** Whether this node may answer from memory. */
  readonly freshness?: Freshness | undefined;
  /** Which modules serve. */
  readonly modules?: ModuleDirectory | undefined;
  readonly tracing?: Tracing | undefined;
  /** Operations whose requests hold calls of other operations: they take the exchange whole. By operation id. */
  readonly envelopes?: ReadonlyMap<string, EnvelopeHandler>;
  /** Log every request, not only the slow and the failed. */
  readonly logRequests: boolean;
}

/** When to ask again for a module that is switched off. */
const RETRY_AFTER_SECONDS = 30;
/** Requests that take longer are logged. Milliseconds. */
const SLOW_MS = 1_000;

const noHeaders: Readonly<Record<string, string>> = Object.freeze({});

export interface Gateway {
  /** Answers the exchange; never rejects. */
  handle(exchange: Exchange): Promise<void>;
}

type Found = ReturnType<RouteTable['find']>;

const find = (routes: RouteTable, { request: { method = 'GET' }, url }: Exchange): Found =>
  routes.find(method === 'HEAD' ? 'GET' : method, url);

/** Health asks nothing of anything else, so it answers also while this node cannot know whether its memory is true. */
const isHealth = (found: Found): boolean => typeof found === 'object' && found.route.compiled.operation.limit === 'none';

export function createGateway(parts: GatewayParts): Gateway {
  const { surface, routes, pipeline, log } = parts;
  const headers = createHeaders(parts.options, parts.draining);

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
    // One line per route and minute: an outage fails them all.
    if (status > 500) log.warn(fields, 'Slow or failed request');
    else if (notable) log.info(fields, 'Slow or failed request');
    else log.debug(fields, 'Request');
  };

  /** Answers a promise where the body is made while it is sent. */
  const send = (exchange: Exchange, outgoing: Answer): Promise<void> | undefined => {
    const base = headers().of(exchange.origin);
    if (outgoing.stream) return exchange.sendStream(base, outgoing, outgoing.stream).then(() => done(exchange, outgoing.status));
    exchange.send(base, outgoing);
    done(exchange, outgoing.status);
    return undefined;
  };

  const refuse = (exchange: Exchange, error: unknown): void => {
    if (error instanceof ClientGoneError) return;
    if (exchange.response.headersSent) {
      cut(exchange, error);
      return;
    }
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

  /** Half an answer is out; only the end of the connection can say that it is no whole one. */
  const cut = (exchange: Exchange, error: unknown): void => {
    log.error({ error, requestId: exchange.requestId, route: exchange.match?.route.template }, 'An answer broke off');
    exchange.response.destroy();
    done(exchange, errors.INTERNAL_SERVER_ERROR.status);
  };

  const serveFound = async (exchange: Exchange, match: Found): Promise<void> => {
    try {
      const isOptions = exchange.request.method === 'OPTIONS';
      const sending = send(exchange, isOptions ? preflight(parts, headers().cors, exchange) : await answerTo(parts, exchange, match));
      if (sending) await sending;
    } catch (error) {
      refuse(exchange, error);
    }
  };

  /** Finds the operation, as all nodes know it, and opens the account on which all that follows runs. Its time counts from the arrival. */
  const serve = async (exchange: Exchange): Promise<void> => {
    let match = find(routes, exchange);
    try {
      const settled = isHealth(match) ? undefined : parts.freshness?.settle();
      if (settled) match = await settled.then(() => find(routes, exchange));
    } catch (error) {
      refuse(exchange, error);
      return;
    }
    if (match === undefined || match === 'malformed') return serveFound(exchange, match);
    exchange.match = match;
    const account = pipeline.accounts.open(match.route.compiled.operation, exchange.startedAt, exchange.address);
    await onAccount(account, () => serveFound(exchange, match));
    account.close();
  };

  const { tracing } = parts;
  if (tracing) return { handle: (exchange) => traced(tracing, exchange, () => serve(exchange)) };
  return { handle: serve };
}

/** The operation's answer. Rejects with whatever refuses the request. */
async function answerTo(parts: GatewayParts, exchange: Exchange, match: Found): Promise<Answer> {
  requireOneHost(exchange.request);
  if (match === undefined || match === 'malformed') return unmatched(parts, exchange, match);
  const { pipeline, surface } = parts;
  const envelope = parts.envelopes?.get(match.route.compiled.operation.id);
  if (envelope) return envelope(exchange, match);
  if (guessesAtHealth(exchange, match)) await pipeline.limiter.admitAddress(exchange.address, surface);
  const admitted = pipeline.admit(exchange);
  const caller = admitted instanceof Promise ? await admitted : admitted;
  return run(parts, exchange, match, caller);
}

/** The request as a span; its name is complete when the route is known. */
const traced = (tracing: Tracing, exchange: Exchange, serve: () => Promise<void>): Promise<void> => {
  const { method = 'GET' } = exchange.request;
  return tracing.request(method, exchange.request.headers, async (span) => {
    await serve();
    const { statusCode } = exchange.response;
    const route = exchange.match?.route.template;
    if (route !== undefined) span.rename(`${method} ${route}`);
    span.add({
      'http.request.method': method,
      'http.route': route ?? 'none',
      'http.response.status_code': statusCode,
      'penstock.request_id': exchange.requestId,
    });
    if (statusCode >= 500) span.fail();
  });
};

function run({ pipeline }: GatewayParts, exchange: Exchange, match: Match, caller: Caller): Answer | Promise<Answer> {
  const { compiled } = match.route;
  const { input: declared, bodyLimit: limit = DEFAULT_BODY_LIMIT, bodyTypes: types } = compiled.operation;
  const { request, response } = exchange;
  const input = { params: match.params, query: match.query, headers: request.headers };
  if (declared.body) {
    const runWith = (received: ReceivedBody): Answer | Promise<Answer> => {
      if (received.bytes.length >= LARGE_BYTES) return runLarge(received);
      return pipeline.run(exchange, caller, compiled.decode({ ...input, ...parseBody(received) }));
    };
    const runLarge = async (received: ReceivedBody): Promise<Answer> => {
      await loopTurn();
      requireFewValues(received.bytes);
      const parsed = parseBody(received);
      await loopTurn();
      const decoded = compiled.decode({ ...input, ...parsed });
      await loopTurn();
      return pipeline.run(exchange, caller, decoded);
    };
    return receiveBody(request, response, { limit, types }).then((received) =>
      pipeline.inTurn(exchange, caller, () => runWith(received), received.bytes.length),
    );
  }
  const stream = declared.stream && openBodyStream(request, response, { ...declared.stream, limit });
  const runNow = (): Promise<Answer> => pipeline.run(exchange, caller, compiled.decode({ ...input, body: undefined, stream }));
  // Health answers also when there is no place left.
  return compiled.operation.limit === 'none' ? runNow() : pipeline.inTurn(exchange, caller, runNow);
}

/** Health has no limit, but whoever presents a credential with it could guess at that. */
const guessesAtHealth = ({ request: { headers } }: Exchange, { route }: Match): boolean =>
  route.compiled.operation.limit === 'none' && (headers.masterkey !== undefined || headers.credential !== undefined);

/** 400, 404 or 405; they cost the address like anything else. */
async function unmatched(parts: GatewayParts, exchange: Exchange, match: 'malformed' | undefined): Promise<never> {
  const { surface, pipeline, routes, modules } = parts;
  await pipeline.limiter.admitAddress(exchange.address, surface);
  if (match === 'malformed') throw errors.INVALID_ARGUMENTS({ message: 'The address is not valid percent-encoding' });
  const allowed = routes.allowed(exchange.url);
  if (allowed.length > 0) throw errors.METHOD_NOT_ALLOWED({ headers: { allow: [...allowed, 'OPTIONS'].join(', ') } });
  throw moduleNotServing(modules, exchange.url) ?? errors.NOT_FOUND({ message: 'There is no such route' });
}

/** A module that does not serve has no routes; its callers must not take that for "there is no such thing". */
function moduleNotServing(modules: ModuleDirectory | undefined, url: string): PenstockError | undefined {
  const [, first] = /^\/([a-z-]+)(?:[/?]|$)/.exec(url) ?? [];
  const module = first === undefined ? undefined : modules?.list().find(({ name }) => name === first);
  if (!module || module.serving) return undefined;
  return errors.UNAVAILABLE({
    message: `The module ${module.name} does not serve: an operator can switch it on`,
    retryAfter: RETRY_AFTER_SECONDS,
  });
}

/** OPTIONS never reaches an operation. It answers what the path allows, and preflights for browsers. */
function preflight({ routes }: GatewayParts, cors: Cors, exchange: Exchange): Answer {
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
function createHeaders(source: SurfaceOptionsSource, draining: Draining): () => SurfaceHeaders {
  const compose = (): SurfaceHeaders => {
    const { cors: wanted, hsts: value } = source.current();
    const cors = createCors(wanted);
    const hsts = value === undefined ? [] : ['strict-transport-security', value];
    const composed = new Map<readonly string[], readonly string[]>();
    return {
      cors,
      of(origin) {
        const own = cors.headers(origin);
        let all = composed.get(own);
        if (!all) {
          all = [...securityHeaders, ...hsts, ...own, ...(draining.active ? ['connection', 'close'] : [])];
          composed.set(own, all);
        }
        return all;
      },
    };
  };
  let current = compose();
  const again = (): void => {
    current = compose();
  };
  source.onChange(again);
  draining.onBegin(again);
  return () => current;
}
