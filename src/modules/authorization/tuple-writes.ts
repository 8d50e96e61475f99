/** Adding tuples: what is there already stays as it is, or gets the requested condition, attributes and expiry. */
import type { Queryable } from '../../kernel/database/database.ts';
import { literalOf } from '../../kernel/database/literal.ts';
import { statementName } from '../../kernel/database/sql.ts';
import {
  type StoredTuple,
  storedTuple,
  type TimedTuple,
  type TupleRow,
  tupleColumns,
  tupleKey,
} from './queries.ts';
import { trackedOid, tupleEvents, uuidOf } from './tuple-sql.ts';

/** A tuple to write, with the id it gets if it is new. */
export interface NewTuple extends TimedTuple {
  readonly id: string;
}

const sameKey = tupleKey
  .split(', ')
  .map((column) => `t.${column} = i.${column}`)
  .join(' and ');
const inputTypes = [
  'uuid',
  'text',
  'text',
  'text',
  'text',
  'text',
  'text',
  'text',
  'jsonb',
  'timestamptz',
] as const;
const inputColumns =
  'id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at';
const actorPlace = `$${inputTypes.length + 1}`;
const storedColumns = tupleColumns
  .split(', ')
  .map((column) => `t.${column}`)
  .join(', ');

/** Tables whose rows tuples are about, by type (quoted names). Only those that exist. */
export type RowTables = ReadonlyMap<string, string>;
const noTables: RowTables = new Map();

interface WriteForm {
  /** Where the rows come from. */
  readonly source: string;
  readonly order: string;
  /** Which written rows make the search for a stored one needless; for a single row any does. */
  readonly unwritten: string;
}

/**
 * Writes what is not there yet, and gives what is there the requested condition, attributes and expiry.
 * Rows are taken in the order of the index, so that two writers never wait for each other in a ring.
 * Of the resources that are rows of tracked tables it is noted that they are: the rows are locked, so that none of them
 * goes before the tuple can be seen by whoever takes it away.
 */
const writeText = (
  { source, order, unwritten }: WriteForm,
  tables: RowTables,
): string => `with input as (select * from ${source} x(${inputColumns})),${knownRows(tables)}
  written as (
    insert into penstock.tuples as t (${inputColumns}, row_of)
    select ${inputColumns}, ${tables.size === 0 ? 'null' : '(select k.row_of from known k where k.id = i.id)'} from input i ${order}
    on conflict (${tupleKey}) do update
      set condition = excluded.condition, attributes = excluded.attributes, expires_at = excluded.expires_at, row_of = excluded.row_of, updated_at = now()
      where (t.condition, t.attributes, t.expires_at) is distinct from (excluded.condition, excluded.attributes, excluded.expires_at)
    returning t.*),
  events as (${tupleEvents('create', 'written', actorPlace)})
  select ${tupleColumns} from written
  union all
  select ${storedColumns} from input i join penstock.tuples t on ${sameKey}
   where not exists (select from written w ${unwritten})`;

/** `known(id, row_of)`: which of the input is about rows of tracked tables. */
function knownRows(tables: RowTables): string {
  if (tables.size === 0) return '';
  const known = [...tables].map(([type, table], n) => {
    const rows = `select i.id, ${trackedOid(type, table)} as row_of from input i join ${table} d on d."_id" = ${uuidOf('i.resource_id')} and d."_id"::text = i.resource_id
      where i.resource_type = ${literalOf(type, 'text')} order by d."_id" for key share of d`;
    return { name: `known_${n}`, rows };
  });
  const all = known.map(({ name }) => `select * from ${name}`).join(' union all ');
  return `${known.map(({ name, rows }) => `${name} as (${rows}), `).join('')}known as (${all}),`;
}

const one: WriteForm = {
  source: `(values (${inputTypes.map((type, i) => `$${i + 1}::${type}`).join(', ')}))`,
  order: '',
  unwritten: '',
};
const many: WriteForm = {
  source: `unnest(${inputTypes.map((type, i) => `$${i + 1}::${type}[]`).join(', ')})`,
  order: `order by ${tupleKey}`,
  unwritten: 'where w.id = t.id',
};

/** Texts that come again and again: of one tuple, or about one type. Others are rare, and many. */
const usualTexts = new Map<string, { readonly text: string; readonly name: string }>();

function writeStatement(
  form: WriteForm,
  tables: RowTables,
): { readonly text: string; readonly name?: string } {
  if (tables.size > 1) return { text: writeText(form, tables) };
  const key = `${form === one ? 'one' : 'many'} ${[...tables].join()}`;
  const known = usualTexts.get(key);
  if (known) return known;
  const text = writeText(form, tables);
  const usual = { text, name: statementName(text) };
  usualTexts.set(key, usual);
  return usual;
}

const valuesOf = ({
  id,
  subject,
  relation,
  resource,
  condition,
  attributes,
  expiresAt,
}: NewTuple): readonly unknown[] => [
  id,
  subject.type,
  subject.id,
  subject.relation,
  relation,
  resource.type,
  resource.id,
  condition ?? null,
  attributes ? JSON.stringify(attributes) : null,
  expiresAt ?? null,
];

/**
 * Each tuple must be given once. An answer may lack a tuple that somebody else wrote at the same
 * moment; ask again then.
 */
export async function writeTuples(
  database: Queryable,
  tuples: readonly NewTuple[],
  actor: string,
  tables: RowTables = noTables,
): Promise<readonly StoredTuple[]> {
  const rows = tuples.map(valuesOf);
  const [first = []] = rows;
  const values = rows.length === 1 ? first : inputTypes.map((_, i) => rows.map((row) => row[i]));
  const statement = writeStatement(rows.length === 1 ? one : many, tables);
  const result = await database.query<TupleRow>({ ...statement, values: [...values, actor] });
  return result.rows.map(storedTuple);
}
