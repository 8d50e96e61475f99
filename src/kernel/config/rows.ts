/** The rows of the configuration service: compare-and-set on the version, and the last versions. */
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Tree } from './tree.ts';

/** How many versions of a document are kept, the one in force included. */
const KEPT_VERSIONS = 20;

export interface ConfigRow {
  readonly name: string;
  readonly config: Tree;
  /** 0: nothing was ever stored. */
  readonly version: number;
  readonly updatedAt: Date | null;
  readonly updatedBy: string | null;
}

export interface VersionRow {
  readonly version: number;
  readonly updatedAt: Date;
  readonly updatedBy: string;
}

export interface NewVersion {
  readonly name: string;
  readonly config: Tree;
  /** The version that this one replaces. */
  readonly after: number;
  readonly updatedBy: string;
}

export const emptyRow = (name: string): ConfigRow => ({
  name,
  config: {},
  version: 0,
  updatedAt: null,
  updatedBy: null,
});

export async function readAllRows(database: Database): Promise<readonly ConfigRow[]> {
  const { rows } = await database.query<ConfigRow>(
    sql`select name, config, version, updated_at as "updatedAt", updated_by as "updatedBy" from penstock.config`,
  );
  return rows;
}

export async function readRow(database: Database, name: string): Promise<ConfigRow> {
  const { rows } = await database.query<ConfigRow>(
    sql`select name, config, version, updated_at as "updatedAt", updated_by as "updatedBy" from penstock.config where name = ${name}`,
  );
  return rows[0] ?? emptyRow(name);
}

/** Stores the next version in one statement; `undefined` when another one was stored in the meantime. */
export async function storeVersion(
  database: Database,
  next: NewVersion,
): Promise<ConfigRow | undefined> {
  const { name, after, updatedBy } = next;
  const { rows } = await database.query<ConfigRow>(sql`
    with written as (
      insert into penstock.config as stored (name, config, version, updated_by)
      values (${name}, ${JSON.stringify(next.config)}::jsonb, ${after}::integer + 1, ${updatedBy})
      on conflict (name) do update
        set config = excluded.config, version = excluded.version, updated_at = now(), updated_by = excluded.updated_by
        where stored.version = ${after}::integer
      returning name, config, version, updated_at, updated_by
    ), kept as (
      insert into penstock.config_history (name, config, version, updated_at, updated_by)
      select name, config, version, updated_at, updated_by from written
    ), dropped as (
      delete from penstock.config_history old using written
      where old.name = written.name and old.version <= written.version - ${KEPT_VERSIONS}::integer
    )
    select name, config, version, updated_at as "updatedAt", updated_by as "updatedBy" from written`);
  return rows[0];
}

export async function readHistory(
  database: Database,
  name: string,
): Promise<readonly VersionRow[]> {
  const { rows } = await database.query<VersionRow>(
    sql`select version, updated_at as "updatedAt", updated_by as "updatedBy" from penstock.config_history
        where name = ${name} order by version desc`,
  );
  return rows;
}

export async function readVersion(
  database: Database,
  name: string,
  version: number,
): Promise<Tree | undefined> {
  const { rows } = await database.query<{ config: Tree }>(
    sql`select config from penstock.config_history where name = ${name} and version = ${version}`,
  );
  return rows[0]?.config;
}
