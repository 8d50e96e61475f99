/** The client routes of functions: operations like any other, made from what each function declares. */
import Type from 'typebox';
import { requireActionOnRecord } from '../../../data/records/access/granted-rows.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { parseBoundedJson } from '../../../kernel/json-value-limit.ts';
import { middlewareContext } from '../../../kernel/middlewares/middleware-lists.ts';
import type { ProvidedMiddleware } from '../../../kernel/middlewares/provided-middlewares.ts';
import {
  anyType,
  type Cookie,
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DecodedInput, OperationContext } from '../../../kernel/operations/operation-input.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import { shortened } from '../../../kernel/text.ts';
import type { FunctionRequires, StoredFunction } from '../definition/definition.ts';
import { inputSchemas, outputShape, pathParams, returnedBody } from '../definition/inputs.ts';
import {
  isHeaderText,
  isMediaType,
  isRedirectStatus,
  isReplyStatus,
  readHeaders,
} from '../engine/prelude/reply.ts';
import { functionErrors } from '../errors.ts';
import type { RunAnswer } from './run-request.ts';
import type { FunctionRunner } from './runner.ts';
import { type ReceivedWebhook, readWebhook, type WebhookParts } from './webhooks.ts';

export interface RouteParts extends WebhookParts {
  readonly runner: FunctionRunner;
  readonly permissions: PermissionPort;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  /** Stores a message whose code runs later, with the note that it was taken; answers the id of the run. */
  readonly later: (one: StoredFunction, req: Req, take: ReceivedWebhook['take']) => Promise<string>;
}

/** What the deadline of the route leaves beyond the function's own time. */
const SLACK_MS = 1_000;
const MAX_DEADLINE_MS = 3_600_000;

export const runErrors = [
  functionErrors.FUNCTION_REFUSED,
  functionErrors.FUNCTION_FAILED,
  functionErrors.FUNCTION_BUSY,
  functionErrors.FUNCTION_TIMEOUT,
  functionErrors.FUNCTION_NOT_FOUND,
];

const deadlineOf = ({ timeout }: StoredFunction): number =>
  Math.min(timeout + SLACK_MS, MAX_DEADLINE_MS);

export function requestRoute(parts: RouteParts, one: StoredFunction): Operation {
  const { runner } = parts;
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
    async handler(context, input) {
      const req = requestOf(context, input as DecodedInput, path);
      if (inputs.requires) await requireHeld(parts, context.caller, inputs.requires, req.params);
      return answer(runner, one, context, req);
    },
  });
}

/** Throws 403 for a caller who lacks the action on the record that they name, and 503 while nobody can tell. */
const requireHeld = (
  parts: RouteParts,
  caller: Caller,
  { schema, action, param }: FunctionRequires,
  params: Req,
): Promise<void> =>
  requireActionOnRecord(parts, {
    ...{ caller, scope: undefined },
    needs: { schema, action, id: String(params[param]), place: param },
  });

type Req = Readonly<Record<string, unknown>>;

/** Code has the rights of the system only where its own definition says so, whoever calls it; else it acts as a visitor. */
const callerFor = (caller: Caller, { rights }: StoredFunction['inputs']): Caller =>
  caller.kind === 'system' && rights !== 'system' ? { kind: 'anonymous' } : caller;

/** Runs a function and makes of its result what `read` does: what that refuses is a failure of the run. */
export async function runFor<T>(
  runner: FunctionRunner,
  { _id: functionId, functionType: trigger, inputs }: StoredFunction,
  { caller, requestId }: Pick<OperationContext, 'caller' | 'requestId'>,
  { req, read }: { readonly req: Req; readonly read: (result: RunAnswer) => T },
): Promise<T> {
  const taken: { value?: T } = {};
  await runner.run({
    ...{ functionId, caller: callerFor(caller, inputs), requestId, req, trigger },
    accept(result) {
      taken.value = read(result);
    },
  });
  return taken.value as T;
}

const answer = (
  runner: FunctionRunner,
  one: StoredFunction,
  context: OperationContext,
  req: Req,
): Promise<Reply> => runFor(runner, one, context, { req, read: (result) => replyOf(one, result) });

/** What no function sees: they open more than one request. */
const secretHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'masterkey',
  'credential',
  'clientsecret',
  'proxy-authorization',
]);

/** The same in cookies: the tokens of a session, under the names that browsers keep them by. */
const tokenCookie = /^(?:__Host-)?(?:access|refresh)Token$/;

const visibleCookies = ({ cookies }: OperationContext) =>
  Object.fromEntries(Object.entries(cookies).filter(([name]) => !tokenCookie.test(name)));

const visibleHeaders = ({ headers = {} }: OperationContext) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !secretHeaders.has(name)));

export const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
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
    cookies: visibleCookies(context),
    context: {
      clientId,
      ...(caller.kind === 'user' && { user: { _id: caller.userId } }),
      ...middlewareContext(context),
    },
  };
}

/* The answer. */

/** Throws where code got round the checks of its sandbox. */
export function replyOf({ returns }: StoredFunction, { text, reply = {} }: RunAnswer): Reply {
  const { status = 200, redirect } = reply;
  const headers = Object.fromEntries(readHeaders(reply.headers));
  const type = headers['content-type'];
  const facts = { status: isReplyStatus(status) ? status : 200, headers };
  const made = isHeaderText(redirect)
    ? Reply.redirect(redirect, withoutType(headers), isRedirectStatus(status) ? status : undefined)
    : (binaryReply(text, facts) ??
      (type !== undefined && text.startsWith('"')
        ? textReply(text, type, returns, facts)
        : Reply.json(returnedBody(text, returns), withoutType(headers), facts.status)));
  const cookies = Array.isArray(reply.cookies) ? (reply.cookies as unknown as Cookie[]) : [];
  return cookies.length > 0 ? made.withCookies(cookies) : made;
}

interface ReplyFacts {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

const noSniffing = { 'x-content-type-options': 'nosniff' } as const;

const withoutType = ({ 'content-type': _, ...headers }: ReplyFacts['headers']) => headers;

/** A text with a type of its own is the whole body. */
function textReply(
  text: string,
  type: string,
  returns: StoredFunction['returns'],
  { status, headers }: ReplyFacts,
): Reply {
  returnedBody(text, returns);
  // Browsers take another one for HTML that does not say it.
  const full = type.startsWith('text/') && !type.includes(';') ? `${type}; charset=utf-8` : type;
  return Reply.text(JSON.parse(text) as string, full, status, { ...headers, ...noSniffing });
}

/** `{contentType, base64}` alone is a file. */
function binaryReply(text: string, { status, headers }: ReplyFacts): Reply | undefined {
  if (!text.startsWith('{"') || !text.includes('"base64"')) return undefined;
  const value = parseBoundedJson(text, 'The result') as Readonly<Record<string, unknown>>;
  const { contentType, base64, ...others } = value;
  if (Object.keys(others).length > 0 || typeof base64 !== 'string') return undefined;
  if (!isMediaType(contentType)) return undefined;
  const bytes = Buffer.from(base64, 'base64');
  const safe = { ...headers, 'content-length': String(bytes.length), ...noSniffing };
  return Reply.stream(contentType, chunksOf(bytes), safe, status);
}

async function* chunksOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
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
    inMemory: true,
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
      if (!one.inputs.async)
        return forgottenUnlessTaken(parts, received, () => answer(parts.runner, one, context, req));
      // It is stored: without what proves who sent it.
      const stored = { ...req, headers: base.headers, cookies: {} };
      const runId = await parts.later(one, stored, received.take);
      return Reply.json(JSON.stringify({ accepted: true, runId }), undefined, 202);
    },
  });
}

const FIRST_ERROR_STATUS = 400;

/** Senders send again what was answered with an error; that is no second message then. */
async function forgottenUnlessTaken(
  { database }: RouteParts,
  { take, forget }: ReceivedWebhook,
  work: () => Promise<Reply>,
): Promise<Reply> {
  await database.outside(() => take(database));
  try {
    const reply = await work();
    if (reply.status >= FIRST_ERROR_STATUS) await forget();
    return reply;
  } catch (error) {
    await forget().catch(() => undefined);
    throw error;
  }
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
        const req = requestOf(context, input, '');
        return runFor(runner, one, context, { req, read: ({ text }) => contextFrom(one, text) });
      },
    ]),
  );
}

/** Nothing is let through that may have been meant as a refusal (`return false`). */
function contextFrom({ name, returns }: StoredFunction, text: string) {
  if (text === '') return undefined;
  const value = parseBoundedJson(
    returns === null ? text : returnedBody(text, returns),
    'The result',
  );
  if (value === null) return undefined;
  if (typeof value === 'object' && !Array.isArray(value)) return objectOf(value);
  const what = Array.isArray(value) ? 'a list' : shortened(text, 64);
  throw new TypeError(
    `The middleware ${name} answers ${what}: it refuses by ctx.reject or a throw, and answers an object or nothing`,
  );
}
