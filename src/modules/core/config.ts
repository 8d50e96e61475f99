/** Configuration of the platform as a whole (`core`) and of its admin surface (`admin`), spec/core.md 6.3. */
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
import type { Settings } from '../../kernel/settings/settings.ts';

const CORS_ALLOWED_HEADERS =
  'Content-Type,Authorization,Cache-Control,masterkey,credential,Idempotency-Key,If-Match,Last-Event-ID,' +
  'MCP-Protocol-Version,Mcp-Session-Id,Mcp-Method,Mcp-Name';
const CORS_EXPOSED_HEADERS =
  'Content-Type,Authorization,Cache-Control,ETag,Retry-After,RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset,' +
  'Idempotency-Replayed,X-Request-Id,Mcp-Session-Id,WWW-Authenticate';

const environmentKey = (fallback: Settings['defaultEnvironment']['env']) =>
  Type.Union([Type.Literal('development'), Type.Literal('production'), Type.Literal('test')], {
    default: fallback,
    description:
      'What this installation is for. Only `development` opens the API documents and lets a first password stay. Unless it is set, `NODE_ENV` says it, or else `HOST`: `production` where other machines can call.',
  });

export const coreConfig = defineConfig({
  schema: Type.Object({
    env: environmentKey('development'),
    audit: Type.Object({
      retentionDays: Type.Integer({
        minimum: 1,
        maximum: 3_650,
        default: 365,
        description: 'Days that the audit log is kept.',
      }),
    }),
    events: Type.Object({
      retentionMinutes: Type.Integer({
        minimum: 1,
        maximum: 10_080,
        default: 60,
        description:
          'Minutes that events are kept at least for readers that were away: realtime clients that resume, the changelog of permissions. Who was away longer loads everything anew.',
      }),
      maxMegabytes: Type.Integer({
        minimum: 64,
        maximum: 1_000_000,
        default: 4_096,
        description:
          'Megabytes on disk from which events go earlier, looked at once a minute. Events that nobody has seen yet never go.',
      }),
    }),
    input: Type.Object({
      unknown: Type.Union(
        [Type.Literal('environment'), Type.Literal('report'), Type.Literal('refuse')],
        {
          ...harmless,
          default: 'environment',
          description:
            'What becomes of parameters and fields that a call does not know. `report`: they are left out, named in the header Penstock-Input-Notes and counted (`unknown_input_total`). `refuse`: 400 that names them, and what was probably meant. `environment`: where `env` is `development`, names that are nearly those of something known are refused, so that a slip of the keys is seen at once, and others reported; elsewhere all are reported. What existing clients are known to send is always taken.',
        },
      ),
    }),
    configuration: Type.Object({
      strict: Type.Boolean({
        ...harmless,
        default: false,
        description:
          'Whether a key that a configuration does not know is refused. Off: it is left out, and named under `warnings`.',
      }),
    }),
  }),
});

/** The environment decides what `env` is while nobody has set it. */
export const coreConfigFor = ({ defaultEnvironment }: Settings): typeof coreConfig =>
  defineConfig({
    ...coreConfig,
    schema: Type.Object({
      ...coreConfig.schema.properties,
      env: environmentKey(defaultEnvironment.env),
    }),
  });

const count = (value: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 10_000, default: value, description });
const seconds = (value: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 86_400, default: value, description });

const auth = Type.Object({
  tokenSecret: sensitive({
    description:
      'Without effect, for an existing panel: keys that nobody can read sign the tokens.',
  }),
  hashRounds: Type.Integer({
    minimum: 1,
    maximum: 31,
    default: 11,
    description:
      'Without effect, for an existing panel: passwords are hashed in a way that has no rounds to choose.',
  }),
  tokenExpirationTime: Type.Integer({
    minimum: 60,
    maximum: 31_536_000,
    default: 72_000,
    description: 'Seconds that the token of an admin login lives.',
  }),
  masterkeyMode: Type.Union([Type.Literal('credential'), Type.Literal('gate')], {
    default: 'credential',
    description:
      '`credential`: the master key alone is a full credential. `gate`: it must accompany an admin token; needed behind a panel whose proxy adds it to every call.',
  }),
});

const cors = corsConfig({
  surface: 'admin',
  allowedHeaders: CORS_ALLOWED_HEADERS,
  exposedHeaders: CORS_EXPOSED_HEADERS,
});

const rateLimit = Type.Object({
  loginFailuresPerUsername: count(
    5,
    'Logins that may fail for one username within `loginSeconds`.',
  ),
  loginFailuresPerAddress: count(
    20,
    'Logins that may fail from one address within `loginSeconds`.',
  ),
  loginSeconds: seconds(900, 'Seconds over which failed logins are counted.'),
  codeFailures: count(5, 'Wrong codes after which a second-factor token is void.'),
  masterKeyFailures: count(20, 'Wrong master keys from one address within `masterKeySeconds`.'),
  masterKeySeconds: seconds(60, 'Seconds over which wrong master keys are counted.'),
});

const mcp = Type.Object({
  dynamic: Type.Boolean({
    ...harmless,
    default: false,
    description:
      'Adds the tools `search_tools` and `call_tool`, which reach all tools without loading their modules.',
  }),
  allowSecrets: Type.Boolean({
    default: true,
    description:
      'Whether tools may answer secrets: those that are shown once, such as new API tokens, and stored ones.',
  }),
  callsPer10s: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    default: 60,
    description: 'Tool calls of one credential in 10 seconds: a model that loops is stopped.',
  }),
});

const transports = Type.Object({
  rest: Type.Boolean({
    default: true,
    description: 'REST on the admin surface. It cannot be switched off.',
  }),
  graphql: Type.Boolean({
    default: false,
    description: 'GraphQL on the admin surface. Not available in this version.',
  }),
  sockets: Type.Boolean({
    default: false,
    description:
      'Sockets for operators: notices of what happens, at /realtime of the admin surface and on ADMIN_SOCKET_PORT.',
  }),
  mcp: Type.Boolean({ default: true, description: 'MCP for agents at /mcp on the admin surface.' }),
});

export const adminConfig = defineConfig({
  schema: Type.Object({
    auth,
    cors,
    hostUrl: hostUrlConfig('admin'),
    hsts: hstsConfig('admin'),
    docs: Type.Object({
      public: Type.Union([Type.Literal('auto'), Type.Boolean()], {
        default: 'auto',
        description:
          'Whether the API documents need no credential. `auto`: only while core.env is `development`.',
      }),
    }),
    mcp,
    rateLimit,
    transports,
  }),
  module: 'core',
  check: ({ hostUrl, hsts, transports: requested, cors }) => [
    ...hostUrlProblems(hostUrl),
    ...hstsProblems(hsts),
    ...transportProblems(requested),
    ...corsProblems(cors),
  ],
});

export type CoreConfig = Static<typeof coreConfig.schema>;
export type AdminConfig = Static<typeof adminConfig.schema>;

function transportProblems(requested: Static<typeof transports>) {
  const expected = { rest: true, graphql: false };
  return Object.entries(expected)
    .filter(([name, value]) => requested[name as keyof typeof expected] !== value)
    .map(([name, value]) => ({
      path: `transports.${name}`,
      rule: 'available',
      message: `can only be ${value} in this version`,
    }));
}
