/** Mail and text messages as clients of the 0.16 line use them (interface 4.7). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform.close());

const stored = async () =>
  (await platform.admin.get('/config/communications', { query: { reveal: true } })).body.config;

test('the configuration of mail in the old form', async () => {
  const put = await platform.admin.put('/admin/email/config', {
    provider: 'mailgun',
    mailgun: { apiKey: 'key-123', domain: 'mg.example.com' },
  });
  expect(put.status, put.text).toBe(200);
  expect(put.body).toMatchObject({
    active: true,
    provider: 'mailgun',
    transport: 'mailgun',
    sendingDomain: 'mg.example.com',
    mailgun: { apiKey: '********', domain: 'mg.example.com' },
  });
  const { body } = await platform.admin.get('/admin/email/config');
  expect(JSON.stringify(body)).not.toContain('key-123');
  expect((await platform.admin.put('/admin/email/config', body)).status).toBe(200);
  expect((await stored()).email.transportSettings.mailgun.apiKey).toBe('key-123');
  const smtp = { host: 'smtp.example.com', port: 2525, username: 'u', password: 'p' };
  await platform.admin.put('/admin/email/config', { provider: 'smtp', smtp });
  expect((await stored()).email).toMatchObject({
    transport: 'smtp',
    transportSettings: {
      smtp: { host: 'smtp.example.com', auth: { username: 'u', password: 'p' } },
    },
  });
  expect((await platform.admin.get('/config/email')).body.config).toMatchObject({
    transportSettings: { smtp: { host: 'smtp.example.com' } },
  });
  const panel = { active: true, transport: 'smtp', transportSettings: { smtp: { host: '' } } };
  expect((await platform.admin.patch('/config/email', { config: panel })).status).toBe(200);
});

test('the configuration of text messages in the old form', async () => {
  const put = await platform.admin.put('/admin/sms/config', {
    provider: 'twilio',
    twilio: { accountSid: 'AC1', authToken: 'token', phoneNumber: '+15005550006' },
  });
  expect(put).toMatchObject({
    status: 200,
    body: { provider: 'twilio', twilio: { accountSid: 'AC1', authToken: '********' } },
  });
  expect((await stored()).sms).toMatchObject({
    providerName: 'twilio',
    twilio: { accountSID: 'AC1', authToken: 'token' },
  });
  const read = (await platform.admin.get('/admin/sms/config')).body;
  expect((await platform.admin.put('/admin/sms/config', read)).status).toBe(200);
  expect((await stored()).sms.twilio.authToken).toBe('token');
  expect(
    (await platform.admin.patch('/config/sms', { config: { providerName: 'mock' } })).status,
  ).toBe(200);
});

test.each(['email', 'sms'])(
  '%s: another provider is refused by name, and secrets need rights',
  async (name) => {
    expect(await platform.admin.put(`/admin/${name}/config`, { provider: 'pigeon' })).toMatchObject(
      {
        status: 400,
        body: { errors: [{ path: 'provider' }], message: expect.stringContaining('mock') },
      },
    );
    expect((await platform.adminAnonymous.get(`/admin/${name}/config`)).status).toBe(401);
    expect((await platform.client.get(`/admin/${name}/config`)).status).toBe(404);
    const { token } = (await platform.admin.post('/api-tokens', { name, scopes: ['database'] }))
      .body;
    const scoped = platform.adminAnonymous.with({ authorization: `Bearer ${token}` });
    expect((await scoped.get(`/admin/${name}/config`)).status).toBe(403);
    expect((await scoped.get(`/config/${name}`)).status).toBe(403);
  },
);

test('templates: listed under both names, made, read, changed and deleted', async () => {
  const made = await platform.admin.post('/admin/email/templates', {
    name: 'Former',
    subject: 'Hi {{name}}',
    body: '<p>{{name}}</p>',
    variables: ['name', 'unused'],
  });
  expect(made).toMatchObject({
    status: 200,
    body: { name: 'Former', variables: ['name', 'unused'], template: { name: 'Former' } },
  });
  const id = made.body._id;
  const list = (await platform.admin.get('/admin/email/templates', { query: { search: 'Former' } }))
    .body;
  expect(list).toMatchObject({
    count: 1,
    templates: [{ _id: id }],
    templateDocuments: [{ _id: id }],
  });
  expect((await platform.admin.get(`/admin/email/templates/${id}`)).body).toMatchObject({
    _id: id,
    subject: 'Hi {{name}}',
  });
  const put = await platform.admin.put(`/admin/email/templates/${id}`, { subject: 'Bye {{name}}' });
  expect(put.body).toMatchObject({ subject: 'Bye {{name}}', body: '<p>{{name}}</p>' });
  expect((await platform.admin.delete(`/admin/email/templates/${id}`)).body).toMatchObject({
    deleted: true,
    message: expect.any(String),
  });
  expect((await platform.admin.get(`/admin/email/templates/${id}`)).status).toBe(404);
  expect((await platform.client.get('/admin/email/templates')).status).toBe(404);
});
