// Texts that are cut through a character, and texts that keep the process busy: reliability review 2026-11-22, B7;
// security review of the same day, F4 and F13.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

describe('texts at the edge of what is kept', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
    await platform.createSchema({
      name: 'Note',
      fields: { text: { type: 'String', required: true }, data: 'JSON' },
    });
  });
  afterAll(() => platform.close());

  const newestRow = async (action: string) =>
    (await platform.admin.get('/audit-logs', { query: { action, limit: 1 } })).body.entries[0];

  it.each([8_189, 8_190, 8_191, 8_192])(
    'may hold a character of two units after %i others',
    async (before) => {
      const text = `${'x'.repeat(before)}😀`;
      expect(
        await platform.admin.post('/email/templates', {
          name: `w${before}`,
          subject: 'Hello',
          body: text,
        }),
      ).toMatchObject({
        status: 200,
      });
      expect((await newestRow('communications.templates.create')).changes.body.body).toMatch(
        /^x{8000}/,
      );
      const fields = { a: { type: 'String', description: text } };
      expect(
        (await platform.admin.post('/database/schemas', { name: `Edge${before}`, fields })).status,
      ).toBeLessThan(500);
    },
  );

  it('may be part of the configuration', async () => {
    const allowedHeaders = `${'x'.repeat(8_191)}😀`;
    const answer = await platform.admin.patch('/config/router', { cors: { allowedHeaders } });
    expect(answer.status).toBeLessThan(500);
  });

  it('do not keep a refused attempt out of the audit log', async () => {
    const ids = `${'x'.repeat(8_191)}😀`;
    const refused = await platform.admin.delete('/database/schemas', { query: { ids } });
    expect(refused.status).toBeGreaterThanOrEqual(400);
    expect(refused.status).toBeLessThan(500);
    const user = await platform.admin.delete(
      `/authentication/users/${encodeURIComponent(`${'x'.repeat(1_020)}😀`)}`,
    );
    expect(user.status).toBeLessThan(500);
  });

  it.each([
    ['half a character', '{"text":"a\\ud83d"}'],
    ['NUL', '{"text":"a\\u0000"}'],
    ['half a character as a name', '{"text":"a","data":{"\\udc00":1}}'],
  ])('are refused with their place when they hold %s', async (_, body) => {
    for (const answer of [
      await platform.client.post('/database/Note', body),
      await platform.admin.post('/database/schemas', body),
    ]) {
      expect(answer).toMatchObject({ status: 400 });
    }
  });

  it('keep the loop turning, in headers and in what an audit row is made of', {
    timeout: 120_000,
  }, async () => {
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    const agent = { headers: { 'user-agent': 'a'.repeat(8_190) } };
    for (let i = 0; i < 5; i++) {
      await platform.adminAnonymous.post(
        '/login',
        { username: 'admin', password: 'wrong' },
        { headers: { ...agent.headers, masterkey: 'wrong' } },
      );
      await platform.client.post(
        '/authentication/teams/invite/accept',
        { invitationToken: 'x' },
        agent,
      );
    }
    const described = Object.fromEntries(
      Array.from({ length: 200 }, (_, i) => [
        `f${i}`,
        { type: 'String', description: 'a'.repeat(1_000) },
      ]),
    );
    expect(
      await platform.admin.post('/database/schemas', { name: 'Described', fields: described }),
    ).toMatchObject({ status: 200 });
    delay.disable();
    // It was more than a minute. Nanoseconds.
    expect(delay.max / 1e6).toBeLessThan(5_000);
    // Padding hides nothing: every field is there, and so is what stands behind them.
    const { changes } = await newestRow('database.schemas.create');
    expect(Object.keys(changes.body.fields)).toEqual(Object.keys(described));
    expect(changes.body).toMatchObject({
      name: 'Described',
      fields: { f199: { type: 'String', description: expect.stringMatching(/^a+\.\.\.$/) } },
    });
  });
});
