/** Tables as statements, with their columns. Everything else about them is added once the rows are in. */
import type pg from 'pg';
import { identifier } from '../kernel/database/sql.ts';
import { StartError } from '../kernel/start-error.ts';

export interface TableFacts {
  readonly schema: string;
  readonly name: string;
  /** A partitioned table has no rows of its own. */
  readonly kind: 'table' | 'partitioned';
  readonly create: string;
  /** Columns that hold values; generated ones do not. */
  readonly columns: readonly string[];
  /** Bytes on the disk, for progress. */
  readonly size: number;
}

interface TableRow {
  readonly schema: string;
  readonly name: string;
  readonly relkind: 'r' | 'p' | 'f';
  readonly unlogged: boolean;
  readonly partition_key: string | null;
  readonly parent: string | null;
  readonly bound: string | null;
  readonly options: readonly string[] | null;
  readonly size: number;
  readonly columns: readonly ColumnRow[];
}

interface ColumnRow {
  readonly name: string;
  readonly type: string;
  readonly collation: string | null;
  readonly notNull: boolean;
  readonly default: string | null;
  /** `a` always, `d` by default. */
  readonly identity: '' | 'a' | 'd';
  /** Of an identity column; its position is restored by this name. */
  readonly sequence: string | null;
  readonly generated: '' | 's' | 'v';
}

/** Parents come before their partitions. */
export async function readTables(
  client: pg.ClientBase,
  schemas: readonly string[],
): Promise<readonly TableFacts[]> {
  const { rows } = await client.query<TableRow>(tables, [schemas]);
  return rows.map((row) => {
    if (row.relkind === 'f')
      throw new StartError(
        `${row.schema}.${row.name} is a foreign table, which a backup cannot hold: drop it, or move it to another schema`,
      );
    return {
      schema: row.schema,
      name: row.name,
      kind: row.relkind === 'p' ? 'partitioned' : 'table',
      create: createStatement(row),
      columns: row.columns.filter(({ generated }) => generated === '').map(({ name }) => name),
      size: row.size,
    };
  });
}

const tables = `
  select n.nspname as schema, c.relname as name, c.relkind, c.relpersistence = 'u' as unlogged, pg_get_partkeydef(c.oid) as partition_key,
    h.inhparent::regclass::text as parent, pg_get_expr(c.relpartbound, c.oid) as bound, c.reloptions as options,
    pg_total_relation_size(c.oid)::float8 as size,
    (select coalesce(json_agg(json_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod),
        'collation', case when a.attcollation <> t.typcollation then (select format('%I.%I', cn.nspname, co.collname) from pg_collation co
          join pg_namespace cn on cn.oid = co.collnamespace where co.oid = a.attcollation) end,
        'notNull', a.attnotnull, 'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity,
        'sequence', case when a.attidentity <> '' then pg_get_serial_sequence(c.oid::regclass::text, a.attname) end, 'generated', a.attgenerated)
        order by a.attnum), '[]')
     from pg_attribute a join pg_type t on t.oid = a.atttypid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns
  from pg_class c join pg_namespace n on n.oid = c.relnamespace left join pg_inherits h on h.inhrelid = c.oid
  where n.nspname = any($1::text[]) and c.relkind in ('r', 'p', 'f')
    and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  order by c.relispartition, c.oid`;

/** A partition is made like any table and attached, so that its columns keep their own order. */
function createStatement(row: TableRow): string {
  const name = `${identifier(row.schema)}.${identifier(row.name)}`;
  const columns = row.columns.map(columnText).join(', ');
  const partition = row.partition_key === null ? '' : ` partition by ${row.partition_key}`;
  const options = row.options && row.options.length > 0 ? ` with (${row.options.join(', ')})` : '';
  const create = `create ${row.unlogged ? 'unlogged ' : ''}table ${name} (${columns})${partition}${options}`;
  return row.bound === null
    ? create
    : `${create}; alter table ${row.parent} attach partition ${name} ${row.bound}`;
}

function columnText(column: ColumnRow): string {
  const { name, type, collation, notNull } = column;
  return `${identifier(name)} ${type}${collation === null ? '' : ` collate ${collation}`}${valueText(column)}${notNull ? ' not null' : ''}`;
}

function valueText({ default: expression, identity, sequence, generated }: ColumnRow): string {
  if (generated !== '')
    return ` generated always as (${expression}) ${generated === 's' ? 'stored' : 'virtual'}`;
  if (identity !== '')
    return ` generated ${identity === 'a' ? 'always' : 'by default'} as identity (sequence name ${sequence})`;
  return expression === null ? '' : ` default ${expression}`;
}
