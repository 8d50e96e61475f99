/** Small uploads that come at once share statements, and a container is looked at once for many: each is as if it came alone. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, type FormOptions, readContent, type SentForm, sendForm } from './requests.ts';

let platform: TestPlatform;
let sql: TestConnection;
let users: readonly TestUser[];
let ann: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
  ann = await platform.registerUser();
  users = [ann, await platform.registerUser(), await platform.registerUser()];
});
afterAll(async () => {
  await sql?.close();
  await platform?.close();
});

async function newContainer(change: object = {}): Promise<{ name: string; _id: string }> {
  const name = `c-${randomUUID()}`;
  const { body, status, text } = await platform.admin.post('/storage/containers', { name });
  expect(status, text).toBe(200);
  await patch(body._id, change);
  return body;
}
async function patch(id: string, change: object): Promise<void> {
  const { status, text } = await platform.admin.patch(`/storage/containers/${id}`, change);
  expect(status, text).toBe(200);
}
const send = (user: TestUser, fields: FormOptions['fields'], content = 'x'): Promise<SentForm> =>
  sendForm(platform, user, [randomUUID(), content], { fields: fields ?? {} });
const codeOf = ({ status, body }: SentForm) => [status, body.code];
/** Until no upload is left: places that stand ready for those to come are given back after a second. */
const unfinished = (bucket: string): Promise<unknown> =>
  waitFor(
    async () => {
      const text = 'select 1 from penstock.storage_uploads where bucket = $1';
      return (await sql.query(text, [bucket])).length === 0;
    },
    { timeoutMs: 60_000, what: 'no upload to be left' },
  );
async function wrongCounters(): Promise<number> {
  const { _id } = (await platform.admin.post('/storage/reconcile', { dryRun: true })).body;
  const task = await waitFor(
    async () => {
      const { body } = await platform.admin.get(`/storage/tasks/${_id}`);
      return body.state === 'done' && body;
    },
    { timeoutMs: 60_000, what: 'the reconciliation' },
  );
  return task.progress.wrongCounters;
}

describe('uploads that come at once', () => {
  it('are each whole: the content, its owner, its events and its place', async () => {
    const [plain, bounded] = [await newContainer(), await newContainer({ quota: 10_000 })];
    await send(ann, { container: plain.name, folder: 'a/b' });
    const sent = await Promise.all(
      Array.from({ length: 36 }, async (_, n) => {
        const user = users[n % users.length] as TestUser;
        const container = n % 4 === 3 ? bounded.name : plain.name;
        const folder = ['', 'a/b', `new/${n}`][n % 3] ?? '';
        const metadata = n % 2 === 0 ? { n } : null;
        const content = `content ${n}`;
        if (n % 2 === 0) {
          const data = Buffer.from(content).toString('base64');
          const { status, body } = await user.api.post('/storage/file', {
            ...{ data, container, folder, metadata, alias: `alias ${n}` },
          });
          return { status, id: body._id as string, user, content, container, n };
        }
        const form = await send(user, { container, folder }, content);
        return { status: form.status, id: form.body.id as string, user, content, container, n };
      }),
    );
    for (const { status, id, user, content, container, n } of sent) {
      expect(status).toBe(200);
      const document = (await platform.admin.get(`/storage/files/${id}`)).body;
      expect(document).toMatchObject({
        ...{ container, owner: `User:${user.userId}`, size: content.length, state: 'ready' },
        ...{ generation: 1, metadata: n % 2 === 0 ? { n } : null, mimeType: 'text/plain' },
      });
      const read = await readContent(platform, `/storage/download/${id}`, {
        headers: bearer(user),
      });
      expect(read.bytes.toString()).toBe(content);
    }
    const ids = sent.map(({ id }) => id);
    const told = await sql.query(
      `select ids[1] as id, string_agg(topic, ' ' order by xid, seq) as topics, min(actor) as actor from penstock.outbox
       where ids[1] = any($1) and topic like 'storage:%' group by 1`,
      [ids],
    );
    expect(told).toHaveLength(36);
    for (const { id, topics, actor } of told) {
      expect(topics).toBe('storage:create:File storage:ready:File');
      expect(actor).toContain(sent.find((one) => one.id === id)?.user.userId);
    }
    const owners = await sql.query(
      `select 1 from penstock.tuples where resource_type = 'File' and relation = 'owner' and resource_id = any($1)
       union all select 1 from "app"."File" where "@owner"::text = split_part("owner", ':', 2) and "_id"::text = any($1)`,
      [ids],
    );
    expect(owners).toHaveLength(36);
    for (const { name } of [plain, bounded]) await unfinished(name);
    expect(await wrongCounters()).toBe(0);
  });

  it('have one place once, whoever else comes with them', async () => {
    const { name: container } = await newContainer();
    await send(ann, { container });
    const names = Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? 'the one' : `own ${n}`));
    const sent = await Promise.all(
      names.map((name, n) => send(users[n % users.length] as TestUser, { container, name })),
    );
    const taken = sent.filter(({ status }) => status !== 200);
    for (const one of taken) expect(codeOf(one)).toEqual([409, 'FILE_EXISTS']);
    expect(taken).toHaveLength(19);
    expect(sent.filter(({ body }) => body.name?.startsWith('own'))).toHaveLength(20);
    await unfinished(container);
    expect(await wrongCounters()).toBe(0);
  });
});

describe('a container that was looked at a moment ago', () => {
  it.each([
    ['a smaller limit', { maxFileSize: 5 }, [413, 'FILE_TOO_LARGE']],
    ['other types', { allowedMimeTypes: ['image/*'] }, [415, 'UNSUPPORTED_TYPE']],
    ['a quota', { quota: 5 }, [413, 'QUOTA_EXCEEDED']],
  ])('takes nothing that it does not take since it has %s', async (_, change, refusal) => {
    const { name: container, _id } = await newContainer();
    expect((await send(ann, { container })).status).toBe(200);
    await patch(_id, change);
    expect(codeOf(await send(ann, { container }, '0123456789'))).toEqual(refusal);
    const { files } = (await platform.admin.get(`/storage/files?container=${container}`)).body;
    expect(files).toHaveLength(1);
    await unfinished(container);
  });

  it('takes nothing private since it is public', async () => {
    const { name: container, _id } = await newContainer();
    const made = await send(ann, { container, isPublic: 'true' });
    expect(made.status).toBe(200);
    await patch(_id, { isPublic: true });
    expect(codeOf(await send(ann, { container }))).toEqual([400, 'PRIVATE_IN_PUBLIC']);
    await unfinished(container);
  });

  it('that was deleted takes nothing, and one of its name is another', async () => {
    const { name, _id } = await newContainer();
    expect((await send(ann, { container: name })).status).toBe(200);
    const gone = await platform.admin.delete(`/storage/containers/${_id}?force=true`);
    expect(gone.status, gone.text).toBe(200);
    expect(codeOf(await send(ann, { container: name }))).toEqual([
      403,
      'CONTAINER_CREATION_DENIED',
    ]);
    expect((await platform.admin.post('/storage/containers', { name })).status).toBe(200);
    const sent = await send(ann, { container: name });
    expect(sent.status, JSON.stringify(sent.body)).toBe(200);
  });

  it('that is just being deleted takes nothing: 404, and nothing is left behind', async () => {
    const { name: container, _id } = await newContainer();
    expect((await send(ann, { container })).status).toBe(200);
    const bucket = join(platform.dataDir, 'storage', container);
    // As its deletion does: the container is locked, its bucket is gone, and nothing is committed yet.
    await sql.query('begin');
    await sql.query('select from app."_StorageContainer" where "_id" = $1 for update', [_id]);
    await rm(bucket, { recursive: true });
    const refused = [404, 'CONTAINER_NOT_FOUND'];
    expect(codeOf(await send(ann, { container }))).toEqual(refused);
    expect(codeOf(await send(ann, { container, folder: 'a' }))).toEqual(refused);
    expect(codeOf(await send(ann, { container }, 'x'.repeat(300_000)))).toEqual(refused);
    await sql.query('rollback');
    const { files } = (await platform.admin.get(`/storage/files?container=${container}`)).body;
    expect(files).toHaveLength(1);
    const gone = await platform.admin.delete(`/storage/containers/${_id}?force=true`);
    expect(gone.status, gone.text).toBe(200);
    await unfinished(container);
    expect(existsSync(bucket)).toBe(false);
  });
});
