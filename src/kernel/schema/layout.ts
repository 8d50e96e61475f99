/** The physical form of a schema: what its table has. Stored with the declaration, so that a change is a difference. */
import type { Field, ObjectField } from './field.ts';
import { columnType, relationOf } from './field.ts';
import { derivedName } from './names.ts';

export interface ColumnLayout {
  readonly type: string;
  readonly notNull: boolean;
}

export interface IndexLayout {
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly method: 'btree' | 'gin';
}

export interface ForeignKeyLayout {
  readonly column: string;
  /** Name of the schema that is pointed to. */
  readonly target: string;
  readonly onDelete: 'restrict' | 'cascade' | 'setNull';
}

export interface TableLayout {
  readonly columns: Readonly<Record<string, ColumnLayout>>;
  readonly indexes: Readonly<Record<string, IndexLayout>>;
  readonly foreignKeys: Readonly<Record<string, ForeignKeyLayout>>;
}

export const emptyLayout: TableLayout = { columns: {}, indexes: {}, foreignKeys: {} };

interface LayoutInput {
  readonly name: string;
  readonly tree: ObjectField;
  /** True for schemas whose table is there. */
  readonly exists: (schema: string) => boolean;
  /** Columns of fields that were taken out: kept, nullable, without index. */
  readonly keep: TableLayout;
  readonly indexes: readonly { readonly fields: readonly string[]; readonly unique: boolean }[];
}

/** What the table of a schema shall have. */
export function layoutOf({ name, tree, exists, keep, indexes }: LayoutInput): TableLayout {
  const columns: Record<string, ColumnLayout> = {};
  for (const [column, { type }] of Object.entries(keep.columns)) columns[column] = { type, notNull: false };
  const indexList: Record<string, IndexLayout> = {};
  const foreignKeys: Record<string, ForeignKeyLayout> = {};
  const addIndex = (fields: readonly string[], unique: boolean, method: IndexLayout['method'] = 'btree') => {
    indexList[derivedName(unique ? 'ux' : 'ix', name, ...fields)] = { columns: fields, unique, method };
  };
  for (const [column, field] of tree.fields) {
    columns[column] = { type: columnType(field), notNull: field.required };
    const relation = relationOf(field);
    if (field.unique) addIndex([column], true);
    else if (needsIndex(field)) addIndex([column], false, relation?.many ? 'gin' : 'btree');
    if (relation && !relation.many && exists(relation.field.model)) {
      const key = derivedName('fk', name, column, relation.field.model);
      foreignKeys[key] = { column, target: relation.field.model, onDelete: relation.field.onDelete };
    }
  }
  for (const { fields, unique } of indexes) addIndex(fields, unique);
  return { columns, indexes: indexList, foreignKeys };
}

const needsIndex = (field: Field): boolean => field.indexed || relationOf(field) !== undefined;
