/**
 * The end of the time to stop: what still runs is answered 503, and is not stored afterwards. And a stop before the
 * platform was ready.
 */

import { readdir } from 'node:fs/promises';
import pg from 'pg';
import { expect, it } from 'vitest';
import { createTestDatabase } from '../../test/support/database.ts';
import { launchPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';

it('stores nothing of what was answered 503 because the time was over', {
  timeout: 120_000,
}, async () => {
  const database = await createTestDatabase({ server: 'embedded' });
  const platform = await spawnPlatform({
    env: { DATABASE_URL: database.url, STOP_GRACE_MS: '1500' },
  });
  const blocker = new pg.Client({ connectionString: database.url });
  await blocker.connect();
  try {
    await platform.createSchema({ name: 'Given', fields: { mark: 'String' } });
    const { api } = await platform.registerUser();
    expect((await api.post('/database/Given', { mark: 'before' })).status).toBe(200);
    await blocker.query('begin; lock table app."Given" in access exclusive mode');
    const writes = Array.from({ length: 6 }, (_, i) =>
      api.post('/database/Given', { mark: `late ${i}` }).then(
        ({ status, headers }) => ({ status, retryAfter: headers.get('retry-after') }),
        (error: Error) => ({ status: 0, retryAfter: String(error.cause) }),
      ),
    );
    const waiting = `select count(*)::int as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`;
    await waitFor(async () => (await blocker.query(waiting)).rows[0].n > 0, {
      what: 'writes that wait for the lock',
    });
    const exit = await platform.stop();
    const answers = await Promise.all(writes);
    // Only now the writes could go on, if anything of them were left at the server.
    await blocker.query('commit');
    await new Promise((resolve) => setTimeout(resolve, 500));
    const { rows } = await blocker.query('select mark from app."Given"');
    expect({ answers: answers.map(({ status }) => status), rows }).toEqual({
      answers: answers.map(() => 503),
      rows: [{ mark: 'before' }],
    });
    expect(answers.every(({ retryAfter }) => Number(retryAfter) > 0)).toBe(true);
    expect(exit.code).toBe(0);
  } finally {
    await blocker.end();
    await platform.dispose();
    await database.drop();
  }
});

it('ends a start that is under way, and nothing is served', {
  timeout: 120_000,
}, async () => {
  const database = await createTestDatabase({ server: 'embedded' });
  const platform = await launchPlatform({ env: { DATABASE_URL: database.url } });
  try {
    await waitFor(() => platform.stdout().includes('Preparing the database'), { what: 'a step' });
    process.kill(platform.pid, 'SIGTERM');
    expect(await platform.exit).toEqual({ code: 0, signal: null });
    expect(platform.stdout()).toMatch(/Stopped by SIGTERM before it was ready/);
    expect(platform.stdout()).not.toContain('is ready');
    expect(platform.stderr()).toBe('');
    expect(await readdir(platform.dataDir)).not.toContain('lock');
  } finally {
    await platform.dispose();
    await database.drop();
  }
});
