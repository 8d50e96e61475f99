/** Conditions on the id of a row. In a table of others an id is made from the key; the columns of the key are compared, so that its index serves. */
import { identifier } from '../../../kernel/database/sql.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { deletedColumn, inTrash } from '../../schema/compile/layout.ts';
import type { Field } from '../../schema/language/field.ts';
import { partOf } from '../../schema/language/record-key.ts';
import { isPlainKey, keyColumnName } from '../../schema/mapping/table-mapping.ts';
import { recordErrors } from '../errors.ts';

/* Rows in the trash: reads come from `schema.rows`, where they are not; what changes the table itself says it like this. */

/** `and <row is not in the trash>` for rows of `alias`, or nothing. */
export const live = ({ softDelete }: CompiledSchema, alias: string): string =>
  softDelete ? ` and ${alias}."${deletedColumn}" is null` : '';

const trashes = new WeakMap<CompiledSchema, CompiledSchema>();

/** The trash of a schema as a schema of its own: its rows are the deleted ones, and say when. Throws 404 without one. */
export function trashOf(schema: CompiledSchema): CompiledSchema {
  requireTrash(schema);
  let trash = trashes.get(schema);
  if (!trash) {
    trash = {
      ...schema,
      rows: `(select * from ${schema.table} where ${inTrash})`,
      tree: {
        ...schema.tree,
        fields: new Map([...schema.tree.fields, [deletedColumn, deletedField]]),
      },
      sortable: new Set([...schema.sortable, deletedColumn]),
    };
    trashes.set(schema, trash);
  }
  return trash;
}

const deletedField: Field = {
  kind: 'date',
  required: false,
  unique: false,
  hidden: false,
  indexed: false,
};

/** Throws 404 for a schema without a trash. */
export function requireTrash({ softDelete, name }: CompiledSchema): void {
  if (!softDelete)
    throw recordErrors.TRASH_DISABLED({
      message: `${name} does not keep deleted records: switch softDelete on`,
    });
}

type Keyed = Pick<CompiledSchema, 'mapping' | 'key'>;

const keyColumn = (alias: string, position: number): string =>
  `${alias}.${identifier(keyColumnName(position))}`;

/** `id`: a placeholder, or a column that holds the id of a related record. */
export function idTest({ mapping, key }: Keyed, alias: string, id: string): string {
  if (!mapping || isPlainKey(key)) return `${alias}."_id" = ${id}`;
  const [type] = key;
  if (type === undefined) return 'false';
  // Of the type of ids and not of the column: an id may be too large for that.
  if (key.length === 1) return `${keyColumn(alias, 0)} = ${id}::${type}`;
  return key.map((part, i) => `${keyColumn(alias, i)} = ${partOf(part, id, i)}`).join(' and ');
}

/** Every row, those in the trash too, and what rows are locked in: the table itself, or what shows a table of others; both need an alias. */
export const allRows = ({
  mapping,
  rows,
  table,
}: Pick<CompiledSchema, 'mapping' | 'rows' | 'table'>): string => (mapping ? rows : table);

/** `ids`: a placeholder of a list of ids. */
export function idsTest({ mapping, key }: Keyed, alias: string, ids: string): string {
  if (!mapping) return `${alias}."_id" = any(${ids}::uuid[])`;
  const [type] = key;
  if (type === undefined) return 'false';
  if (key.length > 1) return `${alias}."_id" = any(${ids}::text[])`;
  return `${isPlainKey(key) ? `${alias}."_id"` : keyColumn(alias, 0)} = any(${ids}::${type}[])`;
}
