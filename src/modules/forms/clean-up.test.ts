/** What the clean-up deletes: what is too old, what was never confirmed, used challenges, files that belong to nothing. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createForm, processed, submissionsOf } from '../../../acceptance/forms/requests.ts';
import { openTestConnection, type TestConnection } from '../../../test/support/connection.ts';
import type { TestDatabase } from '../../../test/support/database.ts';
import { createMailbox } from '../../../test/support/mailbox.ts';
import {
  createTestNode,
  type TestNode,
  testAdminPassword,
  testMasterKey,
} from '../../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { readSettings } from '../../kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../platform.ts';

let database: TestDatabase;
let platform: Platform;
let node: TestNode;
let sql: TestConnection;
let dataDir: string;
beforeAll(async () => {
  database = await platformDatabase('embedded');
  dataDir = await temporaryFolder('data');
  platform = await startPlatform({
    settings: readSettings(testEnvironment(dataDir, database.url)),
  });
  node = createTestNode(platform.addresses, {
    masterKey: testMasterKey,
    adminPassword: testAdminPassword,
  });
  sql = await openTestConnection(database.url);
});
afterAll(async () => {
  await sql.close();
  await platform.close();
  await database.drop();
  await removeFolder(dataDir);
});

const cleanUp = async () => {
  const id = await platform.kernel.jobs.enqueue('forms.clean-up', {});
  await waitFor(
    async () => (await platform.kernel.jobs.status(id ?? ''))?.state === 'completed' || undefined,
  );
};
const submit = async (formId: string, values: object) => {
  const answer = await node.client.post(`/forms/submit/${formId}`, values);
  expect(answer.status, answer.text).toBe(200);
  return answer.body.submissionId as string;
};
const age = (id: string, days: number) =>
  sql.query(
    `update penstock.form_submissions set created_at = now() - make_interval(hours => $2) where id = $1`,
    [id, days * 24],
  );
const files = async () =>
  (await sql.query(`select "name" from "app"."File" where "container" = 'module-forms'`)).length;

it('keeps submissions for as long as the configuration says, and their files as long', async () => {
  const form = await createForm(node.admin, { fields: [{ name: 'paper', type: 'file' }] });
  const paper = 'data:text/plain;base64,eA==';
  const old = await submit(form._id, { paper });
  await submit(form._id, { paper });
  await age(old, 31);
  await cleanUp();
  expect(await submissionsOf(node.admin, form._id)).toHaveLength(2);
  await node.admin.patch('/config/forms', { config: { retention: { days: 30 } } });
  await cleanUp();
  expect(await submissionsOf(node.admin, form._id)).toHaveLength(1);
  expect(await files()).toBe(1);
});

it('deletes what users have sent whose accounts went while the module was off', async () => {
  const form = await createForm(node.admin, { authRequired: true });
  const values = { email: 'a@b.cd', message: 'x' };
  const [gone, stays] = await Promise.all([node.registerUser(), node.registerUser()]);
  for (const { accessToken } of [gone, stays])
    expect(
      await node.client.post(`/forms/submit/${form._id}`, values, { token: accessToken }),
    ).toMatchObject({ status: 200 });
  await node.admin.patch('/config/forms', { config: { active: false } });
  const left = await node.client.delete('/authentication/user', { token: gone.accessToken });
  expect(left.status, left.text).toBe(200);
  await node.admin.patch('/config/forms', { config: { active: true } });
  await cleanUp();
  const [only, ...more] = await submissionsOf(node.admin, form._id);
  expect([only?.user, more]).toEqual([stays.userId, []]);
});

it('deletes what nobody confirmed in time', async () => {
  const form = await createForm(node.admin, { emailField: 'email', doubleOptIn: true });
  const ids = [1, 2].map((n) => submit(form._id, { email: 'a@b.cd', message: `${n}` }));
  const [late = ''] = await Promise.all(ids);
  await age(late, 3);
  // One that is being worked on is left for the next time.
  await waitFor(async () => {
    await cleanUp();
    return (await submissionsOf(node.admin, form._id)).length < 2 || undefined;
  });
  expect(await submissionsOf(node.admin, form._id)).toHaveLength(1);
});

it('confirms nothing by a link whose time is over, also before the clean-up comes', async () => {
  const form = await createForm(node.admin, { emailField: 'email', doubleOptIn: true });
  const id = await submit(form._id, { email: 'late@example.org', message: 'x' });
  const link = await createMailbox(node.admin).link('late@example.org', 'FormConfirmation');
  await age(id, 1);
  expect((await fetch(link)).status).toBe(200);
  await age(id, 3);
  expect((await fetch(link)).status).toBe(404);
  expect((await fetch(link, { method: 'POST' })).status).toBe(404);
  expect((await node.admin.get(`/admin/forms/submissions/${id}`)).body.status).toBe('unconfirmed');
});

it('shows files by the links of a mail for the days that the configuration says', async () => {
  const form = await createForm(node.admin, {
    fields: [{ name: 'paper', type: 'file' }],
    forwardTo: 'links@example.com',
  });
  await processed(node.admin, await submit(form._id, { paper: 'data:text/plain;base64,eA==' }));
  const link = await createMailbox(node.admin).link('links@example.com', 'FormSubmission');
  const statusIn = async (days: number): Promise<number> => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + days * 86_400_000 });
    return (await fetch(link).finally(() => vi.useRealTimers())).status;
  };
  expect(await statusIn(0)).toBe(200);
  expect(await statusIn(6.9)).toBe(200);
  expect(await statusIn(7.1)).toBe(403);
});

it('is not there for visitors while the module is off, and as before once it is on', async () => {
  const form = await createForm(node.admin);
  const active = async (on: boolean) => {
    const answer = await node.admin.patch('/config/forms', { config: { active: on } });
    expect(answer.status, answer.text).toBe(200);
  };
  const values = { email: 'a@b.cd', message: 'x' };
  const tries = () =>
    Promise.all([
      node.client.post(`/forms/submit/${form._id}`, values),
      node.client.post(`/forms/${form._id}`, { ...values, message: 'y' }),
      node.client.get(`/forms/${form._id}/challenge`),
      node.client.get('/forms/embed.js'),
      node.admin.get('/admin/forms'),
    ]);
  await active(false);
  expect((await tries()).map(({ status }) => status)).toEqual([404, 404, 404, 404, 404]);
  await active(true);
  expect((await tries()).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  expect(await submissionsOf(node.admin, form._id)).toHaveLength(2);
});

it('finds files whose submission was never stored', async () => {
  const form = await createForm(node.admin, { fields: [{ name: 'paper', type: 'file' }] });
  await submit(form._id, { paper: 'data:text/plain;base64,eA==' });
  const before = await files();
  // As a crash leaves it: the file is there, and its note.
  const [{ name }] = (await sql.query(
    `select "name" from "app"."File" where "container" = 'module-forms' order by "createdAt" desc limit 1`,
  )) as unknown as [{ name: string }];
  await sql.query('insert into penstock.form_uploads (name) values ($1)', [name]);
  await cleanUp();
  expect(await files()).toBe(before);
  await sql.query(`update penstock.form_uploads set created_at = now() - interval '3 hours'`);
  await sql.query(
    `insert into penstock.form_uploads (name, created_at) values ('never arrived', now() - interval '3 hours')`,
  );
  await cleanUp();
  expect(await files()).toBe(before - 1);
  expect(await sql.query('select * from penstock.form_uploads')).toEqual([]);
});

it('forgets used challenges once they are worth nothing', async () => {
  await sql.query(
    `insert into penstock.form_challenges values ('over', now() - interval '1 second'), ('good', now() + interval '1 hour')`,
  );
  await cleanUp();
  expect(await sql.query('select nonce from penstock.form_challenges')).toEqual([
    { nonce: 'good' },
  ]);
});
