/** Configuration of embeddings (specification embeddings.md section 4). Times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, harmless, sensitive } from '../../kernel/config/config-definition.ts';
import { builtInProvider, providers } from './model.ts';

const text = (description: string) => Type.String({ default: '', maxLength: 500, description });
const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const whole = (value: number, [minimum, maximum]: readonly [number, number], description: string) =>
  Type.Integer({ default: value, minimum, maximum, description });
const harmlessWhole = (
  value: number,
  [minimum, maximum]: readonly [number, number],
  description: string,
) => Type.Integer({ ...harmless, default: value, minimum, maximum, description });

const prefix = (description: string) =>
  Type.Optional(Type.String({ maxLength: 1_000, description }));

const openai = Type.Object({
  endpoint: text(
    'Full address of an endpoint that speaks the embeddings API of OpenAI. https only.',
  ),
  apiKey: sensitive({ description: 'Key that is sent as bearer token. Empty: none is sent.' }),
  models: Type.Array(
    Type.Object({
      name: Type.String({ minLength: 1, maxLength: 200, description: 'As the provider calls it.' }),
      dimensions: Type.Integer({
        minimum: 1,
        maximum: 4_096,
        description: 'Length of its vectors.',
      }),
      queryPrefix: prefix('Stands before each text that is searched for, such as "query: ".'),
      passagePrefix: prefix('Stands before each text of a record, such as "passage: ".'),
      sendDimensions: Type.Optional(
        Type.Boolean({
          description:
            'Whether it is asked for vectors of this length, which models understand that have several.',
        }),
      ),
    }),
    { default: [], maxItems: 50, description: 'Models that may be used.' },
  ),
  defaultModel: text('The model of configurations that name none. Empty: the first one.'),
  allowInternal: flag(
    false,
    'Whether the endpoint may be on a private address and without TLS (a model in your own network).',
  ),
});

const queue = Type.Object({
  concurrency: harmlessWhole(2, [1, 16], 'Batches of records that a node works on at once.'),
  attempts: harmlessWhole(3, [1, 20], 'How often a record is tried before it counts as failed.'),
  maxBatchSize: harmlessWhole(500, [1, 500], 'Records that a backfill takes in one step at most.'),
  retryFailedMs: harmlessWhole(
    300_000,
    [1_000, 86_400_000],
    'After how long records that failed because of the provider are tried again.',
  ),
});

const security = Type.Object({
  sourceFieldAllowlist: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    default: [],
    maxItems: 100,
    description: 'Fields that may be sources although their names sound like secrets.',
  }),
  embedTimeoutMs: whole(10_000, [100, 120_000], 'How long one call of the provider may take.'),
  maxEmbedInputBytes: whole(32_768, [256, 262_144], 'Bytes of a text that somebody searches for.'),
  maxEmbedResponseBytes: whole(
    8_388_608,
    [65_536, 67_108_864],
    'Bytes of one answer of the provider.',
  ),
});

const search = Type.Object({
  defaultLimit: harmlessWhole(10, [1, 50], 'Hits of a search that names no limit.'),
  clampLimit: Type.Boolean({
    ...harmless,
    default: false,
    description:
      'Whether a search for more hits than are answered at most gets that many. Otherwise it is 400.',
  }),
  minScore: Type.Number({
    ...harmless,
    default: 0,
    minimum: 0,
    maximum: 1,
    description:
      'Score below which hits of a search by meaning are left out, when it says nothing of it.',
  }),
  index: Type.Enum(['auto', 'memory', 'exact'], {
    ...harmless,
    default: 'auto',
    description:
      '`auto`: pgvector where the database has it, an index in memory elsewhere. `memory`: never pgvector. `exact`: every vector is looked at.',
  }),
  exactUpTo: harmlessWhole(
    10_000,
    [0, 10_000_000],
    'Passages of a configuration up to which every vector is looked at; of more there is an index.',
  ),
  maxIndexMegabytes: whole(
    512,
    [16, 65_536],
    'Memory of a node for vectors that are searched. Beyond it searches by meaning answer 412.',
  ),
  readAtStart: Type.Boolean({
    ...harmless,
    default: true,
    description:
      'Whether a node that starts reads the vectors of searches with 1,000 passages or more. Otherwise the first search does.',
  }),
  idleMs: harmlessWhole(
    600_000,
    [0, 2_000_000_000],
    'After how long without a search a node gives the memory of vectors back; 0: never.',
  ),
});

const files = Type.Object({
  maxMegabytes: whole(20, [1, 500], 'Files beyond it are not read for their texts.'),
  extractTimeoutMs: whole(30_000, [1_000, 300_000], 'How long reading one file may take.'),
});

export const embeddingsConfig = defineConfig({
  schema: Type.Object({
    enabled: flag(true, 'Whether texts get embeddings and can be searched.'),
    defaultProvider: Type.Enum([...providers], {
      default: builtInProvider,
      description:
        'Provider of configurations that name none: `built-in` (English, on this machine), `openai-compatible`, or `none` (words alone).',
    }),
    providers: Type.Object({ 'openai-compatible': openai }),
    batch: Type.Object({
      maxInputs: whole(64, [1, 2_048], 'Texts of one call of the provider.'),
      maxTokens: whole(
        0,
        [0, 10_000_000],
        'Tokens of one call, estimated as a quarter of the characters; a text that has more goes alone. 0: any.',
      ),
    }),
    rate: Type.Object({
      requestsPerMinute: whole(0, [0, 100_000], 'Calls of the provider by one node; 0: any.'),
      tokensPerMinute: whole(
        0,
        [0, Number.MAX_SAFE_INTEGER],
        'Tokens that one node sends to the provider; 0: any.',
      ),
    }),
    budget: Type.Object({
      dailyTokens: whole(
        0,
        [0, Number.MAX_SAFE_INTEGER],
        'Tokens of the provider in a day (UTC), over all nodes; 0: any. Records wait for the next day.',
      ),
    }),
    cache: Type.Object({
      queryTtlMs: harmlessWhole(
        600_000,
        [0, 86_400_000],
        'How long the vector of a text that was searched for is kept.',
      ),
      shareQueries: Type.Boolean({
        default: false,
        description:
          'Whether the vector of a text serves everybody who searches for it, which saves calls of the provider. The time that a search takes then tells whether somebody else has searched for the same text.',
      }),
    }),
    queue,
    security,
    search,
    files,
  }),
  check({ providers: { 'openai-compatible': own }, defaultProvider }) {
    const { endpoint, models, defaultModel, allowInternal } = own;
    const path = 'providers.openai-compatible';
    const problems = [];
    if (endpoint !== '' && !isEndpoint(endpoint, allowInternal))
      problems.push({
        path: `${path}.endpoint`,
        rule: 'url',
        message: 'write an address like https://example.com/v1/embeddings, without credentials',
      });
    if (defaultModel !== '' && !models.some(({ name }) => name === defaultModel))
      problems.push({
        path: `${path}.defaultModel`,
        rule: 'oneOf',
        message: 'must be one of models',
      });
    if (defaultProvider === 'openai-compatible' && (endpoint === '' || models.length === 0))
      problems.push({
        path: endpoint === '' ? `${path}.endpoint` : `${path}.models`,
        rule: 'required',
        message: 'the default provider needs it',
      });
    return problems;
  },
});

export type EmbeddingsConfig = Static<typeof embeddingsConfig.schema>;

function isEndpoint(value: string, allowInternal: boolean): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  const isSecure = protocol === 'https:' || (protocol === 'http:' && allowInternal);
  return isSecure && username === '' && password === '';
}
