/** Rows in the trash: reads come from `schema.rows`, where they are not; what changes the table itself says it like this. */
import type { CompiledSchema } from '../schema/compiled.ts';
import type { Field } from '../schema/field.ts';
import { deletedColumn, inTrash } from '../schema/layout.ts';
import { recordErrors } from './errors.ts';

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
      tree: { ...schema.tree, fields: new Map([...schema.tree.fields, [deletedColumn, deletedField]]) },
      sortable: new Set([...schema.sortable, deletedColumn]),
    };
    trashes.set(schema, trash);
  }
  return trash;
}

const deletedField: Field = { kind: 'date', required: false, unique: false, hidden: false, indexed: false };

/** Throws 404 for a schema without a trash. */
export function requireTrash({ softDelete, name }: CompiledSchema): void {
  if (!softDelete) throw recordErrors.NO_TRASH({ message: `${name} does not keep deleted records: switch softDelete on` });
}
