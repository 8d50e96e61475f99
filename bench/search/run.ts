/**
 * Measures searches: how good the orders are on a labelled set, and how long they take for callers who may read much or
 * little. `npm run bench:search -- --dry` leaves RESULTS.md as it is.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median, percentile, seededRandom } from '../statistics.ts';
import { questions, texts } from './labelled.ts';

const RECORDS = 50_000;
const DIMENSIONS = 512;
const CLUSTERS = 500;
const BATCH = 1_000;
const FEW = 10;
const SEARCHES = 60;
const MODES = ['vector', 'keyword', 'hybrid'] as const;
type Mode = (typeof MODES)[number];

type Json = Record<string, unknown>;
interface Hit {
  readonly document: { readonly _id: string; readonly title: string };
}

async function call(
  { adminOrigin, clientOrigin, masterKey }: Platform,
  path: string,
  { body, token, method = 'POST' }: { body?: Json; token?: string; method?: string } = {},
): Promise<Json> {
  const [origin, credential] =
    token === undefined
      ? [adminOrigin, { masterkey: masterKey }]
      : [clientOrigin, token === '' ? {} : { authorization: `Bearer ${token}` }];
  const answer = await fetch(origin + path, {
    method,
    headers: { 'content-type': 'application/json', ...(credential as Record<string, string>) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status} ${text}`);
  return JSON.parse(text) as Json;
}

async function register(platform: Platform): Promise<{ userId: string; token: string }> {
  const body = { email: `${crypto.randomUUID()}@example.com`, password: 'Battery-Staple-17' };
  await call(platform, '/authentication/local/new', { body, token: '' });
  const session = await call(platform, '/authentication/local', { body, token: '' });
  return { userId: String(session.userId), token: String(session.accessToken) };
}

async function search(platform: Platform, body: Json): Promise<readonly Hit[]> {
  const { hits } = await call(platform, '/embeddings/search', { body: { limit: 10, ...body } });
  return hits as readonly Hit[];
}

async function waitForRecords(
  platform: Platform,
  schemaName: string,
  records: number,
): Promise<void> {
  for (;;) {
    const path = `/embeddings/status?schemaName=${schemaName}`;
    const { generationQueue } = await call(platform, path, { method: 'GET' });
    if ((generationQueue as { completed: number }).completed >= records) return;
    await sleep(100);
  }
}

interface Quality {
  readonly mode: Mode;
  readonly ndcg: number;
  readonly first: number;
}

/** One right answer each: what it adds falls with its place. */
async function quality(platform: Platform): Promise<readonly Quality[]> {
  const fields = { title: 'String', body: 'String' };
  await call(platform, '/database/schemas', { body: { name: 'Labelled', fields } });
  const config = {
    schemaName: 'Labelled',
    sourceFields: ['title', 'body'],
    targetField: 'meaning',
  };
  await call(platform, '/embeddings/configs', { body: { ...config, language: 'english' } });
  const docs = texts.map(([title, body]) => ({ title, body }));
  await call(platform, '/database/schemas/Labelled/docs/many', { body: { inputDocuments: docs } });
  await waitForRecords(platform, 'Labelled', docs.length);
  const results: Quality[] = [];
  for (const mode of MODES) {
    let [gain, first] = [0, 0];
    for (const { text, answer } of questions) {
      const hits = await search(platform, { schemaName: 'Labelled', text, mode });
      const place = hits.findIndex(({ document }) => document.title === answer);
      gain += place < 0 ? 0 : 1 / Math.log2(place + 2);
      first += place === 0 ? 1 : 0;
    }
    results.push({ mode, ndcg: gain / questions.length, first: first / questions.length });
  }
  return results;
}

const unit = (vector: Float32Array): Float32Array => {
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  return vector.map((x) => x / length);
};

/** Points around centres, as texts about the same are. */
function* points(): Generator<Float32Array> {
  const random = seededRandom(16);
  const gauss = (): number => random() + random() + random() - 1.5;
  const centres = Array.from({ length: CLUSTERS }, () =>
    Float32Array.from({ length: DIMENSIONS }, gauss),
  );
  for (let i = 0; i < RECORDS; i += 1) {
    const centre = centres[Math.floor(random() * CLUSTERS)] ?? new Float32Array(DIMENSIONS);
    yield unit(centre.map((x) => x + gauss() * 0.5));
  }
}

interface World {
  readonly many: string;
  readonly few: string;
  readonly client: pg.Client;
}

/** Records of two users, with vectors that no model has made. */
async function prepare(platform: Platform): Promise<World> {
  await call(platform, '/database/schemas', {
    body: {
      name: 'Big',
      fields: { title: 'String', rank: 'Number' },
      conduitOptions: { cms: { enabled: true }, authorization: { enabled: true } },
    },
  });
  const [many, few] = [await register(platform), await register(platform)];
  const ids: string[] = [];
  const create = async (token: string, from: number, count: number): Promise<void> => {
    const docs = Array.from({ length: count }, (_, i) => ({
      title: `text ${from + i}`,
      rank: (from + i) % 100,
    }));
    const answer = await call(platform, '/database/Big/many', { body: { docs }, token });
    for (const { _id } of answer.docs as readonly { _id: string }[]) ids.push(_id);
  };
  await create(few.token, 0, FEW);
  for (let at = FEW; at < RECORDS; at += BATCH)
    await create(many.token, at, Math.min(BATCH, RECORDS - at));
  // What was written before the configuration is there stays without a model.
  await sleep(2_000);
  const config = { schemaName: 'Big', sourceFields: ['title'], targetField: 'meaning' };
  const made = await call(platform, '/embeddings/configs', {
    body: { ...config, backfill: 'none' },
  });
  const { generation } = made.config as { generation: string };
  const { connection } = await platform.database();
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect();
  await insertVectors(client, generation, ids);
  return { many: many.userId, few: few.userId, client };
}

async function insertVectors(
  client: pg.Client,
  generation: string,
  ids: readonly string[],
): Promise<void> {
  const vectors = [...points()].map(({ buffer }) => Buffer.from(buffer));
  for (let at = 0; at < ids.length; at += BATCH)
    await client.query(
      `insert into penstock.embeddings_vectors (generation_id, record_id, ordinal, starts, ends, hash, version, vector)
       select $1::uuid, p.id, 0, 0, 9, '\\x00', 1, p.vector from unnest($2::text[], $3::bytea[]) p(id, vector)`,
      [generation, ids.slice(at, at + BATCH), vectors.slice(at, at + BATCH)],
    );
  await client.query('update penstock.embeddings_generations set version = 1 where id = $1::uuid', [
    generation,
  ]);
  await client.query('analyze penstock.embeddings_vectors');
}

interface Timing {
  readonly who: string;
  readonly times: readonly number[];
}

/** The same text each time, so that its vector is known: the model is measured elsewhere. */
async function timings(platform: Platform, world: World): Promise<readonly Timing[]> {
  const everything = { schemaName: 'Big', text: 'one and the same question' };
  const cases: readonly (readonly [string, Json])[] = [
    ['operator, everything', {}],
    ['operator, filter that 1 % fit', { filter: { rank: 7 } }],
    ['user with all but ten records', { userId: world.many }],
    ['the same, filter that 1 % fit', { userId: world.many, filter: { rank: 7 } }],
    [`user with ${FEW} records`, { userId: world.few }],
  ];
  await search(platform, everything);
  const results: Timing[] = [];
  for (const [who, more] of cases) {
    const times: number[] = [];
    for (let i = -10; i < SEARCHES; i += 1) {
      const begin = performance.now();
      const hits = await search(platform, { ...everything, ...more });
      if (hits.length !== 10) throw new Error(`${who}: ${hits.length} hits`);
      if (i >= 0) times.push(performance.now() - begin);
    }
    results.push({ who, times });
  }
  return results;
}

/** Short texts that become vectors in a second, as a backfill makes them. */
async function modelSpeed(platform: Platform): Promise<number> {
  const inputDocuments = Array.from({ length: 500 }, (_, i) => ({
    title: `A short text about the number ${i}`,
    body: 'It says little, and says it in one sentence.',
  }));
  await call(platform, '/database/schemas/Labelled/docs/many', { body: { inputDocuments } });
  const begin = performance.now();
  await waitForRecords(platform, 'Labelled', texts.length + inputDocuments.length);
  return inputDocuments.length / ((performance.now() - begin) / 1_000);
}

const fixed = (value: number, digits = 1): string => value.toFixed(digits);
const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

interface Figures {
  readonly qualities: readonly Quality[];
  readonly speed: number;
  readonly measured: readonly Timing[];
}

function reportOf({ qualities, speed, measured }: Figures, machine: string): string {
  const qualityRows = qualities.map(
    ({ mode, ndcg, first }) => `| ${mode} | ${fixed(ndcg, 3)} | ${fixed(first, 2)} |`,
  );
  const timeRows = measured.map(
    ({ who, times }) =>
      `| ${who} | ${fixed(median(times))} | ${fixed(percentile(sorted(times), 0.99))} |`,
  );
  return `# Search, measured

Written by \`npm run bench:search\` on ${new Date().toISOString().slice(0, 10)}: ${machine}.

## How good the orders are

${texts.length} texts, ${questions.length} questions with one right answer each (\`bench/search/labelled.ts\`): more than half in other words than the text, the others by a name or number. Built-in model.

| mode | nDCG@10 | right answer first |
| --- | --: | --: |
${qualityRows.join('\n')}

The built-in model makes vectors of ${fixed(speed, 0)} short texts a second in a backfill (one thread).

## How long searches take

${RECORDS.toLocaleString('en-US')} records with row permissions and vectors of ${DIMENSIONS} dimensions, ten hits over the admin surface on one connection, without the time of the model. The search is exact: recall is 1 in every row. Milliseconds.

| | p50 | p99 |
| --- | --: | --: |
${timeRows.join('\n')}
`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { dry: { type: 'boolean', default: false } } });
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-search-'));
  const platform = await startPlatform({ dataDir });
  try {
    const rateLimit = { maxRequests: 1_000_000 };
    await call(platform, '/config/router', { body: { config: { rateLimit } }, method: 'PATCH' });
    const qualities = await quality(platform);
    const speed = await modelSpeed(platform);
    const world = await prepare(platform);
    const measured = await timings(platform, world);
    await world.client.end();
    const report = reportOf({ qualities, speed, measured }, describeMachine('18'));
    if (values.dry) console.log(report);
    else await writeFile(new URL('RESULTS.md', import.meta.url), report);
  } finally {
    await platform.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
