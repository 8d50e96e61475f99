import { expect, it } from 'vitest';
import type { Queryable } from '../../src/kernel/database/database.ts';
import { openTestDatabase } from './database.ts';

it('opens a migrated database, for two nodes if requested', async () => {
  const migrations = [
    {
      owner: 'sample',
      migrations: [
        {
          id: '0001',
          run: async (database: Queryable) =>
            void (await database.query({ text: 'create table sample (id int)' })),
        },
      ],
    },
  ];
  const opened = await openTestDatabase({ migrations });
  const second = await opened.openAgain();
  await second.query({ text: 'insert into sample values (1)' });
  expect((await opened.database.query({ text: 'select id from sample' })).rows).toEqual([
    { id: 1 },
  ]);
  await opened.close();
});
