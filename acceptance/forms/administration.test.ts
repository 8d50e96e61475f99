/** Forms as operators handle them: export, erasure, state as code, tools, metrics, and the paths of the 0.16 line. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createEndpoint, startReceiver } from '../webhooks/receiver.ts';
import { createForm, processed, submissionsOf } from './requests.ts';

let platform: TestPlatform;
let metricsPort: number;
beforeAll(async () => {
  metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  await liftLimits(platform.admin);
  const limits = { submissionsPerFormPerIpPerHour: 1_000 };
  await platform.admin.patch('/config/forms', { config: { limits, spam: { repeats: 0 } } });
});
afterAll(() => platform.close());

const submit = (formId: string, values: object, options = {}) =>
  platform.client.post(`/forms/submit/${formId}`, values, options);
const metrics = async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();

it('exports CSV in which nothing is a formula', async () => {
  const form = await createForm(platform.admin, {
    fields: [
      { name: 'text', type: 'text' },
      { name: 'amount', type: 'number' },
      { name: 'likes', type: 'select', options: ['a', 'b'], multiple: true },
    ],
  });
  const texts = ['=1+1', '+1', '-1', '@x', '\t=1', ' =1', '＝1', 'plain', 'a,"b"\nc', '<script>'];
  for (const text of texts) await submit(form._id, { text, amount: -5, likes: ['a', 'b'] });
  const answer = await fetch(
    new URL(
      `/admin/forms/${form._id}/submissions?format=csv&possibleSpam=false`,
      platform.addresses.admin,
    ),
    { headers: { masterkey: platform.masterKey } },
  );
  expect(answer.headers.get('content-type')).toContain('text/csv');
  const csv = await answer.text();
  const cells = csv
    .trimEnd()
    .split('\r\n')
    .map((line) => line.split(/,(?=(?:[^"]*"[^"]*")*[^"]*$)/));
  expect(cells[0]).toEqual([
    '_id',
    'createdAt',
    'status',
    'possibleSpam',
    'text',
    'amount',
    'likes',
    'files',
  ]);
  expect(cells.slice(1).map(([, , , , text]) => text)).toEqual([
    "'=1+1",
    "'+1",
    "'-1",
    "'@x",
    `"'\t=1"`,
    "' =1",
    "'＝1",
    'plain',
    '"a,""b""\nc"',
    '<script>',
  ]);
  expect(cells[1]?.slice(5)).toEqual(['-5', '"a; b"', '""']);
  const empty = await createForm(platform.admin);
  const none = await platform.admin.get(`/admin/forms/${empty._id}/submissions/export`);
  expect(none.text).toBe('_id,createdAt,status,possibleSpam,email,message,files\r\n');
});

it('forgets what an address has sent, and what a user has sent when they are deleted', async () => {
  const form = await createForm(platform.admin, { emailField: 'email' });
  const other = await createForm(platform.admin, { emailField: 'email' });
  const user = await platform.registerUser();
  await submit(form._id, { email: 'Ada@Example.com', message: '1' });
  await submit(other._id, { email: 'ada@example.com', message: '2' });
  await submit(form._id, { email: 'eva@example.com', message: '3' });
  await submit(form._id, { email: 'x@example.com', message: '4' }, { token: user.accessToken });
  const erased = await platform.admin.post('/admin/forms/submissions/erase', {
    email: 'ADA@example.com',
  });
  expect(erased).toMatchObject({ status: 200, body: { deletedCount: 2 } });
  const left = async () =>
    (await submissionsOf(platform.admin, form._id)).map(({ data }) => data.message);
  expect(await left()).toEqual(['4', '3']);
  expectStatus(
    await platform.admin.delete(`/authentication/users/${user.userId}`),
    200,
    'delete the user',
  );
  expect(await left()).toEqual(['3']);
});

describe('as state', () => {
  it('is exported, planned, applied and pruned by name', async () => {
    const document = {
      name: 'From a file',
      fields: [{ name: 'email', type: 'email', required: true }],
      enabled: true,
      forwardTo: ['team@example.com'],
      emailField: 'email',
      doubleOptIn: true,
    };
    const state = (forms: readonly Json[]) => ({ modules: { forms: { forms } } });
    const imported = await platform.admin.post('/state/import', state([document]));
    expect(imported.status, imported.text).toBe(200);
    const { body } = await platform.admin.get('/state/export', { query: { modules: 'forms' } });
    const exported = (JSON.stringify(body).match(/"From a file"/g) ?? []).length;
    expect(exported).toBe(1);
    const again = await platform.admin.post('/state/plan', state([document]));
    expect(again.status, again.text).toBe(200);
    expect(again.body.plan).toMatchObject([{ action: 'noop', key: 'From a file' }]);
    const changed = await platform.admin.post(
      '/state/import',
      state([{ name: 'From a file', fields: { who: 'String' } }]),
    );
    expect(changed.status, changed.text).toBe(200);
    const [form] = (await platform.admin.get('/admin/forms', { query: { search: 'From a file' } }))
      .body.forms;
    expect(form).toMatchObject({
      doubleOptIn: false,
      forwardTo: [],
      version: 2,
      fields: [{ name: 'who', type: 'text' }],
    });
    const wrong = state([{ ...document, emailField: 'no' }]);
    const place = 'modules.forms.forms.0.emailField';
    expect((await platform.admin.post('/state/plan', wrong)).body.obstacles).toMatchObject([
      { path: place },
    ]);
    const refused = await platform.admin.post('/state/import', wrong);
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ path: place }] } });
  });
});

it('tells webhooks what happens to forms and that something was sent, and not what', async () => {
  const receiver = await startReceiver();
  try {
    const config = { allowInternal: true };
    expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'webhooks');
    await createEndpoint(platform.admin, { url: receiver.url, events: ['forms.*'] });
    const form = await createForm(platform.admin, { name: 'Told' });
    const sent = await submit(form._id, { email: 'told@example.com', message: 'for nobody else' });
    await platform.admin.put(`/admin/forms/${form._id}`, { enabled: false });
    await platform.admin.delete(`/admin/forms/${form._id}`);
    await waitFor(() => receiver.arrivals.length >= 4, { what: 'events' });
    const told = receiver.arrivals.map(({ body }) => body);
    expect(told.map(({ type }) => type).sort()).toEqual([
      'forms.create.Forms',
      'forms.delete.Forms',
      'forms.submit.FormReplies',
      'forms.update.Forms',
    ]);
    expect(told.find(({ type }) => type === 'forms.submit.FormReplies')?.data).toMatchObject({
      form: form._id,
      formName: 'Told',
      submissionId: sent.body.submissionId,
      possibleSpam: false,
    });
    expect(JSON.stringify(told)).not.toMatch(/told@|nobody else/);
  } finally {
    await receiver.close();
  }
});

it('tells models, monitoring and the audit log', async () => {
  const form = await createForm(platform.admin, { name: 'Measured' });
  await submit(form._id, { email: 'a@b.cd', message: 'x' });
  await submit(form._id, { email: 'no' });
  const { body } = await submit(form._id, { email: 'a@b.cd', message: 'y', website_url: 'z' });
  await processed(platform.admin, body.submissionId);
  const text = await metrics();
  expect(text).toMatch(/_forms_total\{[^}]*module_name="forms"[^}]*\} \d/);
  for (const outcome of ['accepted', 'refused', 'spam'])
    expect(text).toMatch(
      new RegExp(
        `form_submissions_total\\{[^}]*form="Measured"[^}]*outcome="${outcome}"[^}]*\\} 1`,
      ),
    );
  const call = (params: object) =>
    platform.admin.post(
      '/mcp?modules=forms',
      { jsonrpc: '2.0', id: 1, ...params },
      { headers: { accept: 'application/json, text/event-stream' } },
    );
  const tools = (await call({ method: 'tools/list', params: {} })).text;
  for (const name of [
    'get_forms',
    'post_forms',
    'get_forms_formid',
    'put_forms_formid',
    'delete_forms_formid',
    'get_forms_formid_submissions',
    'get_forms_submissions_submissionid',
    'delete_forms_submissions_submissionid',
  ])
    expect(tools.toLowerCase()).toContain(`"${name}"`);
  const listed = await call({
    method: 'tools/call',
    params: { name: 'get_forms', arguments: { search: 'Measured' } },
  });
  expect(listed.text).toContain(form._id);
  const audit = await platform.admin.get('/audit-logs', {
    query: { action: 'forms.forms.create' },
  });
  expect(audit.text).toContain('Measured');
});

describe('for clients of the 0.16 line', () => {
  const former = {
    name: 'Old form',
    fields: { email: 'String', amount: 'Number', when: 'Date', paper: 'File' },
    forwardTo: 'old@example.com',
    emailField: 'email',
    enabled: true,
  };

  it('the paths of its code keep and show forms in its shapes', async () => {
    const { admin, client } = platform;
    expect(await admin.post('/forms/forms', former)).toMatchObject({
      status: 200,
      body: { result: 'Ok' },
    });
    for (const missing of ['forwardTo', 'emailField', 'enabled'])
      expect(
        (await admin.post('/forms/forms', { ...former, name: missing, [missing]: undefined }))
          .status,
      ).toBe(400);
    const old = await admin.get('/forms/forms', {
      query: { search: 'Old form', limit: 25, skip: 0 },
    });
    expect(old.body).toMatchObject({ forms: [former], count: 1 });
    const { _id } = old.body.forms[0];
    expect((await admin.get(`/admin/forms/${_id}`)).body).toMatchObject({
      forwardTo: ['old@example.com'],
      fields: [
        { name: 'email', type: 'text', required: false },
        { name: 'amount', type: 'number' },
        { name: 'when', type: 'date' },
        { name: 'paper', type: 'file' },
      ],
    });
    const sent = await client.post(`/forms/${_id}`, { email: 'a@b.cd', amount: '5' });
    expect(sent).toMatchObject({
      status: 200,
      body: {
        result: 'Ok',
        message: 'Form submitted successfully',
        submissionId: expect.any(String),
      },
    });
    const replies = await admin.get(`/forms/replies/${_id}`);
    expect(replies.body).toMatchObject({
      replies: [{ data: { amount: 5 }, possibleSpam: false }],
      count: 1,
    });
    expect(
      (await admin.put('/forms/forms/01890a5d-ac96-774b-bcce-b302099a8057', former)).status,
    ).toBe(404);
    const { body } = await admin.delete(`/forms/forms?ids=${_id}`);
    expect(body).toEqual({ forms: { deletedCount: 1 }, totalCount: expect.any(Number) });
  });

  it('an old panel changes what it knows of a form and leaves the rest', async () => {
    const form = await createForm(platform.admin, { authRequired: true, emailField: 'email' });
    const { forms } = (await platform.admin.get('/forms/forms', { query: { search: form.name } }))
      .body;
    const changed = { ...forms[0], enabled: false, fields: { ...forms[0].fields, more: 'Number' } };
    for (const path of [`/forms/forms/${form._id}`, `/forms/${form._id}`])
      expect(await platform.admin.put(path, changed)).toMatchObject({
        status: 200,
        body: { result: 'Ok' },
      });
    expect((await platform.admin.get(`/admin/forms/${form._id}`)).body).toMatchObject({
      enabled: false,
      authRequired: true,
      fields: [
        { name: 'email', type: 'email', required: true },
        { name: 'message', type: 'textarea', required: true },
        { name: 'more', type: 'number', required: false },
      ],
    });
  });
});
