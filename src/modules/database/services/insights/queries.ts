/** What PostgreSQL knows about the tables, indexes and connections of this database. Nothing here reads data. */
import type { Queryable, Statement } from '../../../../kernel/database/database.ts';
import { identifier, sql } from '../../../../kernel/database/sql.ts';

/** Tables that are looked at: the largest ones. */
export const MAX_TABLES = 200;
/** Indexes and foreign keys that are looked at. */
const MAX_PARTS = 1_000;
/** Statements of the server's own statistics. */
const MAX_STATEMENTS = 20;

/** A look must neither wait for a change of a table for long nor keep a connection. */
export const boundedRead: Statement = sql`select set_config('statement_timeout', '5000', true), set_config('lock_timeout', '1000', true)`;

export interface TableFacts {
  readonly schema: string;
  readonly name: string;
  /** Rows, as counted by the server's statistics. */
  readonly rows: number;
  readonly deadRows: number;
  readonly tableBytes: number;
  readonly indexBytes: number;
  readonly scans: number;
  readonly scannedRows: number;
  readonly indexScans: number;
  readonly cacheHits: number;
  readonly diskReads: number;
  readonly vacuumedAt: Date | null;
  readonly analyzedAt: Date | null;
  /** Transactions since the oldest row that is not frozen. */
  readonly age: number;
}

export async function readTables(database: Queryable): Promise<readonly TableFacts[]> {
  const { rows } = await database.query<TableFacts>(sql`
    select s.schemaname as schema, s.relname as name,
      case when s.n_live_tup > 0 then s.n_live_tup else greatest(c.reltuples::bigint, 0) end as rows, s.n_dead_tup as "deadRows",
      pg_table_size(c.oid) as "tableBytes", pg_indexes_size(c.oid) as "indexBytes",
      coalesce(s.seq_scan, 0) as scans, coalesce(s.seq_tup_read, 0) as "scannedRows", coalesce(s.idx_scan, 0) as "indexScans",
      coalesce(io.heap_blks_hit, 0) + coalesce(io.idx_blks_hit, 0) as "cacheHits",
      coalesce(io.heap_blks_read, 0) + coalesce(io.idx_blks_read, 0) as "diskReads",
      greatest(s.last_vacuum, s.last_autovacuum) as "vacuumedAt", greatest(s.last_analyze, s.last_autoanalyze) as "analyzedAt",
      age(c.relfrozenxid) as age
    from (select c.oid, c.reltuples, c.relfrozenxid from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
      order by c.relpages desc, c.oid limit ${MAX_TABLES}) c
    join pg_stat_user_tables s on s.relid = c.oid join pg_statio_user_tables io on io.relid = c.oid
    order by pg_table_size(c.oid) desc, s.schemaname, s.relname`);
  return rows;
}

export interface IndexFacts {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  /** Names of columns, in order; an expression is null. */
  readonly columns: readonly (string | null)[];
  readonly method: string;
  readonly unique: boolean;
  readonly primary: boolean;
  /** False: half made, or being made. */
  readonly valid: boolean;
  /** Belongs to a rule of the table, or to a foreign key that needs it. */
  readonly needed: boolean;
  /** What two indexes must have in common to be the same: classes, collations, options, expressions, condition. */
  readonly kind: string;
  readonly partial: boolean;
  readonly scans: number;
  readonly bytes: number;
}

export async function readIndexes(database: Queryable): Promise<readonly IndexFacts[]> {
  const { rows } = await database.query<IndexFacts>(sql`
    select s.schemaname as schema, s.relname as "table", s.indexrelname as name,
      (select array_agg(a.attname::text order by k.n) from unnest(x.indkey::int2[]) with ordinality k(attnum, n)
        left join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attnum and k.attnum > 0 where k.n <= x.indnkeyatts) as columns,
      am.amname as method, x.indisunique as "unique", x.indisprimary as "primary", x.indisvalid as valid,
      exists (select 1 from pg_constraint con where con.conindid = x.indexrelid)
        or exists (select 1 from pg_constraint con where con.conrelid = x.indrelid and con.contype = 'f'
          and con.conkey[1] = (x.indkey::int2[])[0]) as needed,
      concat_ws('|', am.amname, x.indclass, x.indcollation, x.indoption, x.indnkeyatts, x.indexprs, x.indpred) as kind,
      x.indpred is not null or x.indexprs is not null as partial,
      coalesce(s.idx_scan, 0) as scans, pg_relation_size(x.indexrelid) as bytes
    from pg_stat_user_indexes s join pg_index x on x.indexrelid = s.indexrelid
      join pg_class i on i.oid = x.indexrelid join pg_am am on am.oid = i.relam
    order by i.relpages desc, s.schemaname, s.indexrelname limit ${MAX_PARTS}`);
  return rows;
}

export interface BareForeignKey {
  readonly schema: string;
  readonly table: string;
  readonly name: string;
  readonly columns: readonly string[];
  /** What it points to, as `schema.table`. */
  readonly target: string;
}

/** Foreign keys whose columns no index begins with. */
export async function readBareForeignKeys(database: Queryable): Promise<readonly BareForeignKey[]> {
  const { rows } = await database.query<BareForeignKey>(sql`
    select n.nspname as schema, t.relname as "table", con.conname as name, tn.nspname || '.' || tt.relname as target,
      (select array_agg(a.attname::text order by k.n) from unnest(con.conkey) with ordinality k(attnum, n)
        join pg_attribute a on a.attrelid = con.conrelid and a.attnum = k.attnum) as columns
    from pg_constraint con join pg_class t on t.oid = con.conrelid join pg_namespace n on n.oid = t.relnamespace
      join pg_class tt on tt.oid = con.confrelid join pg_namespace tn on tn.oid = tt.relnamespace
    where con.contype = 'f' and not exists (select 1 from pg_index x where x.indrelid = con.conrelid and x.indisvalid
      and x.indpred is null and (x.indkey::int2[])[0:cardinality(con.conkey) - 1] @> con.conkey)
    order by n.nspname, t.relname, con.conname limit ${MAX_PARTS}`);
  return rows;
}

export interface ServerFacts {
  /** Since when the server counts; null: always. */
  readonly countsSince: Date | null;
  readonly cacheHits: number;
  readonly diskReads: number;
  readonly maxConnections: number;
  readonly connections: number;
  readonly active: number;
  readonly idle: number;
  readonly idleInTransaction: number;
  /** Seconds that the oldest open transaction of this database has been open. */
  readonly oldestTransaction: number;
  readonly deadlocks: number;
  /** Schema of the extension pg_stat_statements, where it is installed. */
  readonly statementsIn: string | null;
}

export async function readServer(database: Queryable): Promise<ServerFacts | undefined> {
  const { rows } = await database.query<ServerFacts>(sql`
    select d.stats_reset as "countsSince", d.blks_hit as "cacheHits", d.blks_read as "diskReads", d.deadlocks,
      current_setting('max_connections')::integer as "maxConnections", a.*,
      (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_stat_statements')
        as "statementsIn"
    from pg_stat_database d, (select count(*)::integer as connections,
        (count(*) filter (where state = 'active' and datname = current_database() and pid <> pg_backend_pid()))::integer as active,
        (count(*) filter (where state = 'idle' and datname = current_database()))::integer as idle,
        (count(*) filter (where state like 'idle in transaction%' and datname = current_database()))::integer as "idleInTransaction",
        coalesce(max(extract(epoch from greatest(now(), xact_start) - xact_start))
          filter (where datname = current_database() and pid <> pg_backend_pid()), 0)::float8 as "oldestTransaction"
      from pg_stat_activity where backend_type = 'client backend') a
    where d.datname = current_database()`);
  return rows[0];
}

export interface ServerStatement {
  readonly text: string;
  readonly calls: number;
  readonly meanMs: number;
  readonly maxMs: number;
  readonly totalMs: number;
  readonly rows: number;
}

/** What costs most, by the server's own statistics: also work of others in this database. Only statements about data. */
export async function readServerStatements(
  database: Queryable,
  schema: string,
): Promise<readonly ServerStatement[]> {
  const { rows } = await database.query<ServerStatement>({
    text: `select left(s.query, 1000) as text, s.calls, s.mean_exec_time as "meanMs", s.max_exec_time as "maxMs",
        s.total_exec_time as "totalMs", s.rows
      from ${identifier(schema)}.pg_stat_statements s
      where s.dbid = (select oid from pg_database where datname = current_database())
        and s.query ~* '^\\s*(select|with|insert|update|delete|merge)\\y'
      order by s.total_exec_time desc limit ${MAX_STATEMENTS}`,
  });
  return rows;
}
