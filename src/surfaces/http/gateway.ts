/**
 * The way of a request through an HTTP surface: find the operation, admit the
 * caller, read the body, decode, run, send. Every failure ends in `refuse`, so
 * every answer has the surface's headers, and is JSON, or a page for browsers that follow a link.
 */

import type { ModuleDirectory } from '../../host/kernel.ts';
import type { Caller } from '../../kernel/caller.ts';
import { errors, isValidation, PenstockError } from '../../kernel/errors.ts';
import type { Freshness } from '../../kernel/freshness/freshness.ts';
import type { RawInput } from '../../kernel/operations/compile.ts';
import type { SurfaceName } from '../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { LARGE_BYTES, loopTurn } from '../../kernel/request-account/fair-gate.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import type { Tracing } from '../../kernel/telemetry/tracing.ts';
import {
  ClientGoneError,
  DEFAULT_BODY_LIMIT,
  parseBody,
  type ReceivedBody,
  receiveBody,
  requireFewValues,
} from './body.ts';
import { packedFor } from './compression.ts';
import { renderErrorFor } from './error-answers.ts';
import type { Exchange, ProtocolHandler } from './exchange.ts';
import { type Cors, requireOneHost } from './headers.ts';
import { decodeInput, type InputRules, withWarnings } from './input-notes.ts';
import type { ObserveRequest } from './request-metrics.ts';
import type { Match, RouteTable } from './route-table.ts';
import type { Draining } from './server.ts';
import { isForStream, openBodyStream } from './streams.ts';
import { createHeaders, type SurfaceHeaders, timingOf } from './surface-headers.ts';

export interface GatewayParts extends InputRules {
  readonly surface: SurfaceName;
  readonly routes: RouteTable;
  readonly pipeline: Pipeline;
  readonly draining: Draining;
  readonly observe: ObserveRequest;
  readonly log: Logger;
  /** Whether this node may answer from memory. */
  readonly freshness?: Freshness | undefined;
  /** Which modules serve. */
  readonly modules?: ModuleDirectory | undefined;
  readonly tracing?: Tracing | undefined;
  /** Operations whose requests hold calls of other operations: they take the exchange whole. By operation id. */
  readonly protocolHandlers?: ReadonlyMap<string, ProtocolHandler>;
  /** Told of input that does not fit, with the operation. */
  readonly onInvalid?: (operation: string) => void;
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
const isHealth = (found: Found): boolean =>
  typeof found === 'object' && found.route.compiled.operation.limit === 'none';

export function createGateway(parts: GatewayParts): Gateway {
  const { surface, routes, pipeline, log } = parts;
  const headers = createHeaders(parts.options, parts.draining);
  const baseOf = (exchange: Exchange): readonly string[] => {
    const base = headers().of(exchange.origin);
    return surface === 'admin' ? [...base, 'server-timing', timingOf(exchange)] : base;
  };

  const refuse = (exchange: Exchange, error: unknown): void => {
    if (error instanceof ClientGoneError) return;
    if (exchange.response.headersSent) {
      cut(parts, exchange, error);
      return;
    }
    const rendered = renderErrorFor(askedBy(exchange), error, surface, exchange.requestId);
    if (isValidation(error))
      parts.onInvalid?.(exchange.match?.route.compiled.operation.id ?? 'none');
    if (rendered.status === 500)
      log.error({ error: loggable(error), ...placeOf(exchange) }, 'A request failed');
    try {
      send(parts, baseOf(exchange), exchange, rendered);
    } catch (failure) {
      // Not even the refusal can be sent, for example because of a header that is none.
      log.error({ error: failure, requestId: exchange.requestId }, 'An answer could not be sent');
      exchange.response.destroy();
    }
  };

  const serveFound = async (exchange: Exchange, match: Found): Promise<void> => {
    try {
      const isOptions = exchange.request.method === 'OPTIONS';
      const answer = isOptions
        ? preflight(parts, headers().cors, exchange)
        : await answerTo(parts, exchange, match);
      const sending = send(parts, baseOf(exchange), exchange, answer);
      if (sending) await sending;
    } catch (error) {
      refuse(exchange, error);
    }
  };

  /** Finds the operation, as all nodes know it, and opens the account on which all that follows runs. Its time counts from the arrival. */
  const serve = async (exchange: Exchange): Promise<void> => {
    let match = find(routes, exchange);
    try {
      const caughtUp = isHealth(match) ? undefined : parts.freshness?.catchUp();
      if (caughtUp) match = await caughtUp.then(() => find(routes, exchange));
    } catch (error) {
      refuse(exchange, error);
      return;
    }
    if (match === undefined || match === 'malformed') return serveFound(exchange, match);
    exchange.match = match;
    const account = pipeline.accounts.open(
      match.route.compiled.operation,
      exchange.startedAt,
      exchange.address,
    );
    await onAccount(account, () => serveFound(exchange, match));
    account.close();
  };

  const { tracing } = parts;
  if (tracing) return { handle: (exchange) => traced(tracing, exchange, () => serve(exchange)) };
  return { handle: serve };
}

/** Answers a promise where the body is made while it is sent. */
function send(
  parts: GatewayParts,
  base: ReturnType<SurfaceHeaders['of']>,
  exchange: Exchange,
  answer: Answer,
): Promise<void> | undefined {
  if (answer.stream)
    return exchange
      .sendMade(base, answer, answer.stream)
      .then(() => done(parts, exchange, answer.status));
  const packing = packedFor(exchange.request, base, answer);
  if (packing)
    return packing.then(({ varied, packed }) => {
      exchange.send(base, varied, packed);
      done(parts, exchange, answer.status);
    });
  exchange.send(base, answer);
  done(parts, exchange, answer.status);
  return undefined;
}

function done(parts: GatewayParts, exchange: Exchange, status: number): void {
  const { log } = parts;
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
}

const askedBy = ({ request, match }: Exchange) => ({
  accept: request.headers.accept,
  operation: match?.route.compiled.operation,
});

const placeOf = ({ requestId, match }: Exchange) => ({ requestId, route: match?.route.template });

/** What a catalogue says is no mistake of ours; its words may be those of a provider, and name who gets a message. */
const loggable = (error: unknown): unknown =>
  error instanceof PenstockError && error.cause === undefined ? error.code : error;

/** Half an answer is out; only the end of the connection can say that it is no whole one. */
function cut(parts: GatewayParts, exchange: Exchange, error: unknown): void {
  const { log } = parts;
  log.error(
    { error, requestId: exchange.requestId, route: exchange.match?.route.template },
    'An answer broke off',
  );
  exchange.response.destroy();
  done(parts, exchange, errors.INTERNAL_SERVER_ERROR.status);
}

/** The operation's answer. Rejects with whatever refuses the request. */
async function answerTo(parts: GatewayParts, exchange: Exchange, match: Found): Promise<Answer> {
  requireOneHost(exchange.request);
  if (match === undefined || match === 'malformed') return unmatched(parts, exchange, match);
  const { pipeline, surface } = parts;
  const protocolHandler = parts.protocolHandlers?.get(match.route.compiled.operation.id);
  if (protocolHandler) return protocolHandler(exchange, match);
  if (guessesAtHealth(exchange, match))
    await pipeline.limiter.admitAddress(exchange.address, surface);
  const admitted = pipeline.admit(exchange);
  const caller = admitted instanceof Promise ? await admitted : admitted;
  return run(parts, exchange, match, caller);
}

/** The request as a span; its name is complete when the route is known. */
const traced = (
  tracing: Tracing,
  exchange: Exchange,
  serve: () => Promise<void>,
): Promise<void> => {
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

function run(
  parts: GatewayParts,
  exchange: Exchange,
  match: Match,
  caller: Caller,
): Answer | Promise<Answer> {
  const { pipeline } = parts;
  const { compiled } = match.route;
  const {
    input: declared,
    bodyLimit: limit = DEFAULT_BODY_LIMIT,
    bodyTypes: types,
  } = compiled.operation;
  const { request, response } = exchange;
  const input = { params: match.params, query: match.query, headers: request.headers };
  const decoded = (raw: RawInput): DecodedInput => decodeInput(parts, exchange, compiled, raw);
  const runOn = (given: DecodedInput): Promise<Answer> => {
    const running = pipeline.run(exchange, caller, given);
    if (!given.notes) return running;
    return running.then((answer) => withWarnings(compiled.operation, given, answer));
  };
  const streamed = declared.stream && (!declared.body || isForStream(request, declared.stream));
  if (declared.body && !streamed) {
    const runWith = (received: ReceivedBody): Answer | Promise<Answer> => {
      if (received.bytes.length >= LARGE_BYTES) return runLarge(received);
      return runOn(decoded({ ...input, ...parseBody(received) }));
    };
    const runLarge = async (received: ReceivedBody): Promise<Answer> => {
      await loopTurn();
      requireFewValues(received.bytes);
      const parsed = parseBody(received);
      await loopTurn();
      const complete = decoded({ ...input, ...parsed });
      await loopTurn();
      return runOn(complete);
    };
    return receiveBody(request, response, { limit, types }).then((received) =>
      pipeline.inTurn(exchange, caller, () => runWith(received), received.bytes.length),
    );
  }
  const stream =
    declared.stream && openBodyStream(request, response, { limit, ...declared.stream });
  const runNow = (): Promise<Answer> => runOn(decoded({ ...input, body: undefined, stream }));
  // Health answers also when there is no place left.
  return compiled.operation.limit === 'none' ? runNow() : pipeline.inTurn(exchange, caller, runNow);
}

/** Health has no limit, but whoever presents a credential with it could guess at that. */
const guessesAtHealth = ({ request: { headers } }: Exchange, { route }: Match): boolean =>
  route.compiled.operation.limit === 'none' &&
  (headers.masterkey !== undefined || headers.credential !== undefined);

/** 400, 404 or 405; they cost the address like anything else. */
async function unmatched(
  parts: GatewayParts,
  exchange: Exchange,
  match: 'malformed' | undefined,
): Promise<never> {
  const { surface, pipeline, routes, modules } = parts;
  await pipeline.limiter.admitAddress(exchange.address, surface);
  if (match === 'malformed')
    throw errors.INVALID_ARGUMENTS({ message: 'The address is not valid percent-encoding' });
  const allowed = routes.allowed(exchange.url);
  if (allowed.length > 0)
    throw errors.METHOD_NOT_ALLOWED({ headers: { allow: [...allowed, 'OPTIONS'].join(', ') } });
  throw (
    moduleNotServing(modules, exchange.url) ??
    errors.NOT_FOUND({ message: 'There is no such route' })
  );
}

/** A module that does not serve has no routes; its callers must not take that for "there is no such thing". */
function moduleNotServing(
  modules: ModuleDirectory | undefined,
  url: string,
): PenstockError | undefined {
  const [, first] = /^\/([a-z-]+)(?:[/?]|$)/.exec(url) ?? [];
  const module =
    first === undefined ? undefined : modules?.list().find(({ name }) => name === first);
  if (!module || module.serving || module.missing) return undefined;
  return errors.UNAVAILABLE({
    message: `The module ${module.name} does not serve: an operator can switch it on`,
    retryAfter: RETRY_AFTER_SECONDS,
  });
}

/** OPTIONS never reaches an operation. It answers what the path allows, and preflights for browsers. */
function preflight({ routes }: GatewayParts, cors: Cors, exchange: Exchange): Answer {
  const allowed = routes.allowed(exchange.url);
  const isPreflight = exchange.request.headers['access-control-request-method'] !== undefined;
  if (!isPreflight && allowed.length === 0)
    throw errors.NOT_FOUND({ message: 'There is no such route' });
  const list = isPreflight ? cors.preflight(exchange.origin) : [];
  const headers: Record<string, string> =
    allowed.length > 0
      ? { ...routes.optionsHeaders(exchange.url), allow: [...allowed, 'OPTIONS'].join(', ') }
      : {};
  for (let i = 0; i < list.length; i += 2) headers[list[i] ?? ''] = list[i + 1] ?? '';
  return { status: 204, headers: { ...noHeaders, ...headers }, body: '', json: false };
}
