/** Many records with vectors, of owners who have most, some and few of them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Platform } from '../platform.ts';
import { seededRandom } from '../statistics.ts';
import { call, register, type User } from './requests.ts';

export const RECORDS = 100_000;
export const DIMENSIONS = 384;
const CLUSTERS = 500;
const BATCH = 1_000;
export const FEW = 10;
/** Of the records, so that permissions hide 99 %. */
export const SOME = RECORDS / 100;
const unit = (vector: Float32Array): Float32Array => {
  const length = Math.sqrt(vector.reduce((sum, x) => sum + x * x, 0));
  return vector.map((x) => x / length);
};

/** Points around centres, as texts about the same are. */
export function createPoints(): () => Float32Array {
  const random = seededRandom(16);
  const gauss = (): number => random() + random() + random() - 1.5;
  const centres = Array.from({ length: CLUSTERS }, () =>
    Float32Array.from({ length: DIMENSIONS }, gauss),
  );
  return () => {
    const centre = centres[Math.floor(random() * CLUSTERS)] ?? new Float32Array(DIMENSIONS);
    return unit(centre.map((x) => x + gauss() * 0.5));
  };
}

/** A model whose vectors are such points: each text has its own. */
export async function startModel(
  point: (text: string) => Float32Array,
): Promise<{ url: string; close(): void }> {
  const known = new Map<string, number[]>();
  const server = createServer(async (request, response) => {
    const { input } = (await new Response(request as never).json()) as { input: string[] };
    const data = input.map((text, index) => {
      const embedding = known.get(text) ?? [...point(text)];
      known.set(text, embedding);
      return { index, embedding };
    });
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ data }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/embeddings`, close: () => server.close() };
}

export interface World {
  readonly many: string;
  readonly some: string;
  readonly few: string;
  readonly ids: readonly string[];
}

export async function prepare(platform: Platform): Promise<World> {
  // One number twice: without an index and with one.
  const fields = { title: 'String', rank: 'Number', shelf: { type: 'Number', index: true } };
  const conduitOptions = { cms: { enabled: true }, authorization: { enabled: true } };
  await call(platform, '/database/schemas', { body: { name: 'Big', fields, conduitOptions } });
  const users = [await register(platform), await register(platform), await register(platform)];
  const [many, some, few] = users as [User, User, User];
  const ids: string[] = [];
  const create = async ({ token }: User, count: number): Promise<void> => {
    for (let made = 0; made < count; made += BATCH) {
      const size = Math.min(BATCH, count - made);
      const docs = Array.from({ length: size }, (_, i) => ({
        title: `text ${ids.length + i}`,
        rank: (ids.length + i) % 100,
        shelf: (ids.length + i) % 100,
      }));
      const answer = await call(platform, '/database/Big/many', { body: { docs }, token });
      for (const { _id } of answer.docs as readonly { _id: string }[]) ids.push(_id);
    }
  };
  await create(few, FEW);
  await create(some, SOME);
  await create(many, RECORDS - ids.length);
  return { many: many.userId, some: some.userId, few: few.userId, ids };
}

/** What the model would have made of the records, without its time. */
export async function insertVectors(
  platform: Platform,
  ids: readonly string[],
  point: () => Float32Array,
): Promise<void> {
  // What was written before the configuration is there stays without a model.
  await sleep(2_000);
  const config = { schemaName: 'Big', sourceFields: ['title'], targetField: 'meaning' };
  const made = await call(platform, '/embeddings/configs', {
    body: { ...config, provider: 'openai-compatible', backfill: 'none' },
  });
  const { generation } = made.config as { generation: string };
  const { connection } = await platform.database();
  const client = new pg.Client(connection);
  client.on('error', () => undefined);
  await client.connect();
  for (let at = 0; at < ids.length; at += BATCH) {
    const page = ids.slice(at, at + BATCH);
    await client.query(
      `insert into penstock.embeddings_vectors (generation_id, record_id, ordinal, starts, ends, hash, version, vector)
       select $1::uuid, p.id, 0, 0, 9, '\\x00', 1, p.vector from unnest($2::text[], $3::bytea[]) p(id, vector)`,
      [generation, page, page.map(() => Buffer.from(point().buffer))],
    );
  }
  await client.query('update penstock.embeddings_generations set version = 1 where id = $1::uuid', [
    generation,
  ]);
  // As autovacuum leaves tables within a minute.
  await client.query('vacuum analyze penstock.embeddings_vectors');
  await client.query('vacuum analyze app."Big"');
  await client.end();
}
