/** What containers and owners use is added up while others lock them: always in the order container, growth, owner. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Queryable, Row, Statement } from '../../src/kernel/database/database.ts';
import { addGrowth, count } from '../../src/modules/storage/queries/counters.ts';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { sendForm } from './requests.ts';

let platform: TestPlatform;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
});
afterAll(async () => {
  await sql?.close();
  await platform?.close();
});

const newContainer = async (quota?: number) => {
  const { body } = await platform.admin.post('/storage/containers', { name: `c-${randomUUID()}` });
  if (quota !== undefined) await platform.admin.patch(`/storage/containers/${body._id}`, { quota });
  return body;
};
/** Of how many containers and owners the counters are wrong. */
const wrongCounters = async (dryRun: boolean): Promise<number> => {
  const { _id } = (await platform.admin.post('/storage/reconcile', { dryRun })).body;
  const task = await waitFor(
    async () => {
      const { body } = await platform.admin.get(`/storage/tasks/${_id}`);
      return body.state === 'done' && body;
    },
    { timeoutMs: 60_000, what: 'the reconciliation' },
  );
  return task.progress.wrongCounters;
};

/** A connection as the queries of the module take it. */
interface Session extends Queryable {
  readonly pid: number;
  close(): Promise<void>;
}

async function openSession(): Promise<Session> {
  const client = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
  await client.connect();
  const run = async <R = Row>({ text, values = [] }: Statement) => {
    const { rows, rowCount } = await client.query(text, [...values]);
    return { rows: rows as R[], count: rowCount ?? 0 };
  };
  const { rows } = await run<{ pid: number }>({ text: 'select pg_backend_pid() as pid' });
  return { query: run as Queryable['query'], pid: rows[0]?.pid ?? 0, close: () => client.end() };
}

const isWaiting = async ({ pid }: Session): Promise<boolean> => {
  const text = `select 1 from pg_stat_activity where pid = $1 and wait_event_type = 'Lock'`;
  return (await sql.query(text, [pid])).length > 0;
};

describe('what is left over of containers with quotas', () => {
  it('is added up beside uploads and changes of containers, 50 times, and nobody waits in a circle', async () => {
    const names = [(await newContainer(1_000)).name, (await newContainer(1_000)).name].sort();
    const [first = '', second = ''] = names;
    const owner = `User:${randomUUID()}`;
    const grown = { bytes: 1, files: 0, charge: { owner, quota: 1_000_000 } };
    const [one, two] = [await openSession(), await openSession()];
    try {
      for (let round = 0; round < 50; round += 1) {
        const changed = round % 4 === 1 ? first : second;
        const isUpload = round % 2 === 0;
        await one.query({ text: 'begin' });
        if (isUpload) await count(one, { container: first, ...grown });
        else
          await one.query({
            text: 'select 1 from "app"."_StorageContainer" where "name" = $1 for update',
            values: [changed],
          });
        // The later container first.
        await sql.query(
          'insert into penstock.storage_growth (container, bytes, files, owner) values ($1, 1, 0, $3), ($2, 1, 0, $3)',
          [second, first, owner],
        );
        const adding = addGrowth(two);
        await waitFor(() => isWaiting(two), {
          everyMs: 2,
          what: 'the sum to wait for a container',
        });
        if (isUpload) await count(one, { container: second, ...grown });
        else await addGrowth(one, changed);
        await one.query({ text: 'commit' });
        await adding;
      }
    } finally {
      await Promise.all([one.close(), two.close()]);
    }
    // 50 rounds of what was left over, and 25 of uploads.
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    for (const name of names) expect(perContainer).toContainEqual({ name, files: 0, size: 75 });
    expect((await platform.admin.get(`/storage/usage/${owner}`)).body.size).toBe(150);
    expect(await wrongCounters(false)).toBe(3);
    expect(await wrongCounters(true)).toBe(0);
  });

  it('is added up while 50 uploads, 50 lists and 50 changes meet, and all is counted', async () => {
    const limits = { perUserQuota: 1_000_000 };
    expect((await platform.admin.patch('/config/storage', { limits })).status).toBe(200);
    const ann = await platform.registerUser();
    const [bounded, open] = [await newContainer(100_000), await newContainer()];
    for (let round = 0; round < 5; round += 1) {
      await sql.query(
        'insert into penstock.storage_growth (container, bytes, files) values ($1, 0, 0), ($2, 0, 0)',
        [open.name, bounded.name],
      );
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, i) =>
          Promise.all([
            sendForm(platform, ann, [`${randomUUID()}.txt`, '0123456789'], {
              fields: { container: i % 2 === 0 ? bounded.name : open.name },
            }),
            platform.admin.get('/storage/containers'),
            platform.admin.patch(`/storage/containers/${bounded._id}`, { quota: 100_000 + i }),
          ]),
        ),
      );
      expect(answers.flat().map(({ status }) => status)).toEqual(Array(30).fill(200));
    }
    const { body } = await ann.api.get('/storage/usage');
    expect(body).toMatchObject({ files: 50, size: 500 });
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    for (const { name } of [bounded, open])
      expect(perContainer).toContainEqual({ name, files: 25, size: 250 });
    expect(await wrongCounters(true)).toBe(0);
  });

  it('holds while files move between two containers in both directions', async () => {
    const ann = await platform.registerUser();
    const [a, b] = [await newContainer(100_000), await newContainer(100_000)];
    const upload = async ({ name }: { name: string }): Promise<string> =>
      (
        await sendForm(platform, ann, [`${randomUUID()}.txt`, 'x'], {
          fields: { container: name },
        })
      ).body.id;
    const there = await Promise.all(Array.from({ length: 5 }, () => upload(a)));
    const back = await Promise.all(Array.from({ length: 5 }, () => upload(b)));
    const move = (id: string, { name: container }: { name: string }) =>
      ann.api.post(`/storage/file/${id}/move`, { container });
    const moved = await Promise.all([
      ...there.map((id) => move(id, b)),
      ...back.map((id) => move(id, a)),
    ]);
    expect(moved.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(await wrongCounters(true)).toBe(0);
  });
});
