import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../test/support/connection.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';

let platform: TestPlatform;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
});
afterAll(async () => {
  await sql.close();
  await platform.close();
});

/* What a rolling update does to a node of the version before that starts again, or a way back without the backup. */

it('a version refuses what a newer one has migrated before it changes anything of it', async () => {
  const databaseUrl = platform.databaseUrl ?? '';
  // A newer version of one module: its schema is another, and it has one migration more.
  await sql.query(
    `update penstock.declared_schemas set checksum = 'newer' where name = 'ChatRoom'`,
  );
  await sql.query(`insert into penstock.migrations (owner, id) values ('chat', '9999-newer')`);
  const stored = (): Promise<unknown> =>
    sql.query('select name, version, checksum from penstock.declared_schemas order by name');
  const before = await stored();
  await expect(createTestPlatform({ databaseUrl })).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringContaining('newer version of Penstock (it has chat/9999-newer)'),
  });
  expect(await stored()).toEqual(before);
});
