/** Searches of a labelled set in every mode, and the model that makes its vectors. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Platform } from '../platform.ts';
import { median, percentile } from '../statistics.ts';
import { questions, texts } from './labelled.ts';
import { call, search, waitForRecords } from './requests.ts';

const MODES = ['vector', 'keyword', 'hybrid'] as const;
type Mode = (typeof MODES)[number];

export interface Quality {
  readonly mode: Mode;
  readonly ndcg: number;
  /** How often the right answer is among ten. */
  readonly found: number;
  readonly first: number;
}

export async function fillLabelled(
  platform: Platform,
  schemaName = 'Labelled',
  model: object = {},
): Promise<void> {
  const fields = { title: 'String', body: 'String' };
  await call(platform, '/database/schemas', { body: { name: schemaName, fields } });
  const config = {
    schemaName,
    sourceFields: ['title', 'body'],
    targetField: 'meaning',
  };
  await call(platform, '/embeddings/configs', {
    body: { ...config, language: 'english', ...model },
  });
  const docs = texts.map(([title, body]) => ({ title, body }));
  const path = `/database/schemas/${schemaName}/docs/many`;
  await call(platform, path, { body: { inputDocuments: docs } });
  await waitForRecords(platform, schemaName, docs.length);
}

/** One right answer each: what it adds falls with its place. */
export async function qualityOf(
  platform: Platform,
  schemaName: string,
): Promise<readonly Quality[]> {
  const results: Quality[] = [];
  for (const mode of MODES) {
    let [gain, first, found] = [0, 0, 0];
    for (const { text, answer } of questions) {
      const hits = await search(platform, { schemaName, text, mode });
      const place = hits.findIndex(({ document }) => document.title === answer);
      gain += place < 0 ? 0 : 1 / Math.log2(place + 2);
      first += place === 0 ? 1 : 0;
      found += place < 0 ? 0 : 1;
    }
    const of = questions.length;
    results.push({ mode, ndcg: gain / of, first: first / of, found: found / of });
  }
  return results;
}

interface Speed {
  readonly perSecond: number;
  readonly alone: readonly number[];
  readonly beside: readonly number[];
}

/** Backfills, each with so many texts; between them as many reads are made as beside them. */
const ROUNDS = Number(process.env.SEARCH_ROUNDS ?? 4);
const TEXTS = 500;
const POLL_MS = 500;
/** Reads before the first that counts. */
const WARM = 500;

/**
 * Short texts that become vectors in a second, as a backfill makes them, and reads beside it and without it in turns, so
 * that what else goes on meets both.
 */
async function modelSpeed(platform: Platform): Promise<Speed> {
  const { connection } = await platform.database();
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await measureSpeed(platform, client);
  } finally {
    await client.end();
  }
}

/** Whether so many texts have vectors: asked of the database, so that the status of everything is not measured too. */
async function embedded(client: pg.Client, records: number): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ n: number }>(
      `select count(*)::integer as n from penstock.embeddings_vectors v
       join penstock.embeddings_configs c on c.generation_id = v.generation_id
       where c.schema_name = 'Labelled' and v.ordinal = 0 and v.hash is not null`,
    );
    if ((rows[0]?.n ?? 0) >= records) return;
    await sleep(POLL_MS);
  }
}

async function measureSpeed(platform: Platform, client: pg.Client): Promise<Speed> {
  const read = async (into: number[]): Promise<void> => {
    const begin = performance.now();
    await call(platform, '/database/schemas/Labelled/docs?limit=20', { method: 'GET' });
    into.push(performance.now() - begin);
    await sleep(1);
  };
  for (let i = 0; i < WARM; i += 1) await read([]);
  const [alone, beside]: [number[], number[]] = [[], []];
  let took = 0;
  for (let round = 1; round <= ROUNDS; round += 1) {
    const inputDocuments = Array.from({ length: TEXTS }, (_, i) => ({
      title: `A short text about the number ${round * TEXTS + i}`,
      body: 'It says little, and says it in one sentence.',
    }));
    await call(platform, '/database/schemas/Labelled/docs/many', { body: { inputDocuments } });
    const begin = performance.now();
    let isDone = false;
    const done = embedded(client, texts.length + round * TEXTS).then(() => {
      isDone = true;
      took += performance.now() - begin;
    });
    while (!isDone) await read(beside);
    await done;
    while (alone.length < beside.length) await read(alone);
  }
  return { perSecond: (ROUNDS * TEXTS) / (took / 1_000), alone, beside };
}

/** The section about the orders of a search. */
export async function reportOrders(platform: Platform): Promise<string> {
  const rows = (await qualityOf(platform, 'Labelled')).map(
    ({ mode, ndcg, first }) => `| ${mode} | ${ndcg.toFixed(3)} | ${first.toFixed(2)} |`,
  );
  return `${texts.length} texts, ${questions.length} questions with one right answer each (\`bench/search/labelled.ts\`): more than half in other words than the text, the others by a name or number. Built-in model.

| mode | nDCG@10 | right answer first |
| --- | --: | --: |
${rows.join('\n')}
`;
}

/** The section about the model. */
export async function reportModel(platform: Platform): Promise<string> {
  const { perSecond, alone, beside } = await modelSpeed(platform);
  const at = (times: readonly number[], share: number): number =>
    percentile(
      times.toSorted((a, b) => a - b),
      share,
    );
  const facts = (times: readonly number[]): string =>
    `p50 ${median(times).toFixed(1)} ms and p99 ${at(times, 0.99).toFixed(1)} ms`;
  const ratio = at(beside, 0.99) / at(alone, 0.99);
  return `In a backfill it makes vectors of ${perSecond.toFixed(0)} short texts a second (one process). Lists of 20 records take ${facts(alone)} without it, ${facts(beside)} beside it (${alone.length} and ${beside.length} lists, in turns): ${ratio.toFixed(1)} times as long.
`;
}
