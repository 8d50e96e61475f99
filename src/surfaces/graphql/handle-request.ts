/** A GraphQL request from its first byte to its answer (GraphQL over HTTP). */

import { anonymous, type Caller } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { Identity } from '../../kernel/identity.ts';
import { andThen, concluded, type MaybePromise } from '../../kernel/maybe-promise.ts';
import { invalidValueProblem } from '../../kernel/operations/invalid-value.ts';
import { authenticate } from '../../kernel/pipeline/admission.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import { admitApp, type Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import { headerOf } from '../../kernel/request-header.ts';
import { parseBody, type ReceivedBody, receiveBody } from '../http/body.ts';
import type { Exchange, ProtocolHandler } from '../http/exchange.ts';
import { IdentityOfRequest } from '../http/nested-call.ts';
import type { Match } from '../http/route-table.ts';
import { meansShort } from './documents.ts';
import { explorerPage, explorerPolicy } from './explorer.ts';
import { acceptsPage, answerForm } from './responses.ts';
import {
  errorContext,
  type GraphqlRequest,
  type HandlerParts,
  type Running,
  refusal,
  runAll,
} from './run-request.ts';

/** Bytes of a request. */
const BODY_LIMIT = 1_048_576;
/** Bytes of a request that is read before it is its turn. */
const EARLY_BYTES = 16_384;
/** Operations that a client may send as one list. */
const MAX_BATCH = 10;
/** Characters of the name of an operation, as the route declares them. */
const MAX_NAME = 256;

export const createGraphqlHandler =
  (parts: HandlerParts): ProtocolHandler =>
  (exchange, match) => {
    const form = answerForm(headerOf(exchange.request.headers, 'accept'));
    const identity = new IdentityOfRequest(parts.identity);
    return concluded(
      () =>
        andThen(admit(parts.pipeline, identity, exchange), (caller) =>
          answer(parts, { exchange, identity, form }, match, caller),
        ),
      (known) => known,
      (error) => refusal(error, form, errorContext(parts, exchange)),
    );
  };

/** Reads the request and runs it when it is its turn. */
function answer(
  parts: HandlerParts,
  running: Running,
  match: Match,
  caller: Caller,
): MaybePromise<Answer> {
  const { exchange } = running;
  const { request, response } = exchange;
  if (request.method === 'POST')
    return andThen(receiveBody(request, response, { limit: BODY_LIMIT }), (received) => {
      const bytes = received.bytes.length;
      // What a large body asks for is found out when it is its turn.
      const early = bytes <= EARLY_BYTES ? posted(exchange, match, received) : undefined;
      const heavy = early === undefined || isHeavy(parts, early);
      const work = () => runAll(parts, running, early ?? posted(exchange, match, received));
      return parts.pipeline.inTurn(exchange, caller, work, { bytes, heavy });
    });
  if (showsExplorer(parts, exchange, match)) return page();
  const question = asked(exchange, match);
  return parts.pipeline.inTurn(exchange, caller, () => runAll(parts, running, question), {
    bytes: 0,
    heavy: isHeavy(parts, question),
  });
}

/** Whether it may take long: anything but one short operation of a document that was read before. */
function isHeavy(
  parts: HandlerParts,
  requests: GraphqlRequest | readonly GraphqlRequest[],
): boolean {
  if (!('query' in requests) || requests.query === undefined) return true;
  const state = parts.state();
  if (state instanceof Promise) return true;
  const { query, operationName } = requests;
  return !meansShort(state.documents.prepared(query), operationName ?? undefined);
}

const showsExplorer = (
  { options }: HandlerParts,
  { request }: Exchange,
  { query }: Match,
): boolean =>
  !/(?:^|&)query=/.test(query) && options.current().explorer && acceptsPage(request.headers.accept);

/**
 * Also what names no operation, such as the schema, is for registered apps only; a refusal costs the address. A request
 * costs what any request costs, and whoever sends a credential that is refused pays with their address.
 */
function admit(pipeline: Pipeline, identity: Identity, call: Call): Caller | Promise<Caller> {
  const { limiter } = pipeline;
  const refused = async (error: unknown): Promise<never> => {
    await limiter.admitAddress(call.address, 'client');
    throw error;
  };
  try {
    const app = admitApp(identity, call);
    if (app instanceof Promise) return app.catch(refused).then(() => pay(pipeline, identity, call));
  } catch (error) {
    return refused(error);
  }
  return pay(pipeline, identity, call);
}

function pay({ limiter }: Pipeline, identity: Identity, call: Call): Caller | Promise<Caller> {
  const { operation } = call.compiled;
  // Whether a credential is needed at all, and so what is wrong with it, is for the operations to say,
  // unless an operator put it before the route itself.
  const unknown = (error: unknown): Caller => {
    if (operation.access !== 'optionalUser') throw error;
    return anonymous;
  };
  const paid = (caller: Caller): Caller | Promise<Caller> => {
    const limited = limiter.admit(operation, caller, call.address);
    return limited instanceof Promise ? limited.then(() => caller) : caller;
  };
  let known: Caller | Promise<Caller>;
  try {
    known = authenticate(identity, call);
  } catch (error) {
    known = unknown(error);
  }
  return known instanceof Promise ? known.catch(unknown).then(paid) : paid(known);
}

/** One operation, or a list of them as links that batch send it. */
function posted(
  { request }: Exchange,
  { route, params, query }: Match,
  received: ReceivedBody,
): GraphqlRequest | readonly GraphqlRequest[] {
  const { headers } = request;
  const decode = (body: unknown): GraphqlRequest =>
    route.compiled.decode({ params, query, headers, body }).body as GraphqlRequest;
  const { body } = parseBody(received);
  if (isUsual(body)) return body;
  if (!Array.isArray(body)) return decode(body);
  if (body.length > 0 && body.length <= MAX_BATCH) return body.map(decode);
  throw errors.INVALID_ARGUMENTS({ message: `A list holds 1 to ${MAX_BATCH} operations` });
}

/** Of a request. */
const members: ReadonlySet<string> = new Set(['query', 'operationName', 'variables', 'extensions']);

/** What nearly all clients send, in the form that decoding would bring it into. The rest is decoded, and refused there. */
function isUsual(body: unknown): body is GraphqlRequest {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return false;
  for (const key in body) if (!members.has(key)) return false;
  const { query, operationName, variables, extensions } = body as Record<string, unknown>;
  return (
    typeof query === 'string' &&
    (operationName == null || isName(operationName)) &&
    (variables == null || isObject(variables)) &&
    (extensions == null || isObject(extensions)) &&
    invalidValueProblem(body, '') === undefined
  );
}

const isName = (value: unknown): boolean => typeof value === 'string' && value.length <= MAX_NAME;

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const asked = ({ request }: Exchange, { route, params, query }: Match): GraphqlRequest =>
  route.compiled.decode({ params, query, headers: request.headers, body: undefined })
    .query as unknown as GraphqlRequest;

const page = (): Answer => ({
  status: 200,
  headers: {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': explorerPolicy,
  },
  body: explorerPage(),
  json: false,
});
