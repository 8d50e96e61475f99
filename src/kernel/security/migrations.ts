/** The key ring: the platform's data key, wrapped by a key that only the environment knows. */
import type { Migration } from '../database/migrate.ts';

export const migrations: readonly Migration[] = [
  {
    id: '0001-keyring',
    async run(database) {
      await database.query({
        text: `create table penstock.keyring (
          id text primary key,
          wrapped text not null,
          created_at timestamptz(3) not null default now(),
          rewrapped_at timestamptz(3)
        )`,
      });
    },
  },
];
