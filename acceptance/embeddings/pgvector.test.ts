/**
 * The same world on a PostgreSQL that has pgvector: PGVECTOR_URL names it, as an operator who may create databases and the
 * extension. Without it this file does not run (`vitest.config.ts`): the embedded server does not have pgvector.
 */
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { openPlaces, type Places, textOf } from './places.ts';

const { PGVECTOR_URL: server } = process.env;

describe('a server with pgvector', () => {
  const name = `test_${randomBytes(8).toString('hex')}`;
  let places: Places;
  let client: pg.Client;

  const administer = async (statement: string): Promise<void> => {
    const administration = new pg.Client({ connectionString: server });
    await administration.connect();
    await administration.query(statement).finally(() => administration.end());
  };
  /** Of both nodes, once the job that makes it has run, which it does every minute. */
  const indexed = async (): Promise<void> => {
    for (const node of [places.one, places.two])
      await waitFor(
        async () => {
          const { kind, state } = await places.indexOf(node);
          return kind === 'pgvector' && state === 'ready';
        },
        { timeoutMs: 150_000, everyMs: 500, what: 'the index of the database' },
      );
  };

  beforeAll(async () => {
    await administer(`CREATE DATABASE ${name} TEMPLATE template0`);
    const url = new URL(String(server));
    url.pathname = `/${name}`;
    places = await openPlaces({ databaseUrl: url.href });
    client = new pg.Client({ connectionString: url.href });
    await client.connect();
  }, 240_000);
  afterAll(async () => {
    await client?.end();
    await places?.close();
    await administer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  });

  it('orders by its index as if there were nothing else, while everything changes', {
    timeout: 300_000,
  }, async () => {
    await indexed();
    await places.compareWhileChanging();
    expect(await places.indexOf(places.one)).toMatchObject({
      kind: 'pgvector',
      passages: places.world.size,
    });
    const { rows } = await client.query(
      `select sum(idx_scan)::integer as scans from pg_stat_user_indexes where indexrelname like 'embeddings_hnsw_%'`,
    );
    expect(rows[0].scans).toBeGreaterThan(0);
  });

  it('tells of a record that is gone at once', async () => {
    const { one, two, users, world } = places;
    const [id, doc] = [...world].find(([, { readers }]) => readers.has(2)) ?? [];
    const body = { schemaName: 'Place', text: textOf(doc?.at ?? []), limit: 1 };
    const first = async () =>
      (await two.admin.post('/embeddings/search', { ...body, userId: users[2]?.userId })).body
        .hits[0]?.document._id;
    expect(await first()).toBe(id);
    await one.admin.delete(`/database/schemas/Place/docs/${id}`);
    world.delete(String(id));
    expect(await first()).not.toBe(id);
  });

  it('searches in memory when it is told to, and finds the same', async () => {
    const { one, compare, settled } = places;
    const config = { search: { index: 'exact' } };
    expect((await one.admin.patch('/config/embeddings', { config })).status).toBe(200);
    await settled();
    for (let i = 0; i < 6; i++) {
      const [right, all] = await compare(one, { reader: i % 3, limit: 10 });
      expect(right).toBe(all);
    }
    expect(await places.indexOf(one)).toMatchObject({ kind: 'memory' });
  });
});
