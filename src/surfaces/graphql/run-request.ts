/** Runs the operations of a GraphQL request: what they may cost, their fields, and the form of their answers. */
import { GraphQLError } from 'graphql';
import { errors, PenstockError } from '../../kernel/errors.ts';
import type { Identity } from '../../kernel/identity.ts';
import { andThen, type MaybePromise } from '../../kernel/maybe-promise.ts';
import type { Answer } from '../../kernel/pipeline/answer.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import type { Pipeline } from '../../kernel/pipeline/invoke.ts';
import type { Logger } from '../../kernel/telemetry/logger.ts';
import { renderError } from '../http/error-answers.ts';
import type { Exchange } from '../http/exchange.ts';
import type { MeasureField } from '../http/request-metrics.ts';
import { chooseOperation, type Documents, type PreparedOperation } from './documents.ts';
import { totalCost } from './operation-cost.ts';
import type { GraphqlOptions, GraphqlOptionsSource } from './options.ts';
import {
  type AnswerForm,
  documentErrors,
  type ErrorContext,
  fieldError,
  RefusedDocument,
  requestError,
  tooMuch,
} from './responses.ts';
import { FieldRunner, type Payment } from './run-field.ts';
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
  readonly measure?: MeasureField | undefined;
}

/** What a client sends, as its operation declares it. */
export interface GraphqlRequest {
  readonly query?: string;
  readonly extensions?: Readonly<Record<string, unknown>> | null;
  readonly variables?: Readonly<Record<string, unknown>> | null;
  readonly operationName?: string | null;
}

/** Whose request it is, and how its answer is written. */
export interface Running {
  readonly exchange: Exchange;
  readonly identity: Identity;
  readonly form: AnswerForm;
}

/** Runs what a request holds, one operation or a list of them, within its account. */
export const runAll = (
  parts: HandlerParts,
  { exchange, identity, form }: Running,
  requests: GraphqlRequest | readonly GraphqlRequest[],
): MaybePromise<Answer> =>
  andThen(parts.state(), (state) => {
    const budget = { objects: state.options.maxComplexity };
    const turn = { exchange, identity, form, state, budget, payment: { isLeft: true }, place: 0 };
    return isList(requests) ? runList(parts, turn, requests) : run(parts, turn, requests);
  });

const isList = (
  requests: GraphqlRequest | readonly GraphqlRequest[],
): requests is readonly GraphqlRequest[] => Array.isArray(requests);

/** One after the other, so that mutations happen in their order. What is refused stands in its place as errors. */
async function runList(
  parts: HandlerParts,
  turn: Turn,
  requests: readonly GraphqlRequest[],
): Promise<Answer> {
  const answers: Answer[] = [];
  for (const [place, request] of requests.entries()) {
    try {
      answers.push(await run(parts, { ...turn, place }, request));
    } catch (error) {
      answers.push(refusal(error, turn.form, errorContext(parts, turn.exchange)));
    }
  }
  const cookies = answers.flatMap((answer) => answer.cookies ?? []);
  return {
    status: 200,
    headers: Object.assign({}, ...answers.map(({ headers }) => headers)),
    body: `[${answers.map(({ body }) => body).join(',')}]`,
    json: false,
    ...(cookies.length > 0 ? { cookies } : {}),
  };
}

interface Turn extends Running {
  readonly state: GraphqlState;
  /** What the operations of this request may still ask for. */
  readonly budget: { objects: number };
  /** What the request paid, for one of all its fields. */
  readonly payment: Payment;
  /** Of the operation in a list; 0 where it stands alone. */
  readonly place: number;
}

/** The document. Clients with persisted queries send its hash first, and the document when they hear that it is needed. */
function documentOf({ query, extensions }: GraphqlRequest): string {
  if (query !== undefined) return query;
  if (extensions?.persistedQuery !== undefined)
    throw new RefusedDocument('PERSISTED_QUERY_NOT_SUPPORTED', [
      new GraphQLError('PersistedQueryNotSupported'),
    ]);
  const message = 'query: is required';
  throw errors.INVALID_ARGUMENTS({
    message,
    errors: [{ path: 'query', rule: 'required', message: 'is required' }],
  });
}

function run(parts: HandlerParts, turn: Turn, request: GraphqlRequest): MaybePromise<Answer> {
  const { exchange, identity, state, budget, payment, place } = turn;
  const { built, documents } = state;
  const variables = request.variables ?? {};
  const operation = chooseOperation(
    documents.prepare(documentOf(request)),
    request.operationName ?? undefined,
  );
  requireRunnable(operation, exchange, { variables, budget });
  const { pipeline, measure } = parts;
  const { types } = built;
  const call = new SharedCall(exchange);
  const shared = { request: call, pipeline, identity, payment, place, measure };
  const runner = new FieldRunner({ ...shared, types, operation });
  const executed = (plain: ResultParts | undefined): MaybePromise<Answer> =>
    plain
      ? answerOf(parts, turn, runner, plain)
      : andThen(operation.run(runner, variables), (result) =>
          answerOf(parts, turn, runner, result),
        );
  return andThen(operation.plain?.run(runner, variables), executed);
}

/** `data` may be the JSON text of itself. */
interface ResultParts {
  readonly data?: unknown;
  readonly errors?: readonly GraphQLError[] | undefined;
}

function answerOf(
  parts: HandlerParts,
  { exchange, form }: Turn,
  runner: FieldRunner,
  { data, errors: found }: ResultParts,
): Answer {
  if (data === undefined) throw new RefusedDocument('BAD_USER_INPUT', found ?? []);
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  const failed = found?.length ? fieldErrors(found, errorContext(parts, exchange)) : undefined;
  return {
    status: 200,
    headers: { ...runner.headers, ...failed?.headers, 'content-type': form.contentType },
    body: failed
      ? `{"errors":${JSON.stringify(failed.errors)},"data":${text}}`
      : `{"data":${text}}`,
    json: false,
    ...(runner.cookies.length > 0 ? { cookies: runner.cookies } : {}),
  };
}

function requireRunnable(
  operation: PreparedOperation,
  { request }: Exchange,
  { variables, budget }: { variables: Readonly<Record<string, unknown>>; budget: Turn['budget'] },
): void {
  const { kind } = operation;
  if (kind === 'subscription')
    throw new RefusedDocument('OPERATION_RESOLUTION_FAILURE', [
      new GraphQLError('Subscriptions need a WebSocket: connect to this path with graphql-ws'),
    ]);
  if (kind !== 'query' && request.method !== 'POST') {
    throw errors.METHOD_NOT_ALLOWED({
      message: 'GET is for queries: send mutations with POST',
      headers: { allow: 'POST' },
    });
  }
  chargeObjects(operation, variables, budget);
}

/** Throws `RefusedDocument` for an operation that asks for more than is left. */
export function chargeObjects(
  { measure }: PreparedOperation,
  variables: Readonly<Record<string, unknown>>,
  budget: { objects: number },
): void {
  const cost = totalCost(measure, variables);
  if (cost > budget.objects) {
    throw tooMuch(
      `The operation may answer ${Math.ceil(cost)} objects: at most ${Math.floor(budget.objects)} are allowed. Ask for shorter lists`,
    );
  }
  budget.objects -= cost;
}

/** The request as its fields see it. */
class SharedCall implements Call {
  readonly #exchange: Exchange;
  #leaving: (() => void)[] | undefined;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  /** One listener on the connection for all fields. */
  onDisconnect(listener: () => void): void {
    if (!this.#leaving) {
      const leaving: (() => void)[] = [];
      this.#leaving = leaving;
      this.#exchange.onDisconnect(() => {
        for (const leave of leaving) leave();
      });
    }
    this.#leaving.push(listener);
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

export const errorContext = (
  { log, options }: HandlerParts,
  { requestId }: Exchange,
): ErrorContext => ({
  requestId,
  suggestions: options.current().introspection,
  onError: (error) => log.error({ error, requestId }, 'A GraphQL field failed'),
});

/** Nothing of the request ran. What is not an error of a caller is for the gateway. */
export function refusal(error: unknown, form: AnswerForm, context: ErrorContext): Answer {
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
