/** The physical form of a schema: what its table has. Stored with the declaration, so that a change is a difference. */
import { createHash } from 'node:crypto';
import { identifier } from '../../../kernel/database/sql.ts';
import { columnType, type Field, type ObjectField, relationOf } from '../language/field.ts';
import { derivedName } from '../language/names.ts';
import type { TableMapping } from '../mapping/table-mapping.ts';

/* The words of a text, as indexes hold them and `$search` looks for them. Both must say it in the same way. */

/**
 * Characters that are looked into. PostgreSQL refuses more than a megabyte of words, so that a single long text would
 * make every search over its field fail.
 */
const MAX_SEARCHED = 200_000;

export const wordsOf = (text: string): string =>
  `to_tsvector('simple', left(${text}, ${MAX_SEARCHED}))`;

/** The column that says when a record went into the trash; null: it is alive. */
export const deletedColumn = 'deletedAt';
/** Conditions of partial indexes. */
const isLive = `"${deletedColumn}" is null`;
export const inTrash = `"${deletedColumn}" is not null`;

export interface ColumnLayout {
  readonly type: string;
  readonly notNull: boolean;
}

export interface IndexLayout {
  readonly columns: readonly string[];
  readonly unique: boolean;
  readonly method: 'btree' | 'gin' | 'hash' | 'brin';
  readonly descending?: readonly string[];
  /** Of the words of its one column, as `$search` asks for them (records/filter/operators.ts). */
  readonly text?: true;
  /** Only rows that fit are in it. Made by us from checked values; never text from outside. */
  readonly where?: string;
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
  /** Set for a schema over a table of others. Then the table is never changed, and the rest only says what it has. */
  readonly mapping?: TableMapping;
}

export const emptyLayout: TableLayout = { columns: {}, indexes: {}, foreignKeys: {} };

interface LayoutInput {
  readonly name: string;
  readonly tree: ObjectField;
  /** True for schemas whose table is there. */
  readonly exists: (schema: string) => boolean;
  /** Columns of fields that were taken out: kept, nullable, without index. */
  readonly keep: TableLayout;
  /** Those that are declared; the ones that fields need by themselves are added. */
  readonly indexes: readonly IndexLayout[];
  /** Deleted records stay in the table, marked. */
  readonly softDelete?: boolean;
}

/** What the table of a schema shall have. */
export function layoutOf({
  name,
  tree,
  exists,
  keep,
  indexes,
  softDelete = false,
}: LayoutInput): TableLayout {
  const columns: Record<string, ColumnLayout> = {};
  for (const [column, { type }] of Object.entries(keep.columns))
    columns[column] = { type, notNull: false };
  const indexList: Record<string, IndexLayout> = {};
  const foreignKeys: Record<string, ForeignKeyLayout> = {};
  const addIndex = (index: IndexLayout) => {
    const made = madeIndex(index, softDelete);
    indexList[indexName(name, made)] = made;
  };
  for (const [column, field] of tree.fields) {
    columns[column] = { type: columnType(field), notNull: field.required };
    const relation = relationOf(field);
    const own = ownIndex(column, field);
    if (own) addIndex(own);
    if (relation && !relation.many && exists(relation.field.model)) {
      const key = derivedName('fk', name, column, relation.field.model);
      foreignKeys[key] = {
        column,
        target: relation.field.model,
        onDelete: relation.field.onDelete,
      };
    }
  }
  for (const index of indexes) addIndex(index);
  if (softDelete) {
    columns[deletedColumn] = { type: 'timestamptz(3)', notNull: false };
    addIndex({ columns: [deletedColumn], unique: false, method: 'btree', where: inTrash });
  }
  return { columns, indexes: indexList, foreignKeys };
}

/** An index as it is made. */
export const madeIndex = (index: IndexLayout, softDelete: boolean): IndexLayout =>
  softDelete && index.unique ? amongLive(index) : index;

/** A value of a record in the trash may be used again. */
const amongLive = (index: IndexLayout): IndexLayout => ({
  ...index,
  where: index.where === undefined ? isLive : `(${index.where}) and ${isLive}`,
});

/** The index that a field has because of what it is. */
export function ownIndex(column: string, field: Field): IndexLayout | undefined {
  if (field.unique) return { columns: [column], unique: true, method: 'btree' };
  if (!field.indexed && (field.unindexed || !relationOf(field))) return undefined;
  const type = columnType(field);
  return {
    columns: [column],
    unique: false,
    method: type === 'jsonb' || type === 'uuid[]' ? 'gin' : 'btree',
  };
}

/** The physical name: the same for the same index of the same schema, and another one for any other. */
export function indexName(
  schema: string,
  { columns, unique, method, descending = [], text, where }: IndexLayout,
): string {
  const special = [
    ...(method === 'btree' || (method === 'gin' && !text && where === undefined)
      ? []
      : [`#${method}`]),
    ...(text ? ['#text'] : []),
    ...descending.map((column) => `#-${column}`),
    ...(where === undefined
      ? []
      : [`#where_${createHash('sha256').update(where).digest('hex').slice(0, 12)}`]),
  ];
  return derivedName(unique ? 'ux' : 'ix', schema, ...columns, ...special);
}

export const tableName = (schema: string): string => `"app".${identifier(schema)}`;
