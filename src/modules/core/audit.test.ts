import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('the audit log of an installation', () => {
  let platform: TestPlatform;
  const entries = async (query: string): Promise<Json[]> =>
    (await platform.admin.get(`/audit-logs?${query}`)).body.entries;

  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  test('holds what an admin did, without the secrets that were sent', async () => {
    const created = await platform.admin.post('/admins', {
      username: 'auditor',
      password: 'Correct-Horse-Battery-9',
    });
    expect(created.status).toBe(200);
    const [entry] = await entries('action=core.admins.create');
    expect(entry).toMatchObject({
      outcome: 'success',
      status: 200,
      actor: { type: 'admin' },
      changes: { body: { username: 'auditor' } },
    });
    expect(JSON.stringify(entry)).not.toContain('Correct-Horse');
    expect(entry.requestId).toBe(created.headers.get('x-request-id'));
  });

  test('has one row for each action, which is in the transaction of the change', async () => {
    const { body } = await platform.admin.post('/api-tokens', { name: 'together' });
    await platform.admin.patch('/config/core', { audit: { retentionDays: 300 } });
    await platform.admin.patch('/config/core', { audit: { retentionDays: 365 } });
    const database = new pg.Client(platform.databaseUrl);
    await database.connect();
    const transactions = async (text: string): Promise<unknown[]> =>
      (await database.query(text)).rows.map(({ xmin }) => xmin);
    const rows = (action: string, order: string) =>
      transactions(
        `select xmin::text from penstock.audit_log where action = '${action}' order by id ${order} limit 1`,
      );
    expect(await rows('core.apiTokens.create', 'desc')).toEqual(
      await transactions(
        `select xmin::text from penstock.admin_api_tokens where id = '${body.id}'`,
      ),
    );
    expect(await rows('core.config.change', 'desc')).toEqual(
      await transactions("select xmin::text from penstock.config where name = 'core'"),
    );
    await database.end();
    expect(await entries('action=core.config.change&limit=10')).toMatchObject([
      { changes: { differences: [{ path: 'audit.retentionDays', from: 300, to: 365 }] } },
      { changes: { differences: [{ path: 'audit.retentionDays', from: 365, to: 300 }] } },
    ]);
  });

  test('holds what was refused, and says of which API token', async () => {
    const { token } = (await platform.admin.post('/api-tokens', { name: 'ci' })).body;
    const refused = await platform.adminAnonymous.delete(
      '/admins/00000000-0000-7000-8000-000000000000',
      { token },
    );
    expect(refused.status).toBe(404);
    const [entry] = await entries('action=core.admins.delete&outcome=refused');
    expect(entry).toMatchObject({
      status: 404,
      target: 'id:00000000-0000-7000-8000-000000000000',
      actor: { tokenPrefix: token.slice(0, 12) },
    });
    expect(JSON.stringify(await entries('limit=1000'))).not.toContain(token);
  });

  test('does not hold what only reads, whatever its method', async () => {
    await platform.admin.get('/admins');
    await platform.createSchema({ name: 'Audited', fields: { title: 'String', pin: 'String' } });
    expect(
      (await platform.admin.post('/database/schemas/Audited/query', { query: { title: 'x' } }))
        .status,
    ).toBe(200);
    expect(await entries('action=core.admins.list')).toEqual([]);
    expect(await entries('action=database.documents.query')).toEqual([]);
  });

  test('says which fields of a record were written, and never what is in them', async () => {
    const written = await platform.admin.post('/database/schemas/Audited/docs', {
      inputDocument: { title: 'planted-title', pin: '4711-planted' },
    });
    const { _id } = written.body;
    await platform.admin.post('/database/schemas/Audited/docs/many', {
      inputDocuments: [{ title: 'planted-one' }, { title: 'planted-two' }],
    });
    await platform.admin.put('/database/schemas/Audited/docs', {
      changedDocuments: [{ _id, title: 'planted-three' }],
    });
    const rows = await entries('action=database.documents.');
    expect(rows.map(({ changes }) => changes)).toEqual([
      { documents: 1, ids: [_id] },
      { documents: 2 },
      { fields: ['title', 'pin'] },
    ]);
    expect(JSON.stringify(rows)).not.toContain('planted');
  });

  test('has the difference that a change of configuration made, its secrets masked by the marks of the module', async () => {
    const smtp = {
      host: 'mail.example.com',
      auth: { username: 'mailer', password: 'planted-mail-password' },
    };
    const transportSettings = { smtp };
    const { config } = (
      await platform.admin.patch('/config/communications', {
        config: { email: { sendingDomain: 'example.com', transportSettings } },
      })
    ).body;
    expect(config.email.transportSettings.smtp.auth.password).toBe('********');
    const [changed] = await entries('action=core.config.change');
    expect(changed).toMatchObject({ target: 'module:communications', outcome: 'success' });
    expect(changed.changes.differences).toEqual(
      expect.arrayContaining([
        { path: 'email.sendingDomain', from: '', to: 'example.com' },
        { path: 'email.transportSettings.smtp.auth.password', from: '', to: '********' },
      ]),
    );
    expect(changed.changes.differences).toHaveLength(4);
    await platform.admin.patch('/config/communications', { config });
    expect((await entries('action=core.config.change'))[0].changes).toEqual({ differences: [] });
  });

  test('masks what was refused too, and what stands where no key is', async () => {
    const secret = 'planted-in-the-wrong-place';
    const smtp = { port: 'x', auth: { password: secret, method: null }, hint: secret };
    await platform.admin.patch('/config/communications', {
      email: { transportSettings: { smtp } },
      other: { word: secret },
    });
    await platform.admin.post('/config/import', {
      config: { modules: { communications: { email: secret }, nothing: { word: secret } } },
    });
    const rows = [
      ...(await entries('action=core.config.change')),
      ...(await entries('action=core.config.import')),
    ];
    expect(rows[0]).toMatchObject({
      outcome: 'refused',
      changes: {
        body: {
          email: {
            transportSettings: {
              smtp: { port: 'x', auth: { password: '[redacted]', method: null } },
            },
          },
        },
      },
    });
    expect(JSON.stringify(rows)).not.toContain('planted');
  });

  test('holds each reveal of secrets', async () => {
    await platform.admin.get('/config/communications?reveal=true');
    await platform.admin.get('/config/communications');
    expect(
      (await entries('action=core.config.get')).map(({ target, changes }) => [target, changes]),
    ).toEqual([['module:communications', { query: { reveal: true } }]]);
  });

  test('names who logged in, who failed to, and from where', async () => {
    const { token } = (
      await platform.admin.post('/login', {
        username: 'AUDITOR',
        password: 'Correct-Horse-Battery-9',
      })
    ).body;
    await platform.admin.post('/login', {
      username: 'auditor',
      password: 'planted-wrong-password',
    });
    await platform.adminAnonymous.post(
      '/login',
      { username: 'auditor', password: 'any' },
      { headers: { masterkey: 'planted-wrong-key' } },
    );
    const [wrongKey, wrongPassword, success] = await entries('action=core.session.login&limit=3');
    expect(success).toMatchObject({
      outcome: 'success',
      status: 200,
      actor: { type: 'admin', name: 'auditor' },
      ip: expect.any(String),
    });
    expect(wrongPassword).toMatchObject({
      outcome: 'refused',
      status: 401,
      changes: { username: 'auditor' },
      ip: expect.any(String),
    });
    expect(wrongKey).toMatchObject({
      outcome: 'refused',
      status: 401,
      actor: { type: 'anonymous' },
      ip: expect.any(String),
    });
    expect(JSON.stringify([wrongKey, wrongPassword, success])).not.toMatch(/planted|eyJ/);
    expect(token).toBeTypeOf('string');
  });

  test('holds what an admin was refused for want of a right or a scope, reading included', async () => {
    const { token } = (
      await platform.admin.post('/login', {
        username: 'auditor',
        password: 'Correct-Horse-Battery-9',
      })
    ).body;
    expect(
      (
        await platform.adminAnonymous.post(
          '/admins',
          { username: 'third', password: 'planted-password-3' },
          { token },
        )
      ).status,
    ).toBe(403);
    expect((await platform.adminAnonymous.get('/audit-logs', { token })).status).toBe(403);
    const reader = (await platform.admin.post('/api-tokens', { name: 'reader', scopes: ['read'] }))
      .body.token;
    expect(
      (await platform.adminAnonymous.post('/api-tokens', { name: 'more' }, { token: reader }))
        .status,
    ).toBe(403);
    expect(
      (
        await platform.adminAnonymous.post(
          '/database/schemas/Audited/query',
          { query: {} },
          { token: reader },
        )
      ).status,
    ).toBe(200);
    expect((await entries('action=core.admins.create&outcome=refused'))[0]).toMatchObject({
      status: 403,
      actor: { name: 'auditor' },
    });
    expect((await entries('action=core.audit.list&outcome=refused'))[0]).toMatchObject({
      status: 403,
      actor: { name: 'auditor' },
    });
    expect((await entries('action=core.apiTokens.create&outcome=refused'))[0]).toMatchObject({
      actor: { tokenPrefix: reader.slice(0, 12) },
    });
  });

  test('keeps no code of a second factor and no word of a message', async () => {
    await platform.admin.put('/toggle-twofa', { enableTwoFa: false, code: '918273' });
    await platform.adminAnonymous.post(
      '/verify-twofa',
      { code: '918273' },
      { token: 'eyJhbGciOi.planted.x' },
    );
    await platform.admin.post('/sms/send', { to: '+306900000000', message: 'Your code is 918273' });
    await platform.admin.post('/email/send', {
      email: 'eva@example.com',
      subject: 'Code 918273',
      body: '<p>918273</p>',
    });
    const rows = await entries('limit=1000');
    expect(rows.map(({ action }) => action)).toEqual(
      expect.arrayContaining([
        'core.secondFactor.toggle',
        'core.session.verifySecondFactor',
        'communications.sms.send',
        'communications.email.send',
      ]),
    );
    expect(JSON.stringify(rows)).not.toContain('918273');
  });

  test('keeps no word of a message to a room, and of what a function or a file was given the names alone', async () => {
    const { userId } = await platform.registerUser();
    const room = await platform.admin.post('/chat/rooms', {
      name: 'audited',
      participants: [userId],
    });
    const path = `/chat/rooms/${room.body._id}/messages`;
    const uploaded = await platform.admin.post('/functions/upload', {
      name: 'audited',
      functionCode: 'module.exports = async () => ({})',
      functionType: 'request',
      inputs: { method: 'POST' },
    });
    const sent = [
      room,
      await platform.admin.post(path, { content: 'planted-word', contentType: 'text', userId }),
      uploaded,
      await platform.admin.post(`/functions/${uploaded.body._id}/invoke`, {
        params: { pin: 'planted-parameter' },
        context: { user: 'planted-context' },
      }),
      await platform.admin.post('/storage/files', {
        name: 'audited.txt',
        data: Buffer.from('planted-bytes').toString('base64'),
        metadata: { patient: 'planted-fact' },
      }),
    ];
    expect(sent.map(({ status }) => status)).toEqual(sent.map(() => 200));
    const changesOf = async (action: string) => (await entries(`action=${action}`))[0].changes;
    expect(await changesOf('chat.adminMessages.send')).toEqual({ contentType: 'text', userId });
    expect(await changesOf('functions.functions.invoke')).toEqual({
      params: ['pin'],
      context: ['user'],
    });
    expect((await changesOf('storage.files.create')).metadata).toEqual(['patient']);
    expect(JSON.stringify(await entries('limit=1000'))).not.toMatch(/planted-(?!title)/);
  });

  test('is exported as JSON lines and as CSV, and the export is written down', async () => {
    const lines = await platform.admin.get('/audit-logs/export?action=core.admins');
    expect(lines.headers.get('content-type')).toContain('application/x-ndjson');
    const until = Date.parse(lines.headers.get('audit-complete-until') ?? '');
    expect(Math.abs(Date.now() - until)).toBeLessThan(60_000);
    const [first = ''] = lines.text.split('\n');
    expect(JSON.parse(first)).toMatchObject({ action: 'core.admins.create' });
    const csv = await platform.admin.get('/audit-logs/export?format=csv');
    expect(csv.text.split('\r\n')[0]).toMatch(/^id,at,actorType/);
    expect((await entries('action=core.audit.export')).length).toBe(2);
  });

  test.each([
    ['from=2026-02-30T00:00:00Z', 'from'],
    ['outcome=maybe', 'outcome'],
    ['limit=0', 'limit'],
  ])('refuses %s', async (query, path) => {
    const answer = await platform.admin.get(`/audit-logs?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0].path).toBe(path);
  });

  test('tells a narrowed token nothing of what other modules are about', async () => {
    const narrowed = async (...scopes: string[]): Promise<string> => {
      const made = await platform.admin.post('/api-tokens', { name: 'narrow', scopes });
      const { text } = await platform.adminAnonymous.get('/audit-logs?limit=1000', {
        token: made.body.token,
      });
      const exported = await platform.adminAnonymous.get('/audit-logs/export', {
        token: made.body.token,
      });
      return text + exported.text;
    };
    const redirect = { local: { forgot_password_redirect_uri: 'https://planted.example.com' } };
    await platform.admin.patch('/config/authentication', { config: redirect });
    await platform.admin.post('/state/import', {
      formatVersion: 1,
      configs: { modules: { communications: { email: { sender: 'planted-sender' } } } },
    });
    await platform.admin.patch('/config/core', { audit: { retentionDays: 301 } });
    await platform.admin.delete('/database/schemas/User/docs/00000000-0000-7000-8000-0000000a0d17');
    const core = await narrowed('core');
    const all = await platform.admin.get('/audit-logs?limit=1000');
    for (const what of ['planted.example.com', '"narrow"', '0a0d17', 'core.admins.create'])
      expect(all.text).toContain(what);
    expect(core).toContain('"to":301');
    expect(core).toContain('core.session.login');
    for (const what of ['planted', '"narrow"', '0a0d17', 'communications', 'core.admins.create'])
      expect(core).not.toContain(what);
    expect(await narrowed('core', 'authentication')).toContain('planted.example.com');
    expect(await narrowed('core', 'database')).not.toContain('0a0d17');
    expect(await narrowed('core', 'database', 'authentication')).toContain('0a0d17');
  });

  test('is for super admins only', async () => {
    const { token } = (
      await platform.admin.post('/login', {
        username: 'auditor',
        password: 'Correct-Horse-Battery-9',
      })
    ).body;
    expect((await platform.adminAnonymous.get('/audit-logs', { token })).status).toBe(403);
  });
});
