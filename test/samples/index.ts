/** The sample databases of this folder, loaded into a database of the caller. */
import { readFile } from 'node:fs/promises';
import pg from 'pg';

export type SampleName =
  | 'dvd-rental'
  | 'chinook'
  | 'northwind'
  | 'web-app'
  | 'adventure'
  | 'hostile'
  | 'odd';

export interface Sample {
  readonly client: pg.Client;
  /** One hash over the structure of all tables in these schemas, and one per table over its rows. */
  fingerprint(): Promise<{
    readonly structure: string;
    readonly rows: Readonly<Record<string, string>>;
  }>;
  close(): Promise<void>;
}

/** `schemas`: where its tables are. */
export async function loadSample(
  name: SampleName,
  url: string,
  schemas: readonly string[] = ['public'],
): Promise<Sample> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  // A schema that is called like the role comes first otherwise, and the platform has one.
  await client.query('set search_path = public');
  await client.query(await readFile(new URL(`${name}.sql`, import.meta.url), 'utf8'));
  return {
    client,
    fingerprint: () => fingerprintOf(client, schemas),
    close: () => client.end(),
  };
}

/** Everything about the tables that somebody could notice: columns, defaults, constraints, indexes, triggers, views that hang on them. */
const structureQuery = `
  select md5(string_agg(item, chr(10) order by item)) as hash from (
    select concat_ws('|', 'column', a.attrelid::regclass, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
      a.attgenerated, pg_get_expr(d.adbin, d.adrelid)) as item
    from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where c.relnamespace = any($1::regnamespace[]) and a.attnum > 0
    union all select concat_ws('|', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) from pg_constraint
      where connamespace = any($1::regnamespace[])
    union all select concat_ws('|', 'index', pg_get_indexdef(i.indexrelid)) from pg_index i join pg_class c on c.oid = i.indexrelid
      where c.relnamespace = any($1::regnamespace[])
    union all select concat_ws('|', 'trigger', t.tgrelid::regclass, t.tgname, t.tgtype) from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where c.relnamespace = any($1::regnamespace[])
    union all select concat_ws('|', 'rule', r.ev_class::regclass, r.rulename) from pg_rewrite r
      where exists (select 1 from pg_depend p join pg_class c on c.oid = p.refobjid
        where p.objid = r.oid and p.classid = 'pg_rewrite'::regclass and c.relnamespace = any($1::regnamespace[]))
  ) all_items`;

async function fingerprintOf(client: pg.Client, schemas: readonly string[]) {
  const { rows: structure } = await client.query<{ hash: string }>(structureQuery, [schemas]);
  const { rows: tables } = await client.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class where relnamespace = any($1::regnamespace[]) and relkind in ('r', 'p') and not relispartition order by 1`,
    [schemas],
  );
  const rows: Record<string, string> = {};
  for (const { name } of tables) {
    const { rows: found } = await client.query<{ hash: string }>(
      `select md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) as hash from ${name} t`,
    );
    rows[name] = found[0]?.hash ?? '';
  }
  return { structure: structure[0]?.hash ?? '', rows };
}
