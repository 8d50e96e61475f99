/** Files whose owner was deleted: kept without an owner, or deleted, as operators say; found and counted right either way. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, type FormOptions, readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let sql: TestConnection;
let ben: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
  ben = await platform.registerUser();
  await platform.createSchema({ name: 'Holder', fields: { file: { type: 'File' } } });
});
afterAll(async () => {
  await sql?.close();
  await platform?.close();
});

const configure = async (config: object): Promise<void> => {
  const { status, text } = await platform.admin.patch('/config/storage', config);
  expect(status, text).toBe(200);
};
const upload = async (user: TestUser, options: FormOptions = {}): Promise<string> => {
  const sent = await sendForm(platform, user, [`${randomUUID()}.txt`, '0123456789'], options);
  expect(sent.status, JSON.stringify(sent.body)).toBe(200);
  return sent.body.id;
};
const hold = async (user: TestUser, file: string): Promise<void> =>
  expect((await user.api.post('/database/Holder', { file })).status).toBe(200);
const document = (id: string) => platform.admin.get(`/storage/files/${id}`);
const listed = async (owner: string): Promise<string[]> => {
  const { body } = await platform.admin.get(`/storage/files?ownedBy=${owner}&limit=200`);
  return body.files.map(({ _id }: { _id: string }) => _id);
};
const usageOf = async (owner: string) => (await platform.admin.get(`/storage/usage/${owner}`)).body;
const reconciled = async (dryRun: boolean) => {
  const { _id } = (await platform.admin.post('/storage/reconcile', { dryRun })).body;
  const task = await waitFor(
    async () => {
      const { body } = await platform.admin.get(`/storage/tasks/${_id}`);
      return body.state === 'done' && body;
    },
    { timeoutMs: 60_000, what: 'the reconciliation' },
  );
  return task.progress;
};
/** What is there, against what is counted. */
const expectCounted = async () => expect((await reconciled(true)).wrongCounters).toBe(0);
/** Until nothing is counted for an owner, not even that it is nothing. */
const released = (owner: string): Promise<unknown> =>
  waitFor(
    async () => {
      const rows = await sql.query(
        `select 1 from "app"."File" where "owner" = $1 union all select 1 from penstock.storage_trash where owner = $1
         union all select 1 from penstock.storage_owners where owner = $1 union all select 1 from penstock.storage_growth where owner = $1`,
        [owner],
      );
      return rows.length === 0;
    },
    { timeoutMs: 60_000, what: `nothing of ${owner} to be left` },
  );
const leave = async (user: TestUser): Promise<string> => {
  expect((await user.api.delete('/authentication/user')).status).toBe(200);
  return `User:${user.userId}`;
};

describe.each([
  ['without quotas', 0],
  ['with quotas', 100],
])('files of a user who was deleted, %s', (_, perUserQuota) => {
  it('stay and belong to nobody, the trash included, unless operators say otherwise', async () => {
    await configure({ limits: { perUserQuota }, trash: { days: 5 } });
    const ann = await platform.registerUser();
    const [kept, thrown] = [await upload(ann), await upload(ann)];
    expect((await ann.api.delete(`/storage/file/${thrown}`)).status).toBe(200);
    expect(await usageOf(`User:${ann.userId}`)).toMatchObject({ files: 2, size: 20 });
    expect(await listed(`User:${ann.userId}`)).toEqual([kept]);
    const owner = await leave(ann);
    await released(owner);
    expect(await listed(owner)).toEqual([]);
    expect(await listed('none')).toContain(kept);
    expect((await document(kept)).body).toMatchObject({ owner: null, createdBy: owner });
    const headers = bearer(ben);
    const read = await readContent(platform, `/storage/download/${kept}`, { headers });
    expect([read.status, read.bytes.toString()]).toEqual([200, '0123456789']);
    expect((await ben.api.delete(`/storage/file/${kept}`)).status).toBe(403);
    // What comes back from the trash belongs to nobody too, and is charged to nobody.
    expect((await platform.admin.post(`/storage/trash/${thrown}/restore`, {})).status).toBe(200);
    expect((await document(thrown)).body.owner).toBeNull();
    expect(await usageOf(owner)).toMatchObject({ files: 0, size: 0 });
    const { owners } = (await platform.admin.get('/storage/insights')).body;
    expect(owners.map((row: { owner: string }) => row.owner)).not.toContain(owner);
    await expectCounted();
    for (const id of [kept, thrown])
      expect((await platform.admin.delete(`/storage/files/${id}`)).status).toBe(200);
    await configure({ trash: { days: 0 } });
    await expectCounted();
  });

  it('are deleted where operators say so, but for those that records hold', async () => {
    await configure({ limits: { perUserQuota }, deletedOwners: { files: 'delete' } });
    const container = `c-${randomUUID()}`;
    const made = await platform.admin.post('/storage/containers', { name: container });
    await platform.admin.patch(`/storage/containers/${made.body._id}`, { quota: 1_000 });
    const ann = await platform.registerUser();
    const fields = { container, folder: 'a/b' };
    const [plain, held, elsewhere] = [
      await upload(ann, { fields }),
      await upload(ann, { fields }),
      await upload(ann),
    ];
    const other = await upload(ben, { fields });
    await hold(ann, held);
    const pending = (await ann.api.post('/storage/upload', { name: randomUUID() })).body.file._id;
    await released(await leave(ann));
    for (const id of [plain, elsewhere, pending]) expect((await document(id)).status).toBe(404);
    expect((await document(held)).body).toMatchObject({ owner: null, size: 10 });
    expect((await document(other)).body).toMatchObject({ owner: `User:${ben.userId}` });
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    expect(perContainer).toContainEqual({ name: container, files: 2, size: 20 });
    await waitFor(async () => (await reconciled(true)).orphanObjects === 0, {
      timeoutMs: 60_000,
      what: 'the contents to be deleted',
    });
    await expectCounted();
    await configure({ deletedOwners: { files: 'keep' } });
  });
});

describe('owners', () => {
  it('are teams too', async () => {
    await configure({ limits: { perUserQuota: 0 }, authorization: { enabled: true } });
    const teams = { config: { teams: { enabled: true, allowAddWithoutInvite: true } } };
    expect((await platform.admin.patch('/config/authentication', teams)).status).toBe(200);
    const made = await ben.api.post('/authentication/teams', { name: `t-${randomUUID()}` });
    expect(made.status, made.text).toBe(200);
    const team = `Team:${made.body._id}`;
    const data = Buffer.from('0123456789').toString('base64');
    const sent = await ben.api.post(`/storage/file?scope=${team}`, { data });
    expect(sent.status, sent.text).toBe(200);
    expect(await usageOf(team)).toMatchObject({ files: 1, size: 10 });
    expect((await ben.api.delete(`/authentication/teams/${made.body._id}`)).status).toBe(200);
    await released(team);
    expect((await document(sent.body._id)).body.owner).toBeNull();
    await configure({ authorization: { enabled: false } });
    await expectCounted();
  });

  it('who went unnoticed are found and released by reconciling', async () => {
    await configure({ limits: { perUserQuota: 0 } });
    const file = await upload(ben);
    const there = await upload(ben);
    const owner = `User:${randomUUID()}`;
    await sql.query(`update "app"."File" set "owner" = $1 where "_id" = $2`, [owner, file]);
    await reconciled(false);
    const first = await reconciled(true);
    expect(first.wrongCounters).toBe(0);
    await released(owner);
    expect((await document(file)).body.owner).toBeNull();
    expect((await document(there)).body.owner).toBe(`User:${ben.userId}`);
    expect(await reconciled(true)).toMatchObject({ goneOwners: 0, owners: [], wrongCounters: 0 });
    await sql.query(`update "app"."File" set "owner" = $1 where "_id" = $2`, [owner, file]);
    await sql.query('insert into penstock.storage_owners values ($1, 10, 1)', [owner]);
    expect(await reconciled(true)).toMatchObject({ goneOwners: 1, owners: [owner] });
    const { reconciled: last } = (await platform.admin.get('/storage/insights')).body;
    expect(last).toMatchObject({ goneOwners: 1, dryRun: true });
    expect((await document(file)).body.owner).toBe(owner);
  });

  it('that only permissions know are not gone while somebody is related to them', async () => {
    await configure({
      authorization: { enabled: true },
      deletedOwners: { files: 'delete' },
    });
    const team = `Team:${randomUUID()}`;
    const relation = { subject: `User:${ben.userId}`, relation: 'owner', resource: team };
    const related = await platform.admin.post('/authorization/relations', relation);
    expect(related.status, related.text).toBe(200);
    const data = Buffer.from('0123456789').toString('base64');
    const sent = await ben.api.post(`/storage/file?scope=${team}`, { data });
    expect(sent.status, sent.text).toBe(200);
    await platform.admin.get(`/storage/usage/${team}`);
    const { owners } = await reconciled(false);
    expect(owners).not.toContain(team);
    expect((await document(sent.body._id)).body.owner).toBe(team);
    // Once nobody is, nobody can act for it either.
    const gone = await platform.admin.delete(`/authorization/relations/${related.body._id}`);
    expect(gone.status, gone.text).toBe(200);
    expect((await reconciled(false)).owners).toContain(team);
    await waitFor(async () => (await document(sent.body._id)).status === 404, {
      timeoutMs: 60_000,
      what: 'the file to go',
    });
    await configure({ authorization: { enabled: false }, deletedOwners: { files: 'keep' } });
    await expectCounted();
  });

  it('are looked for by a name that is one', async () => {
    for (const wrong of ['ann', 'User:', ':x'])
      expect((await platform.admin.get(`/storage/files?ownedBy=${wrong}`)).status).toBe(400);
  });
});
