/** Tables of the configuration service: one row per document, and its last versions. */
import type { Migration } from '../database/migrate.ts';
import { countVersions } from '../freshness/migrations.ts';

export const migrations: readonly Migration[] = [
  {
    id: '0001-config',
    async run(database) {
      await database.query({
        text: `create table penstock.config (
          name text primary key,
          config jsonb not null,
          version integer not null,
          updated_at timestamptz(3) not null default now(),
          updated_by text not null
        )`,
      });
      await database.query({
        text: `create table penstock.config_history (
          name text not null,
          version integer not null,
          config jsonb not null,
          updated_at timestamptz(3) not null,
          updated_by text not null,
          primary key (name, version)
        )`,
      });
    },
  },
  countVersions('0002-version', 'penstock.config', 'config'),
];
