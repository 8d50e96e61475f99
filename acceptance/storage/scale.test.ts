/**
 * Lists of many files, by what the database touches for one page: whatever they are sorted by, for whoever may see all,
 * half or a few of them. Nothing is timed. `FILES` says how many there are.
 */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { Api, Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const FILES = Number(process.env.FILES ?? 40_000);
const FEW = 100;
const PAGE = 20;
/** Pages of the database that one page of a list may touch: far fewer than the table has, and hardly more for more files. */
const MAX_BLOCKS = 600;

let platform: TestPlatform;
let database: pg.Client;
let few: TestUser;
let half: TestUser;
let first: string;
const sent = vi.spyOn(pg.Client.prototype, 'query');
beforeAll(async () => {
  platform = await createTestPlatform();
  database = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
  await database.connect();
  [few, half] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  first = (await few.api.post('/storage/file', { data: '', name: 'first', folder: 'x' })).body._id;
  await fill();
}, 600_000);
afterAll(async () => {
  sent.mockRestore();
  await database?.end();
  await platform?.close();
});

/** Every other file belongs to `half`, a hundred to `few`, the others to nobody who is here. */
async function fill(): Promise<void> {
  await database.query(
    `insert into "app"."File" ("_id", "name", "folder", "container", "size", "isPublic", "mimeType", "state", "generation",
       "lastGeneration", "owner", "createdBy", "bucket", "objectKey", "uri", "containerId", "folderIds", "createdAt", "updatedAt", "__v", "@owner")
     select gen_random_uuid(), 'file ' || n, 'x/', 'penstock', (n * 7919::bigint) % 1000003, n % 5000 = 0,
       (array['image/png', 'text/plain', 'application/pdf'])[1 + n % 3], 'ready', 1, 1, 'User:' || who.id, 'User:' || who.id,
       'penstock', 'aa/bb/' || n, '/', c."_id", array[d."_id"], now() - n * interval '1 minute', now() - n * interval '1 second', 0, who.id
     from generate_series(1, $1::integer) n
     cross join lateral (select case when n % 2 = 0 then $2::uuid when n % $3::integer = 1 then $4::uuid
       else md5('user' || n % 5000)::uuid end as id) who
     join "app"."_StorageContainer" c on c."name" = 'penstock'
     join "app"."_StorageFolder" d on d."container" = 'penstock' and d."name" = 'x/'`,
    [FILES, half.userId, (FILES / FEW) * 2, few.userId],
  );
  // The file that was sent may stand beside the counter still.
  await database.query(
    `with counted as (delete from penstock.storage_growth) update "app"."_StorageContainer" set "fileCount" = $1`,
    [FILES + 1],
  );
  await database.query('analyze "app"."File"');
}

/** What the statement of a list touches when it is run again, in pages of the database. */
async function costOf(api: Api, query: Json) {
  sent.mockClear();
  const answer = await api.get('/storage/files', {
    query: { limit: PAGE, count: 'none', ...query },
  });
  expect(answer.status, answer.text).toBe(200);
  let blocks = 0;
  for (const [asked, given] of [...sent.mock.calls] as unknown as [Json, unknown[] | undefined][]) {
    const text: string = typeof asked === 'string' ? asked : asked.text;
    if (!/from "?app"?\."?File"?/.test(text) || !text.includes('order by')) continue;
    const values = typeof asked === 'string' ? given : asked.values;
    const { rows } = await database.query(
      `explain (analyze, buffers, timing off, format json) ${text}`,
      values,
    );
    const plan = rows[0]['QUERY PLAN'][0].Plan;
    blocks += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  }
  expect(blocks, 'the statement of the list was seen').toBeGreaterThan(0);
  return { blocks, page: answer.body };
}

const sorts = ['name', 'size', 'createdAt', 'updatedAt', 'folder', 'mimeType'].flatMap((name) => [
  name,
  `-${name}`,
]);
const modes = [
  ['where everybody who is signed in reads', { privateRead: 'authenticated' }, false],
  ['where owners read', { privateRead: 'owner' }, false],
  ['where relations decide', { privateRead: 'owner' }, true],
] as const;

describe.each(modes)('a page of a list %s', (_name, access, enabled) => {
  beforeAll(async () => {
    const set = await platform.admin.patch('/config/storage', {
      access,
      authorization: { enabled },
    });
    expect(set.status, set.text).toBe(200);
    expect((await few.api.get(`/storage/file/${first}`)).status).toBe(200);
  });

  it.each([
    ['all', () => platform.admin, {}],
    ['a few', () => few.api, { of: 'readable' }],
    ['half', () => half.api, { of: 'readable' }],
    ['their own few', () => few.api, {}],
    ['their own half', () => half.api, {}],
  ] as const)('touches little whatever the sort, for whoever sees %s', async (_who, api, query) => {
    for (const sort of sorts) {
      const { blocks, page } = await costOf(api(), { ...query, sort: [sort] });
      expect(blocks, sort).toBeLessThan(MAX_BLOCKS);
      expect(page.files).toHaveLength(PAGE);
    }
  });

  it('touches no more when it is deep, and all pages together are all files', async () => {
    const seen = new Set<string>();
    const walk = async (cursor: string): Promise<string | null> => {
      const sort = ['-mimeType'];
      const { blocks, page } = await costOf(few.api, { of: 'readable', sort, cursor, limit: 25 });
      expect(blocks).toBeLessThan(MAX_BLOCKS);
      for (const { _id } of page.files) seen.add(_id);
      return page.nextCursor;
    };
    let cursor: string | null = 'start';
    for (let pages = 0; cursor !== null && pages < 10; pages++) cursor = await walk(cursor);
    const { body } = await few.api.get('/storage/files', { query: { of: 'readable' } });
    expect(seen.size).toBe(Math.min(250, body.filesCount));
  });
});

describe('a folder of so many files', () => {
  it('is deleted in the background, tells how far it is, and can be paused', async () => {
    const { admin } = platform;
    const { folders } = (await admin.get('/storage/folders', { query: { search: 'x' } })).body;
    const begun = await admin.delete(`/storage/folders/${folders[0]._id}`);
    expect(begun.status, begun.text).toBe(200);
    const path = `/storage/tasks/${begun.body.task}`;
    const task = async (): Promise<Json> => (await admin.get(path)).body;
    expect(['waiting', 'running']).toContain((await task()).state);
    expect((await admin.post(`${path}/pause`)).body.state).toBe('paused');
    const left = async (): Promise<number> =>
      (await admin.get('/storage/files', { query: { limit: 1 } })).body.filesCount;
    await waitFor(
      async () => {
        const before = await left();
        await new Promise((resolve) => setTimeout(resolve, 500));
        return before === (await left());
      },
      { timeoutMs: 60_000 },
    );
    expect((await task()).state).toBe('paused');
    expect((await admin.post(`${path}/pause`)).status).toBe(409);
    expect((await admin.post(`${path}/resume`)).body.state).toBe('waiting');
    await waitFor(async () => (await task()).state === 'done', { timeoutMs: 500_000 });
    expect((await task()).progress.deleted).toBeGreaterThanOrEqual(FILES);
    expect(await left()).toBe(0);
    expect((await admin.get('/storage/stats')).body).toMatchObject({ folders: 0, files: 0 });
  }, 600_000);
});
