/** A view: some fields of the records of a schema that fit a query, served like a schema, read-only. */
import { invalid } from '../../../../kernel/errors.ts';
import type { CompiledSchema } from '../../../../kernel/schema/compiled.ts';
import type { FieldInput, FieldMap } from '../../../../kernel/schema/definition.ts';
import { columnType } from '../../../../kernel/schema/field.ts';
import type { MappedColumn, QualifiedName, TableMapping } from '../../../../kernel/schema/mapping/mapping.ts';
import { shown } from '../../../../kernel/schema/names.ts';
import type { AdoptedTable } from '../../../../kernel/schema/registry.ts';
import { importedOptions } from '../introspection/shown.ts';

export interface NewView {
  readonly name: string;
  /** Name of the schema whose records it shows. */
  readonly schema: string;
  /** Fields that it has; all that are not hidden unless given. */
  readonly select?: readonly string[];
  /** Which records, in the operator language; all unless given. */
  readonly query?: Readonly<Record<string, unknown>>;
}

export type View = Required<NewView>;

/** The PostgreSQL schema that holds them. It can be thrown away: they are made again from what is stored. */
export const VIEW_SCHEMA = 'penstock_views';

export const viewName = (name: string): QualifiedName => ({ schema: VIEW_SCHEMA, name });

/** The fields that a view shows: none that is hidden or not for everybody. Throws 400 for another one. */
export function viewFields({ tree, name }: CompiledSchema, select: readonly string[] | undefined): readonly string[] {
  const visible = [...tree.fields].flatMap(([field, { hidden, access }]) => (hidden || access ? [] : [field]));
  if (!select) return visible;
  const unknown = select.find((field) => !visible.includes(field));
  if (unknown !== undefined) throw invalid('select', 'field', `"${shown(unknown)}" is not a field of ${name} that everybody may see`);
  return [...new Set(select)];
}

/** The schema over a view: the fields of its source without the rules of writing, all exposure off. */
export function adoptedView(source: CompiledSchema, { name, select }: View): AdoptedTable {
  const fields = Object.fromEntries(select.map((field) => [field, readOnly(source.compiledFields[field])])) as FieldMap;
  const key = keyName(select);
  const { timestamps } = source.modelOptions;
  const times = timestamps ? Object.fromEntries(['createdAt', 'updatedAt'].map((time) => [time, mapped(time, 'timestamptz')])) : {};
  const columns = select.map((field): [string, MappedColumn] => {
    const definition = source.tree.fields.get(field);
    return [field, mapped(field, definition ? columnType(definition) : 'text')];
  });
  const mapping: TableMapping = {
    source: viewName(name),
    kind: 'view',
    columns: { [key]: { ...mapped('_id', 'uuid'), keyType: 'uuid' }, ...Object.fromEntries(columns), ...times },
    key: [key],
    writable: false,
    rules: {},
  };
  const options = { ...importedOptions, imported: false };
  return { name, fields, columns: { [key]: 'ObjectId', ...fields }, mapping, indexes: {}, foreignKeys: {}, options };
}

const mapped = (column: string, type: string): MappedColumn => ({
  column,
  type: { schema: 'pg_catalog', name: type },
  form: 'plain',
  filled: 'always',
});

/** The id is a column like others to the mapping; the name is that of no field. */
function keyName(select: readonly string[]): string {
  let name = 'id';
  for (let i = 2; select.includes(name); i++) name = `id${i}`;
  return name;
}

const writingRules: ReadonlySet<string> = new Set(['required', 'unique', 'index', 'default', 'validate', 'onDelete']);

function readOnly(input: FieldInput | undefined): FieldInput {
  if (typeof input !== 'object' || input === null || Array.isArray(input) || !('type' in input)) return input ?? 'JSON';
  return Object.fromEntries(Object.entries(input).filter(([key]) => !writingRules.has(key))) as FieldInput;
}
