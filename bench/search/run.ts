/**
 * Measures searches: how good the orders are on a labelled set, and how long they take for callers who may read much or
 * little. `npm run bench:search -- --dry` leaves RESULTS.md as it is.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { describeMachine } from '../machine.ts';
import { type Platform, startPlatform } from '../platform.ts';
import { median, percentile } from '../statistics.ts';
import { questions, texts } from './labelled.ts';
import { call, type Json, search, waitForRecords } from './requests.ts';
import {
  createPoints,
  DIMENSIONS,
  FEW,
  insertVectors,
  prepare,
  RECORDS,
  SOME,
  startModel,
  type World,
} from './world.ts';

const SEARCHES = 40;
/** Searches of every vector that are compared with, in each case. */
const COMPARED = 20;
const MODES = ['vector', 'keyword', 'hybrid'] as const;
type Mode = (typeof MODES)[number];

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

/** Waits until the index is there. Answers the seconds, and what the platform says of it. */
async function indexed(platform: Platform): Promise<{ seconds: number; index: Json }> {
  const begin = performance.now();
  for (;;) {
    const { configs } = await call(platform, '/embeddings/status?schemaName=Big', {
      method: 'GET',
    });
    const { index } = (configs as { current: { index: Json } }[])[0]?.current ?? { index: {} };
    if (index.kind === 'usearch' && index.state === 'ready')
      return { seconds: (performance.now() - begin) / 1_000, index };
    await sleep(500);
  }
}

const useIndex = (platform: Platform, index: 'auto' | 'exact'): Promise<Json> =>
  call(platform, '/config/embeddings', {
    body: { config: { search: { index } } },
    method: 'PATCH',
  });

interface Timing {
  readonly who: string;
  readonly times: readonly number[];
  readonly recall?: number;
  readonly exact?: readonly number[];
}

/** Each search is another text; its vector is known from a search before. */
async function timings(platform: Platform, world: World): Promise<readonly Timing[]> {
  const cases: readonly (readonly [string, Json])[] = [
    ['operator, everything', {}],
    ['operator, filter that 1 % fit', { filter: { rank: 7 } }],
    ['user with nearly all records', { userId: world.many }],
    ['the same, filter that 1 % fit', { userId: world.many, filter: { rank: 7 } }],
    ['user with 1 % of the records', { userId: world.some }],
    [`user with ${FEW} records`, { userId: world.few }],
  ];
  const text = (i: number) => ({ schemaName: 'Big', text: `question ${i}` });
  for (let i = 0; i < SEARCHES; i += 1) await search(platform, text(i));
  const ask = async (more: Json, count: number, changing = false) => {
    const found: string[][] = [];
    const times: number[] = [];
    for (let i = 0; i < count; i += 1) {
      if (changing) await share(platform, world, i);
      const begin = performance.now();
      const hits = await search(platform, { ...text(i), ...more });
      times.push(performance.now() - begin);
      found.push(hits.map(({ document }) => document._id));
    }
    return { times, found };
  };
  const approximate = [];
  for (const [, more] of cases) approximate.push(await ask(more, SEARCHES));
  await useIndex(platform, 'exact');
  const results: Timing[] = [];
  for (const [at, [who, more]] of cases.entries()) {
    const { times, found } = approximate[at] as Awaited<ReturnType<typeof ask>>;
    const exact = await ask(more, COMPARED);
    const right = exact.found.flatMap((ids, i) => ids.filter((id) => found[i]?.includes(id)));
    const recall = right.length / exact.found.flat().length;
    results.push({ who, times, recall, exact: exact.times });
  }
  await useIndex(platform, 'auto');
  // Last: the rights of before are gone with it.
  const { times } = await ask({ userId: world.few }, SEARCHES, true);
  return [...results, { who: 'user whose rights change', times }];
}

/** Gives the user with few records one more. */
async function share(platform: Platform, { few, ids }: World, i: number): Promise<void> {
  const resource = `Big:${ids[FEW + SOME + 37 * i]}`;
  const body = { subject: `User:${few}`, relation: 'reader', resource };
  await call(platform, '/authorization/relations', { body });
}

interface Speed {
  readonly perSecond: number;
  readonly alone: readonly number[];
  readonly beside: readonly number[];
}

/** Short texts that become vectors in a second, as a backfill makes them, and reads beside it. */
async function modelSpeed(platform: Platform): Promise<Speed> {
  const read = async (): Promise<number> => {
    const begin = performance.now();
    await call(platform, '/database/schemas/Labelled/docs?limit=20', { method: 'GET' });
    return performance.now() - begin;
  };
  const alone: number[] = [];
  for (let i = 0; i < 700; i += 1) {
    const time = await read();
    if (i >= 200) alone.push(time);
    await sleep(2);
  }
  const inputDocuments = Array.from({ length: 1_000 }, (_, i) => ({
    title: `A short text about the number ${i}`,
    body: 'It says little, and says it in one sentence.',
  }));
  await call(platform, '/database/schemas/Labelled/docs/many', { body: { inputDocuments } });
  const begin = performance.now();
  let isDone = false;
  const done = waitForRecords(platform, 'Labelled', texts.length + inputDocuments.length).then(
    () => {
      isDone = true;
      return performance.now();
    },
  );
  const beside: number[] = [];
  while (!isDone) {
    beside.push(await read());
    await sleep(2);
  }
  return { perSecond: inputDocuments.length / (((await done) - begin) / 1_000), alone, beside };
}

const fixed = (value: number, digits = 1): string => value.toFixed(digits);
const sorted = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

interface Figures {
  readonly qualities: readonly Quality[];
  readonly speed: Speed;
  readonly measured: readonly Timing[];
  readonly built: Awaited<ReturnType<typeof indexed>>;
}

function reportOf({ qualities, speed, measured, built }: Figures, machine: string): string {
  const qualityRows = qualities.map(
    ({ mode, ndcg, first }) => `| ${mode} | ${fixed(ndcg, 3)} | ${fixed(first, 2)} |`,
  );
  const timeRows = measured.map(({ who, times, exact, recall }) =>
    [
      '',
      who,
      recall === undefined ? '' : fixed(recall, 3),
      fixed(median(times)),
      fixed(percentile(sorted(times), 0.99)),
      exact ? fixed(median(exact)) : '',
      '',
    ]
      .join(' | ')
      .trim(),
  );
  const p99 = (times: readonly number[]): string => fixed(percentile(sorted(times), 0.99));
  return `# Search, measured

Written by \`npm run bench:search\` on ${new Date().toISOString().slice(0, 10)}: ${machine}.

## How good the orders are

${texts.length} texts, ${questions.length} questions with one right answer each (\`bench/search/labelled.ts\`): more than half in other words than the text, the others by a name or number. Built-in model.

| mode | nDCG@10 | right answer first |
| --- | --: | --: |
${qualityRows.join('\n')}

## The built-in model

In a backfill it makes vectors of ${fixed(speed.perSecond, 0)} short texts a second (one thread). Lists of 20 records take p50 ${fixed(median(speed.alone))} ms and p99 ${p99(speed.alone)} ms without it, p50 ${fixed(median(speed.beside))} ms and p99 ${p99(speed.beside)} ms beside it.

## How long searches take

${RECORDS.toLocaleString('en-US')} records with row permissions and vectors of ${DIMENSIONS} dimensions, in clusters; ten hits over the admin surface on one connection, without the time of the model. The index (${String(built.index.kind)}, in memory) was complete ${fixed(built.seconds, 0)} s after the first search, and takes ${String(built.index.megabytes)} MB with the vectors; the platform itself measured a recall of ${fixed(Number(built.index.recall), 3)}. Recall@10 is that of a search of every vector by the same caller. Milliseconds.

| | recall@10 | p50 | p99 | p50 of a search of every vector |
| --- | --: | --: | --: | --: |
${timeRows.join('\n')}
`;
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { dry: { type: 'boolean', default: false } } });
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-search-'));
  const platform = await startPlatform({ dataDir });
  const point = createPoints();
  const model = await startModel(point);
  try {
    const rateLimit = { maxRequests: 1_000_000 };
    await call(platform, '/config/router', { body: { config: { rateLimit } }, method: 'PATCH' });
    const qualities = await quality(platform);
    const speed = await modelSpeed(platform);
    const own = {
      endpoint: model.url,
      models: [{ name: 'points', dimensions: DIMENSIONS }],
      allowInternal: true,
    };
    const config = { providers: { 'openai-compatible': own } };
    await call(platform, '/config/embeddings', { body: { config }, method: 'PATCH' });
    const world = await prepare(platform);
    await insertVectors(platform, world.ids, point);
    await search(platform, { schemaName: 'Big', text: 'question 0' });
    const built = await indexed(platform);
    const measured = await timings(platform, world);
    const report = reportOf({ qualities, speed, measured, built }, describeMachine('18'));
    if (values.dry) console.log(report);
    else await writeFile(new URL('RESULTS.md', import.meta.url), report);
  } finally {
    model.close();
    await platform.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
