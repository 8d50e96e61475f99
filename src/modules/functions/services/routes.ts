/** The client routes of functions: operations like any other, made from what each function declares. */
import Type from 'typebox';
import { middlewareContext } from '../../../kernel/middlewares/middleware-lists.ts';
import type { ProvidedMiddleware } from '../../../kernel/middlewares/route-middlewares.ts';
import {
  anyType,
  type Cookie,
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { type OperationRegistry, routesOf } from '../../../kernel/operations/registry.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { inputSchemas, outputShape, pathParams, returnedBody } from '../definition/inputs.ts';
import type { ReplyOptions } from '../engine/protocol.ts';
import { functionErrors } from '../errors.ts';
import type { FunctionRunner, RunResult } from './runner.ts';
import { readWebhook, type WebhookParts } from './webhooks.ts';

export interface RouteParts extends WebhookParts {
  readonly runner: FunctionRunner;
}

/** What the deadline of the route leaves beyond the function's own time. */
const SLACK_MS = 1_000;
const MAX_DEADLINE_MS = 3_600_000;

const runErrors = [
  functionErrors.FUNCTION_REFUSED,
  functionErrors.FUNCTION_FAILED,
  functionErrors.FUNCTION_BUSY,
  functionErrors.FUNCTION_TIMEOUT,
  functionErrors.FUNCTION_NOT_FOUND,
];

const deadlineOf = ({ timeout }: StoredFunction): number =>
  Math.min(timeout + SLACK_MS, MAX_DEADLINE_MS);

export function requestRoute({ runner }: RouteParts, one: StoredFunction): Operation {
  const { name, inputs, returns } = one;
  const path = `/functions/${name}${pathParams(inputs)}`;
  return defineOperation({
    id: `functions.request.${name}`,
    surface: 'client',
    method: inputs.method ?? 'GET',
    path,
    access: inputs.auth ? 'user' : 'optionalUser',
    limit: standardLimit,
    deadlineMs: deadlineOf(one),
    input: inputSchemas(inputs),
    output: outputShape(returns),
    errors: runErrors,
    summary: `Call the function ${name}`,
    ...(inputs.method === 'GET' && { mcp: false }),
    handler: async (context, input) =>
      replyOf(
        one,
        await run(runner, one, context, requestOf(context, input as DecodedInput, path)),
      ),
  });
}

function run(
  runner: FunctionRunner,
  { _id: functionId, functionType: trigger }: StoredFunction,
  { caller, requestId }: OperationContext,
  req: Readonly<Record<string, unknown>>,
): Promise<RunResult> {
  return runner.run({ functionId, caller, requestId, req, trigger });
}

/** What no function sees: they open more than one request. */
const secretHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'masterkey',
  'credential',
  'clientsecret',
  'proxy-authorization',
]);

const visibleHeaders = ({ headers = {} }: OperationContext) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !secretHeaders.has(name)));

const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};

/** `req` of requests and middlewares. Later places win. */
export function requestOf(context: OperationContext, input: DecodedInput, path: string) {
  const { caller, clientId } = context;
  const [bodyParams, queryParams, urlParams] = [input.body, input.query, input.params].map(
    objectOf,
  );
  return {
    params: { ...bodyParams, ...queryParams, ...urlParams },
    bodyParams,
    queryParams,
    urlParams,
    path,
    headers: visibleHeaders(context),
    cookies: context.cookies,
    context: {
      clientId,
      ...(caller.kind === 'user' && { user: { _id: caller.userId } }),
      ...middlewareContext(context),
    },
  };
}

/* The answer. */

export function replyOf({ returns }: StoredFunction, { text, reply = {} }: RunResult): Reply {
  const { status, headers, cookies, redirect } = checkedReply(reply);
  const made =
    redirect !== undefined
      ? Reply.redirect(redirect)
      : (binaryReply(text, status) ?? Reply.json(returnedBody(text, returns), headers, status));
  return cookies.length > 0 ? made.withCookies(cookies) : made;
}

/** `{contentType, base64}` alone is a file. */
function binaryReply(text: string, status: number): Reply | undefined {
  if (!text.startsWith('{"') || !text.includes('"base64"')) return undefined;
  const value = JSON.parse(text) as Readonly<Record<string, unknown>>;
  const { contentType, base64, ...others } = value;
  if (Object.keys(others).length > 0 || typeof base64 !== 'string') return undefined;
  if (typeof contentType !== 'string' || !mediaType.test(contentType)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  const safe = { 'content-length': String(bytes.length), 'x-content-type-options': 'nosniff' };
  return Reply.stream(contentType, chunksOf(bytes), safe, status);
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

const mediaType = /^[a-z]{1,40}\/[a-z0-9.+-]{1,80}$/;
const headerName = /^[a-z0-9-]{1,64}$/;
const headerValue = /^[\t\x20-\x7e]{0,4000}$/;
/** Headers that the platform keeps to itself. */
const ownHeaders: ReadonlySet<string> = new Set([
  'content-length',
  'content-type',
  'connection',
  'transfer-encoding',
  'set-cookie',
  'strict-transport-security',
  'content-security-policy',
  'x-content-type-options',
  'x-frame-options',
]);

/** What the code asks for about the answer, as far as it is one. */
function checkedReply({ status, headers, cookies, redirect }: ReplyOptions) {
  const isStatus = Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599;
  const given = Object.entries(objectOf(headers)).map(
    ([name, value]) => [name.toLowerCase(), String(value)] as const,
  );
  const isHeader = ([name, value]: readonly [string, string]): boolean =>
    headerName.test(name) &&
    headerValue.test(value) &&
    !ownHeaders.has(name) &&
    !name.startsWith('access-control-');
  const target = typeof redirect === 'string' && headerValue.test(redirect) ? redirect : undefined;
  return {
    status: isStatus ? Number(status) : 200,
    headers: Object.fromEntries(given.filter(isHeader)),
    cookies: Array.isArray(cookies) ? (cookies.slice(0, 20) as unknown as readonly Cookie[]) : [],
    redirect: target,
  };
}

/* Webhooks: the body as it came, and its signature. */

/** Bytes of what others send. */
const WEBHOOK_BYTES = 1_024 * 1_024;

export function webhookRoute(parts: RouteParts, one: StoredFunction): Operation {
  const { name, inputs } = one;
  const path = `/hook/functions/${name}${pathParams(inputs)}`;
  const { method = 'POST' } = inputs;
  const { params, query } = inputSchemas(inputs);
  const stream = {
    contentTypes: [anyType],
    description: 'Whatever the sender sends',
    mayBeEmpty: true,
  } as const;
  return defineOperation({
    id: `functions.webhook.${name}`,
    surface: 'client',
    method,
    path,
    access: 'public',
    limit: standardLimit,
    deadlineMs: deadlineOf(one),
    bodyLimit: WEBHOOK_BYTES,
    idempotency: false,
    mcp: false,
    graphql: false,
    ...(method === 'GET' && { changes: true as const }),
    input: {
      ...(params && { params }),
      ...(query && { query }),
      ...(method !== 'GET' && { stream }),
    },
    output: method === 'GET' ? outputShape(one.returns) : Type.Unknown(),
    errors: [
      ...runErrors,
      functionErrors.SIGNATURE_INVALID,
      functionErrors.FUNCTION_MESSAGE_REUSED,
    ],
    summary: `Take a message for the function ${name}`,
    async handler(context, input) {
      const received = await readWebhook(parts, one, context, input as DecodedInput);
      const base = requestOf(context, { ...(input as DecodedInput), body: received.body }, path);
      const headers = { ...base.headers, ...received.authorization };
      const req = { ...base, headers, rawBody: received.rawBody };
      return replyOf(one, await run(parts.runner, one, context, req));
    },
  });
}

/* Middlewares: what they answer is seen by the handlers after them. */

export function providedMiddlewares(
  runner: FunctionRunner,
  all: readonly StoredFunction[],
): ReadonlyMap<string, ProvidedMiddleware> {
  const mine = all.filter(({ functionType, enabled }) => functionType === 'middleware' && enabled);
  return new Map(
    mine.map((one) => [
      one.name,
      async (context, input) => {
        const { text } = await run(runner, one, context, requestOf(context, input, ''));
        if (text === '') return undefined;
        return objectOf(JSON.parse(one.returns === null ? text : returnedBody(text, one.returns)));
      },
    ]),
  );
}

/* Which routes there are. */

/** First parts of paths that the platform has, or will have when a module is switched on. */
const reserved: ReadonlySet<string> = new Set(
  (
    'admin apps authentication authorization chat communications config core database docs email embeddings files forms ' +
    'functions graphql health hook live mcp metrics modules notifications preferences push ready realtime reference router ' +
    'security sms state storage swagger templates token tokens unsubscribe webhooks well-known'
  ).split(' '),
);

/** Whether nothing else has the path of the short form. */
function hasShortForm({ path }: Operation, taken: ReadonlySet<string>): boolean {
  const [, first = '', second = ''] = shortOf(path).split('/');
  const isHook = first === 'hook';
  return !reserved.has(isHook ? second : first) && !taken.has(isHook ? `hook/${second}` : first);
}

const shortOf = (path: string): string => path.replace(/^(\/hook)?\/functions\//, '$1/');

const withShortForm = (operation: Operation): Operation => ({
  ...operation,
  aliases: [{ method: operation.method, path: shortOf(operation.path) }],
});

const firstParts = ({ operations, owner }: { operations: OperationRegistry; owner: string }) =>
  new Set(
    operations
      .all()
      .filter((one) => one.owner !== owner && one.operation.surface === 'client')
      .flatMap(({ operation }) => routesOf(operation))
      .map(({ path }) => path.split('/').slice(1))
      .map(([first, second]) => (first === 'hook' ? `hook/${second}` : String(first))),
  );

export interface FunctionRoutes {
  /** Makes the routes of these functions, all of them or those that can be. */
  publish(all: readonly StoredFunction[]): void;
  /** Why a function does not serve. */
  problemOf(id: string): string | undefined;
}

const OWNER = 'functions/routes';

interface MadeRoute {
  readonly plain: Operation;
  /** Also under its short form. */
  readonly whole: Operation;
}

export function createFunctionRoutes(
  parts: RouteParts,
  operations: OperationRegistry,
): FunctionRoutes {
  const made = new WeakMap<StoredFunction, MadeRoute>();
  let problems: ReadonlyMap<string, string> = new Map();

  /** The same objects as before for what did not change: surfaces remember what they compiled. */
  function routeOf(one: StoredFunction): MadeRoute | undefined {
    const known = made.get(one);
    if (known) return known;
    const isRequest = one.functionType === 'request';
    if (!isRequest && one.functionType !== 'webhook') return undefined;
    const plain = isRequest ? requestRoute(parts, one) : webhookRoute(parts, one);
    const route = { plain, whole: withShortForm(plain) };
    made.set(one, route);
    return route;
  }

  /** Nothing for what has no route, and for what cannot be served: that must not take the others with it. */
  function served(
    one: StoredFunction,
    taken: ReadonlySet<string>,
    found: Map<string, string>,
  ): readonly Operation[] {
    try {
      const route = one.enabled ? routeOf(one) : undefined;
      if (!route) return [];
      return [hasShortForm(route.plain, taken) ? route.whole : route.plain];
    } catch (error) {
      found.set(one._id, error instanceof Error ? error.message : 'it cannot be served');
      return [];
    }
  }

  return {
    problemOf: (id) => problems.get(id),
    publish(all) {
      const taken = firstParts({ operations, owner: OWNER });
      const found = new Map<string, string>();
      const routes = all.flatMap((one) => served(one, taken, found));
      problems = found;
      operations.replace(OWNER, routes);
    },
  };
}
