/** What forms send: forwarded submissions, replies, requests to confirm. Nobody waits for it, and no value becomes markup. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import { freePort } from '../../test/support/free-port.ts';
import { createMailbox, type Mailbox } from '../../test/support/mailbox.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createForm, processed, submissionsOf } from './requests.ts';

let platform: TestPlatform;
let mailbox: Mailbox;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  mailbox = createMailbox(platform.admin);
  sql = await openTestConnection(platform.databaseUrl ?? '');
  await liftLimits(platform.admin);
  const limits = { submissionsPerFormPerIpPerHour: 1_000, forwardsPerFormPerHour: 4 };
  await platform.admin.patch('/config/forms', { config: { limits, spam: { repeats: 0 } } });
});
afterAll(async () => {
  await sql.close();
  await platform.close();
});

const submit = (formId: string, values: object) =>
  platform.client.post(`/forms/submit/${formId}`, values);
const evil = '<script>alert(1)</script><a href="https://evil.example">x</a>';

it('forwards to everybody who is named, with nothing that runs and the submitter to reply to', async () => {
  const form = await createForm(platform.admin, {
    name: `Form <b>${evil}`.slice(0, 60),
    forwardTo: ['one@example.com', 'two@example.com'],
    emailField: 'email',
    fields: [
      { name: 'email', type: 'email', required: true },
      { name: 'message', type: 'textarea', label: 'Your <b>message</b>' },
      { name: 'news', type: 'checkbox' },
    ],
  });
  const { body } = await submit(form._id, {
    email: 'ada@example.com',
    message: `${evil}\nSecond line {{form}}`,
  });
  for (const to of ['one@example.com', 'two@example.com']) {
    const mail = await mailbox.mail(to, 'FormSubmission');
    expect(mail.html).not.toMatch(/<script|<a href="https:\/\/evil|<b>message/);
    expect(mail.html).toContain('&lt;script&gt;');
    expect(mail.text).toContain('Second line {{form}}');
    expect(mail.text).toContain(body.submissionId);
    expect(mail).toMatchObject({ mail: { replyTo: 'ada@example.com' } });
  }
  expect(await processed(platform.admin, body.submissionId)).toMatchObject({ forwarded: 'queued' });
});

it('takes a header out of no value: only one address alone is replied to', async () => {
  const form = await createForm(platform.admin, {
    forwardTo: 'header@example.com',
    emailField: 'from',
    fields: [{ name: 'from', type: 'text' }],
  });
  for (const from of [
    'a@b.cd\r\nBcc: eve@evil.example',
    'a@b.cd, eve@evil.example',
    'Ada <a@b.cd>',
  ])
    await submit(form._id, { from });
  await waitFor(
    async () => (await mailbox.count('header@example.com', 'FormSubmission')) === 3 || undefined,
  );
  for (let nth = 1; nth <= 3; nth++)
    expect(await mailbox.mail('header@example.com', 'FormSubmission', nth)).not.toHaveProperty(
      'mail',
    );
});

it('uses the template of the form, with the lines of the 0.16 line, escaped', async () => {
  await platform.admin.post('/email/templates', {
    name: 'Lines',
    subject: 'S {{form}}',
    body: '<pre>{{data}}</pre>',
  });
  const form = await createForm(platform.admin, {
    forwardTo: 'lines@example.com',
    template: 'Lines',
  });
  await submit(form._id, { email: 'a@b.cd', message: '<i>x</i>' });
  expect((await mailbox.mail('lines@example.com', 'Lines')).html).toBe(
    '<pre>email: a@b.cd\nmessage: &lt;i&gt;x&lt;/i&gt;</pre>',
  );
  await platform.admin.put(`/admin/forms/${form._id}`, { template: 'Nothing' });
  const { body } = await submit(form._id, { email: 'a@b.cd', message: 'still stored' });
  expect(await processed(platform.admin, body.submissionId)).toMatchObject({ forwarded: 'failed' });
  expect(await submissionsOf(platform.admin, form._id)).toHaveLength(2);
});

it('replies to the submitter, a few times in an hour and no more', async () => {
  const form = await createForm(platform.admin, {
    emailField: 'email',
    autoReply: { subject: 'Hi from {{form}}', body: '<p>You wrote: {{message}}</p>' },
  });
  const to = 'reply@example.com';
  const list = () =>
    platform.admin
      .get('/communications/messages', { query: { recipient: to } })
      .then(({ body }) => body);
  for (let i = 0; i < 5; i++) {
    const { body } = await submit(form._id, { email: to, message: `<${i}>` });
    await processed(platform.admin, body.submissionId);
  }
  const { messages, count } = await list();
  expect(count).toBe(3);
  const first = await waitFor(async () => {
    const { body } = await platform.admin.get(`/communications/messages/${messages.at(-1)._id}`);
    return body.content;
  });
  expect(first).toMatchObject({
    subject: `Hi from ${form.name}`,
    html: '<p>You wrote: &lt;0&gt;</p>',
  });
});

it('stores more than it forwards where somebody sends very many', async () => {
  const form = await createForm(platform.admin, { forwardTo: 'many@example.com' });
  const told = [];
  for (let i = 0; i < 6; i++) {
    const { body } = await submit(form._id, { email: 'a@b.cd', message: `${i}` });
    told.push((await processed(platform.admin, body.submissionId)).forwarded);
  }
  expect(told).toEqual(['queued', 'queued', 'queued', 'queued', 'limited', 'limited']);
});

it('says where mail is off, and writes everything once it is on again: requests to confirm too', async () => {
  const switched = async (active: boolean) => {
    const config = { email: { active } };
    expect((await platform.admin.patch('/config/communications', { config })).status).toBe(200);
  };
  const form = { emailField: 'email', forwardTo: 'off@example.com', autoReply: true };
  const plain = await createForm(platform.admin, form);
  const careful = await createForm(platform.admin, { ...form, doubleOptIn: true });
  const answering = await createForm(platform.admin, { emailField: 'email', autoReply: true });
  await switched(false);
  const ids: string[] = [];
  for (const { _id } of [plain, careful, answering]) {
    const sent = await submit(_id, { email: `${_id}@example.org`, message: 'while mail was off' });
    expect(sent.status).toBe(200);
    ids.push(sent.body.submissionId);
    expect(await processed(platform.admin, sent.body.submissionId)).toMatchObject({
      forwarded: 'off',
      status: _id === careful._id ? 'unconfirmed' : 'received',
    });
  }
  await switched(true);
  await mailbox.mail('off@example.com', 'FormSubmission');
  await mailbox.mail(`${plain._id}@example.org`, 'FormAutoReply');
  await mailbox.mail(`${answering._id}@example.org`, 'FormAutoReply');
  const link = await mailbox.link(`${careful._id}@example.org`, 'FormConfirmation');
  expect((await fetch(link, { method: 'POST' })).status).toBe(200);
  await mailbox.mail('off@example.com', 'FormSubmission', 2);
  const forwarded = await Promise.all(ids.map((id) => processed(platform.admin, id)));
  expect(forwarded.map((one) => one.forwarded)).toEqual(['queued', 'queued', 'none']);
  expect(await mailbox.count('off@example.com', 'FormSubmission')).toBe(2);
  expect(await mailbox.count(`${careful._id}@example.org`, 'FormConfirmation')).toBe(1);
});

it('waits for a confirmation by the address itself, which counts once', async () => {
  const form = await createForm(platform.admin, {
    emailField: 'email',
    doubleOptIn: true,
    forwardTo: 'confirmed@example.com',
    autoReply: true,
  });
  const to = 'opt-in@example.com';
  const { body } = await submit(form._id, { email: to, message: 'x' });
  const link = await mailbox.link(to, 'FormConfirmation');
  const path = `/admin/forms/submissions/${body.submissionId}`;
  expect((await platform.admin.get(path)).body).toMatchObject({
    status: 'unconfirmed',
    forwarded: null,
  });
  expect(JSON.stringify((await platform.admin.get(path)).body)).not.toContain(
    link.pathname.split('/').at(-1),
  );

  const page = await fetch(link);
  expect(page.status).toBe(200);
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(await page.text()).toContain('<form method="post">');
  expect((await platform.admin.get(path)).body.status).toBe('unconfirmed');

  const answers = await Promise.all(
    Array.from({ length: 50 }, () => fetch(link, { method: 'POST' })),
  );
  expect(answers.map(({ status }) => status)).toContain(200);
  expect(answers.every(({ status }) => status === 200 || status === 429)).toBe(true);
  expect(await processed(platform.admin, body.submissionId)).toMatchObject({
    status: 'confirmed',
    confirmedAt: expect.any(String),
    forwarded: 'queued',
  });
  await mailbox.mail('confirmed@example.com', 'FormSubmission');
  await mailbox.mail(to, 'FormAutoReply');
  expect(await mailbox.count('confirmed@example.com', 'FormSubmission')).toBe(1);
  expect(await mailbox.count(to, 'FormAutoReply')).toBe(1);
  const stored = await sql.query(
    'select confirm_hash from penstock.form_submissions where id = $1',
    [body.submissionId],
  );
  expect(JSON.stringify(stored)).not.toContain(link.pathname.split('/').at(-1));
  expect(
    (await platform.client.get('/hook/forms/confirm/aaaaaaaaaaaaaaaaaaaaaaaaa')).status,
  ).not.toBe(200);
});

it.each([
  ['/hook/forms/confirm/', 'CONFIRMATION_NOT_FOUND'],
  ['/hook/communications/unsubscribe/', 'UNSUBSCRIBE_INVALID'],
  ['/hook/authentication/verify-email/', 'LINK_NOT_FOUND'],
])(
  'tells browsers in a page, and programs in JSON, that %s leads to nothing',
  async (path, code) => {
    const link = `${platform.addresses.client}${path}${'a'.repeat(43)}`;
    const ask = (accept?: string) =>
      fetch(link, { headers: accept === undefined ? {} : { accept } });
    for (const accept of [undefined, 'application/json', '*/*']) {
      const answer = await ask(accept);
      expect(answer.headers.get('content-type')).toContain('application/json');
      expect(await answer.json()).toMatchObject({ code, status: answer.status });
    }
    const { status } = await ask();
    const answer = await ask('text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8');
    expect(answer.status).toBe(status);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringMatching(
        /^default-src 'none';.* form-action 'none'; frame-ancestors 'none'; base-uri 'none'$/,
      ),
    });
    const page = await answer.text();
    expect(page).toMatch(/^<!doctype html>/);
    expect(page).not.toMatch(/<script|{"|aaaa/);
  },
);

it('writes to no address that wants nothing', async () => {
  const to = 'wants-nothing@example.com';
  const suppression = { channel: 'email', address: to };
  await platform.admin.post('/communications/suppressions', suppression);
  const form = await createForm(platform.admin, { emailField: 'email', autoReply: true });
  expect((await submit(form._id, { email: to, message: 'x' })).status).toBe(200);
  const reply = await waitFor(async () => {
    const query = { recipient: to, template: 'FormAutoReply', status: 'failed' };
    return (await platform.admin.get('/communications/messages', { query })).body.messages[0];
  });
  expect(reply.error).toContain('gets no messages');
});

it('is 200 and stored while nothing outside answers, and delivered afterwards', async () => {
  const port = await freePort();
  const smtp = (host: string) => ({
    email: {
      sendingDomain: 'example.com',
      transportSettings: { smtp: { host, port, ignoreTls: true } },
    },
    providers: { allowInternal: true },
  });
  const patched = await platform.admin.patch('/config/communications', {
    config: smtp('127.0.0.1'),
  });
  expect(patched.status, patched.text).toBe(200);
  const form = await createForm(platform.admin, { forwardTo: 'later@example.com' });
  const { status, body } = await submit(form._id, { email: 'a@b.cd', message: 'x' });
  expect(status).toBe(200);
  expect(await processed(platform.admin, body.submissionId)).toMatchObject({ forwarded: 'queued' });
  await waitFor(async () => {
    const query = { recipient: 'later@example.com', status: 'queued' };
    const { messages } = (await platform.admin.get('/communications/messages', { query })).body;
    return messages.some(({ attempts }: { attempts: number }) => attempts > 0) || undefined;
  });
  await platform.admin.patch('/config/communications', { config: smtp('') });
  await mailbox.mail('later@example.com', 'FormSubmission');
}, 60_000);
