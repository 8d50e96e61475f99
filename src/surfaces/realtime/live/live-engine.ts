/**
 * Listening to answers: from what a client asks for to the operation that answers it, whose declaration says what has to
 * be read. Sockets, event streams and GraphQL listen through this.
 */
import type { Static } from 'typebox';
import Type from 'typebox';
import type { Kernel } from '../../../host/kernel.ts';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { compileOperation } from '../../../kernel/operations/compile.ts';
import type { LiveRead } from '../../../kernel/operations/live-read.ts';
import type { Operation } from '../../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../../kernel/operations/operation-input.ts';
import type { OwnedOperation } from '../../../kernel/operations/registry.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import type { Accounts } from '../../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../../kernel/request-account/request-account.ts';
import { realtimeErrors } from '../errors.ts';
import { createLiveHub, type LiveHub } from './live-hub.ts';
import type { LiveBeginning } from './live-messages.ts';
import type { LiveListener, LiveQuery } from './live-query.ts';

/** What a client listens to: one record, a list, a list with a filter, or an endpoint. */
export const Watch = Type.Object({
  schema: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: 'Whose records' }),
  ),
  documentId: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_024, description: 'One record of the schema' }),
  ),
  query: Type.Optional(
    Type.Unknown({ description: 'Conditions, where the schema lets clients filter' }),
  ),
  sort: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 8 })),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, description: 'Records, 25 unless set' }),
  ),
  populate: Type.Optional(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 10 })),
  scope: Type.Optional(Type.String({ maxLength: maxReferenceLength })),
  endpoint: Type.Optional(
    Type.String({ minLength: 1, maxLength: 128, description: 'A custom endpoint that reads' }),
  ),
  input: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { description: 'Inputs of the endpoint' }),
  ),
  since: Type.Optional(
    Type.String({ maxLength: 128, description: 'The last position that was heard' }),
  ),
});
export type WatchRequest = Static<typeof Watch>;

export interface Watched {
  readonly query: LiveQuery;
  readonly beginning: LiveBeginning;
}

export interface LiveEngine {
  /** Throws what the operation throws that answers the same, and 404 for what cannot be listened to. */
  watch(caller: Caller, request: WatchRequest, listener: LiveListener): Promise<Watched>;
  /** The same for an operation and its input. */
  watchOperation(
    caller: Caller,
    asked: { readonly operation: Operation; readonly input: DecodedInput; readonly since?: string },
    listener: LiveListener,
  ): Promise<Watched>;
  counts: LiveHub['counts'];
  /** Somebody was told to ask anew, because they do not read what they are told. */
  slow(): void;
  stop(): void;
}

type EngineKernel = Pick<
  Kernel,
  'records' | 'operations' | 'events' | 'schemas' | 'permissions' | 'bus' | 'log' | 'metrics'
>;

export function createLiveEngine(
  kernel: EngineKernel,
  accounts: Pick<Accounts, 'openFor'>,
): LiveEngine {
  const log = kernel.log.child({ surface: 'realtime' });
  const lag = kernel.metrics
    .histogram('realtime_lag_seconds', 'Time from a change until its listeners were told')
    .bind({});
  const hub = createLiveHub({
    records: kernel.records,
    follow: (handler, onGap) => kernel.events.subscribe('*', handler, onGap),
    reachesThroughUsers: async () =>
      (await kernel.permissions.engine?.reachesThroughUsers?.()) ?? false,
    dependenciesOf: async (schema) => kernel.permissions.engine?.dependenciesOf?.(schema),
    onOwnAccount: (work) =>
      onAccount(accounts.openFor('client'), async () => {
        await kernel.bus.freshness.catchUp();
        return work();
      }),
    log: (error) => log.error({ err: error }, 'A live list could not be read'),
    onTold: (lagMs) => lag(lagMs / 1_000),
  });
  kernel.schemas.onChange((names) => hub.schemasChanged(names));
  const endOf = createEnds(kernel.operations);
  kernel.metrics.gauge(
    'realtime_live_queries',
    'Different questions that are kept current',
    () => hub.counts().queries,
  );
  kernel.metrics.gauge(
    'realtime_live_listeners',
    'Listeners to live answers',
    () => hub.counts().listeners,
  );
  const slow = kernel.metrics.counter(
    'realtime_slow_readers_total',
    'Listeners that were told to ask anew, because they did not read',
  );
  const watchOperation: LiveEngine['watchOperation'] = async (
    caller,
    { operation, input, since },
    listener,
  ) => {
    // As it is now: who listens when a schema changes is asked for again.
    const current = () => operationsById(kernel.operations.all()).get(operation.id);
    const ask = () => openRead({ ...kernel, endOf }, { caller, operation: current(), input });
    return hub.listen(ask, listener, since);
  };
  return {
    watch: (caller, request, listener) => {
      const { since } = request;
      const asked = operationOf(kernel.operations.all(), request);
      return watchOperation(caller, { ...asked, ...(since !== undefined && { since }) }, listener);
    },
    watchOperation,
    counts: hub.counts,
    slow: () => slow.inc(),
    stop: hub.stop,
  };
}

type EndOf = (operation: Operation) => AbortSignal;

/** Aborts once an operation is not there any more as it was: it was withdrawn, or says or asks something else. */
function createEnds(operations: EngineKernel['operations']): EndOf {
  const open = new Map<Operation, AbortController>();
  operations.onChange(() => {
    if (open.size === 0) return;
    const now = operationsById(operations.all());
    for (const [operation, controller] of open) {
      if (now.get(operation.id) === operation) continue;
      open.delete(operation);
      controller.abort();
    }
  });
  return (operation) => {
    const controller = open.get(operation) ?? new AbortController();
    open.set(operation, controller);
    return controller.signal;
  };
}

interface Opening {
  readonly caller: Caller;
  readonly operation: Operation | undefined;
  readonly input: DecodedInput;
}

async function openRead(
  { schemas, endOf }: Pick<EngineKernel, 'schemas'> & { readonly endOf: EndOf },
  { caller, operation, input }: Opening,
): Promise<LiveRead> {
  if (!operation?.live) throw realtimeErrors.SUBSCRIPTION_NOT_FOUND();
  if (caller.kind === 'anonymous' && !['public', 'optionalUser'].includes(operation.access))
    throw errors.UNAUTHORIZED();
  // Before the question is put together: what changes meanwhile ends it.
  const ends = endOf(operation);
  const read = await operation.live(caller, compileOperation(operation).accept(input));
  if (schemas.get(read.schema)?.modelOptions.conduit.realtime?.enabled === false)
    throw realtimeErrors.SUBSCRIPTION_NOT_FOUND();
  // Another operation may ask the same, and end at another time.
  return { ...read, key: `${operation.id} ${read.key}`, ends, asker: callerKey(caller) };
}

const byId = new WeakMap<readonly OwnedOperation[], ReadonlyMap<string, Operation>>();

/** The list is the same object until some operation comes or goes. */
function operationsById(all: readonly OwnedOperation[]): ReadonlyMap<string, Operation> {
  const known =
    byId.get(all) ??
    new Map(
      all.flatMap(({ operation }) => (operation.live ? [[operation.id, operation] as const] : [])),
    );
  byId.set(all, known);
  return known;
}

interface Asked {
  readonly operation: Operation;
  readonly input: DecodedInput;
}

/** Throws 400 and 404. */
function operationOf(all: readonly OwnedOperation[], request: WatchRequest): Asked {
  const { schema, documentId, query, endpoint } = request;
  const find = (id: string): Operation => {
    const operation = operationsById(all).get(id);
    if (!operation) throw realtimeErrors.SUBSCRIPTION_NOT_FOUND();
    return operation;
  };
  if ((schema === undefined) === (endpoint === undefined))
    throw invalid('schema', 'required', 'name a schema or an endpoint');
  if (endpoint !== undefined) return endpointCall(find(`database.functions.${endpoint}`), request);
  const shared = pick(request, ['populate', 'scope']);
  if (documentId !== undefined)
    return {
      operation: find(`database.records.${schema}.get`),
      input: inputOf({ params: { id: documentId }, query: shared }),
    };
  const list = { ...shared, ...pick(request, ['sort', 'limit']) };
  if (query === undefined)
    return { operation: find(`database.records.${schema}.list`), input: inputOf({ query: list }) };
  const listed = find(`database.records.${schema}.list`);
  const filtered = operationsById(all).get(`database.records.${schema}.query`);
  if (!filtered)
    throw realtimeErrors.FILTER_NOT_ALLOWED({
      message: `${listed.id.split('.')[2]} does not let clients filter: an operator can switch conduitOptions.cms.query on`,
    });
  return { operation: filtered, input: inputOf({ query: list, body: { query } }) };
}

const inputOf = (given: Partial<DecodedInput>): DecodedInput => ({
  params: {},
  query: {},
  headers: {},
  body: undefined,
  ...given,
});

const pick = (
  request: WatchRequest,
  names: readonly (keyof WatchRequest)[],
): Record<string, unknown> =>
  Object.fromEntries(
    names.flatMap((name) => (request[name] === undefined ? [] : [[name, request[name]]])),
  );

/** Each input stands where the endpoint has declared it. Throws 400 for one that it does not know. */
function endpointCall(operation: Operation, request: WatchRequest): Asked {
  const { params, query, body } = operation.input;
  const places = { params, query, body: body as typeof query };
  const given = { ...request.input, ...pick(request, ['sort', 'limit', 'populate', 'scope']) };
  const input: Record<'params' | 'query' | 'body', Record<string, unknown>> = {
    params: {},
    query: {},
    body: {},
  };
  for (const [name, value] of Object.entries(given)) {
    const place = (['params', 'query', 'body'] as const).find((one) =>
      Object.hasOwn(places[one]?.properties ?? {}, name),
    );
    if (!place) throw invalid(`input.${name}`, 'unknown', 'is no input of this endpoint');
    input[place][name] = value;
  }
  return {
    operation,
    input: inputOf({ ...input, ...(body === undefined && { body: undefined }) }),
  };
}
