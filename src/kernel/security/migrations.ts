/** The key ring (the platform's data key, wrapped by a key that only the environment knows), and tickets. */
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
  {
    id: '0002-tickets',
    async run(database) {
      await database.query({
        text: `create table penstock.tickets (
          digest text primary key,
          sealed text not null,
          expires_at timestamptz not null
        );
        create index tickets_end on penstock.tickets (expires_at)`,
      });
    },
  },
];
