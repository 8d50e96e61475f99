/**
 * The way of a request through an HTTP surface: find the operation, admit the
 * caller, read the body, decode, run, send. Every failure ends in `refuse`, so
 * every answer has the surface's headers, and is JSON, or a page for browsers that follow a link.
 */

import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { ModuleDirectory } from '../../host/kernel.ts';
import type { Caller } from '../../kernel/caller.ts';
import { errors, type PenstockError } from '../../kernel/errors.ts';
import type { Freshness } from '../../kernel/freshness/freshness.ts';
import { requireValueLimit } from '../../kernel/json-value-limit.ts';
import { andThen, concluded, type MaybePromise } from '../../kernel/maybe-promise.ts';
import type { RawInput } from '../../kernel/operations/compile.ts';
import type { DecodedInput } from '../../kernel/operations/operation-input.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { LARGE_BYTES, loopTurn } from '../../kernel/request-account/fair-gate.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';
import { headerOf } from '../../kernel/request-header.ts';
import type { Tracing } from '../../kernel/telemetry/tracing.ts';
import { Answering, type AnsweringParts } from './answering.ts';
import {
  DEFAULT_BODY_LIMIT,
  parseBody,
  parseLargeBody,
  type ReceivedBody,
  receiveBody,
} from './body.ts';
import type { Exchange, ProtocolHandler } from './exchange.ts';
import { type Cors, requireOneHost } from './headers.ts';
import { decodeInput, type InputRules, withWarnings } from './input-notes.ts';
import type { Match, RouteTable } from './route-table.ts';
import { isForStream, openBodyStream } from './streams.ts';

export interface GatewayParts extends InputRules, AnsweringParts {
  readonly routes: RouteTable;
  readonly pipeline: Pipeline;
  /** Whether this node may answer from memory. */
  readonly freshness?: Freshness | undefined;
  /** Which modules serve. */
  readonly modules?: ModuleDirectory | undefined;
  readonly tracing?: Tracing | undefined;
  /** Operations whose requests hold calls of other operations: they take the exchange whole. By operation id. */
  readonly protocolHandlers?: ReadonlyMap<string, ProtocolHandler>;
}

/** When to ask again for a module that is switched off. */
const RETRY_AFTER_SECONDS = 30;

const noHeaders: Readonly<Record<string, string>> = Object.freeze({});

export interface Gateway {
  /** Answers the exchange, at once where nothing has to be waited for; never throws or rejects. */
  handle(exchange: Exchange): MaybePromise<void>;
}

type Found = ReturnType<RouteTable['find']>;

const find = (routes: RouteTable, { request: { method = 'GET' }, url }: Exchange): Found =>
  routes.find(method === 'HEAD' ? 'GET' : method, url);

/** Health asks nothing of anything else, so it answers also while this node cannot know whether its memory is true. */
const isHealth = (found: Found): boolean =>
  typeof found === 'object' && found.route.compiled.operation.limit === 'none';

export function createGateway(parts: GatewayParts): Gateway {
  const { routes, pipeline, freshness, tracing } = parts;
  const answering = new Answering(parts);

  const answerFound = (exchange: Exchange, match: Found): MaybePromise<void> =>
    concluded(
      () =>
        exchange.request.method === 'OPTIONS'
          ? preflight(parts, answering.headers.cors, exchange)
          : answerTo(parts, exchange, match),
      (answer) => answering.send(exchange, answer),
      (error) => answering.refuse(exchange, error),
    );

  /** Opens the account on which all that follows runs. Its time counts from the arrival. */
  const serveFound = (exchange: Exchange, match: Found): MaybePromise<void> => {
    if (typeof match !== 'object') return answerFound(exchange, match);
    const { operation } = match.route.compiled;
    const account = pipeline.accounts.open(operation, exchange.startedAt, exchange.address);
    exchange.match = match;
    exchange.account = account;
    return onAccount(account, () => answerFound(exchange, match));
  };

  /** Finds the operation, as all nodes know it. */
  const serve = (exchange: Exchange): MaybePromise<void> =>
    concluded(
      () => {
        const match = find(routes, exchange);
        const caughtUp = isHealth(match) ? undefined : freshness?.catchUp();
        return caughtUp ? caughtUp.then(() => find(routes, exchange)) : match;
      },
      (match) => serveFound(exchange, match),
      (error) => answering.refuse(exchange, error),
    );

  if (tracing) return { handle: (exchange) => traced(tracing, exchange, () => serve(exchange)) };
  return { handle: serve };
}

/** The operation's answer. Throws or rejects with whatever refuses the request. */
function answerTo(parts: GatewayParts, exchange: Exchange, match: Found): MaybePromise<Answer> {
  requireOneHost(exchange.request);
  if (typeof match !== 'object') return unmatched(parts, exchange, match);
  const { pipeline, surface } = parts;
  const protocolHandler = parts.protocolHandlers?.get(match.route.compiled.operation.id);
  if (protocolHandler) return protocolHandler(exchange, match);
  const answer = (): MaybePromise<Answer> =>
    andThen(pipeline.admit(exchange), (caller) => run({ parts, exchange, match, caller }));
  if (!guessesAtHealth(exchange, match)) return answer();
  return andThen(pipeline.limiter.admitAddress(exchange.address, surface), answer);
}

/** The request as a span; its name is complete when the route is known. */
const traced = (
  tracing: Tracing,
  exchange: Exchange,
  serve: () => MaybePromise<void>,
): Promise<void> => {
  const { method = 'GET' } = exchange.request;
  return tracing.request(method, exchange.request.headers, async (span) => {
    await serve();
    // Then the answer is out.
    await endOfTurn();
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

/** A request whose caller is known. */
interface Admitted {
  readonly parts: GatewayParts;
  readonly exchange: Exchange;
  readonly match: Match;
  readonly caller: Caller;
}

/** Reads the input and runs the operation when it is its turn. */
function run(admitted: Admitted): MaybePromise<Answer> {
  const { parts, exchange, match, caller } = admitted;
  const { pipeline } = parts;
  const { operation } = match.route.compiled;
  const { input, bodyLimit: limit = DEFAULT_BODY_LIMIT, bodyTypes } = operation;
  const { request, response } = exchange;
  const streamed = input.stream && (!input.body || isForStream(request, input.stream));
  if (input.body && !streamed)
    return andThen(receiveBody(request, response, { limit, types: bodyTypes }), (received) =>
      pipeline.inTurn(exchange, caller, () => runWith(admitted, received), {
        bytes: received.bytes.length,
      }),
    );
  const stream = input.stream && openBodyStream(request, response, { limit, ...input.stream });
  const runNow = (): MaybePromise<Answer> => runOn(admitted, { body: undefined, stream });
  // Health answers also when there is no place left.
  if (operation.limit === 'none') return runNow();
  if (!stream) return pipeline.inTurn(exchange, caller, runNow);
  return pipeline.inTurn(exchange, caller, runNow, { bytes: 0, arriving: true });
}

/** What of the input is not in the head of a request. */
type GivenBody = Pick<RawInput, 'body' | 'form' | 'stream'>;

const runOn = (admitted: Admitted, given: GivenBody): MaybePromise<Answer> =>
  runDecoded(admitted, decoded(admitted, given));

function decoded(
  { parts, exchange, match }: Admitted,
  { body, form, stream }: GivenBody,
): DecodedInput {
  const { headers } = exchange.request;
  const raw = { params: match.params, query: match.query, headers, body, form, stream };
  return decodeInput(parts, exchange, match.route.compiled, raw);
}

function runDecoded(
  { parts, exchange, match, caller }: Admitted,
  input: DecodedInput,
): MaybePromise<Answer> {
  const answer = parts.pipeline.run(exchange, caller, input);
  if (!input.notes) return answer;
  const { operation } = match.route.compiled;
  return andThen(answer, (known) => withWarnings(operation, input, known));
}

function runWith(admitted: Admitted, received: ReceivedBody): MaybePromise<Answer> {
  if (received.bytes.length >= LARGE_BYTES) return runLarge(admitted, received);
  return runOn(admitted, parseBody(received));
}

/** In turns of the event loop of its own, so that small requests pass between. */
async function runLarge(admitted: Admitted, received: ReceivedBody): Promise<Answer> {
  await loopTurn();
  requireValueLimit(received.bytes, 'The body', admitted.match.route.compiled.operation.bodyValues);
  const parsed = await parseLargeBody(received);
  await loopTurn();
  const input = decoded(admitted, parsed);
  await loopTurn();
  return runDecoded(admitted, input);
}

/** Health has no limit, but whoever presents a credential with it could guess at that. */
const guessesAtHealth = ({ request: { headers } }: Exchange, { route }: Match): boolean =>
  route.compiled.operation.limit === 'none' &&
  (headerOf(headers, 'masterkey') !== undefined || headerOf(headers, 'credential') !== undefined);

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
