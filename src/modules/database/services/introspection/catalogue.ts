/** What the catalogue of PostgreSQL says about the tables of others. It is read, nothing else: no row of a table is looked at. */
import type { QualifiedName, RelationKind } from '../../../../data/schema/mapping/table-mapping.ts';
import type { Queryable, Statement } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';

/* The questions to the catalogue of PostgreSQL (15 and newer). Each answers JSON in the shapes of catalogue.ts. */

/** Tables and views that the role may see; without partitions and without what extensions brought. */
const relationsQuery = (schemas: readonly string[], limit: number): Statement => sql`
  select c.oid::integer as oid, n.nspname as schema, c.relname as name,
    case c.relkind when 'r' then 'table' when 'p' then 'partitioned' when 'v' then 'view' when 'm' then 'materialized' else 'foreign' end as kind,
    obj_description(c.oid, 'pg_class') as comment,
    json_build_object(
      'select', has_table_privilege(c.oid, 'select'), 'insert', has_any_column_privilege(c.oid, 'insert'),
      'update', has_any_column_privilege(c.oid, 'update'), 'delete', has_table_privilege(c.oid, 'delete')) as may,
    c.relrowsecurity as "rowSecurity",
    c.relkind = 'r' and exists (select 1 from pg_inherits h where h.inhparent = c.oid) as inherited,
    case c.relkind when 'p' then pg_get_partkeydef(c.oid) end as "partitionKey"
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any(${schemas}::text[]) and c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
    and has_schema_privilege(n.oid, 'usage')
    and not exists (select 1 from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  order by n.nspname, c.relname limit ${limit}::integer`;

/** Domains are followed to their base type, with the rules met on the way. */
const columnsQuery = (oids: readonly number[]): Statement => sql`
  with recursive steps as (
    select t.oid as declared, t.oid, t.typtype, t.typbasetype, t.typtypmod, 0 as depth from pg_type t
    where t.oid in (select a.atttypid from pg_attribute a where a.attrelid = any(${oids}::oid[]) and a.attnum > 0)
    union all
    select s.declared, t.oid, t.typtype, t.typbasetype, t.typtypmod, s.depth + 1 from steps s join pg_type t on t.oid = s.typbasetype
    where s.typtype = 'd'
  ), bases as (
    select declared, (array_agg(oid order by depth desc))[1] as base, max(typtypmod) filter (where typtype = 'd') as modifier from steps group by declared
  ), rules as (
    select s.declared, json_agg(pg_get_constraintdef(k.oid) order by k.conname) as checks
    from steps s join pg_constraint k on k.contypid = s.oid and k.contype = 'c' group by s.declared
  ), labels as (
    select enumtypid, json_agg(enumlabel order by enumsortorder) as labels from pg_enum group by enumtypid
  )
  select a.attrelid::integer as oid, json_build_object(
    'name', a.attname, 'notNull', a.attnotnull or d.typnotnull,
    'hasDefault', a.atthasdef or a.attidentity <> '' or d.typdefault is not null,
    'generated', a.attgenerated <> '' or a.attidentity = 'a', 'comment', col_description(a.attrelid, a.attnum),
    'type', json_build_object(
      'declared', json_build_object('schema', dn.nspname, 'name', d.typname), 'text', format_type(a.atttypid, a.atttypmod),
      'base', json_build_object('schema', bn.nspname, 'name', b.typname, 'category', b.typcategory,
        'modifier', case when d.typtype = 'd' then coalesce(bases.modifier, -1) else a.atttypmod end),
      'element', case when b.typcategory = 'A' and b.typelem <> 0 then
        json_build_object('schema', en.nspname, 'name', e.typname, 'labels', el.labels) end,
      'dimensions', a.attndims, 'labels', bl.labels, 'checks', coalesce(rules.checks, '[]'::json))) as item
  from pg_attribute a
    join pg_type d on d.oid = a.atttypid join pg_namespace dn on dn.oid = d.typnamespace
    join bases on bases.declared = d.oid
    join pg_type b on b.oid = bases.base join pg_namespace bn on bn.oid = b.typnamespace
    left join pg_type e on e.oid = b.typelem left join pg_namespace en on en.oid = e.typnamespace
    left join labels bl on bl.enumtypid = b.oid left join labels el on el.enumtypid = e.oid
    left join rules on rules.declared = d.oid
  where a.attrelid = any(${oids}::oid[]) and a.attnum > 0 and not a.attisdropped
  order by a.attrelid, a.attnum`;

const constraintsQuery = (oids: readonly number[]): Statement => sql`
  select k.conrelid::integer as oid, json_build_object(
    'name', k.conname, 'kind', case k.contype when 'p' then 'primary' when 'u' then 'unique' when 'f' then 'foreign' else 'check' end,
    'columns', coalesce((select json_agg(a.attname order by p.n) from unnest(k.conkey) with ordinality p(attnum, n)
      join pg_attribute a on a.attrelid = k.conrelid and a.attnum = p.attnum), '[]'::json),
    'target', case k.contype when 'f' then json_build_object('schema', n.nspname, 'name', c.relname,
      'columns', (select json_agg(a.attname order by p.n) from unnest(k.confkey) with ordinality p(attnum, n)
        join pg_attribute a on a.attrelid = k.confrelid and a.attnum = p.attnum)) end,
    'onDelete', case k.confdeltype when 'c' then 'cascade' when 'n' then 'setNull' else 'restrict' end,
    'text', case k.contype when 'c' then pg_get_constraintdef(k.oid) end) as item
  from pg_constraint k left join pg_class c on c.oid = k.confrelid left join pg_namespace n on n.oid = c.relnamespace
  where k.conrelid = any(${oids}::oid[]) and k.contype in ('p', 'u', 'f', 'c') and (k.contype <> 'f' or k.conparentid = 0)
  order by k.conrelid, k.conname`;

/** Indexes that can be used. Columns that an index only carries along do not count as its columns. */
const indexesQuery = (oids: readonly number[]): Statement => sql`
  select i.indrelid::integer as oid, json_build_object(
    'name', c.relname, 'unique', i.indisunique, 'method', m.amname, 'partial', i.indpred is not null,
    'columns', case when i.indexprs is null then (
      select json_agg(a.attname order by p.n) from unnest(i.indkey::smallint[]) with ordinality p(attnum, n)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = p.attnum where p.n <= i.indnkeyatts)
      else '[]'::json end) as item
  from pg_index i join pg_class c on c.oid = i.indexrelid join pg_am m on m.oid = c.relam
  where i.indrelid = any(${oids}::oid[]) and i.indisvalid and not i.indisprimary
  order by i.indrelid, c.relname`;

/** A type as it is stored: domains are followed down to what they are made of. */
export interface CatalogueType {
  /** The type of the column itself, which values are cast to. */
  readonly declared: QualifiedName;
  /** As in `create table`: `character varying(40)`. */
  readonly text: string;
  /** `base`: the type, or the one below a domain. `category` is PostgreSQL's own letter. */
  readonly base: QualifiedName & { readonly category: string; readonly modifier: number };
  /** Of an array: its element. */
  readonly element: (QualifiedName & { readonly labels: readonly string[] | null }) | null;
  /** Dimensions that the declaration names. */
  readonly dimensions: number;
  /** Of an enum: its values in order. */
  readonly labels: readonly string[] | null;
  /** Rules of the domains on the way, as `CHECK (...)` over VALUE. */
  readonly checks: readonly string[];
}

export interface CatalogueColumn {
  readonly name: string;
  readonly type: CatalogueType;
  readonly notNull: boolean;
  /** The table gives a value when the writer gives none. */
  readonly hasDefault: boolean;
  /** The table always gives the value: generated columns, and identities that take no other. */
  readonly generated: boolean;
  readonly comment: string | null;
}

export interface CatalogueConstraint {
  readonly name: string;
  readonly kind: 'primary' | 'unique' | 'foreign' | 'check';
  readonly columns: readonly string[];
  /** Of a foreign key. */
  readonly target: (QualifiedName & { readonly columns: readonly string[] }) | null;
  readonly onDelete: 'restrict' | 'cascade' | 'setNull';
  /** Of a check: its text. */
  readonly text: string | null;
}

interface CatalogueIndex {
  readonly name: string;
  /** Columns in order; empty for an index over expressions. */
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly method: string;
  /** It covers some rows only. */
  readonly partial: boolean;
}

export interface CatalogueRelation extends QualifiedName {
  readonly kind: RelationKind;
  readonly comment: string | null;
  /** What the role of the platform may do. */
  readonly may: {
    readonly select: boolean;
    readonly insert: boolean;
    readonly update: boolean;
    readonly delete: boolean;
  };
  /** Row-level security is on. */
  readonly rowSecurity: boolean;
  /** Other tables inherit from it. */
  readonly inherited: boolean;
  /** How a partitioned table is divided, as `RANGE (payment_date)`. */
  readonly partitionKey: string | null;
  readonly columns: readonly CatalogueColumn[];
  readonly constraints: readonly CatalogueConstraint[];
  readonly indexes: readonly CatalogueIndex[];
}

/** Relations of one reading; a database with more is read schema by schema. */
export const MAX_RELATIONS = 2_000;

/** A relation without what is in it. */
type ListedRelation = Omit<CatalogueRelation, 'columns' | 'constraints' | 'indexes'> & {
  /** The number that PostgreSQL knows it by. */
  readonly oid: number;
};

/** Tables and views of these schemas, by name, without what is in them. */
export async function readRelations(
  database: Queryable,
  schemas: readonly string[],
  limit: number,
): Promise<readonly ListedRelation[]> {
  return (await database.query<ListedRelation>(relationsQuery(schemas, limit))).rows;
}

/** Columns of tables, by the oid of each table. */
export const readColumns = (
  database: Queryable,
  oids: readonly number[],
): Promise<ReadonlyMap<number, readonly CatalogueColumn[]>> =>
  ownedBy<CatalogueColumn>(database, columnsQuery(oids));

/** All tables and views of these schemas, by name. Partitions are part of their table, extensions own theirs. */
export async function readCatalogue(
  database: Queryable,
  schemas: readonly string[],
): Promise<readonly CatalogueRelation[]> {
  const relations = await readRelations(database, schemas, MAX_RELATIONS + 1);
  const oids = relations.map(({ oid }) => oid);
  const columns = await readColumns(database, oids);
  const constraints = await ownedBy<CatalogueConstraint>(database, constraintsQuery(oids));
  const indexes = await ownedBy<CatalogueIndex>(database, indexesQuery(oids));
  return relations.map(({ oid, ...relation }) => ({
    ...relation,
    columns: columns.get(oid) ?? [],
    constraints: constraints.get(oid) ?? [],
    indexes: indexes.get(oid) ?? [],
  }));
}

async function ownedBy<T>(
  database: Queryable,
  statement: Parameters<Queryable['query']>[0],
): Promise<ReadonlyMap<number, T[]>> {
  const { rows } = await database.query<{ oid: number; item: T }>(statement);
  const found = new Map<number, T[]>();
  for (const { oid, item } of rows) found.set(oid, [...(found.get(oid) ?? []), item]);
  return found;
}
