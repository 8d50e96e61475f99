/** The number of rows on which a subject may act, from the tuples and columns that lead to them (SQL). */
import { literalOf } from '../../../../kernel/database/literal.ts';
import { identifier } from '../../../../kernel/database/sql.ts';
import type { FieldRelation } from '../../model/model.ts';
import { liveTuple } from '../../tuple-sql.ts';
import type { Lookup } from '../reverse-expansion.ts';
import { subjectTypeText } from '../tuple-source.ts';
import {
  columnIds,
  disjointTests,
  isReplacing,
  unmatchedTest,
  uuidPattern,
} from './row-columns.ts';
import { foundTuples, lookupKey, nothingFound, type RowSource, rowSource } from './row-sources.ts';

type Next = (value: unknown) => string;

interface CountedRows {
  /** Quoted name of the table. */
  readonly table: string;
  /** `lookupKey` of the lookup that finds nearly all. */
  readonly largest: string | undefined;
  /** Few rows are found from stored tuples. */
  readonly storedFew: boolean;
  /** What is left to ask of rows that were found, by their ids. */
  readonly stands?: ((id: string, next: Next) => string) | undefined;
}

/**
 * The number of rows of a table that are found, where each lookup is exact. A tuple that is known to lead to a row of the
 * table is counted from the index alone; of others the row is looked for. The lookup that finds nearly all is counted as it
 * is: within one lookup each row stands once. What the others find counts where that one does not find it as well.
 */
export function rowCount(source: RowSource, counted: CountedRows, next: Next): string {
  const { table, largest, stands } = counted;
  if (source.from.fields.some(isReplacing)) return countByFields(source, counted, next);
  const most = source.lookups.findIndex((lookup) => lookupKey(lookup) === largest);
  const index = most < 0 ? source.lookups.findIndex((lookup) => columnOf(source, lookup)) : most;
  const first = source.lookups[index];
  const counts = (id: string): string => (stands ? ` and (${stands(id, next)})` : '');
  if (!first)
    return `(select count(distinct f.id) from (${existingRows(source, table, next)}) f where true${counts('f.id')})`;
  const others = rowSource({ ...source, exact: true }, source.lookups.toSpliced(index, 1));
  const column = columnOf(source, first);
  if (column) return ownedCount({ source, others, first, column }, counted, next);
  const rows = 'penstock.tuples';
  const same =
    `t.subject_type = ${next(first.subject.type)} and t.subject_id = ${next(first.subject.id)}::text and t.subject_relation = ${next(first.subject.relation)}` +
    ` and t.resource_type = ${literalOf(source.type, 'text')} and t.relation = ${next(first.rule.relation)} and t.condition is null and ${liveTuple('t')}`;
  const known = `${same} and t.row_of = ${oidOf(table)}`;
  // In the order of the index: another one would be read through for what is hardly ever there.
  const unknown = ['is null', `< ${oidOf(table)}`, `> ${oidOf(table)}`].map(
    (range) =>
      `select u.id from (select t.resource_uuid as id from ${rows} t where ${same} and t.row_of ${range} order by t.row_of, t.resource_uuid offset 0) u where u.id is not null and ${isRow(table, 'u.id')}`,
  );
  const rest = [existingRows(others, table, next), ...unknown].join(' union all ');
  const again = `exists (select 1 from ${rows} t where ${known} and t.resource_uuid = f.id offset 0)`;
  // Under a name of its own: what is asked of the id looks at other tuples `t`.
  const sure = `(select t.resource_uuid as id from ${rows} t where ${known}) k`;
  return `((select count(*) from ${sure} where true${counts('k.id')}) + (select count(distinct f.id) from (${rest}) f where not ${again}${counts('f.id')}))`;
}

interface OwnedRows {
  readonly source: RowSource;
  /** All lookups but the first. */
  readonly others: RowSource;
  readonly first: Lookup;
  readonly column: FieldRelation;
}

/** The same where rows say in a column that the subject stands there: those are counted from its index. */
function ownedCount(
  { source, others, first, column: { field } }: OwnedRows,
  { table, storedFew, stands }: CountedRows,
  next: Next,
): string {
  const counts = (id: string): string => (stands ? ` and (${stands(id, next)})` : '');
  const owned = `d.${identifier(field.field)} = (select ${next(first.subject.id)}::uuid) and ${subjectTypeText(field, 'd')} = (select ${next(first.subject.type)}::text)`;
  const rest = [storedRows(source, table, next), ...columnIds(others, table, next)].join(
    ' union all ',
  );
  // Of few each is looked up; for more, what is owned is a hash table that is filled once.
  const again = storedFew
    ? `exists (select 1 from ${table} d where d."_id" = f.id and ${owned} offset 0)`
    : `(f.id in (select d."_id" from ${table} d where ${owned})) is true`;
  return `((select count(*) from ${table} d where ${owned}${counts('d."_id"')}) + (select count(distinct f.id) from (${rest}) f where not ${again}${counts('f.id')}))`;
}

/**
 * The same where fields of the rows are relations: what rows say is asked of each once, and each of those that stored
 * tuples lead to is counted where the row does not say it as well.
 */
function countByFields(
  source: RowSource,
  { table, storedFew, stands }: CountedRows,
  next: Next,
): string {
  const counts = (id: string): string => (stands ? ` and (${stands(id, next)})` : '');
  const said = disjointTests(source, next).map(
    (test) => `(select count(*) from ${table} d where ${test}${counts('d."_id"')})`,
  );
  // Of few each is looked up; for more, what rows say is a hash table that is filled once.
  const alone = storedFew
    ? `exists (select 1 from ${table} d where d."_id" = f.id and ${unmatchedTest(source, next)} offset 0)`
    : `(f.id in (${columnIds(source, table, next).join(' union all ') || nothingFound})) is not true`;
  const stored = `(select count(distinct f.id) from (${storedRows(source, table, next)}) f where ${alone}${counts('f.id')})`;
  return `(${[...said, stored].join(' + ')})`;
}

/** The column in which the subject of a lookup may stand. */
const columnOf = ({ from }: RowSource, { rule, subject }: Lookup): FieldRelation | undefined =>
  subject.relation === '' && uuidPattern.test(subject.id)
    ? from.fields.find(({ relation }) => relation === rule.relation)
    : undefined;

const oidOf = (table: string): string => `${literalOf(table, 'regclass')}::oid`;

const isRow = (table: string, id: string): string =>
  `exists (select 1 from ${table} d where d."_id" = ${id} offset 0)`;

/** Ids of rows that are there, possibly more than once. */
const existingRows = (source: RowSource, table: string, next: Next): string =>
  [storedRows(source, table, next), ...columnIds(source, table, next)].join(' union all ');

/** Those that tuples lead to. */
function storedRows(source: RowSource, table: string, next: Next): string {
  const found = foundTuples(source, next).map(
    (tuples) =>
      `select r.id from (${tuples} offset 0) r where r.id is not null and (r.row_of is not distinct from ${oidOf(table)} or ${isRow(table, 'r.id')})`,
  );
  return found.length === 0 ? nothingFound : found.join(' union all ');
}
