/**
 * Three callers side by side among very many records: one who may read ten, one who may read all, and one whose rights
 * change while they search. What each finds is compared with what they may read. `npm run bench:neighbours -- --help` lists
 * the options; the sizes are those of NEIGHBOURS_RECORDS and NEIGHBOURS_DIMENSIONS.
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
import { call, firstSearch, type Json, register, search } from './requests.ts';
import { startModel } from './world.ts';

const RECORDS = Number(process.env.NEIGHBOURS_RECORDS ?? 1_000_000);
const DIMENSIONS = Number(process.env.NEIGHBOURS_DIMENSIONS ?? 16);
const FEW = 10;
const SEARCHES = 100;
/** Searches of each before the first that counts. */
const WARM = 5;
const BATCH = 10_000;
/** Milliseconds between two changes of rights. */
const CHANGE_MS = 50;
/** Minutes in which the index must be made, unless it is said. */
const MINUTES = 15;

const help = `Measures searches of neighbours and writes bench/search/NEIGHBOURS.md. A million records take half a minute to write, a few seconds to
read and six to ten minutes to index on two processors that nobody else uses, and are searched for half a minute; 100,000 take a minute in all.

  --dry          print the report, and leave the file as it is
  --minutes <n>  give up when the index is not made by then (${MINUTES})

NEIGHBOURS_RECORDS and NEIGHBOURS_DIMENSIONS are the sizes.
`;

/** Says on standard error how far it is: a million records take some minutes. */
const began = performance.now();
const tell = (what: string): void =>
  console.error(`${((performance.now() - began) / 1_000).toFixed(0)} s: ${what}`);

const random = seededRandom(16);
const vectors = new Float32Array(RECORDS * DIMENSIONS);
const vectorOf = (at: number): Float32Array =>
  vectors.slice(at * DIMENSIONS, (at + 1) * DIMENSIONS);
/** Ids in the order of the numbers. */
const idOf = (at: number): string => `00000000-0000-7000-8000-${at.toString(16).padStart(12, '0')}`;
/** As the platform writes them: a version for each batch of records. */
const versionOf = (at: number): number => 1 + Math.floor(at / 32);
const numberOf = (id: string): number => Number.parseInt(id.slice(-12), 16);

/** The model: `record 7` is the vector of that record, every other text one of its own. */
function pointOf(text: string): Float32Array {
  const [, at] = /^record (\d+)$/.exec(text) ?? [];
  if (at !== undefined) return vectorOf(Number(at));
  return unit(Float32Array.from({ length: DIMENSIONS }, () => random() - 0.5));
}

const unit = (vector: Float32Array): Float32Array => {
  const length = Math.hypot(...vector);
  return vector.map((x) => x / length);
};

/** Records and vectors, written as the platform would; the first ten belong to `few`, and ten to `other`. */
async function fill(
  platform: Platform,
  { few, other, all }: Readonly<Record<'few' | 'other' | 'all', string>>,
): Promise<void> {
  const own = { schemaName: 'Big', sourceFields: ['title'], targetField: 'meaning' };
  const { config } = await call(platform, '/embeddings/configs', {
    body: { ...own, provider: 'openai-compatible', backfill: 'none' },
  });
  const { generation } = config as { generation: string };
  const { connection } = await platform.database();
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect();
  for (let from = 0; from < RECORDS; from += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, RECORDS - from) }, (_, i) => from + i);
    for (const at of numbers) {
      const point = Float32Array.from({ length: DIMENSIONS }, () => random() - 0.5);
      vectors.set(unit(point), at * DIMENSIONS);
    }
    const ids = numbers.map(idOf);
    await client.query(
      `insert into app."Big" ("_id", "title", "@owner")
       select p.id, 'record', p.owner from unnest($1::uuid[], $2::uuid[]) p(id, owner)`,
      [ids, numbers.map((at) => (at < FEW ? few : at < 2 * FEW ? other : all))],
    );
    await client.query(
      `insert into penstock.embeddings_vectors (generation_id, record_id, ordinal, starts, ends, hash, version, vector)
       select $1::uuid, p.id, 0, 0, 6, '\\x00', p.version, p.vector from unnest($2::text[], $3::bytea[], $4::bigint[]) p(id, vector, version)`,
      [
        generation,
        ids,
        numbers.map((at) => Buffer.from(vectorOf(at).buffer)),
        numbers.map(versionOf),
      ],
    );
  }
  await client.query(
    'update penstock.embeddings_generations set version = $2 where id = $1::uuid',
    [generation, versionOf(RECORDS)],
  );
  await client.query('vacuum analyze app."Big"');
  await client.query('analyze penstock.embeddings_vectors');
  await client.end();
}

/** Throws when it takes longer than any machine should need. */
async function indexed(platform: Platform, minutes: number): Promise<void> {
  while (performance.now() - began < minutes * 60_000) {
    const { configs } = await call(platform, '/embeddings/status', { method: 'GET' });
    const [one] = configs as readonly { current: { index: Json } }[];
    if (one?.current.index.kind === 'usearch' && one.current.index.state === 'ready') return;
    await sleep(1_000);
  }
  throw new Error('The index was not made in time: see /embeddings/status');
}

interface Measured {
  readonly who: string;
  readonly times: readonly number[];
  /** Of what a search by hand finds, 0 to 1. */
  readonly right: number;
}

/** The nearest of these records, by hand. */
function nearest(query: Float32Array, readable: Iterable<number>): readonly number[] {
  const found: { at: number; nearness: number }[] = [];
  for (const at of readable) {
    let nearness = 0;
    for (let i = 0; i < DIMENSIONS; i += 1)
      nearness += (query[i] as number) * (vectors[at * DIMENSIONS + i] as number);
    if (found.length < 10 || nearness > (found[9]?.nearness ?? 0)) {
      found.push({ at, nearness });
      found.sort((a, b) => b.nearness - a.nearness);
      found.length = Math.min(found.length, 10);
    }
  }
  return found.map(({ at }) => at);
}

/** One of the three, while they search. */
interface Caller {
  readonly who: string;
  readonly userId: string;
  /** What they may read now; a set changes while they search. */
  readonly readable: readonly number[] | ReadonlySet<number>;
  readonly times: number[];
  right: number;
  all: number;
}

const callerOf = (who: string, userId: string, readable: Caller['readable']): Caller => ({
  ...{ who, userId, readable },
  ...{ times: [], right: 0, all: 0 },
});

async function searchOnce(platform: Platform, caller: Caller, at: number): Promise<void> {
  const { readable, userId } = caller;
  // The vector of the text is known: its time is that of the model.
  const body = { schemaName: 'Big', text: `record ${at}` };
  await search(platform, { ...body, limit: 1 });
  const before = readable instanceof Set ? [...readable] : readable;
  const begin = performance.now();
  const hits = await search(platform, { ...body, userId });
  caller.times.push(performance.now() - begin);
  const found = new Set(hits.map(({ document }) => numberOf(document._id)));
  // What was given during the search may be found, and what was given before it must be.
  const late = readable instanceof Set ? [...found].filter((one) => readable.has(one)) : [];
  const readableThen = late.length > 0 ? new Set([...before, ...late]) : before;
  const expected = nearest(vectorOf(at), readableThen);
  caller.right += expected.filter((one) => found.has(one)).length;
  caller.all += expected.length;
}

/**
 * The three search in turns, so that what else goes on meets all of them, while rights of the last one are given one after
 * the other: what was given before a search is found by it.
 */
async function measure(
  platform: Platform,
  callers: readonly Caller[],
  changing: { readonly userId: string; readonly given: Set<number> },
): Promise<readonly Measured[]> {
  let isOver = false;
  const giving = (async () => {
    for (let at = 500_000 % RECORDS; !isOver; at = (at + 37) % RECORDS) {
      const subject = `User:${changing.userId}`;
      const body = { subject, relation: 'reader', resource: `Big:${idOf(at)}` };
      await call(platform, '/authorization/relations', { body });
      changing.given.add(at);
      await sleep(CHANGE_MS);
    }
  })();
  // It is heard of at the end.
  giving.catch(() => undefined);
  try {
    for (let i = -WARM; i < SEARCHES; i += 1)
      for (const caller of callers) {
        await searchOnce(platform, caller, 1_000 + 7 * (i + WARM));
        if (i < 0) caller.times.length = 0;
      }
  } finally {
    isOver = true;
  }
  await giving;
  return callers.map(({ who, times, right, all }) => ({ who, times, right: right / all }));
}

const line = ({ who, times, right }: Measured): string => {
  const p99 = percentile(
    times.toSorted((a, b) => a - b),
    0.99,
  );
  return `| ${who} | ${right.toFixed(3)} | ${median(times).toFixed(1)} | ${p99.toFixed(1)} |`;
};

/** A schema with row permissions, and a model that costs nothing. */
async function configure(platform: Platform, modelUrl: string): Promise<void> {
  const config = { rateLimit: { maxRequests: 1_000_000 } };
  await call(platform, '/config/router', { body: { config }, method: 'PATCH' });
  const models = [{ name: 'points', dimensions: DIMENSIONS }];
  const own = { endpoint: modelUrl, models, allowInternal: true };
  const embeddings = {
    providers: { 'openai-compatible': own },
    search: { maxIndexMegabytes: 4_096 },
    // Each text is asked for as the operator first: what the model takes is not measured.
    cache: { shareQueries: true },
  };
  await call(platform, '/config/embeddings', { body: { config: embeddings }, method: 'PATCH' });
  const conduitOptions = { cms: { enabled: true }, authorization: { enabled: true } };
  const schema = { name: 'Big', fields: { title: 'String' }, conduitOptions };
  await call(platform, '/database/schemas', { body: schema });
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      dry: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      minutes: { type: 'string', default: String(MINUTES) },
    },
  });
  if (values.help) return console.log(help);
  const dataDir = await mkdtemp(join(tmpdir(), 'penstock-neighbours-'));
  const platform = await startPlatform({ dataDir });
  const model = await startModel(pointOf);
  try {
    await configure(platform, model.url);
    const [few, all, other] = [
      await register(platform),
      await register(platform),
      await register(platform),
    ];
    await fill(platform, { few: few.userId, other: other.userId, all: all.userId });
    tell('records and vectors are written');
    await firstSearch(platform);
    tell('vectors are read');
    await indexed(platform, Number(values.minutes));
    tell('the index is made');
    const numbers = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, at) => from + at);
    const given = new Set(numbers(FEW, 2 * FEW));
    const measured = await measure(
      platform,
      [
        callerOf('who may read ten', few.userId, numbers(0, FEW)),
        callerOf('who may read all but twenty', all.userId, numbers(2 * FEW, RECORDS)),
        callerOf('whose rights change', other.userId, given),
      ],
      { userId: other.userId, given },
    );
    tell('measured');
    const report = `# Neighbours in a search, measured

Written by \`npm run bench:neighbours\` on ${new Date().toISOString().slice(0, 10)}: ${describeMachine('18')}.

${RECORDS.toLocaleString('en-US')} records with row permissions, vectors of ${DIMENSIONS} dimensions in an index in memory; ten hits over the admin surface on one connection, as the user, in turns, without the time of the model. \`right\`: of the ten best that the caller may read, found by hand, how many are found. Rights of the third change every ${CHANGE_MS} ms. Milliseconds.

| a user | right | p50 | p99 |
| --- | --: | --: | --: |
${measured.map(line).join('\n')}
`;
    if (values.dry) console.log(report);
    else await writeFile(new URL('NEIGHBOURS.md', import.meta.url), report);
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
