/** What the routes of operators need. */
import type { Migration } from '../../../kernel/database/migration.ts';

/** `impersonated_by`: the admin who acts as the user in this session. */
export const adminMigrations: readonly Migration[] = [
  {
    id: 'admin-0001-impersonation',
    run: async (database) => void (await database.query({ text: 'alter table penstock.sessions add column impersonated_by text' })),
  },
];
