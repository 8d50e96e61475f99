/** Making and removing indexes. */

import type { Queryable } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { type IndexLayout, inTrash, tableName, wordsOf } from '../compile/layout.ts';
import { schemaErrors } from '../errors.ts';
import type { Field } from '../language/field.ts';
import { MAX_INDEXED_TEXT } from '../language/parse-options.ts';
import { type ChangeStep, dataConflict, type Obstacle } from './schema-plan.ts';

/** Groups of equal values that a refusal shows. */
const MAX_EXAMPLES = 5;

export const dropIndex = (
  table: string,
  index: string,
  { columns, where }: IndexLayout,
): ChangeStep => ({
  schema: table,
  phase: 0,
  statement: `drop index if exists "app".${identifier(index)}`,
  summary: `The index of ${table} over ${columns.join(', ')} is removed`,
  lock: 'ACCESS EXCLUSIVE',
  destructive: false,
  ...(where === inTrash && { obstacle: emptyTrash(table) }),
});

/** Without the trash, what is in it would be alive again. */
const emptyTrash = (table: string): Obstacle => ({
  query: `select 1 from ${tableName(table)} where ${inTrash} limit 1`,
  error: () => {
    const message =
      'there are records in the trash: restore or purge them before softDelete is switched off';
    const path = 'conduitOptions.softDelete';
    return schemaErrors.SCHEMA_DATA_CONFLICT({
      message,
      errors: [{ path, rule: 'trash', message }],
    });
  },
});

/**
 * Entries of a GIN index go into it with their rows. PostgreSQL would rather put them on a list, which every search reads
 * from its beginning to its end, and which one write in thousands moves into the index: that one takes 0.2 s.
 */
const atOnce = ' with (fastupdate = off)';

/** `create index` without the words before its name. */
function indexBody(
  table: string,
  { columns, method, descending = [], text, where }: IndexLayout,
): string {
  const entry = (column: string): string => {
    const name = identifier(column);
    if (text) return wordsOf(name);
    return descending.includes(column) ? `${name} desc` : name;
  };
  const list = columns.map(entry).join(', ');
  const options = method === 'gin' ? atOnce : '';
  const rows = where === undefined ? '' : ` where ${where}`;
  return `on ${tableName(table)} using ${method} (${list})${options}${rows}`;
}

/** The statement that makes an index; `concurrently`: beside running writes, outside of any transaction. */
export const createIndexText = (
  table: string,
  index: string,
  layout: IndexLayout,
  concurrently = false,
): string =>
  `create ${layout.unique ? 'unique ' : ''}index ${concurrently ? 'concurrently ' : ''}${identifier(index)} ${indexBody(table, layout)}`;

export function addIndex(table: string, index: string, { layout, fields }: IndexWork): ChangeStep {
  const { columns, unique, method, text } = layout;
  const names = columns.join(', ');
  const obstacle = unique
    ? duplicates(table, layout, fields)
    : method === 'btree' && !text
      ? longTexts(table, columns, fields)
      : undefined;
  return {
    schema: table,
    phase: 3,
    statement: createIndexText(table, index, layout),
    summary: unique
      ? `${names} becomes unique`
      : text
        ? `The words of ${names} are indexed`
        : `${names} is indexed`,
    lock: 'SHARE',
    destructive: false,
    touchesRows: true,
    index: { name: index, layout },
    ...(obstacle && { obstacle }),
  };
}

interface IndexWork {
  readonly layout: IndexLayout;
  readonly fields: ReadonlyMap<string, Field>;
}

/** Records that are equal where they must not be, with some examples. Values of hidden fields are not shown. */
export function duplicates(
  table: string,
  { columns, where }: IndexLayout,
  fields: ReadonlyMap<string, Field>,
): Obstacle {
  const list = columns.map(identifier).join(', ');
  const present = columns.map((column) => `${identifier(column)} is not null`);
  const requested = [...present, ...(where === undefined ? [] : [`(${where})`])].join(' and ');
  const shows = columns.every((column) => fields.get(column)?.hidden !== true);
  const example = shows ? `left(concat_ws(' / ', ${list}), 80)` : 'null';
  return {
    query:
      `select ${example} as example, count(*)::integer as records from ${tableName(table)} where ${requested} ` +
      `group by ${list} having count(*) > 1 order by count(*) desc limit ${MAX_EXAMPLES}`,
    error: (rows) => {
      const examples = rows.flatMap(({ example: value, records }) =>
        typeof value === 'string' ? [`"${value}" (${records} records)`] : [],
      );
      const message = `several records have the same value${examples.length > 0 ? `: ${examples.join(', ')}` : ''}`;
      return dataConflict(columns.join(', '), 'unique', `${message}. Make them different first`);
    },
  };
}

/** Texts that are too long to stand in an ordered index. */
function longTexts(
  table: string,
  columns: readonly string[],
  fields: ReadonlyMap<string, Field>,
): Obstacle | undefined {
  const texts = columns.filter((column) => fields.get(column)?.kind === 'string');
  if (texts.length === 0) return undefined;
  const limit = Math.floor(MAX_INDEXED_TEXT / texts.length);
  const tests = texts.map((column) => `length(${identifier(column)}) > ${limit}`).join(' or ');
  return {
    query: `select count(*)::integer as records from ${tableName(table)} where ${tests} having count(*) > 0`,
    error: ([row]) =>
      dataConflict(
        columns.join(', '),
        'index',
        `${row?.records} records have more than ${limit} characters here, which is too long for an ordered index; use a Text index, or shorten them`,
      ),
  };
}

/** Up to here an index is made within the change: it takes milliseconds, and is there when the call returns. */
const LARGE = 10_000;

/** True for a table of which an index should not be made while writers wait. */
export async function isLarge(database: Queryable, schema: string): Promise<boolean> {
  const { rows } = await database.query<{ n: number }>({
    text: `select count(*)::integer as n from (select 1 from ${tableName(schema)} limit ${LARGE + 1}) some_rows`,
  });
  return (rows[0]?.n ?? 0) > LARGE;
}
