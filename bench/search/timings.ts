/** How long searches take among many records, for callers who may read much or little. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Platform } from '../platform.ts';
import { median, percentile } from '../statistics.ts';
import { call, firstSearch, type Json, search } from './requests.ts';
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
    ['the same, by a field with an index', { filter: { shelf: 7 } }],
    ['user with nearly all records', { userId: world.many }],
    ['the same, filter that 1 % fit', { userId: world.many, filter: { rank: 7 } }],
    ['the same, by a field with an index', { userId: world.many, filter: { shelf: 7 } }],
    ['user with 1 % of the records', { userId: world.some }],
    ['the same, filter that 1 % fit', { userId: world.some, filter: { rank: 7 } }],
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

/** The section about the time of searches. */
export async function reportSearches(platform: Platform): Promise<string> {
  const point = createPoints();
  const model = await startModel(point);
  try {
    const own = {
      endpoint: model.url,
      models: [{ name: 'points', dimensions: DIMENSIONS }],
      allowInternal: true,
    };
    // Each text is asked for as the operator first: what the model takes is not measured.
    const config = { providers: { 'openai-compatible': own }, cache: { shareQueries: true } };
    await call(platform, '/config/embeddings', { body: { config }, method: 'PATCH' });
    const world = await prepare(platform);
    await insertVectors(platform, world.ids, point);
    await firstSearch(platform);
    const built = await indexed(platform);
    return sectionOf(built, await timings(platform, world));
  } finally {
    model.close();
  }
}

function sectionOf(
  { seconds, index }: Awaited<ReturnType<typeof indexed>>,
  measured: readonly Timing[],
): string {
  // What any search takes that looks at every vector, whatever fits.
  const [everything] = measured;
  const all = median(everything?.exact ?? []);
  const rows = measured.map(({ who, times, exact, recall }) => {
    const p99 = percentile(
      times.toSorted((a, b) => a - b),
      0.99,
    );
    const cells = [
      recall?.toFixed(3) ?? '',
      median(times).toFixed(1),
      p99.toFixed(1),
      exact ? median(exact).toFixed(1) : '',
      `${(all / median(times)).toFixed(1)}x`,
    ];
    return `| ${who} | ${cells.join(' | ')} |`;
  });
  return `${RECORDS.toLocaleString('en-US')} records with row permissions and vectors of ${DIMENSIONS} dimensions, in clusters; ten hits over the admin surface on one connection, without the time of the model. The index (${String(index.kind)}, in memory) was complete ${seconds.toFixed(0)} s after the first search, and takes ${String(index.megabytes)} MB with the vectors; the platform itself measured a recall of ${Number(index.recall).toFixed(3)}. Recall@10 is compared with the same search without the index (\`search.index: exact\`), whose p50 is the next column: where few records fit, or may be read, both put just these in order, and both are exact. The last column compares with looking at every vector, which takes ${all.toFixed(1)} ms whatever fits: that is the first row without the index. Milliseconds.

| | recall@10 | p50 | p99 | p50 without the index | as fast as looking at all |
| --- | --: | --: | --: | --: | --: |
${rows.join('\n')}
`;
}
