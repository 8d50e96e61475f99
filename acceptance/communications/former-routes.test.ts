/** Mail and text messages as clients of the 0.16 line use them (interface 4.7). */
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json } from '../../test/support/api.ts';
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

/* As the existing panel, and agents, see what were three modules. */

/** What the tools of an address are called, with those that read and need nothing. */
async function toolsOf(modules: string): Promise<{ all: string[]; reading: string[] }> {
  const { body } = await mcp(modules, 'tools/list');
  const tools: Json[] = body.result.tools;
  return {
    all: tools.map(({ name }) => name),
    reading: tools
      .filter(
        ({ annotations, inputSchema }) =>
          annotations?.readOnlyHint === true && (inputSchema.required ?? []).length === 0,
      )
      .map(({ name }) => name),
  };
}
const mcp = (modules: string, method: string, params: object = {}) =>
  platform.admin.post(
    `/mcp?modules=${modules}`,
    { jsonrpc: '2.0', id: 1, method, params },
    { headers: { accept: 'application/json, text/event-stream' } },
  );

test('tools: communications is mail, push, text messages and what they share', async () => {
  const core = new Set((await toolsOf('core')).all);
  const of = async (modules: string) =>
    (await toolsOf(modules)).all.filter((name) => !core.has(name)).sort();
  const [all, email, push, sms] = [
    await of('communications'),
    await of('email'),
    await of('push'),
    await of('sms'),
  ];
  for (const [channel, names] of [
    ['email', email],
    ['push', push],
    ['sms', sms],
  ] as const) {
    expect(names.length).toBeGreaterThan(3);
    for (const name of names) expect(name).toMatch(new RegExp(`^[a-z]+_${channel}`));
    expect(all).toEqual(expect.arrayContaining(names));
  }
  const shared = all.filter((name) => ![email, push, sms].flat().includes(name));
  expect(shared).toEqual(
    expect.arrayContaining([
      'post_communications_send',
      'post_send_fallback',
      'post_send_multiple',
      'get_communications_messages',
      'get_communications_templates',
      'get_communications_chaindefinitions',
      'post_communications_broadcasts',
    ]),
  );
  // Every operation of the module on the admin surface is one of them, and its configuration.
  const { paths } = (await platform.admin.get('/swagger.json')).body;
  const described = Object.entries<Json>(paths).flatMap(([path, methods]) =>
    Object.values<Json>(methods).map((operation) => ({ path, ...operation })),
  );
  const own = described.filter((operation) => operation['x-module'] === 'communications');
  const config = described.filter(({ path }) => path.startsWith('/config/{module}'));
  const names = [
    ...own.map((operation) => operation['x-mcp-tool']),
    ...config.map((operation) =>
      operation['x-mcp-tool']?.replace('config_module', 'config_communications'),
    ),
  ];
  expect(all).toEqual(names.filter((name) => name !== undefined).sort());
  expect(all).toContain('patch_config_communications');
  // What has no tool is another name of a route that has one, or a view of the 0.16 line.
  const without = own.filter((operation) => operation['x-mcp-tool'] === undefined);
  expect(without.filter(({ deprecated }) => deprecated !== true)).toEqual([]);
});

test('tools that read and need nothing answer', async () => {
  const core = new Set((await toolsOf('core')).all);
  const names = (await toolsOf('communications')).reading.filter((name) => !core.has(name));
  expect(names.length).toBeGreaterThan(10);
  for (const name of names) {
    const { body } = await mcp('communications', 'tools/call', { name, arguments: {} });
    // Templates of a provider need one that keeps them.
    const isAway = name.includes('external') && body.result?.isError === true;
    expect(
      isAway || (body.result && body.result.isError !== true),
      `${name} ${JSON.stringify(body)}`,
    ).toBe(true);
  }
});

test('the panel finds three modules and their configuration', async () => {
  const names = (await platform.admin.get('/config/modules')).body.modules.map(
    ({ moduleName }: Json) => moduleName,
  );
  expect(names).toEqual(
    expect.arrayContaining(['communications', 'email', 'sms', 'pushNotifications']),
  );
  for (const [name, change, key] of [
    ['email', { sendingDomain: 'panel.example.com' }, 'email'],
    ['sms', { twilio: { accountSID: 'AC-panel' } }, 'sms'],
    ['pushNotifications', { firebase: { projectId: 'panel' } }, 'pushNotifications'],
  ] as const) {
    const { config } = (await platform.admin.get(`/config/${name}`)).body;
    expect(config).toHaveProperty('active');
    expect(config).toHaveProperty(
      { email: 'transportSettings', sms: 'twilio', pushNotifications: 'firebase' }[name],
    );
    const patched = await platform.admin.patch(`/config/${name}`, { config: change });
    expect(patched, name).toMatchObject({ status: 200, body: { config: change } });
    expect((await stored())[key]).toMatchObject(change);
    expect((await platform.admin.patch(`/config/${name}`, { config: { active: 7 } })).status).toBe(
      400,
    );
  }
  // No provider of the sandbox keeps templates.
  expect((await platform.admin.get('/email/externalTemplates')).status).toBe(501);
  expect((await platform.admin.put('/email/syncExternalTemplates', {})).status).toBe(501);
});

test('whole configurations of the 0.16 line are taken as they are, each into its own channel', async () => {
  const none = { region: '', accessKeyId: '', secretAccessKey: '' };
  const privateKey = generateKeyPairSync('rsa', { modulusLength: 2048 })
    .privateKey.export({ format: 'pem', type: 'pkcs8' })
    .toString()
    .replaceAll('\n', '\\n');
  const smtp = { host: '', port: -1, secure: false, ignoreTls: false };
  const given = {
    email: {
      active: true,
      transport: 'sendgrid',
      sendingDomain: 'old.example.com',
      transportSettings: {
        mailgun: { apiKey: '', host: '', proxy: '' },
        smtp: { ...smtp, auth: { username: '', password: '', method: 'PLAIN' } },
        mandrill: { apiKey: '' },
        sendgrid: { apiKey: 'old-key', residency: 'eu' },
        mailersend: { apiKey: '', host: '', port: -1 },
        amazonSes: none,
      },
      storeEmails: {
        enabled: true,
        storage: { enabled: false, container: 'mails', folder: 'sent' },
        cleanupSettings: { enabled: false, repeat: 21_600_000, limit: 100 },
      },
    },
    sms: {
      active: true,
      providerName: 'twilio',
      twilio: {
        phoneNumber: '+15005550006',
        accountSID: 'AC-old',
        authToken: 'old-token',
        verify: { active: false, serviceSid: '' },
      },
      awsSns: none,
      messageBird: { accessKeyId: '', originatorName: '' },
    },
    pushNotifications: {
      active: false,
      providerName: 'firebase',
      firebase: { projectId: 'old', privateKey, clientEmail: 'push@old.example.com' },
      onesignal: { appId: '', apiKey: '' },
      sns: { ...none, gcmApplicationArn: '', apnsApplicationArn: '' },
    },
  };
  const before = await stored();
  for (const [name, config] of Object.entries(given)) {
    const patched = await platform.admin.patch(`/config/${name}`, { config });
    expect(patched.status, patched.text).toBe(200);
    expect(patched.text).not.toMatch(/old-key|old-token|BEGIN PRIVATE KEY/);
  }
  const after = await stored();
  const { email, sms, pushNotifications } = after;
  expect(email).toMatchObject({
    active: true,
    transport: 'sendgrid',
    sendingDomain: 'old.example.com',
    transportSettings: { sendgrid: { apiKey: 'old-key', residency: 'eu' } },
    storeEmails: { enabled: true },
  });
  const { verify: _verify, ...twilio } = given.sms.twilio;
  expect(sms).toMatchObject({ active: true, providerName: 'twilio', twilio });
  expect(pushNotifications).toMatchObject({
    active: false,
    providerName: 'firebase',
    firebase: given.pushNotifications.firebase,
  });
  expect({ ...before, email, sms, pushNotifications }).toEqual(after);
});

test('documents of the 0.16 line are imported once, and only into channels that nobody has set', async () => {
  const { admin } = platform;
  const reset = { email: null, sms: null, pushNotifications: null };
  expect((await admin.patch('/config/communications', { config: reset })).status).toBe(200);
  const own = { sms: { twilio: { accountSID: 'AC-own' } } };
  expect((await admin.patch('/config/communications', { config: own })).status).toBe(200);
  const before = await stored();
  const modules = {
    email: {
      transport: 'sendgrid',
      sendingDomain: 'old.example.com',
      transportSettings: { sendgrid: { apiKey: 'first-key' } },
    },
    sms: { providerName: 'clickSend', clickSend: { username: 'old', clicksendApiKey: 'old-key' } },
    pushNotifications: { active: true, providerName: 'basic' },
  };
  const send = (of: object, query = {}) =>
    admin.post('/state/import', { configs: { modules: of } }, { query });

  const planned = await send(modules, { dryRun: true });
  expect(planned.status, planned.text).toBe(200);
  expect(planned.text).not.toContain('first-key');
  expect(await stored()).toEqual(before);

  const first = await send(modules);
  expect(first.status, first.text).toBe(200);
  const after = await stored();
  expect(after.email).toMatchObject({
    active: true,
    transport: 'sendgrid',
    transportSettings: { sendgrid: { apiKey: 'first-key' } },
  });
  // What an operator has set stays, whole.
  expect(after.sms).toEqual(before.sms);
  expect(first.text).toContain('communications.sms has been set already');

  modules.email.transportSettings.sendgrid.apiKey = 'second-key';
  const second = await send(modules);
  expect(second.status, second.text).toBe(200);
  expect(second.text).toContain('communications.email has been set already');
  expect(await stored()).toEqual(after);

  const none = await send({ email: { provider: 'pigeon' } });
  expect(none).toMatchObject({
    status: 400,
    body: { errors: [{ path: 'configs.modules.email.provider' }] },
  });
  expect((await send({ fax: {} })).body.errors[0].path).toBe('configs.modules.fax');
});
