/** Configuration of the client surface (spec/router.md section 3). */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless, sensitive } from '../../kernel/config/config-definition.ts';
import {
  corsConfig,
  corsProblems,
  hostUrlConfig,
  hostUrlProblems,
  hstsConfig,
  hstsProblems,
} from '../../kernel/config/surface-config.ts';
import { limitPattern } from '../../kernel/middlewares/middleware-lists.ts';
import { channelProblems, channelsConfig } from './channels/definitions.ts';

const rateLimit = Type.Object({
  maxRequests: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    default: 300,
    description: 'Requests that one user, or else one address, may send within `resetInterval`.',
  }),
  resetInterval: Type.Integer({
    minimum: 1,
    maximum: 3_600,
    default: 1,
    description: 'Seconds over which requests are counted.',
  }),
  perUser: Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    default: 0,
    description:
      'Requests that one signed-in user may send within `resetInterval`, where that is another number than for addresses. 0: `maxRequests`.',
  }),
  burst: Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    default: 0,
    description:
      'Requests beyond `maxRequests` that may come at once after a quiet time. The budget then comes back bit by bit; with 0 it is whole again at the end of each `resetInterval`.',
  }),
  peoplePerAddress: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    default: 10,
    description:
      'How many people one address stands for: sign-ups, logins, codes and links are limited for each of them. More where many share an address, such as a school, or a server that signs users in itself.',
  }),
  operations: Type.Record(
    Type.String({ pattern: '^[A-Za-z][\\w.-]{0,127}$' }),
    Type.String({
      pattern: limitPattern,
      description: 'Requests and seconds, such as `50/1`; at most an hour',
    }),
    {
      default: {},
      maxProperties: 100,
      description:
        'Limits of single operations in place of the declared ones, such as `{ "embeddings.search": "50/1" }`. Operation ids are under `handler` in `GET /router/routes`.',
    },
  ),
  store: Type.Union([Type.Literal('auto'), Type.Literal('memory')], {
    default: 'auto',
    description:
      'Where requests are counted: `auto` by all nodes together where there is a Redis, `memory` by each node alone.',
  }),
  failOpen: Type.Boolean({
    default: true,
    description:
      'What holds while Redis does not answer: each node counts alone, or (false) what has a limit is refused with 503.',
  }),
});

const count = (minimum: number, maximum: number, of: number, description: string) =>
  Type.Integer({ minimum, maximum, default: of, description });

/** What one request may use, whatever it causes: see docs/operations/limits.md. */
const requests = Type.Object({
  seconds: count(
    1,
    300,
    30,
    'Seconds from the arrival of a request to its answer, waiting included. Few operations have longer ones.',
  ),
  megabytesIn: count(
    16,
    256,
    16,
    'Megabytes of input once references and variables are put in their places.',
  ),
  megabytesOut: count(
    1,
    16,
    16,
    'Megabytes of records that the answer to one request may be made of.',
  ),
  statements: count(
    100,
    1_000_000,
    5_000,
    'Statements in the database that one request may cause. Operators may do twenty times as many.',
  ),
  lockedRows: count(
    1_000,
    1_000_000,
    60_000,
    'Records that one request may change. Operators may change twenty times as many.',
  ),
  outboundCalls: count(5, 10_000, 50, 'Calls to servers of others that one request may cause.'),
  callsPerCaller: count(
    1,
    10_000,
    64,
    'Requests of one user, or else one address, that are worked on at once. Others wait.',
  ),
  heavyCallsPerCaller: count(
    1,
    10_000,
    8,
    'Those among them that may take long: lists, filters, batches, GraphQL, many records.',
  ),
  callsAtOnce: count(4, 100_000, 256, 'Requests that one process works on at once. Others wait.'),
  maxWaitSeconds: count(
    1,
    60,
    2,
    'Seconds that a request may wait for its turn. Then it is answered 429 or 503 with `Retry-After`.',
  ),
});

const realtime = Type.Object({
  eventsPerSecond: count(
    1,
    10_000,
    50,
    'Events that one socket, or messages that one connection of GraphQL subscriptions, may send in a second.',
  ),
  connectionsPer10s: count(
    1,
    1_000_000,
    200,
    'New connections for sockets that one address may open in ten seconds, each with up to eight namespaces. More where many users share one address.',
  ),
  roomsPerSocket: count(
    1,
    10_000,
    1_000,
    'Channels that one socket may be in, and rooms of a function with sockets.',
  ),
  visitorCaptcha: Type.Boolean({
    default: false,
    description:
      'Whether a socket, or a connection of GraphQL subscriptions, of somebody who is not signed in must bring a `captchaToken` in its handshake, while `captcha.enabled`.',
  }),
});

const requestId = Type.Object({
  header: Type.String({
    default: '',
    maxLength: 64,
    pattern: '^([A-Za-z0-9-]+-([Ii][Dd]|[Rr][Aa][Yy]))?$',
    description:
      'Header in which a proxy gives requests their id, such as `CF-Ray`; its name ends with `-Id` or `-Ray`. It counts before `X-Request-Id` and is answered too. Empty: `X-Request-Id` alone.',
  }),
});

const openness = (description: string) =>
  Type.Union([Type.Literal('auto'), Type.Boolean()], {
    default: 'auto',
    description: `${description} \`auto\`: only while core.env is \`development\`.`,
  });

const graphql = Type.Object({
  enabled: Type.Boolean({
    default: true,
    description: 'Whether the client surface answers GraphQL at `/graphql`.',
  }),
  introspection: openness('Whether clients may read the GraphQL schema.'),
  explorer: openness('Whether browsers get a page to try GraphQL on.'),
  maxDepth: Type.Integer({
    ...harmless,
    minimum: 1,
    maximum: 50,
    default: 10,
    description: 'Levels of fields that an operation may have.',
  }),
  maxComplexity: Type.Integer({
    ...harmless,
    minimum: 1,
    maximum: 1_000_000,
    default: 1_000,
    description:
      'Objects that an operation may ask for: each record counts, with the length of lists.',
  }),
  maxAliases: Type.Integer({
    ...harmless,
    minimum: 0,
    maximum: 1_000,
    default: 20,
    description: 'Aliases that an operation may have.',
  }),
  maxRootFields: Type.Integer({
    ...harmless,
    minimum: 1,
    maximum: 100,
    default: 20,
    description:
      'Fields at the root of an operation. Each is a call of its own and counts as one request.',
  }),
});

const captcha = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description:
      'Whether captchas are checked. Which routes want one is set in the modules, such as `captcha.routes` in authentication.',
  }),
  provider: Type.Union(
    [Type.Literal('recaptcha'), Type.Literal('hcaptcha'), Type.Literal('turnstile')],
    {
      default: 'recaptcha',
      description: 'The service whose captcha your pages show.',
    },
  ),
  secretKey: sensitive({ description: 'The secret that the service gave you for checking.' }),
  verifyUrl: Type.String({
    default: '',
    maxLength: 500,
    pattern: '^(https?://.+)?$',
    description: 'Another address that checks in the same way. Empty: that of the service.',
  }),
  hostnames: Type.Array(Type.String({ maxLength: 253 }), {
    default: [],
    maxItems: 50,
    description: 'Hosts whose pages may show the captcha. Empty: whatever the service accepts.',
  }),
  minimumScore: Type.Number({
    default: 0.5,
    minimum: 0,
    maximum: 1,
    description: 'Of reCAPTCHA v3, which answers a score: the least that passes.',
  }),
});

const transports = Type.Object({
  rest: Type.Boolean({
    default: true,
    description: 'REST on the client surface. It cannot be switched off.',
  }),
  graphql: Type.Boolean({
    default: true,
    description: 'GraphQL on the client surface; `graphql.enabled` must be on too.',
  }),
  sockets: Type.Boolean({
    default: true,
    description: 'Realtime for clients. CLIENT_SOCKET_PORT=-1 switches it off, nothing here does.',
  }),
});

const transportProblems = ({ rest, sockets }: Static<typeof transports>) =>
  Object.entries({ rest, sockets }).flatMap(([name, on]) =>
    on
      ? []
      : [{ path: `transports.${name}`, rule: 'available', message: 'cannot be switched off here' }],
  );

export const routerConfig = defineConfig({
  schema: Type.Object({
    hostUrl: hostUrlConfig('client'),
    cors: corsConfig({
      surface: 'client',
      allowedHeaders:
        'Content-Type,Authorization,Cache-Control,clientid,clientsecret,captchatoken,Idempotency-Key,If-Match',
      exposedHeaders:
        'Content-Type,Authorization,Cache-Control,ETag,Retry-After,RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset,Idempotency-Replayed,X-Request-Id',
    }),
    hsts: hstsConfig('client'),
    rateLimit,
    requests,
    requestId,
    security: Type.Object({
      clientValidation: Type.Boolean({
        default: false,
        description:
          'Whether only registered apps may use the client surface: headers `clientid` and `clientsecret`, for pages their origin. Tokens then belong to one app.',
      }),
    }),
    captcha,
    transports,
    realtime,
    channels: channelsConfig,
    graphql,
    docs: Type.Object({
      public: Type.Boolean({
        default: true,
        description:
          'Whether the API documents need no credential. Otherwise only signed-in users read them.',
      }),
    }),
  }),
  check: ({ hostUrl, hsts, cors, transports: requested, channels, captcha }) => [
    ...hostUrlProblems(hostUrl),
    ...hstsProblems(hsts),
    ...transportProblems(requested),
    ...corsProblems(cors),
    ...channelProblems(channels),
    ...(captcha.enabled && captcha.secretKey === ''
      ? [
          {
            path: 'captcha.secretKey',
            rule: 'required',
            message: 'captchas cannot be checked without it',
          },
        ]
      : []),
  ],
});

export type RouterConfig = Static<typeof routerConfig.schema>;
