/** `GET /listen`: what sockets `watch`, as server-sent events, for those who cannot have a socket. */
import type { IncomingHttpHeaders } from 'node:http';
import Type from 'typebox';
import type { Kernel } from '../../host/kernel.ts';
import { errors, invalid } from '../../kernel/errors.ts';
import { presentedApp } from '../../kernel/identity.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../kernel/operations/operation.ts';
import { callKey } from '../../kernel/pipeline/request-limits.ts';
import { realtimeErrors } from './errors.ts';
import { type Listening, listenAsStream } from './event-lines.ts';
import { type LiveEngine, Watch, type WatchRequest } from './live/live-engine.ts';
import { createStreamSessions } from './live-stream.ts';
import { openSession, remainingLife } from './session.ts';
import { presentedToken, redeemed } from './tickets.ts';

const SSE = 'text/event-stream';
/** Seconds after which a stream ends by itself; its client comes back with the last position. */
const LONGEST = 3_600;
/** Streams of one caller, and of one process. */
const MAX_OF_CALLER = 20;
const MAX_STREAMS = 2_000;

const { schema, documentId, sort, limit, populate, scope, endpoint } = Watch.properties;
const json = (description: string) =>
  Type.Optional(Type.String({ maxLength: 65_536, description: `${description}, as JSON` }));

const input = {
  query: Type.Object({
    schema,
    documentId,
    query: json('Conditions, where the schema lets clients filter'),
    sort,
    limit,
    populate,
    scope,
    endpoint,
    input: json('Inputs of the endpoint'),
    since: Type.Optional(Type.String({ maxLength: 128, description: 'As `Last-Event-ID`' })),
  }),
  headers: Type.Object({
    'last-event-id': Type.Optional(
      Type.String({
        maxLength: 128,
        description: 'The last position that was heard; browsers send it by themselves',
      }),
    ),
  }),
};

const withTicket = {
  ...input,
  query: Type.Object({
    ...input.query.properties,
    ticket: Type.String({
      maxLength: 128,
      description:
        'Of `POST /realtime/ticket`. Worth something once: come back with another, and with `since`',
    }),
  }),
};

const facts = {
  surface: 'client',
  limit: standardLimit,
  method: 'GET',
  heavy: true,
  deadlineMs: LONGEST * 1_000,
  account: { statements: Number.POSITIVE_INFINITY, bytesOut: Number.POSITIVE_INFINITY },
  output: Type.Unknown({ description: 'Server-sent events' }),
  streams: {
    [SSE]:
      '`list` (`{watch, position, records}`) or `value` (`{watch, position, value}`) to begin with, and again with `gap: true` where what was missed cannot be told; then `records` (`{watch, position, changes}`) and `value`; `gap` before the stream ends because it has to be asked anew, `error` before it ends because it may not go on. The id is the position',
  },
  errors: [
    realtimeErrors.SUBSCRIPTION_NOT_FOUND,
    realtimeErrors.FILTER_NOT_ALLOWED,
    realtimeErrors.QUERY_LIMIT_EXCEEDED,
    realtimeErrors.SUBSCRIPTION_LIMIT_EXCEEDED,
  ],
} as const;

type Parts = Pick<Kernel, 'events' | 'identity' | 'tickets'> & { readonly engine: LiveEngine };

/** Who listens, and to what. */
interface Asking extends Omit<Listening, 'request'> {
  readonly address: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly lastEventId: string | undefined;
}

/** Opens streams, each of which takes a place of its caller. */
function streamsOf({
  engine,
  events,
  identity,
}: Pick<Parts, 'engine' | 'events' | 'identity'>): (asking: Asking) => Promise<Reply> {
  const sessions = createStreamSessions({ events, identity });
  const places = createPlaces();
  return async (asking) => {
    const { caller, address, signal, query, lastEventId } = asking;
    const close = places.take(callKey(caller, address));
    if (signal.aborted) close();
    signal.addEventListener('abort', close, { once: true });
    try {
      const stream = await listenAsStream(
        { engine, sessions },
        { ...asking, request: requestOf(query, lastEventId) },
      );
      return Reply.stream(SSE, ending(stream, close), {
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      });
    } catch (error) {
      close();
      throw error;
    }
  };
}

/** With a credential of the request, and with a ticket in its address. */
export function eventStreamOperations({
  engine,
  events,
  identity,
  tickets,
}: Parts): readonly Operation[] {
  const open = streamsOf({ engine, events, identity });
  const listen = defineOperation({
    ...facts,
    access: 'optionalUser',
    id: 'realtime.listen',
    path: '/listen',
    input,
    summary: 'Listen to records, a list or an endpoint',
    description:
      'The same as `watch` over sockets (docs/guides/realtime.md): the answer as the caller may see it, and what changes about it.',
    handler(context, { query, headers }) {
      const { caller, clientId: app, callerNow, address, signal } = context;
      const endsIn = () => remainingLife(presentedToken(context, identity) ?? '');
      const lastEventId = headers['last-event-id'];
      return open({ caller, app, callerNow, endsIn, address, signal, query, lastEventId });
    },
  });
  const listenWithTicket = defineOperation({
    ...facts,
    access: 'public',
    anyApp: true,
    graphql: false,
    mcp: false,
    id: 'realtime.listenWithTicket',
    path: '/listen/ticket',
    input: withTicket,
    // The ticket is the credential, which `public` does not know of.
    errors: [...facts.errors, errors.UNAUTHORIZED, errors.FORBIDDEN, errors.UNAVAILABLE],
    summary: 'Listen as the user of a ticket, where no header can be sent',
    description:
      'As `GET /listen`, for the `EventSource` of browsers. The app that the ticket was given to counts as the one that asks.',
    async handler(context, { query: { ticket, ...query }, headers }) {
      const { address, signal } = context;
      const presented = presentedApp((context.headers ?? {}) as IncomingHttpHeaders);
      const given = { token: undefined, cookies: {}, sender: undefined, app: presented, address };
      const session = await openSession(identity, await redeemed(tickets, given, ticket));
      const [caller, lastEventId] = [await session.caller(), headers['last-event-id']];
      const { app, caller: callerNow, endsIn } = session;
      return open({ caller, app, callerNow, endsIn, address, signal, query, lastEventId });
    },
  });
  return [listen, listenWithTicket];
}

/** Streams that are open, by who reads them. */
function createPlaces() {
  const open = new Map<string, number>();
  let all = 0;
  return {
    /** Answers how to free the place, which counts once. */
    take(key: string): () => void {
      const own = open.get(key) ?? 0;
      if (own >= MAX_OF_CALLER || all >= MAX_STREAMS)
        throw realtimeErrors.SUBSCRIPTION_LIMIT_EXCEEDED();
      open.set(key, own + 1);
      all += 1;
      let taken = true;
      return () => {
        if (!taken) return;
        taken = false;
        all -= 1;
        const left = (open.get(key) ?? 1) - 1;
        if (left === 0) open.delete(key);
        else open.set(key, left);
      };
    },
  };
}

function requestOf(
  { query, input, since, ...others }: Readonly<Record<string, unknown>>,
  lastEventId: string | undefined,
): WatchRequest {
  const position = lastEventId ?? since;
  return {
    ...others,
    ...(query !== undefined && { query: parsed('query', query) }),
    ...(input !== undefined && { input: parsed('input', input) as Record<string, unknown> }),
    ...(position !== undefined && { since: position as string }),
  };
}

function parsed(name: string, text: unknown): unknown {
  try {
    const value: unknown = JSON.parse(String(text));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Refused below.
  }
  throw invalid(name, 'json', 'must be an object, as JSON');
}

async function* ending(lines: AsyncGenerator<string>, close: () => void): AsyncGenerator<string> {
  try {
    yield* lines;
  } finally {
    close();
  }
}
