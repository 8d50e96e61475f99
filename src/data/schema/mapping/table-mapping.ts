/**
 * How a schema is laid over a table that belongs to somebody else (spec/database.md 5.12). The table
 * stays as it is: reads go through a sub-select that shows it the way the record engine knows tables,
 * which PostgreSQL flattens away, and writes name its own columns. Stored with the layout.
 */
import { identifier } from '../../../kernel/database/sql.ts';
import type { Field, ObjectField } from '../language/field.ts';
import { idText, type KeyType, type RecordKey } from '../language/record-key.ts';

/** A name of the catalogue of PostgreSQL. */
export interface QualifiedName {
  readonly schema: string;
  readonly name: string;
}

export type RelationKind = 'table' | 'partitioned' | 'view' | 'materialized' | 'foreign';

/**
 * How a column is shown to the record engine, and turned back when it is written:
 * `plain` as it is; `text`, `jsonb`, `decimal` and `double` by a cast; `array` as a JSON list, and `texts` as one
 * of texts; `base64` for bytes.
 */
export type ColumnForm =
  | 'plain'
  | 'text'
  | 'jsonb'
  | 'decimal'
  | 'double'
  | 'array'
  | 'texts'
  | 'base64';

export interface MappedColumn {
  readonly column: string;
  readonly type: QualifiedName;
  readonly form: ColumnForm;
  /** Who gives a value when the writer gives none: nobody; the table (`default`); always the table, and no other is taken. */
  readonly filled: 'never' | 'default' | 'always';
  /** What the column can hold of a key: set where it is part of one, or refers to one. */
  readonly keyType?: KeyType;
  /** The table whose key the column refers to. */
  readonly references?: QualifiedName;
  /** Of a number with a declared size, as in `numeric(4, 2)`: how many digits it has, and how many of them behind the point. */
  readonly digits?: { readonly precision: number; readonly scale: number };
}

export interface TableMapping {
  readonly source: QualifiedName;
  readonly kind: RelationKind;
  /** By field, in the order of the table; also fields that the schema hides. */
  readonly columns: Readonly<Record<string, MappedColumn>>;
  /** Fields whose columns identify a row; none: it cannot be told from others, and is only listed. */
  readonly key: readonly string[];
  /** False for views, and for tables without a key. */
  readonly writable: boolean;
  /** Fields that each rule of the table is about (a check, or a foreign key), by the name of the rule. */
  readonly rules: Readonly<Record<string, readonly string[]>>;
}

export const relationName = ({ schema, name }: QualifiedName): string =>
  `${identifier(schema)}.${identifier(name)}`;

export const sameName = (a: QualifiedName, b: QualifiedName): boolean =>
  a.schema === b.schema && a.name === b.name;

export const keyOf = ({ key, columns }: TableMapping): RecordKey =>
  key.map((field) => columns[field]?.keyType ?? 'text');

/** The platform keeps `createdAt` and `updatedAt` of tables that have both; other columns of these names have other fields. */
export const hasTimestamps = ({ columns }: TableMapping): boolean =>
  columns.createdAt !== undefined && columns.updatedAt !== undefined;

/** A key whose column can stand for the id itself. */
export const isPlainKey = (key: RecordKey): boolean =>
  key.length === 1 && (key[0] === 'uuid' || key[0] === 'text');

/** Name of a key column in the sub-select; no field can have it. */
export const keyColumnName = (position: number): string => `key ${position + 1}`;

/** The columns of a sub-select that tell its rows apart and give them an order; none where nothing does. */
export const identityColumns = (key: RecordKey): readonly string[] =>
  isPlainKey(key) ? ['_id'] : key.map((_, i) => keyColumnName(i));

/** Texts that are stored as another type (an enum) are compared as text. */
const columnView = ({ column, form }: MappedColumn, alias: string): string => {
  const name = `${alias}.${identifier(column)}`;
  switch (form) {
    case 'plain':
      return name;
    case 'text':
      return `${name}::text`;
    case 'jsonb':
      return `${name}::jsonb`;
    case 'decimal':
      return `${name}::numeric`;
    case 'double':
      return `${name}::text::double precision`;
    case 'array':
      return `to_jsonb(${name})`;
    case 'texts':
      return `to_jsonb(${name}::text[])`;
    case 'base64':
      return `translate(encode(${name}, 'base64'), chr(10), '')`;
  }
};

/** The key columns of a row, of the types that ids are compared as. */
export const keyColumns = ({ key, columns }: TableMapping, alias: string): string[] =>
  key.map((field) => {
    const column = columns[field];
    if (!column) return 'null';
    return column.keyType === 'text'
      ? columnView(column, alias)
      : `${alias}.${identifier(column.column)}`;
  });

/** Nine digits: the ETag has no more. Two states of a row share one only when a billion transactions lie between them. */
const versionOf = (transaction: string): string => `(${transaction} % 1000000000)::integer`;
const storedVersion = (alias: string): string => versionOf(`${alias}.xmin::text::bigint`);
/** Rows that come back from a write to a partitioned table have no system columns; which transaction wrote them is known anyway. */
const writtenVersion = versionOf(`(pg_current_xact_id()::text::bigint % 4294967296)`);
const contentVersion = (alias: string): string =>
  `('x' || left(md5(${alias}::text), 7))::bit(28)::integer`;

const hasVersions = ({ kind }: TableMapping): boolean => kind === 'table' || kind === 'partitioned';

/** The columns of a row as the record engine knows them: `_id`, the fields, `__v`, and the key. `written`: right after a write. */
export function rowView(mapping: TableMapping, alias: string, written = false): string {
  const key = keyOf(mapping);
  const keys = keyColumns(mapping, alias);
  const id = isPlainKey(key) ? (keys[0] ?? '') : idText(key, keys);
  const version =
    written && mapping.kind === 'partitioned'
      ? writtenVersion
      : hasVersions(mapping)
        ? storedVersion(alias)
        : contentVersion(alias);
  return [
    `${id} as "_id"`,
    ...Object.entries(mapping.columns).map(
      ([field, column]) => `${columnView(column, alias)} as ${identifier(field)}`,
    ),
    `${version} as "__v"`,
    ...(isPlainKey(key)
      ? []
      : keys.map((column, i) => `${column} as ${identifier(keyColumnName(i))}`)),
  ].join(', ');
}

/** What stands behind `from` for reads; it needs an alias. */
export const sourceText = (mapping: TableMapping): string =>
  `(select ${rowView(mapping, 'c')} from ${relationName(mapping.source)} c)`;

/** A value of the record engine, ready for its column. */
export function writtenValue({ type, form }: MappedColumn, value: string): string {
  const cast = `::${relationName(type)}`;
  switch (form) {
    case 'plain':
    case 'text':
    case 'double':
      return `${value}${cast}`;
    case 'decimal':
      return `${value}::numeric${cast}`;
    case 'jsonb':
      return `${value}::jsonb${cast}`;
    case 'base64':
      return `decode(${value}::text, 'base64')${cast}`;
    case 'array':
    case 'texts': {
      const list = `${value}::jsonb`;
      return `(case when ${list} is not null then array(select jsonb_array_elements_text(${list})) end)${cast}`;
    }
  }
}

/** The fields of a schema with what only the mapping knows: how ids of related records are stored. */
export function mappedTree(tree: ObjectField, mapping: TableMapping | undefined): ObjectField {
  if (!mapping) return tree;
  const fields = [...tree.fields].map(([name, field]): [string, Field] => {
    if (field.kind === 'date') return [name, { ...field, exact: true }];
    const idType = mapping.columns[name]?.keyType;
    return field.kind === 'relation' && idType !== undefined && idType !== 'uuid'
      ? [name, { ...field, idType }]
      : [name, field];
  });
  return { ...tree, fields: new Map(fields) };
}
