import type { Migration } from '../../database/migrate.ts';
import { sql } from '../../database/sql.ts';

export const migrations: readonly Migration[] = [
  {
    id: '0001-idempotency',
    async run(database) {
      await database.query(sql`
        create table penstock.idempotency (
          principal text not null,
          operation text not null,
          key text not null,
          request_hash text not null,
          status smallint,
          headers jsonb,
          body text,
          json boolean,
          created_at timestamptz not null default now(),
          primary key (principal, operation, key)
        )`);
      await database.query(
        sql`create index idempotency_created_at on penstock.idempotency (created_at)`,
      );
    },
  },
  {
    // Rows that are there already keep null: nobody knows how their hashes came about.
    id: '0002-request-form',
    run: async (database) =>
      void (await database.query(
        sql`alter table penstock.idempotency add column request_form text`,
      )),
  },
];
