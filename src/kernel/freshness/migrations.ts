/**
 * Versions of what nodes keep in memory: one row per topic, counted up by triggers, so that no
 * writer can forget it and a change is never visible without its version.
 */
import type { Queryable } from '../database/database.ts';
import type { Migration } from '../database/migrate.ts';
import type { Topic } from './freshness.ts';

const versions = `
  create table if not exists penstock.versions (
    topic text primary key,
    version bigint not null
  );

  create or replace function penstock.count_version() returns trigger language plpgsql as $$
  begin
    insert into penstock.versions as stored (topic, version) values (tg_argv[0], 1)
    on conflict (topic) do update set version = stored.version + 1;
    return null;
  end $$;
`;

const trigger = (table: string, topic: Topic): string => `
  create trigger count_version after insert or update or delete or truncate on ${table}
  for each statement execute function penstock.count_version('${topic}')`;

/** The table of versions. Everything else here makes it too, in whatever order owners migrate. */
export const createVersionTable = async (database: Queryable): Promise<void> =>
  void (await database.query({ text: versions }));

/** A migration: from now on each change of the table counts up the version of the topic. */
export const countVersions = (id: string, table: string, topic: Topic): Migration => ({
  id,
  async run(database) {
    await createVersionTable(database);
    await database.query({ text: trigger(table, topic) });
  },
});
