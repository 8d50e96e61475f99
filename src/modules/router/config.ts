/** Configuration of the client surface (spec/router.md section 3). */
import Type, { type Static } from 'typebox';
import { corsConfig, originProblems } from '../../kernel/config/cors.ts';
import { defineConfig } from '../../kernel/config/definition.ts';

const rateLimit = Type.Object({
  maxRequests: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    default: 300,
    description: 'Requests that one user, or else one address, may send within `resetInterval`.',
  }),
  resetInterval: Type.Integer({ minimum: 1, maximum: 3_600, default: 1, description: 'Seconds over which requests are counted.' }),
});

const openness = (description: string) =>
  Type.Union([Type.Literal('auto'), Type.Boolean()], {
    default: 'auto',
    description: `${description} \`auto\`: only while core.env is \`development\`.`,
  });

const graphql = Type.Object({
  enabled: Type.Boolean({ default: true, description: 'Whether the client surface answers GraphQL at `/graphql`.' }),
  introspection: openness('Whether clients may read the GraphQL schema.'),
  explorer: openness('Whether browsers get a page to try GraphQL on.'),
  maxDepth: Type.Integer({ minimum: 1, maximum: 50, default: 10, description: 'Levels of fields that an operation may have.' }),
  maxComplexity: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    default: 1_000,
    description: 'Objects that an operation may ask for: each record counts, with the length of lists.',
  }),
  maxAliases: Type.Integer({ minimum: 0, maximum: 1_000, default: 20, description: 'Aliases that an operation may have.' }),
});

export const routerConfig = defineConfig({
  schema: Type.Object({
    hostUrl: Type.String({
      maxLength: 2_048,
      default: '',
      description: 'Public address of the client surface, for links. Empty: the local one.',
    }),
    cors: corsConfig({
      surface: 'client',
      allowedHeaders: 'Content-Type,Authorization,Cache-Control,clientid,clientsecret,captchatoken,Idempotency-Key,If-Match',
      exposedHeaders:
        'Content-Type,Authorization,Cache-Control,ETag,Retry-After,RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset,Idempotency-Replayed,X-Request-Id',
    }),
    rateLimit,
    graphql,
    docs: Type.Object({
      public: Type.Boolean({
        default: true,
        description: 'Whether the API documents need no credential. Otherwise only signed-in users read them.',
      }),
    }),
  }),
  check: (config) => originProblems(config.cors.origin),
});

export type RouterConfig = Static<typeof routerConfig.schema>;
