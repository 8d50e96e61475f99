/** From what the catalogue says about a table to the schema that can be declared over it. Pure: the same table always gives the same. */
import type { FieldInput, FieldMap } from '../../../../data/schema/language/definition.ts';
import type { MappedColumn, TableMapping } from '../../../../data/schema/mapping/table-mapping.ts';
import type { CatalogueRelation, CatalogueType } from './catalogue.ts';
import { fieldOf } from './fields.ts';
import type { DescribedIndex, InferredTable, SkippedColumn } from './inferred.ts';
import {
  type InferContext,
  type KeyChoice,
  keyChoice,
  type Link,
  linksOf,
  type ServedColumn,
} from './keys.ts';
import { fieldNames } from './names.ts';
import { servedType } from './types.ts';

/** Fields of one schema (kernel/schema/parse.ts). */
const MAX_FIELDS = 400;

export function inferTable(
  relation: CatalogueRelation,
  name: string,
  context: InferContext,
): InferredTable {
  const skipped: SkippedColumn[] = [];
  const columns = servedColumns(relation, skipped);
  const timestamps = hasTimestamps(columns);
  const names = fieldNames(
    columns.map(({ column }) => column.name),
    timestamps ? new Set(['_id', '__v']) : new Set(['_id', '__v', 'createdAt', 'updatedAt']),
  );
  const named = columns.map(
    (one, i): ServedColumn => ({ ...one, field: names[i] ?? one.column.name }),
  );
  const key = keyChoice(relation);
  const links = linksOf(relation, named, context);
  const mapping = mappingOf(relation, { named, key, links });
  return {
    name,
    description: relation.comment,
    fields: fieldsOf(relation, { named, key, links, timestamps }),
    mapping,
    skippedColumns: skipped,
    foreignKeys: links.map(({ described }) => described),
    indexes: indexesOf(relation, named),
    warnings: [...warningsOf(relation, key), ...unfillable(relation, skipped)],
    keyTypes: Object.fromEntries(
      named.flatMap(({ field, served: { keyType } }) => (keyType ? [[field, keyType]] : [])),
    ),
    layout: layoutOf(relation, { named, links }),
  };
}

/** What of a table can be served; the rest is added to `skipped`. */
export function servedColumns(
  relation: Pick<CatalogueRelation, 'columns'>,
  skipped: SkippedColumn[],
): Omit<ServedColumn, 'field'>[] {
  return relation.columns.flatMap((column, index) => {
    const served =
      index < MAX_FIELDS
        ? servedType(column.type)
        : { reason: `a schema has at most ${MAX_FIELDS} fields` };
    if (!('reason' in served)) return [{ column, served }];
    skipped.push({ column: column.name, type: column.type.text, reason: served.reason });
    return [];
  });
}

/** The platform keeps `createdAt` and `updatedAt` itself; a table that has both means the same by them. */
function hasTimestamps(columns: readonly Omit<ServedColumn, 'field'>[]): boolean {
  const isInstant = (name: string): boolean =>
    columns.some(
      ({ column, served }) =>
        column.name === name &&
        (served.keyType === 'timestamp' || served.keyType === 'timestamptz') &&
        !column.generated,
    );
  return isInstant('createdAt') && isInstant('updatedAt');
}

interface MappingParts {
  readonly named: readonly ServedColumn[];
  readonly key: KeyChoice;
  readonly links: readonly Link[];
}

function mappingOf(relation: CatalogueRelation, { named, key, links }: MappingParts): TableMapping {
  const fieldBy = new Map(named.map(({ column, field }) => [column.name, field]));
  const targets = new Map(
    links.flatMap(({ relation: found }) => (found ? [[found.field, found.target] as const] : [])),
  );
  const columns = named.map(({ column, served, field }): [string, MappedColumn] => {
    const target = targets.get(field);
    const isKey = key.columns.includes(column.name);
    return [
      field,
      {
        column: column.name,
        type: column.type.declared,
        form: served.form,
        filled:
          column.generated || served.readOnly ? 'always' : column.hasDefault ? 'default' : 'never',
        ...((target || isKey) && served.keyType && { keyType: served.keyType }),
        ...(target && { references: { schema: target.schema, name: target.name } }),
        ...digitsOf(column.type),
      },
    ];
  });
  const isTable = relation.kind === 'table' || relation.kind === 'partitioned';
  return {
    source: { schema: relation.schema, name: relation.name },
    kind: relation.kind,
    columns: Object.fromEntries(columns),
    key: key.columns.map((column) => fieldBy.get(column) ?? column),
    writable: isTable && key.columns.length > 0,
    rules: rulesOf(relation, fieldBy),
  };
}

/** `numeric(4, 2)`: the modifier holds both numbers, and four more. The second one may be below zero. */
function digitsOf({ base }: CatalogueType): Pick<MappedColumn, 'digits'> {
  if (base.schema !== 'pg_catalog' || base.name !== 'numeric' || base.modifier < 4) return {};
  const bits = base.modifier - 4;
  return { digits: { precision: bits >> 16, scale: ((bits & 0x7ff) ^ 0x400) - 0x400 } };
}

function rulesOf(
  { constraints }: CatalogueRelation,
  fieldBy: ReadonlyMap<string, string>,
): TableMapping['rules'] {
  const rules = constraints.filter(({ kind }) => kind === 'check' || kind === 'foreign');
  return Object.fromEntries(
    rules.map(({ name, columns }) => [
      name,
      columns.flatMap((column) => fieldBy.get(column) ?? []),
    ]),
  );
}

function fieldsOf(
  relation: CatalogueRelation,
  parts: MappingParts & { readonly timestamps: boolean },
): FieldMap {
  const { named, key, links, timestamps } = parts;
  const automatic = timestamps ? new Set(['createdAt', 'updatedAt']) : new Set<string>();
  const entries = named
    .filter(({ field }) => !automatic.has(field))
    .map((one): [string, FieldInput] => {
      const link = links.find(({ relation: found }) => found?.field === one.field);
      return [one.field, fieldOf(relation, { ...one, key, link })];
    });
  return Object.fromEntries(entries);
}

/** Every column of an index as a field; an index over something else has none. */
function fieldsBy(columns: readonly string[], named: readonly ServedColumn[]): readonly string[] {
  const fields = columns.map((column) => named.find((one) => one.column.name === column)?.field);
  return fields.every((field): field is string => field !== undefined) ? fields : [];
}

const indexesOf = (
  { indexes }: CatalogueRelation,
  named: readonly ServedColumn[],
): DescribedIndex[] =>
  indexes.map(({ name, columns, unique, method, partial }) => ({
    name,
    fields: fieldsBy(columns, named),
    unique,
    method,
    partial,
  }));

interface LayoutParts {
  readonly named: readonly ServedColumn[];
  readonly links: readonly Link[];
}

function layoutOf(
  relation: CatalogueRelation,
  { named, links }: LayoutParts,
): InferredTable['layout'] {
  const unique = [
    ...relation.constraints.filter(({ kind }) => kind === 'primary' || kind === 'unique'),
    ...relation.indexes.filter((i) => i.unique),
  ];
  const indexes = unique
    .map(
      ({ name, columns }) =>
        [name, { columns: fieldsBy(columns, named), unique: true, method: 'btree' }] as const,
    )
    .filter(([, { columns }]) => columns.length > 0);
  const foreignKeys = links.flatMap(({ constraint: { name, onDelete }, relation: found }) =>
    found ? [[name, { column: found.field, target: found.model, onDelete }] as const] : [],
  );
  return { indexes: Object.fromEntries(indexes), foreignKeys: Object.fromEntries(foreignKeys) };
}

function warningsOf(relation: CatalogueRelation, key: KeyChoice): string[] {
  const { kind, may, rowSecurity, partitionKey, inherited } = relation;
  const isTable = kind === 'table' || kind === 'partitioned';
  const denied = isTable
    ? (['insert', 'update', 'delete'] as const).filter((right) => !may[right])
    : [];
  return [
    ...(isTable
      ? []
      : [
          `This is a ${kind === 'foreign' ? 'foreign table' : `${kind} view`.replace('view view', 'view')}: it can only be read`,
        ]),
    ...(key.columns.length === 0
      ? [
          'Nothing tells its rows apart: they are listed, but cannot be read, changed or deleted one by one. Name a key to read them by id',
        ]
      : []),
    ...(isTable && key.origin === 'unique'
      ? [`There is no primary key: ids are made from the unique index ${key.name}`]
      : []),
    ...denied.map((right) => `The database does not let the platform ${right} here`),
    ...(rowSecurity ? ['Row-level security is on: the platform sees what its role may see'] : []),
    ...(inherited
      ? [
          'Other tables inherit from it: their rows are shown as its own, and its key does not tell them apart for sure',
        ]
      : []),
    ...(partitionKey ? [`It is divided by ${partitionKey}; its partitions are served as one`] : []),
  ];
}

/** Columns that need a value and that writers cannot give one. */
const unfillable = (relation: CatalogueRelation, skipped: readonly SkippedColumn[]): string[] =>
  skipped
    .filter(({ column }) =>
      relation.columns.some(
        ({ name, notNull, hasDefault, generated }) =>
          name === column && notNull && !hasDefault && !generated,
      ),
    )
    .map(
      ({ column }) =>
        `"${column}" needs a value and is not served: records can be created only if the database itself fills it in (a trigger)`,
    );
