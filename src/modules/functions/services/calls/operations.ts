/**
 * `ctx.call`, and the parts of `ctx` that are operations of the platform by a shorter name. A call goes through the
 * registry: the operation's own access, input and handler, with the caller of the run and on the account of its request.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Caller, callerKey } from '../../../../kernel/caller.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import type { Limits } from '../../../../kernel/limits/limits.ts';
import { compileOperation } from '../../../../kernel/operations/compile.ts';
import { isStreamed, type Operation } from '../../../../kernel/operations/operation.ts';
import type {
  DecodedInput,
  OperationContext,
} from '../../../../kernel/operations/operation-input.ts';
import type { OperationRegistry } from '../../../../kernel/operations/registry.ts';
import { answerOf } from '../../../../kernel/pipeline/answer.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { cutText } from '../../../../kernel/text.ts';
import {
  type GivenCall,
  type HostCall,
  JsonText,
  notForCode,
  notInDryRun,
  optionsArgument,
  type RunScope,
  textArgument,
} from '../host-calls.ts';

interface Parts {
  readonly operations: OperationRegistry;
  readonly limits: Limits;
  readonly log: Logger;
}

/** How the arguments of a short name become the input: the id of the path, the query, or the body. */
type Form = 'nothing' | 'id' | 'query' | 'body';

interface ShortName {
  readonly form: Form;
  readonly operation: string;
  /** What the system asks instead. */
  readonly ofSystem: string;
}

const shortNames: ReadonlyMap<string, ShortName> = new Map(
  (
    [
      ['auth.user', 'authentication.user.get', 'nothing'],
      ['auth.userById', 'authentication.profiles.get', 'id'],
      ['auth.can', 'authorization.check', 'query', 'authorization.permissions.can'],
      ['files.get', 'storage.file.get', 'id'],
      ['files.list', 'storage.file.list', 'query'],
      ['files.url', 'storage.file.url', 'id'],
      ['files.read', 'storage.file.data', 'id'],
      ['files.create', 'storage.file.create', 'body'],
      ['files.delete', 'storage.file.remove', 'id'],
      ['messages.email', 'communications.email.send', 'body'],
      ['messages.sms', 'communications.sms.send', 'body'],
      ['messages.push', 'communications.push.send', 'body'],
      ['messages.send', 'communications.send', 'body'],
      ['search.query', 'embeddings.search', 'body'],
    ] as readonly (readonly [name: string, operation: string, form: Form, ofSystem?: string])[]
  ).map(([name, operation, form, ofSystem = operation]) => [name, { operation, form, ofSystem }]),
);

const inputParts: ReadonlySet<string> = new Set(['params', 'query', 'body']);

/** Functions that call functions: so deep at most. */
const MAX_DEPTH = 8;
const depth = new AsyncLocalStorage<number>();

export function operationCalls(parts: Parts): ReadonlyMap<string, HostCall> {
  const find = createFinder(parts.operations);
  const general: HostCall = async (scope, given) => {
    const operation = find(textArgument(given, 0, 'operation'));
    scope.require(`call:${operation.id}`);
    const input = optionsArgument(given, 1);
    const stray = Object.keys(input).find((name) => !inputParts.has(name));
    if (stray !== undefined)
      throw invalid(cutText(stray, 64), 'unknown', 'a call takes params, query and body');
    return callOperation(parts, scope, { operation, given, input });
  };
  const short = [...shortNames].map(([name, one]): readonly [string, HostCall] => [
    name,
    async (scope, given) => {
      scope.require(capabilityOf(name));
      const { form } = one;
      const bySystem = scope.callerOf(given).kind === 'system';
      const operation = find(bySystem ? one.ofSystem : one.operation);
      return callOperation(parts, scope, {
        operation,
        given,
        input: inputOf(operation, form, given),
      });
    },
  ]);
  return new Map([['call', general], ...short]);
}

/** `files.create` -> `files:create`. */
const capabilityOf = (name: string): string => name.replace('.', ':');

/** By id, or by method and path as the API describes them. */
function createFinder(registry: OperationRegistry): (name: string) => Operation {
  let known: ReadonlyMap<string, Operation> | undefined;
  registry.onChange(() => {
    known = undefined;
  });
  return (name) => {
    known ??= new Map(
      registry
        .all()
        .flatMap(({ operation }) => [
          [operation.id, operation] as const,
          ...(operation.surface === 'client'
            ? [[`${operation.method} ${operation.path}`, operation] as const]
            : []),
        ]),
    );
    const found = known.get(name);
    if (!found)
      throw errors.NOT_FOUND({ message: 'There is no such operation, or its module does not run' });
    return found;
  };
}

function inputOf(
  operation: Operation,
  form: Form,
  given: GivenCall,
): Readonly<Record<string, unknown>> {
  if (form === 'nothing') return {};
  if (form === 'query' || form === 'body') return { [form]: optionsArgument(given, 0) };
  const [name = 'id'] = Object.keys(operation.input.params?.properties ?? {});
  return { params: { [name]: textArgument(given, 0, 'id') }, query: optionsArgument(given, 1) };
}

interface Calling {
  readonly operation: Operation;
  readonly given: GivenCall;
  readonly input: Readonly<Record<string, unknown>>;
}

async function callOperation(
  { limits, log }: Parts,
  scope: RunScope,
  { operation, given, input }: Calling,
): Promise<JsonText> {
  const level = (depth.getStore() ?? 0) + 1;
  if (level > MAX_DEPTH)
    throw errors.CONFLICT({ message: `Functions call each other more than ${MAX_DEPTH} deep` });
  const caller = scope.callerOf(given);
  requireCallable(operation, caller);
  await countLimited(limits, operation, caller);
  if (isRepeatable(operation)) scope.noteRead();
  if (scope.facts.dryRun && (operation.method !== 'GET' || operation.changes))
    throw notInDryRun(operation.id);
  const compiled = compileOperation(operation);
  const decoded = compiled.accept(placesOf(input));
  const context = contextOf(scope, caller, log);
  const handled = await depth.run(level, () => operation.handler(context, decoded));
  const answer = answerOf(compiled, handled, context);
  if (answer.stream) throw errors.CONFLICT({ message: 'What this answers can only be streamed' });
  return new JsonText(answer.json ? answer.body : JSON.stringify(answer.body));
}

/** What can be kept current is read again whenever it may have changed: asking for it leaves nothing behind. */
const isRepeatable = ({ method, live, changes, limit }: Operation): boolean =>
  method === 'GET' && live !== undefined && !changes && typeof limit !== 'object';

function placesOf({
  params = {},
  query = {},
  body,
}: Readonly<Record<string, unknown>>): DecodedInput {
  for (const [name, value] of Object.entries({ params, query }))
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalid(name, 'type', 'must be an object');
  return {
    params: params as Record<string, unknown>,
    query: query as Record<string, unknown>,
    headers: {},
    body,
  };
}

/** Accounts of operators, their keys and the functions themselves are out of the hands of code, whatever its rights. */
const closedModules: ReadonlySet<string> = new Set([
  'core',
  'functions',
  'router',
  'mcp',
  'graphql',
]);

/** Throws 401 or 403. What `admit` asks of a request is asked of the caller of the run. */
function requireCallable(operation: Operation, caller: Caller): void {
  const { access, id, surface, addedLimits = [] } = operation;
  if (isStreamed(operation) || operation.unscoped || operation.answersSecret) throw notFromCode();
  if (caller.kind === 'system') {
    const isClosed = closedModules.has(id.split('.', 1)[0] ?? '') && surface === 'admin';
    if (isClosed || consuming.has(access)) throw notFromCode();
    return;
  }
  if (surface === 'admin') throw notForCode('This needs ctx.system, and the rights of the system');
  if (!isCountable(operation, caller) || addedLimits.length > 0 || consuming.has(access))
    throw notFromCode();
  if (access === 'user' || access === 'partialUser') requireUser(caller);
}

/** Budgets of guesses are kept by the routes themselves. */
const isCountable = ({ id, limit }: Operation, { kind }: Caller): boolean =>
  typeof limit !== 'object' ||
  (kind === 'user' && limit.account === undefined && !id.startsWith('authentication.'));

/** What users may ask for so many times, code asks for in their name as many times, on the same count. Throws 429. */
async function countLimited(
  limits: Limits,
  { id: name, limit }: Operation,
  caller: Caller,
): Promise<void> {
  if (typeof limit !== 'object' || caller.kind !== 'user') return;
  const { requests, seconds } = limit;
  const bucket = { name, requests, seconds };
  const { allowed, resetMs } = await limits.consume(bucket, callerKey(caller));
  if (!allowed) throw errors.RATE_LIMIT({ retryAfter: Math.max(1, Math.ceil(resetMs / 1_000)) });
}

const consuming: ReadonlySet<string> = new Set([
  'refreshToken',
  'adminSecondFactor',
  'masterKey',
  'superAdmin',
]);

const notFromCode = () => notForCode('This operation cannot be called by functions');

function requireUser(caller: Caller): void {
  if (caller.kind !== 'user') throw errors.UNAUTHORIZED({ message: 'Nobody is signed in' });
  if (!caller.complete) throw errors.UNAUTHORIZED({ message: 'The second factor is missing' });
}

function contextOf(scope: RunScope, caller: Caller, log: Logger): OperationContext {
  const { facts } = scope;
  return {
    caller,
    callerNow: () => caller,
    requestId: facts.executionId,
    address: '127.0.0.1',
    userAgent: undefined,
    clientId: caller.kind === 'user' ? caller.clientId : 'anonymous-client',
    bearer: undefined,
    cookies: {},
    origin: undefined,
    fetchSite: undefined,
    // Few handlers look at it.
    get signal() {
      return scope.ended;
    },
    log,
    // The run itself is what is written down.
    audited: () => undefined,
  };
}
