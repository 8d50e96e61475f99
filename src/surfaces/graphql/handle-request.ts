/** A GraphQL request from its first byte to its answer (GraphQL over HTTP). */
import type { GraphQLError } from 'graphql';
import { anonymous, type Caller } from '../../kernel/caller.ts';
import { errors, PenstockError } from '../../kernel/errors.ts';
import type { Identity } from '../../kernel/identity.ts';
import { authenticate } from '../../kernel/pipeline/admission.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import { admitApp, type Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { parseBody, type ReceivedBody, receiveBody } from '../http/body.ts';
import { renderError } from '../http/error-answers.ts';
import type { Exchange, ProtocolHandler } from '../http/exchange.ts';
import { disconnectOfRequest, identityOfRequest } from '../http/nested-call.ts';
import type { Match } from '../http/route-table.ts';
import { chooseOperation, type Documents, type PreparedOperation } from './documents.ts';
import { explorerPage, explorerPolicy } from './explorer.ts';
import { totalCost } from './operation-cost.ts';
import type { GraphqlOptions, GraphqlOptionsSource } from './options.ts';
import {
  type AnswerForm,
  acceptsPage,
  answerForm,
  documentErrors,
  type ErrorContext,
  fieldError,
  RefusedDocument,
  requestError,
  tooMuch,
} from './responses.ts';
import { createFieldRunner } from './run-field.ts';
import type { BuiltSchema } from './schema.ts';

/** What a request runs against; the whole of it stays as it is until the request ends. */
export interface GraphqlState {
  readonly built: BuiltSchema;
  readonly options: GraphqlOptions;
  readonly documents: Documents;
}

export interface HandlerParts {
  state(): GraphqlState | Promise<GraphqlState>;
  readonly options: GraphqlOptionsSource;
  readonly pipeline: Pipeline;
  readonly identity: Identity;
  readonly log: Logger;
}

/** What a client sends, as its operation declares it. */
interface GraphqlRequest {
  readonly query: string;
  readonly variables?: Readonly<Record<string, unknown>> | null;
  readonly operationName?: string | null;
}

/** Bytes of a request. */
const BODY_LIMIT = 1_048_576;

export function createGraphqlHandler(parts: HandlerParts): ProtocolHandler {
  return async (exchange, match) => {
    const { headers, method } = exchange.request;
    const form = answerForm(headers.accept);
    try {
      const identity = identityOfRequest(parts.identity);
      await requireApp(parts.pipeline, identity, exchange);
      const caller = await pay(parts.pipeline, identity, exchange);
      const runInTurn = (request: () => GraphqlRequest, bytes = 0): Promise<Answer> | Answer =>
        parts.pipeline.inTurn(
          exchange,
          caller,
          () => run(parts, { exchange, identity, form, request: request() }),
          bytes,
        );
      if (method === 'POST') {
        const received = await receiveBody(exchange.request, exchange.response, {
          limit: BODY_LIMIT,
        });
        return await runInTurn(() => posted(exchange, match, received), received.bytes.length);
      }
      if (
        !/(?:^|&)query=/.test(match.query) &&
        parts.options.current().explorer &&
        acceptsPage(headers.accept)
      )
        return page();
      return await runInTurn(() => asked(exchange, match));
    } catch (error) {
      return refusal(error, form, errorContext(parts, exchange));
    }
  };
}

/** Also what names no operation, such as the schema, is for registered apps only. A refusal costs the address. */
async function requireApp({ limiter }: Pipeline, identity: Identity, call: Call): Promise<void> {
  try {
    await admitApp(identity, call);
  } catch (error) {
    await limiter.admitAddress(call.address, 'client');
    throw error;
  }
}

/** A request costs what any request costs; whoever sends a credential that is refused pays with their address. */
async function pay({ limiter }: Pipeline, identity: Identity, call: Call): Promise<Caller> {
  let caller: Caller = anonymous;
  try {
    const known = authenticate(identity, call);
    caller = known instanceof Promise ? await known : known;
  } catch (error) {
    // Whether a credential is needed at all, and so what is wrong with it, is for the operations to say,
    // unless an operator put it before the route itself.
    if (call.compiled.operation.access !== 'optionalUser') throw error;
  }
  await limiter.admit(call.compiled.operation, caller, call.address);
  return caller;
}

function posted(
  { request }: Exchange,
  { route, params, query }: Match,
  received: ReceivedBody,
): GraphqlRequest {
  const { body } = parseBody(received);
  if (Array.isArray(body))
    throw errors.INVALID_ARGUMENTS({
      message: 'Send one operation per request: lists of them are not taken',
    });
  return route.compiled.decode({ params, query, headers: request.headers, body })
    .body as GraphqlRequest;
}

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

interface Running {
  readonly exchange: Exchange;
  readonly identity: Identity;
  readonly form: AnswerForm;
  readonly request: GraphqlRequest;
}

async function run(
  parts: HandlerParts,
  { exchange, identity, form, request }: Running,
): Promise<Answer> {
  const { built, documents, options } = await parts.state();
  const variables = request.variables ?? {};
  const operation = chooseOperation(
    documents.prepare(request.query),
    request.operationName ?? undefined,
  );
  requireRunnable(operation, exchange, { variables, maxComplexity: options.maxComplexity });
  const call = new SharedCall(exchange);
  const runner = createFieldRunner({
    request: call,
    pipeline: parts.pipeline,
    identity,
    types: built.types,
    operation,
  });
  const result = await operation.run(runner, variables);
  if (result.data === undefined) throw new RefusedDocument('BAD_USER_INPUT', result.errors ?? []);
  const failed = result.errors?.length
    ? fieldErrors(result.errors, errorContext(parts, exchange))
    : undefined;
  return {
    status: 200,
    headers: { ...runner.headers, ...failed?.headers, 'content-type': form.contentType },
    body: JSON.stringify(
      failed ? { errors: failed.errors, data: result.data } : { data: result.data },
    ),
    json: false,
    ...(runner.cookies.length > 0 ? { cookies: runner.cookies } : {}),
  };
}

function requireRunnable(
  { kind, measure }: PreparedOperation,
  { request }: Exchange,
  {
    variables,
    maxComplexity,
  }: { variables: Readonly<Record<string, unknown>>; maxComplexity: number },
): void {
  if (kind !== 'query' && request.method !== 'POST') {
    throw errors.METHOD_NOT_ALLOWED({
      message: 'GET is for queries: send mutations with POST',
      headers: { allow: 'POST' },
    });
  }
  const cost = totalCost(measure, variables);
  if (cost > maxComplexity) {
    throw tooMuch(
      `The operation may answer ${Math.ceil(cost)} objects: at most ${maxComplexity} are allowed. Ask for shorter lists`,
    );
  }
}

/** The request as its fields see it. */
class SharedCall implements Call {
  readonly onDisconnect: Call['onDisconnect'];
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.onDisconnect = disconnectOfRequest(exchange);
  }

  get compiled() {
    return this.#exchange.compiled;
  }
  get credentials() {
    return this.#exchange.credentials;
  }
  get requestId() {
    return this.#exchange.requestId;
  }
  get address() {
    return this.#exchange.address;
  }
  get presentedApp() {
    return this.#exchange.presentedApp;
  }
  get userAgent() {
    return this.#exchange.userAgent;
  }
  get idempotencyKey() {
    return this.#exchange.idempotencyKey;
  }
  get origin() {
    return this.#exchange.origin;
  }

  get fetchSite() {
    return this.#exchange.fetchSite;
  }
}

/** Formatted, and how long to wait where some operation said so. */
function fieldErrors(found: readonly GraphQLError[], context: ErrorContext) {
  const formatted = found.map((error) => fieldError(error, context));
  const waits = formatted.flatMap(({ extensions }) =>
    typeof extensions?.retryAfter === 'number' ? [extensions.retryAfter] : [],
  );
  const headers: Record<string, string> =
    waits.length > 0 ? { 'retry-after': String(Math.max(...waits)) } : {};
  return { errors: formatted, headers };
}

const errorContext = ({ log, options }: HandlerParts, { requestId }: Exchange): ErrorContext => ({
  requestId,
  suggestions: options.current().introspection,
  onError: (error) => log.error({ error, requestId }, 'A GraphQL field failed'),
});

/** Nothing of the request ran. What is not an error of a caller is for the gateway. */
function refusal(error: unknown, form: AnswerForm, context: ErrorContext): Answer {
  const contentType = { 'content-type': form.contentType };
  if (error instanceof RefusedDocument) {
    const body = JSON.stringify({ errors: documentErrors(error, context) });
    return { status: form.refusedStatus, headers: contentType, body, json: false };
  }
  if (!(error instanceof PenstockError)) throw error;
  const { status, headers } = renderError(error, 'client', context.requestId);
  return {
    status,
    headers: { ...headers, ...contentType },
    body: JSON.stringify({ errors: [requestError(error, context)] }),
    json: false,
  };
}
