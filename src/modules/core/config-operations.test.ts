/** What operators can ask about configurations: their history, the meaning of their keys, and whether mistakes are refused. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('configurations of a running platform', () => {
  let platform: TestPlatform;
  const change = (module: string, config: unknown) =>
    platform.admin.patch(`/config/${module}`, { config });
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  it('explains every key, of one module or of all', async () => {
    const { keys } = (await platform.admin.get('/config/communications/docs')).body;
    expect(keys.find(({ key }: Json) => key === 'email.transport')).toMatchObject({
      choices: expect.arrayContaining(['smtp', 'mock']),
      default: 'smtp',
    });
    expect(keys.find(({ key }: Json) => key.endsWith('auth.password'))).toMatchObject({
      sensitive: true,
    });
    for (const { key, description } of keys) expect(description, key).not.toBe('');
    const { modules } = (await platform.admin.get('/config/docs')).body;
    expect(modules.communications).toEqual(keys);
    expect(modules.core.find(({ key }: Json) => key === 'audit.retentionDays')).toMatchObject({
      minimum: 1,
      class: 'guarded',
      superAdminOnly: true,
    });
    expect(modules.core.find(({ key }: Json) => key === 'configuration.strict')).toMatchObject({
      class: 'harmless',
      superAdminOnly: false,
    });
    expect((await platform.admin.get('/config/nowhere/docs')).status).toBe(404);
  });

  it('names keys that it does not know, and refuses them when told so', async () => {
    const loose = await change('communications', { email: { colour: 'red' } });
    expect(loose).toMatchObject({ status: 200, body: { warnings: ['email.colour'] } });
    await change('core', { configuration: { strict: true } });
    const strict = await change('communications', { email: { colour: 'red', sender: 'nobody' } });
    expect(strict.status).toBe(400);
    expect(strict.body.errors).toEqual([
      expect.objectContaining({ path: 'email.colour', rule: 'unknown' }),
    ]);
    const imported = await platform.admin.post('/state/import', {
      configs: { modules: { communications: { colour: 'red' } } },
    });
    expect(imported).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'configs.modules.communications.colour' }] },
    });
    await change('core', { configuration: { strict: false } });
    expect((await platform.admin.get('/config/communications')).body.config.email.sender).not.toBe(
      'nobody',
    );
  });

  it.each([
    ['admin', { cors: { exposedHeaders: 'X-Ok, \u6f22' } }, 'cors.exposedHeaders'],
    ['admin', { cors: { allowedHeaders: 'a\nb' } }, 'cors.allowedHeaders'],
    ['router', { cors: { methods: 'GET, P\u00d6ST' } }, 'cors.methods'],
    ['router', { cors: { exposedHeaders: 'x'.repeat(4_097) } }, 'cors.exposedHeaders'],
    ['admin', { hostUrl: 'https://\u6f22.example.com' }, 'hostUrl'],
  ])('refuses for %s what no answer could be sent with: %j', async (module, config, path) => {
    const refused = await change(module, config);
    expect(refused).toMatchObject({ status: 400, body: { errors: [{ path, rule: 'format' }] } });
    expect((await platform.admin.get('/config/admin')).status).toBe(200);
    expect((await platform.client.get('/live')).status).toBe(200);
  });

  it('goes back to an earlier version, which is then the newest', async () => {
    const before = (await change('router', { cors: { maxAge: 10 } })).body.version;
    await change('router', { cors: { maxAge: 20 } });
    const back = await platform.admin.post('/config/router/rollback', { version: before });
    expect(back).toMatchObject({
      status: 200,
      body: { config: { cors: { maxAge: 10 } }, version: before + 2 },
    });
    const { versions } = (await platform.admin.get('/config/router/history')).body;
    expect(versions.slice(0, 3).map(({ version }: Json) => version)).toEqual([
      before + 2,
      before + 1,
      before,
    ]);
    const { entries } = (
      await platform.admin.get('/audit-logs', { query: { action: 'core.config.rollback' } })
    ).body;
    expect(entries[0].changes).toEqual({
      differences: [{ path: 'cors.maxAge', from: 20, to: 10 }],
    });
    expect((await platform.admin.post('/config/router/rollback', { version: 999 })).status).toBe(
      404,
    );
  });
});
