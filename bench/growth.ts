/** The same requests over few rows and over a hundred times as many: what an app feels when it grows. */
import pg from 'pg';
import {
  createGrowthEndpoint,
  createGrowthSchema,
  growthEndpoint,
  growthSchema,
  signUp,
} from './dataset.ts';
import { CODES, type LoadJob, type RequestShape, runLoad } from './load.ts';
import { startPlatform } from './platform.ts';
import { median } from './statistics.ts';

export const SMALL = 10_000;
export const LARGE = 1_000_000;
const ROUNDS = 3;
const SECONDS = 2;
/** Few, so that the time of one request is seen and not that of a queue. */
const CONNECTIONS = 4;

export interface GrowthRow {
  readonly title: string;
  /** Median latencies in ms. */
  readonly small: number;
  readonly large: number;
  /** How many times slower it may get; none: its cost is known to grow with the rows. */
  readonly limit?: number;
}

const list = `/database/${growthSchema}?limit=20`;
const filter = `/database/function/${growthEndpoint}?code={code}`;
const get = (path: string): RequestShape => ({ method: 'GET', path });

const requests: readonly (Pick<GrowthRow, 'title' | 'limit'> & {
  readonly request: RequestShape;
})[] = [
  { title: 'page of 20, `count=none`', limit: 1.5, request: get(`${list}&count=none`) },
  { title: 'page of 20, `count=estimated`', limit: 1.5, request: get(`${list}&count=estimated`) },
  { title: 'page of 20 by a cursor', limit: 1.5, request: get(`${list}&count=none&cursor=start`) },
  { title: 'custom endpoint, filter by an indexed field', limit: 1.5, request: get(filter) },
  {
    title: 'create',
    limit: 1.5,
    request: {
      method: 'POST',
      path: `/database/${growthSchema}`,
      body: { code: 'new', title: 'A title' },
    },
  },
  { title: 'page of 20 with exact count', request: get(list) },
];

/** `folder` is for throw-away files. */
export async function measureGrowth(
  folder: string,
  print: (line: string) => void,
): Promise<readonly GrowthRow[]> {
  const platform = await startPlatform({ dataDir: folder });
  try {
    await createGrowthSchema(platform);
    await createGrowthEndpoint(platform);
    const { userId, accessToken } = await signUp(platform);
    const { connection } = await platform.database();
    const job = {
      origin: platform.clientOrigin,
      tokens: [accessToken],
      userIds: [userId],
      ids: [],
      sharedIds: [],
      authorIds: [],
      connections: CONNECTIONS,
    };
    const measure = async (rows: number): Promise<number[]> => {
      await fillTo(connection, rows);
      const times: number[] = [];
      for (const { title, request } of requests) {
        times.push(await latencyOf({ ...job, request, seconds: SECONDS }));
        print(`${rows} rows, ${title}: ${times.at(-1)?.toFixed(2)} ms`);
      }
      return times;
    };
    const small = await measure(SMALL);
    const large = await measure(LARGE);
    return requests.map(({ request: _, ...row }, i) => ({
      ...row,
      small: small[i] ?? Number.NaN,
      large: large[i] ?? Number.NaN,
    }));
  } finally {
    await platform.stop();
  }
}

async function latencyOf(job: LoadJob): Promise<number> {
  await runLoad({ ...job, seconds: 1 });
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { failures, requests: sent, latency } = await runLoad(job);
    if (failures > 0)
      throw new Error(`${job.request.path}: ${failures} of ${sent} requests failed`);
    rounds.push(latency.p50);
  }
  return median(rounds);
}

/** Rows straight into the table: what is measured is reading and adding to them. */
async function fillTo(connection: pg.ClientConfig, rows: number): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    const table = `app."${growthSchema}"`;
    const { rows: counted } = await client.query<{ n: number }>(
      `select count(*)::integer as n from ${table}`,
    );
    await client.query(
      // Every code has as many rows at both sizes: of the many rows most have codes that nobody asks for.
      `insert into ${table} (_id, code, title, "createdAt", "updatedAt", __v)
       select uuidv7(), case when n < $2 then 'c' || n % $3::integer else 'x' || n end, 'Row number ' || n, now(), now(), 0
       from generate_series($1::integer, $4::integer - 1) n`,
      [counted[0]?.n ?? 0, SMALL, CODES, rows],
    );
    await client.query(`vacuum analyze ${table}`);
  } finally {
    await client.end();
  }
}
