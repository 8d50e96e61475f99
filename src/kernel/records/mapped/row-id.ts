/** Conditions on the id of a row. In a table of others an id is made from the key; the columns of the key are compared, so that its index serves. */
import { identifier } from '../../database/sql.ts';
import type { CompiledSchema } from '../../schema/compiled.ts';
import { partOf } from '../../schema/mapping/key.ts';
import { isPlainKey, keyColumnName } from '../../schema/mapping/mapping.ts';

type Keyed = Pick<CompiledSchema, 'mapping' | 'key'>;

const keyColumn = (alias: string, position: number): string => `${alias}.${identifier(keyColumnName(position))}`;

/** `id`: a placeholder, or a column that holds the id of a related record. */
export function idTest({ mapping, key }: Keyed, alias: string, id: string): string {
  if (!mapping || isPlainKey(key)) return `${alias}."_id" = ${id}`;
  const [type] = key;
  if (type === undefined) return 'false';
  // Of the type of ids and not of the column: an id may be too large for that.
  if (key.length === 1) return `${keyColumn(alias, 0)} = ${id}::${type}`;
  return key.map((part, i) => `${keyColumn(alias, i)} = ${partOf(part, id, i)}`).join(' and ');
}

/** What rows are locked in: the table itself, or what shows a table of others; both need an alias. */
export const lockable = ({ mapping, rows, table }: Pick<CompiledSchema, 'mapping' | 'rows' | 'table'>): string => (mapping ? rows : table);

/** `ids`: a placeholder of a list of ids. */
export function idsTest({ mapping, key }: Keyed, alias: string, ids: string): string {
  if (!mapping) return `${alias}."_id" = any(${ids}::uuid[])`;
  const [type] = key;
  if (type === undefined) return 'false';
  if (key.length > 1) return `${alias}."_id" = any(${ids}::text[])`;
  return `${isPlainKey(key) ? `${alias}."_id"` : keyColumn(alias, 0)} = any(${ids}::${type}[])`;
}
