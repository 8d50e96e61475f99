/** The AsyncAPI 3.0 description of what goes over sockets, made from what namespaces declare and from what is served here. */
import Type, { type TSchema } from 'typebox';
import { defineOperation, type Operation } from '../../kernel/operations/operation.ts';
import type { OperatorNotices, OperatorTopic } from '../../kernel/sockets/operator-notices.ts';
import type { SentEvent, SocketNamespaces } from '../../kernel/sockets/socket-namespace.ts';
import { version } from '../../kernel/version.ts';
import type { SurfaceOptionsSource } from '../http/options.ts';
import { operatorEvents } from './operators/operator-session.ts';
import { platformEvents, RefreshAuth } from './protocol.ts';
import { stoppingEvent } from './stopping.ts';

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
  const all = [...platformNamespaces, ...declared].map((one) => ({
    ...one,
    sends: [...one.sends, stoppingEvent],
  }));
  return documentOf(all, {
    ...{ hostUrl, server: 'client', title: 'Penstock realtime' },
    description: 'Or `auth.token` of the handshake',
  });
}

const refused: SentEvent = {
  name: 'conduit_error',
  summary: 'Something was refused, or the session ends',
  payload: SocketFailure,
};

const dropped: SentEvent = {
  name: 'dropped',
  summary: 'So many notices of a topic were left out, because there were too many in a second',
  payload: Type.Object({ topic: Type.String(), count: Type.Integer() }),
};

/** The sockets of the admin surface. */
const operatorDocument = (notices: Pick<OperatorNotices, 'all'>, hostUrl: string): object =>
  documentOf(
    notices.all().map(({ name, summary, topics }) => ({
      ...{ name, summary, takes: [...operatorEvents, ...sessionEvents] },
      sends: [
        ...topics.map((topic) => ({ ...topic, summary: topicSummary(topic) })),
        dropped,
        refused,
      ],
    })),
    {
      ...{ hostUrl, server: 'admin', title: 'Penstock realtime for operators' },
      description:
        'A session of an admin or an API token: also `auth.token` of the handshake, the header `credential`, or the master key (`masterkey`, as header or in `auth`)',
    },
  );

const topicSummary = ({ summary, superAdmin, unscoped, onRequest }: OperatorTopic): string =>
  [
    summary,
    ...(onRequest ? ['heard after `subscribe`'] : []),
    ...(superAdmin ? ['super admins alone'] : []),
    ...(unscoped ? ['credentials without scopes alone'] : []),
  ].join('; ');

interface DocumentFacts {
  readonly title: string;
  readonly server: string;
  readonly hostUrl: string;
  /** Of the credential. */
  readonly description: string;
}

function documentOf(
  all: readonly Described[],
  { title, server, hostUrl, description }: DocumentFacts,
): object {
  return {
    asyncapi: '3.0.0',
    info: {
      title,
      version,
      description:
        'Socket.IO 4 with the path `/realtime`; each channel is a namespace. An event that a client sends is acknowledged with `{ok: true, ...}` or `{ok: false, error}`.',
    },
    defaultContentType: 'application/json',
    servers: URL.canParse(hostUrl)
      ? { [server]: { host: new URL(hostUrl).host, pathname: '/realtime', protocol: 'socket.io' } }
      : {},
    channels: Object.fromEntries(all.map((one) => [keyOf(one.name), channelOf(one)])),
    operations: Object.fromEntries(all.flatMap(operationsOf)),
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description },
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

/** The same of the admin surface. */
export const operatorDescription = (
  notices: Pick<OperatorNotices, 'all'>,
  source: SurfaceOptionsSource,
): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: 'standard',
    id: 'docs.realtime',
    method: 'GET',
    path: '/asyncapi.json',
    mcp: false,
    input: {},
    output: Type.Record(Type.String(), Type.Unknown()),
    summary: 'Get the AsyncAPI 3.0 description of the sockets for operators',
    handler: () => operatorDocument(notices, source.current().hostUrl) as Record<string, unknown>,
  });
