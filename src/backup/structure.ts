/**
 * Reads the structure of PostgreSQL schemas as statements that make it anew,
 * from the catalogue. The server renders what it can render itself
 * (`pg_get_...def`); with an empty search path it qualifies every name.
 */
import type pg from 'pg';
import { identifier } from '../kernel/database/sql.ts';
import type { Structure } from './format.ts';
import { readTables, type TableFacts } from './tables.ts';

/* Sequences: those that stand alone, and where all of them stand. */

interface SequenceStatements {
  /** Those that no identity column brings along. */
  readonly create: readonly string[];
  /** Ties them to the columns that own them. */
  readonly own: readonly string[];
  /** The next value of each is the one it would have been. */
  readonly positions: readonly string[];
}

interface SequenceRow {
  readonly name: string;
  readonly create: string;
  readonly owner: string | null;
  readonly identity: boolean;
}

async function readSequences(
  client: pg.ClientBase,
  schemas: readonly string[],
): Promise<SequenceStatements> {
  const { rows } = await client.query<SequenceRow>(sequences, [schemas]);
  const positions: string[] = [];
  for (const { name } of rows) positions.push(await positionOf(client, name));
  const alone = rows.filter(({ identity }) => !identity);
  return {
    create: alone.map(({ create }) => create),
    own: alone.flatMap(({ name, owner }) =>
      owner === null ? [] : [`alter sequence ${name} owned by ${owner}`],
    ),
    positions,
  };
}

const sequences = `
  select c.oid::regclass::text as name,
    format('create sequence %s as %s increment by %s minvalue %s maxvalue %s start with %s cache %s%s', c.oid::regclass,
      format_type(s.seqtypid, null), s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache, case when s.seqcycle then ' cycle' else '' end) as create,
    case when a.attname is not null then format('%s.%I', d.refobjid::regclass, a.attname) end as owner,
    coalesce(d.deptype = 'i', false) as identity
  from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
  left join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = c.oid and d.refclassid = 'pg_class'::regclass
    and d.refobjsubid > 0 and d.deptype in ('a', 'i')
  left join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
  where n.nspname = any($1::text[]) order by c.oid`;

/** The name was rendered by the server, quoted where needed. */
async function positionOf(client: pg.ClientBase, name: string): Promise<string> {
  const { rows } = await client.query<{ text: string }>(
    `select format('select pg_catalog.setval(%L::regclass, %s, %L)', $1::text, last_value, is_called) as text from ${name}`,
    [name],
  );
  return rows[0]?.text ?? '';
}

/** What a dump needs of a table, beside the statements. */
interface StructureDump {
  readonly structure: Structure;
  /** Tables with rows of their own, in a stable order. */
  readonly tables: readonly TableFacts[];
}

export async function readStructure(
  client: pg.ClientBase,
  schemas: readonly string[],
): Promise<StructureDump> {
  const tables = await readTables(client, schemas);
  const texts = async (sql: string): Promise<string[]> =>
    (await client.query<{ text: string }>(sql, [schemas])).rows.map(({ text }) => text);
  const sequences = await readSequences(client, schemas);
  return {
    tables: tables.filter(({ kind }) => kind === 'table'),
    structure: {
      before: [
        ...(await texts(extensions)),
        // One of them may hold an extension.
        ...schemas.map((schema) => `create schema if not exists ${identifier(schema)}`),
        ...(await texts(enums)),
        ...(await texts(domains)),
        ...(await texts(functions)),
        ...sequences.create,
        ...tables.map(({ create }) => create),
      ],
      after: [
        ...sequences.own,
        ...(await texts(constraints)),
        ...(await texts(indexes)),
        ...(await texts(attachedIndexes)),
        ...(await texts(foreignKeys)),
        ...(await texts(views)),
        ...(await texts(triggers)),
        ...(await texts(comments)),
        ...sequences.positions,
      ],
    },
  };
}

/** True for objects that an extension brought along: they come back with it. */
const ofExtension = (catalogue: string, oid: string): string =>
  `exists (select from pg_depend d where d.classid = '${catalogue}'::regclass and d.objid = ${oid} and d.deptype = 'e')`;

const extensions = `
  select format('%screate extension if not exists %I with schema %I',
    case when n.nspname in ('public', 'pg_catalog') then '' else format('create schema if not exists %I; ', n.nspname) end, e.extname, n.nspname) as text
  from pg_extension e join pg_namespace n on n.oid = e.extnamespace
  where e.extname <> 'plpgsql' and $1::text[] is not null order by e.extname`;

const enums = `
  select format('create type %I.%I as enum (%s)', n.nspname, t.typname,
    (select string_agg(quote_literal(l.enumlabel), ', ' order by l.enumsortorder) from pg_enum l where l.enumtypid = t.oid)) as text
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where n.nspname = any($1::text[]) and t.typtype = 'e' and not ${ofExtension('pg_type', 't.oid')} order by t.oid`;

const domains = `
  select format('create domain %I.%I as %s%s%s%s', n.nspname, t.typname, format_type(t.typbasetype, t.typtypmod),
    case when t.typdefault is null then '' else ' default ' || t.typdefault end,
    case when t.typnotnull then ' not null' else '' end,
    (select coalesce(string_agg(format(' constraint %I %s', c.conname, pg_get_constraintdef(c.oid)), '' order by c.oid), '')
     from pg_constraint c where c.contypid = t.oid and c.contype = 'c')) as text
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
  where n.nspname = any($1::text[]) and t.typtype = 'd' and not ${ofExtension('pg_type', 't.oid')} order by t.oid`;

const functions = `
  select pg_get_functiondef(p.oid) as text
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = any($1::text[]) and p.prokind in ('f', 'p') and not ${ofExtension('pg_proc', 'p.oid')} order by p.oid`;

/** Keys, uniqueness, checks and exclusions. Not-null is part of the column; checks go down to the partitions by themselves. */
const constraints = `
  select format('alter table %s %s add constraint %I %s', case c.contype when 'c' then '' else 'only' end, c.conrelid::regclass, c.conname,
    pg_get_constraintdef(c.oid)) as text
  from pg_constraint c join pg_class r on r.oid = c.conrelid join pg_namespace n on n.oid = r.relnamespace
  where n.nspname = any($1::text[]) and c.contype in ('p', 'u', 'c', 'x') and (c.contype <> 'c' or c.coninhcount = 0)
  order by (r.relkind = 'p')::int, c.contype <> 'p', c.oid`;

const indexes = `
  select pg_get_indexdef(i.indexrelid) as text
  from pg_index i join pg_class r on r.oid = i.indrelid join pg_namespace n on n.oid = r.relnamespace
  where n.nspname = any($1::text[]) and i.indisvalid
    and not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u', 'x'))
  order by (r.relkind = 'p')::int, i.indexrelid`;

/** Indexes of partitions that are parts of their parent's. */
const attachedIndexes = `
  select format('alter index %s attach partition %s', h.inhparent::regclass, h.inhrelid::regclass) as text
  from pg_inherits h join pg_class i on i.oid = h.inhrelid join pg_namespace n on n.oid = i.relnamespace
  where n.nspname = any($1::text[]) and i.relkind in ('i', 'I') order by h.inhrelid`;

/** Added when all keys are there. */
const foreignKeys = `
  select format('alter table %s add constraint %I %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid)) as text
  from pg_constraint c join pg_class r on r.oid = c.conrelid join pg_namespace n on n.oid = r.relnamespace
  where n.nspname = any($1::text[]) and c.contype = 'f' and c.conparentid = 0 order by c.oid`;

/** In the order in which they were made, so that what a view reads is there before it. */
const views = `
  select format('create %s %I.%I as %s', case c.relkind when 'm' then 'materialized view' else 'view' end, n.nspname, c.relname,
    pg_get_viewdef(c.oid)) as text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname = any($1::text[]) and c.relkind in ('v', 'm') and not ${ofExtension('pg_class', 'c.oid')} order by c.oid`;

/** A trigger of a partition that came from its parent comes back with the parent's. */
const triggers = `
  select pg_get_triggerdef(t.oid) as text
  from pg_trigger t join pg_class r on r.oid = t.tgrelid join pg_namespace n on n.oid = r.relnamespace
  where n.nspname = any($1::text[]) and not t.tgisinternal and t.tgparentid = 0 order by t.oid`;

const comments = `
  select case when d.objsubid = 0 then format('comment on table %s is %L', c.oid::regclass, d.description)
    else format('comment on column %s.%I is %L', c.oid::regclass, a.attname, d.description) end as text
  from pg_description d join pg_class c on c.oid = d.objoid and d.classoid = 'pg_class'::regclass
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.objsubid and d.objsubid > 0
  where n.nspname = any($1::text[]) and c.relkind in ('r', 'p') order by c.oid, d.objsubid`;
