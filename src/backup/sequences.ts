/** Sequences: those that stand alone, and where all of them stand. */
import type pg from 'pg';

export interface SequenceStatements {
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

export async function readSequences(client: pg.ClientBase, schemas: readonly string[]): Promise<SequenceStatements> {
  const { rows } = await client.query<SequenceRow>(sequences, [schemas]);
  const positions: string[] = [];
  for (const { name } of rows) positions.push(await positionOf(client, name));
  const alone = rows.filter(({ identity }) => !identity);
  return {
    create: alone.map(({ create }) => create),
    own: alone.flatMap(({ name, owner }) => (owner === null ? [] : [`alter sequence ${name} owned by ${owner}`])),
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
