/** Files of submissions: stored before the submission, seen by nobody but operators, and gone with it. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import { createMailbox } from '../../test/support/mailbox.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { sendForm } from '../storage/requests.ts';
import { createForm, type Part, processed, sendMultipart, submissionsOf } from './requests.ts';

let platform: TestPlatform;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
  await liftLimits(platform.admin);
  const limits = { submissionsPerFormPerIpPerHour: 1_000, fileSize: 20_000, files: 2 };
  await platform.admin.patch('/config/forms', { config: { limits } });
});
afterAll(async () => {
  await sql.close();
  await platform.close();
});

const png = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
const text = (content: string) => new Blob([content], { type: 'text/plain' });
const fileForm = (more: object = {}, field: object = {}) =>
  createForm(platform.admin, {
    fields: [
      { name: 'who', type: 'text', required: true },
      { name: 'paper', type: 'file', required: true, ...field },
    ],
    ...more,
  });
const send = (formId: string, parts: readonly Part[], headers = {}) =>
  sendMultipart(platform, `/forms/submit/${formId}`, parts, headers);
const filesThere = async () =>
  (await sql.query(`select "_id" from "app"."File" where "container" = 'module-forms'`)).length;
const uploadsNoted = async () => (await sql.query('select name from penstock.form_uploads')).length;

it('come with the form, and go out by a link that ends with the submission', async () => {
  const form = await fileForm({ forwardTo: 'files@example.com' });
  const sent = await send(form._id, [
    ['who', 'Ada'],
    ['paper', text('the content'), 'C:\\my\u202e "paper".txt'],
  ]);
  expect(sent.status, sent.text).toBe(200);
  const submission = await processed(platform.admin, sent.body.submissionId);
  expect(submission.files).toEqual([
    {
      field: 'paper',
      file: submission.data.paper,
      name: expect.stringContaining('paper'),
      size: 11,
      mimeType: 'text/plain',
    },
  ]);
  expect(submission.files[0].name).not.toMatch(/[\u202e\\]/);
  expect(await uploadsNoted()).toBe(0);
  const link = await createMailbox(platform.admin).link('files@example.com', 'FormSubmission');
  const read = await fetch(link);
  expect([read.status, await read.text()]).toEqual([200, 'the content']);
  expect(read.headers.get('content-disposition')).toContain('attachment');
  const altered = new URL(link);
  altered.searchParams.set('expires', '99999999999');
  expect((await fetch(altered)).status).toBe(403);
  const swapped = new URL(link.href.replace(sent.body.submissionId, form._id));
  expect((await fetch(swapped)).status).toBe(403);
  await platform.admin.delete(`/admin/forms/submissions/${sent.body.submissionId}`);
  expect((await fetch(link)).status).toBe(404);
  expect((await platform.admin.get(`/storage/files/${submission.data.paper}`)).status).toBe(404);
});

it('are seen by no user, neither in lists nor by their id', async () => {
  const form = await fileForm();
  const { body } = await send(form._id, [
    ['who', 'Ada'],
    ['paper', text('private'), 'a.txt'],
  ]);
  const { paper } = (await platform.admin.get(`/admin/forms/submissions/${body.submissionId}`)).body
    .data;
  const user = await platform.registerUser();
  for (const path of [
    `/storage/file/${paper}`,
    `/storage/getFileUrl/${paper}`,
    `/storage/file/data/${paper}`,
  ]) {
    expect((await user.api.get(path)).status, path).toBe(403);
    expect([401, 403]).toContain((await platform.client.get(path)).status);
  }
  const listed = await user.api.get('/storage/file', { query: { limit: 200 } });
  expect(listed.text).not.toContain(paper);
  const intruder = await sendForm(platform, user, ['x.txt', 'x'], {
    fields: { container: 'module-forms' },
  });
  expect(intruder.status).toBe(403);
  expect((await platform.admin.get(`/storage/files/${paper}`)).status).toBe(200);
});

it.each<[what: string, parts: readonly Part[], status: number, code: string]>([
  [
    'too many',
    [
      ['who', 'A'],
      ['paper', text('1'), '1'],
      ['paper', text('2'), '2'],
      ['paper', text('3'), '3'],
    ],
    400,
    'maxFiles',
  ],
  [
    'two for one',
    [
      ['who', 'A'],
      ['paper', text('1'), '1'],
      ['paper', text('2'), '2'],
    ],
    400,
    'multiple',
  ],
  [
    'too large',
    [
      ['who', 'A'],
      ['paper', text('x'.repeat(20_001)), 'a'],
    ],
    413,
    'maxSize',
  ],
  [
    'of another type',
    [
      ['who', 'A'],
      ['paper', new Blob([png]), 'a.txt'],
    ],
    400,
    'mimeTypes',
  ],
  ['missing', [['who', 'A']], 400, 'required'],
  [
    'a text in their place',
    [
      ['who', 'A'],
      ['paper', 'not a file'],
    ],
    400,
    'file',
  ],
  [
    'before a field that is wrong',
    [
      ['paper', text('1'), '1'],
      ['who', ''],
    ],
    400,
    'required',
  ],
])('leave nothing behind when they are refused: %s', async (_what, parts, status, code) => {
  const before = await filesThere();
  const form = await fileForm({}, { mimeTypes: ['text/*'] });
  const answer = await send(form._id, parts);
  expect(answer.status, answer.text).toBe(status);
  expect(answer.body.errors[0]).toMatchObject({
    code,
    field: code === 'required' ? expect.any(String) : 'paper',
  });
  expect(await filesThere()).toBe(before);
  expect(await submissionsOf(platform.admin, form._id)).toEqual([]);
});

it('hold their rules also where a value is the id of a file, and are counted before they are looked for', async () => {
  const owner = await platform.registerUser();
  const store = async () => {
    const data = Buffer.from('#!/bin/sh').toString('base64');
    return (await owner.api.post('/storage/file', { data })).body._id;
  };
  const submit = async (field: object, paper: unknown) => {
    const form = await fileForm({}, field);
    const answer = await owner.api.post(`/forms/submit/${form._id}`, { who: 'Ada', paper });
    return [answer.status, answer.body.errors?.map(({ code }: Json) => code)];
  };
  const id = await store();
  expect(await submit({ mimeTypes: ['application/pdf'] }, id)).toEqual([400, ['mimeTypes']]);
  expect(await submit({ maxSize: 3 }, id)).toEqual([413, ['maxSize']]);
  const three = [id, await store(), await store()];
  expect(await submit({ multiple: true }, three)).toEqual([400, ['maxFiles']]);
  const unknown = Array.from({ length: 500 }, () => randomUUID());
  expect(await submit({ multiple: true }, unknown)).toEqual([400, ['file']]);
});

it('may be data URLs in JSON, or files that the submitter can read already', async () => {
  const form = await fileForm({}, { multiple: true });
  const post = (paper: unknown, options = {}) =>
    platform.client.post(`/forms/submit/${form._id}`, { who: 'Ada', paper }, options);
  const inline = await post(`data:image/png;name=dot.png;base64,${png.toString('base64')}`);
  expect(inline.status, inline.text).toBe(200);
  const stored = (await platform.admin.get(`/admin/forms/submissions/${inline.body.submissionId}`))
    .body;
  expect(stored.files).toMatchObject([
    { name: 'dot.png', mimeType: 'image/png', size: png.length },
  ]);

  // Whoever decodes what is no base64 gets other bytes, or none.
  for (const cut of ['!!!!', 'QUJDR', 'QUJD=QUJD', 'QUI-_w'])
    expect((await post(`data:text/plain;base64,${cut}`)).body.errors).toMatchObject([
      { field: 'paper', code: 'file' },
    ]);

  await platform.admin.patch('/config/storage', { config: { access: { privateRead: 'owner' } } });
  const [owner, stranger] = [await platform.registerUser(), await platform.registerUser()];
  const { id } = (await sendForm(platform, owner, ['own.txt', 'mine'])).body;
  for (const options of [{}, { token: stranger.accessToken }])
    expect((await post(id, options)).body.errors[0]).toMatchObject({
      field: 'paper',
      code: 'file',
    });
  const own = await post([id], { token: owner.accessToken });
  expect(own.status, own.text).toBe(200);
  // It was there before, and stays when the submission goes.
  await platform.admin.delete(`/admin/forms/submissions/${own.body.submissionId}`);
  expect((await owner.api.get(`/storage/file/${id}`)).status).toBe(200);
});

it('can be sent again with the same Idempotency-Key, and are stored once', async () => {
  const form = await fileForm();
  const before = await filesThere();
  const parts: readonly Part[] = [
    ['who', 'Ada'],
    ['paper', text('once'), 'a.txt'],
  ];
  const headers = { 'idempotency-key': 'files' };
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => send(form._id, parts, headers)),
  );
  expect(new Set(answers.map(({ body }) => body.submissionId)).size).toBe(1);
  await waitFor(async () => (await filesThere()) === before + 1 || undefined);
  const other = await send(
    form._id,
    [
      ['who', 'Ada'],
      ['paper', text('else'), 'a.txt'],
    ],
    headers,
  );
  expect(other.status).toBe(409);
});

it('are not taken while the configuration says so, or storage does not run', async () => {
  const form = await fileForm();
  const parts: readonly Part[] = [
    ['who', 'Ada'],
    ['paper', text('x'), 'a.txt'],
  ];
  await platform.admin.patch('/config/forms', { config: { useAttachments: false } });
  expect((await send(form._id, parts)).body.errors[0]).toMatchObject({ code: 'attachments' });
  await platform.admin.patch('/config/forms', { config: { useAttachments: true } });
  const kept = await fileForm();
  expect((await send(kept._id, parts)).status).toBe(200);
  await platform.admin.patch('/config/storage', { config: { active: false } });
  await waitFor(async () => (await send(form._id, parts)).status === 503 || undefined);
  // Whoever wants to be forgotten does not wait for storage: the clean-up sees to the file.
  const [there] = await submissionsOf(platform.admin, kept._id);
  const before = await filesThere();
  const gone = await platform.admin.delete(`/admin/forms/submissions/${there._id}`);
  expect(gone.status, gone.text).toBe(200);
  expect([await filesThere(), await uploadsNoted()]).toEqual([before, 1]);
  await platform.admin.patch('/config/storage', { config: { active: true } });
  await waitFor(async () => (await send(form._id, parts)).status === 200 || undefined);
});
