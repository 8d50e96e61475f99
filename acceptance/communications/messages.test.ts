/** Messages and templates as operators use them, with the sandbox that is there while no provider is set. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createMailbox, type Mailbox } from '../../test/support/mailbox.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let platform: TestPlatform;
let mailbox: Mailbox;
beforeAll(async () => {
  platform = await createTestPlatform();
  mailbox = createMailbox(platform.admin);
});
afterAll(() => platform.close());

const send = (body: object) => platform.admin.post('/email/send', body);
const template = async (name: string) =>
  (await platform.admin.get('/email/templates', { query: { search: name } })).body
    .templateDocuments[0];

test('a mail is captured with what it says, and listed without', async () => {
  const sent = await send({
    email: 'ada@example.com',
    subject: 'Hello {{name}}\r\nBcc: eve@evil.example',
    body: '<p>Hello {{name}}, <a href="https://app.example/?a=1&amp;b={{name}}">go</a></p>',
    variables: { name: '<Ada>' },
    sender: 'shop',
  });
  expect(sent).toMatchObject({
    status: 200,
    body: { message: 'Email queued', messageId: expect.any(String) },
  });
  const read = async () =>
    (await platform.admin.get(`/communications/messages/${sent.body.messageId}`)).body;
  const { content, ...facts } = await waitFor(async () =>
    (await read()).status === 'captured' ? read() : undefined,
  );
  expect(facts).toMatchObject({
    channel: 'email',
    recipient: 'ada@example.com',
    template: null,
    attempts: 1,
    error: null,
  });
  expect(content).toEqual({
    from: 'shop@sandbox.invalid',
    subject: 'Hello <Ada> Bcc: eve@evil.example',
    html: '<p>Hello &lt;Ada&gt;, <a href="https://app.example/?a=1&amp;b=&lt;Ada&gt;">go</a></p>',
    text: 'Hello <Ada>, go https://app.example/?a=1&b=<Ada>',
    links: ['https://app.example/?a=1&b=<Ada>'],
  });
  const { body } = await platform.admin.get('/communications/messages', {
    query: { recipient: 'ada@example.com' },
  });
  expect(body.count).toBe(1);
  expect(JSON.stringify(body)).not.toContain('app.example');
});

test('what is stored does not tell what was written', async () => {
  await send({
    email: 'sealed@example.com',
    subject: 'a very secret subject',
    body: 'a very secret body',
  });
  const { body } = await platform.admin.get('/communications/messages', {
    query: { recipient: 'sealed@example.com' },
  });
  expect(JSON.stringify(body)).not.toContain('secret');
});

test('a text message is captured with its code out of sight of the list', async () => {
  const sent = await platform.admin.post('/sms/send', {
    to: '+306900000000',
    message: 'Your code is 123456: https://a.example/x',
  });
  expect(sent).toMatchObject({
    status: 200,
    body: { messageId: expect.any(String), result: expect.stringContaining('captured') },
  });
  const message = await waitFor(async () => {
    const { body } = await platform.admin.get(`/communications/messages/${sent.body.messageId}`);
    return body.status === 'captured' ? body : undefined;
  });
  expect(message.content).toEqual({
    text: 'Your code is 123456: https://a.example/x',
    links: ['https://a.example/x'],
  });
});

test.each([
  [{ email: 'ada@example.com, eve@evil.example', subject: 'x', body: 'y' }, 400, 'email'],
  [{ to: 'ada@example.com\r\nBcc: eve@evil.example', subject: 'x', body: 'y' }, 400, 'to'],
  [{ subject: 'x', body: 'y' }, 400, 'email'],
  [{ email: 'ada@example.com', to: 'eve@evil.example', subject: 'x', body: 'y' }, 400, 'to'],
  [{ email: 'ada@example.com', sender: 'one', from: 'two', subject: 'x', body: 'y' }, 400, 'from'],
  [
    { email: 'ada@example.com', templateName: 'ForgotPassword', subject: '{{a b}}' },
    400,
    'subject',
  ],
  [{ email: 'ada@example.com', templateName: '', subject: 'x', body: '' }, 400, 'body'],
  [{ email: 'ada@example.com', subject: 'x' }, 400, 'body'],
  [{ email: 'ada@example.com', body: 'x' }, 400, 'subject'],
  [{ email: 'ada@example.com', subject: 'x', body: '{{#each a}}{{/with}}' }, 400, 'body'],
  [{ email: 'ada@example.com', subject: '{{a b}}', body: 'y' }, 400, 'subject'],
  [
    { email: 'ada@example.com', subject: 'x', body: 'y', sender: 'a\r\nBcc: eve@evil.example' },
    400,
    'sender',
  ],
])('%j is %i and names %s', async (body, status, path) => {
  expect(await send(body)).toMatchObject({ status, body: { errors: [{ path }] } });
});

test('recipient and sender have their names of the 0.16 line too', async () => {
  const variables = { token: '123' };
  await send({ to: 'named@example.com', from: 'shop', templateName: 'ForgotPassword', variables });
  expect(await mailbox.mail('named@example.com', 'ForgotPassword')).toMatchObject({
    from: 'shop@sandbox.invalid',
  });
});

test('what a request says goes before what the template says; empty text says nothing', async () => {
  await platform.admin.post('/email/templates', {
    name: 'Over',
    subject: 'Hi {{name}}',
    body: '<p>{{name}}</p>',
    sender: 'team',
  });
  const variables = { name: 'Ada' };
  await send({
    email: 'plain@example.com',
    templateName: 'Over',
    variables,
    subject: '',
    body: '',
    sender: '',
  });
  expect(await mailbox.mail('plain@example.com', 'Over')).toMatchObject({
    subject: 'Hi Ada',
    text: 'Ada',
    from: 'team@sandbox.invalid',
  });
  await send({
    email: 'over@example.com',
    templateName: 'Over',
    variables,
    subject: 'Bye {{name}}',
    sender: 'shop',
  });
  expect(await mailbox.mail('over@example.com', 'Over')).toMatchObject({
    subject: 'Bye Ada',
    text: 'Ada',
    from: 'shop@sandbox.invalid',
  });
});

test('a changed template is answered where clients of each line look, with the variables that they name', async () => {
  const body = { name: 'Named', subject: 'x', body: '{{b}}', variables: ['a', 'b'] };
  const { _id } = (await platform.admin.post('/email/templates', body)).body.template;
  const changed = await platform.admin.patch(`/email/templates/${_id}`, { subject: '{{c}}' });
  const expected = { _id, subject: '{{c}}', variables: ['b', 'c', 'a'] };
  expect(changed.body).toMatchObject({
    ...expected,
    template: expected,
    updatedTemplate: expected,
  });
  const given = await platform.admin.patch(`/email/templates/${_id}`, { variables: ['z'] });
  expect(given.body.updatedTemplate.variables).toEqual(['b', 'c', 'z']);
  expect(await platform.admin.patch(`/email/templates/${_id}`, { variables: 'z' })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'variables' }] },
  });
});

test('a token that may only read sees that a message was sent, not what it says: that may open an account', async () => {
  const made = await platform.admin.post('/api-tokens', { name: 'watcher', scopes: ['read'] });
  const { messageId } = (await send({ email: 'watched@example.com', subject: 'x', body: 'y' }))
    .body;
  const watcher = (path: string) => platform.adminAnonymous.get(path, { token: made.body.token });
  expect(
    (await watcher('/communications/messages?recipient=watched@example.com')).body,
  ).toMatchObject({ count: 1 });
  expect(await watcher(`/communications/messages/${messageId}`)).toMatchObject({
    status: 403,
    body: { code: 'SCOPE_EXCEEDED' },
  });
});

test('an unknown template or message is 404; only failed messages are sent again', async () => {
  expect(await send({ email: 'ada@example.com', templateName: 'Nothing' })).toMatchObject({
    status: 404,
    body: { code: 'TEMPLATE_NOT_FOUND' },
  });
  const nowhere = '/communications/messages/00000000-0000-7000-8000-000000000000';
  expect((await platform.admin.get(nowhere)).status).toBe(404);
  expect((await platform.admin.post(`${nowhere}/retry`)).status).toBe(404);
  const { messageId } = (await send({ email: 'done@example.com', subject: 'x', body: 'y' })).body;
  await waitFor(
    async () =>
      (await platform.admin.get(`/communications/messages/${messageId}`)).body.status ===
      'captured',
  );
  expect(await platform.admin.post(`/communications/messages/${messageId}/retry`)).toMatchObject({
    status: 409,
    body: { code: 'MESSAGE_NOT_RETRYABLE' },
  });
});

test('templates of modules are there, can be changed, and get their first text back when they are deleted', async () => {
  const first = await template('ForgotPassword');
  expect(first).toMatchObject({ builtIn: true, edited: false, variables: ['link', 'token'] });
  const path = `/email/templates/${first._id}`;
  const changed = await platform.admin.patch(path, {
    subject: 'Vergessen?',
    body: '<p>{{token}} {{extra}}</p>',
    sender: 'hilfe',
  });
  expect(changed.body.template).toMatchObject({
    edited: true,
    subject: 'Vergessen?',
    variables: ['token', 'extra'],
    sender: 'hilfe',
  });
  await platform.registerUser({ email: 'german@example.com' });
  await platform.client.post('/authentication/forgot-password', { email: 'german@example.com' });
  expect(await mailbox.mail('german@example.com', 'ForgotPassword')).toMatchObject({
    subject: 'Vergessen?',
    from: 'hilfe@sandbox.invalid',
  });
  expect(await platform.admin.patch(path, { name: 'Other' })).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'name' }] },
  });
  expect((await platform.admin.delete(path)).body).toMatchObject({ deleted: true });
  expect((await platform.admin.get(path)).body.template).toMatchObject({
    subject: first.subject,
    body: first.body,
    edited: false,
    sender: null,
  });
});

test('own templates: made, listed, found, changed, renamed, deleted', async () => {
  const made = await platform.admin.post('/email/templates', {
    name: 'Welcome',
    subject: 'Hi {{name}}',
    body: '<b>{{user.city}}</b>',
  });
  expect(made.body.template).toMatchObject({ builtIn: false, variables: ['user', 'name'] });
  expect(
    await platform.admin.post('/email/templates', { name: 'Welcome', subject: 'x', body: 'y' }),
  ).toMatchObject({
    status: 409,
    body: { code: 'TEMPLATE_EXISTS' },
  });
  expect(
    await platform.admin.post('/email/templates', {
      name: 'Broken',
      subject: 'x',
      body: '{{#if a}}',
    }),
  ).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'body' }] },
  });
  const path = `/email/templates/${made.body.template._id}`;
  expect((await platform.admin.patch(path, { name: 'Hello' })).body.template.name).toBe('Hello');
  await send({
    email: 'own@example.com',
    templateName: 'Hello',
    variables: { name: 'Ada', user: { city: 'London' } },
  });
  expect(await mailbox.mail('own@example.com', 'Hello')).toMatchObject({
    subject: 'Hi Ada',
    text: 'London',
  });
  const list = await platform.admin.get('/email/templates', { query: { limit: 2, sort: '-name' } });
  expect(list.body.count).toBeGreaterThan(5);
  expect(list.body.templateDocuments).toHaveLength(2);
  expect(
    (await platform.admin.delete('/email/templates', { query: { ids: made.body.template._id } }))
      .status,
  ).toBe(200);
  expect((await platform.admin.get(path)).status).toBe(404);
  expect((await platform.admin.delete(path)).status).toBe(404);
});

test('nobody is flooded: what one address gets in an hour is bounded', async () => {
  expect(
    (
      await platform.admin.patch('/config/communications', {
        config: { email: { maxPerRecipient: 3 } },
      })
    ).status,
  ).toBe(200);
  const statuses = [];
  for (let i = 0; i < 4; i += 1)
    statuses.push((await send({ email: 'flood@example.com', subject: 'x', body: 'y' })).status);
  expect(statuses).toEqual([200, 200, 200, 429]);
  expect((await send({ email: 'other@example.com', subject: 'x', body: 'y' })).status).toBe(200);
});

test('a flood of messages does not hold back the notice that an account was changed', async () => {
  await platform.admin.patch('/config/communications', {
    config: { email: { maxPerRecipient: 3 } },
  });
  const { email, password, api } = await platform.registerUser({ email: 'flooded@example.com' });
  let status = 200;
  for (let i = 0; i < 4; i += 1) status = (await send({ email, subject: 'x', body: 'y' })).status;
  expect(status).toBe(429);
  const change = { oldPassword: password, newPassword: 'seven purple elephants' };
  expect((await api.post('/authentication/local/change-password', change)).status).toBe(200);
  expect(await mailbox.mail(email, 'PasswordChanged')).toMatchObject({
    subject: expect.any(String),
  });
});

test('a channel that is off answers 503, and clients reach none of this', async () => {
  await platform.admin.patch('/config/communications', { config: { email: { active: false } } });
  expect(await send({ email: 'x@example.com', subject: 'x', body: 'y' })).toMatchObject({
    status: 503,
    body: { code: 'CHANNEL_DISABLED' },
  });
  await platform.admin.patch('/config/communications', { config: { email: { active: true } } });
  const { accessToken } = await platform.registerUser();
  for (const path of ['/communications/messages', '/email/templates']) {
    expect((await platform.adminAnonymous.get(path, { token: accessToken })).status).toBe(401);
    expect((await platform.client.get(path, { token: accessToken })).status).toBe(404);
  }
});

test.each([
  [{ sender: 'shop\r\nBcc: eve@evil.example' }, 'email.sender'],
  [{ sender: 'a@b@c' }, 'email.sender'],
  [{ sender: '' }, 'email.sender'],
  [{ sendingDomain: 'not a domain' }, 'email.sendingDomain'],
  [{ sendingDomain: 'shop@example.com' }, 'email.sendingDomain'],
  [
    { transportSettings: { smtp: { host: 'mail.example\r\n' } }, sendingDomain: 'example.com' },
    'email.transportSettings.smtp.host',
  ],
])('%j cannot be set: no mail could be sent', async (email, path) => {
  const answer = await platform.admin.patch('/config/communications', { config: { email } });
  expect(answer).toMatchObject({
    status: 400,
    body: { errors: [{ path: expect.stringContaining(path) }] },
  });
});

test('a mail server needs a domain to send from', async () => {
  const config = { email: { transportSettings: { smtp: { host: 'mail.example' } } } };
  expect(await platform.admin.patch('/config/communications', { config })).toMatchObject({
    status: 400,
    body: { errors: [{ path: expect.stringContaining('sendingDomain') }] },
  });
});
