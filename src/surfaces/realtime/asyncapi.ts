/** The AsyncAPI 3.0 description of what goes over sockets, made from what namespaces declare and from what is served here. */
import Type, { type TSchema } from 'typebox';
import { defineOperation, type Operation } from '../../kernel/operations/operation.ts';
import type { SentEvent, SocketNamespaces } from '../../kernel/sockets/socket-namespace.ts';
import { version } from '../../kernel/version.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import { platformEvents, RefreshAuth } from './protocol.ts';

/** What every namespace takes beside its own events. */
const sessionEvents = (['authenticate', 'refreshAuth'] as const).map((name) => ({
  name,
  summary: 'Go on with another token of the same user',
  input: RefreshAuth as TSchema,
}));

const id = Type.String();
const place = { watch: id, position: Type.String() };
const SocketFailure = Type.Object({
  name: Type.String(),
  status: Type.Integer(),
  code: Type.String(),
  message: Type.String(),
});

const ListChange = Type.Union([
  Type.Object({
    kind: Type.Enum(['added', 'changed']),
    id,
    index: Type.Integer({ minimum: 0 }),
    record: Type.Object({}, { additionalProperties: true }),
  }),
  Type.Object({ kind: Type.Literal('removed'), id }),
]);

/** What the namespaces of the platform itself send. */
const sent: Readonly<Record<'/database' | '/communications', readonly SentEvent[]>> = {
  '/database': [
    {
      name: 'records',
      summary: 'A list that is watched is different',
      payload: Type.Object({ ...place, changes: Type.Array(ListChange) }),
    },
    {
      name: 'value',
      summary: 'What a watched endpoint works out is different',
      payload: Type.Object({ ...place, value: Type.Unknown() }),
    },
    {
      name: 'gap',
      summary: 'A watched list is not kept current any more: ask anew',
      payload: Type.Object({
        watch: id,
        reason: Type.Enum(['lost', 'slow', 'changed', 'refused', 'failed']),
        error: Type.Optional(SocketFailure),
      }),
    },
    {
      name: 'change',
      summary: 'A record that is subscribed to has changed',
      payload: Type.Object({
        version: Type.Literal(1),
        operation: Type.Enum(['insert', 'update', 'delete']),
        schema: Type.String(),
        documentId: id,
        occurredAt: Type.String({ format: 'date-time' }),
        sequence: Type.Integer(),
      }),
    },
    {
      name: 'conduit_error',
      summary: 'Something was refused, or the session ends',
      payload: SocketFailure,
    },
  ],
  '/communications': [
    {
      name: 'notification',
      summary: 'Something is new in the inbox',
      payload: Type.Object({}, { additionalProperties: true }),
    },
    {
      name: 'notification:read',
      summary: 'Something was read, here or elsewhere',
      payload: Type.Object({}, { additionalProperties: true }),
    },
    {
      name: 'unread-count',
      summary: 'How much is unread now',
      payload: Type.Object({ unreadCount: Type.Integer() }),
    },
    {
      name: 'conduit_error',
      summary: 'Something was refused, or the session ends',
      payload: SocketFailure,
    },
  ],
};

interface Described {
  readonly name: string;
  readonly summary: string;
  readonly visitors?: boolean;
  readonly takes: readonly {
    readonly name: string;
    readonly summary: string;
    readonly input: TSchema;
    readonly parameters?: readonly string[];
  }[];
  readonly sends: readonly SentEvent[];
}

const platformNamespaces: readonly Described[] = [
  {
    name: '/database',
    summary: 'Lists that are kept current, and notices of changes',
    takes: [...platformEvents, ...sessionEvents],
    sends: sent['/database'],
  },
  {
    name: '/communications',
    summary: 'What is new in the inbox of the user',
    takes: sessionEvents,
    sends: sent['/communications'],
  },
];

/** `/chat` becomes `chat`, an event of it `chat.message`, and `/functions/vote` `functions.vote`. */
const keyOf = (namespace: string): string => namespace.slice(1).replaceAll('/', '.');

/** The document, as an object. */
export function asyncApiDocument(sockets: Pick<SocketNamespaces, 'all'>, hostUrl: string): object {
  const declared = sockets.all().map(({ name, summary, visitors, events, sends }) => ({
    name,
    summary,
    ...(visitors === true && { visitors }),
    takes: [...events, ...sessionEvents],
    sends,
  }));
  const all: readonly Described[] = [...platformNamespaces, ...declared];
  return {
    asyncapi: '3.0.0',
    info: {
      title: 'Penstock realtime',
      version,
      description:
        'Socket.IO 4 with the path `/realtime`; each channel is a namespace. An event that a client sends is acknowledged with `{ok: true, ...}` or `{ok: false, error}`.',
    },
    defaultContentType: 'application/json',
    servers: URL.canParse(hostUrl)
      ? { client: { host: new URL(hostUrl).host, pathname: '/realtime', protocol: 'socket.io' } }
      : {},
    channels: Object.fromEntries(all.map((one) => [keyOf(one.name), channelOf(one)])),
    operations: Object.fromEntries(all.flatMap(operationsOf)),
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'Or `auth.token` of the handshake' },
      },
    },
  };
}

function channelOf({ name, summary, takes, sends }: Described): object {
  const messages = [
    ...takes.map((event) => [
      `take_${event.name}`,
      {
        name: event.name,
        summary: event.parameters
          ? `${event.summary}. Arguments in this order: ${event.parameters.join(', ')}`
          : event.summary,
        payload: event.input,
      },
    ]),
    ...sends.map((event) => [
      `send_${event.name}`,
      { name: event.name, summary: event.summary, payload: event.payload },
    ]),
  ] as const;
  return { address: `${name}/`, description: summary, messages: Object.fromEntries(messages) };
}

function operationsOf({ name, visitors, takes, sends }: Described) {
  const key = keyOf(name);
  const operation = (action: 'receive' | 'send', message: string) => ({
    action,
    channel: { $ref: `#/channels/${key}` },
    messages: [{ $ref: `#/channels/${key}/messages/${message}` }],
    ...(!visitors && { security: [{ $ref: '#/components/securitySchemes/token' }] }),
  });
  return [
    ...takes.map((event) => [
      `${key}.receive.${event.name}`,
      operation('receive', `take_${event.name}`),
    ]),
    ...sends.map((event) => [`${key}.send.${event.name}`, operation('send', `send_${event.name}`)]),
  ];
}

/** `GET /asyncapi.json`, for whoever may read the other descriptions. */
export const asyncApiOperation = (
  sockets: Pick<SocketNamespaces, 'all'>,
  source: SurfaceOptionsSource,
): Operation =>
  defineOperation({
    surface: 'client',
    access: source.current().docsPublic ? 'public' : 'user',
    limit: 'standard',
    id: 'realtime.description',
    method: 'GET',
    path: '/asyncapi.json',
    graphql: false,
    input: {},
    output: Type.Record(Type.String(), Type.Unknown()),
    summary: 'Get the AsyncAPI 3.0 description of the socket namespaces',
    handler: () => asyncApiDocument(sockets, source.current().hostUrl) as Record<string, unknown>,
  });
