/** What an admin made of a pending schema, and how it is kept when the table is read again. */

import { invalidSchema } from '../../../../data/schema/errors.ts';
import type {
  FieldInput,
  FieldMap,
  PlatformOptions,
} from '../../../../data/schema/language/definition.ts';
import { typeSignatures } from '../../../../data/schema/language/field.ts';
import { fieldNameProblem, shortName } from '../../../../data/schema/language/names.ts';
import { parseFields } from '../../../../data/schema/language/parse.ts';
import type { KeyType } from '../../../../data/schema/language/record-key.ts';
import type { MappedColumn, TableMapping } from '../../../../data/schema/mapping/table-mapping.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import type { DescribedIndex, DescribedKey, InferredTable } from './inferred.ts';

/** Each part is as the table gives it unless it is set. */
export interface Edits {
  readonly name?: string;
  /** Names of fields as they were found, and as they shall be. */
  readonly renames?: Readonly<Record<string, string>>;
  /** The fields that are shown, by their new names. */
  readonly fields?: FieldMap;
  /** The fields that there were when `fields` was written: others are new, and are shown. */
  readonly known?: readonly string[];
  /** For views and tables without a key: the fields whose values tell records apart. */
  readonly key?: readonly string[];
  readonly options?: PlatformOptions;
}

/** A table as its schema would be declared. */
export interface EditedTable extends InferredTable {
  /** Every field that could be shown, as it was found. */
  readonly columns: FieldMap;
}

/** The table with the edits in it. Edits that no longer fit are left out, with a warning. Throws 400 for what never fitted. */
export function edited(inferred: InferredTable, edits: Edits): EditedTable {
  const renamed = withNames(inferred, edits.renames ?? {});
  const keyed =
    edits.key && edits.key.join() !== renamed.mapping.key.join()
      ? withKey(renamed, edits.key)
      : renamed;
  const columns = keyed.fields;
  if (!edits.fields) return { ...keyed, columns };
  const { fields, lost } = keptFields(columns, edits.fields);
  const known = new Set([...(edits.known ?? []), ...Object.keys(edits.fields)]);
  const added = Object.entries(columns).filter(([name]) => !known.has(name));
  const warnings = lost.map(
    (name) => `"${name}" is not what it was when it was edited; the edit of it was left out`,
  );
  return {
    ...keyed,
    columns,
    fields: { ...fields, ...Object.fromEntries(added) },
    warnings: [...keyed.warnings, ...warnings],
  };
}

/** Edits over those that were made before. A table that gets the name back that it was found with is not renamed. */
export function mergedEdits(
  inferred: InferredTable,
  before: Edits,
  { name, ...change }: Edits,
): Edits {
  const { name: chosen, ...others } = before;
  const requested = name ?? chosen;
  const edits = {
    ...others,
    ...change,
    ...(requested !== undefined && requested !== inferred.name && { name: requested }),
  };
  if (!change.fields) return edits;
  const { columns } = edited(inferred, edits);
  requireFields(columns, change.fields);
  return { ...edits, known: Object.keys(columns) };
}

/** Throws 400 for fields that are none of the table, that are invalid, or that are of another type than their column. */
function requireFields(columns: FieldMap, requested: FieldMap): void {
  const { problems } = parseFields(requested);
  if (problems.length > 0) throw invalidSchema(problems);
  const refused = Object.keys(requested)
    .filter((name) => !fits(columns, name, requested[name]))
    .map((name): Problem => {
      const message = Object.hasOwn(columns, name)
        ? 'is not of the type of its column'
        : 'the table has no such column';
      return { path: `fields.${shortName(name)}`, rule: 'imported', message };
    });
  if (refused.length > 0) throw invalidSchema(refused);
}

/** Whether a field is what its column is; what the platform has in every record may be written down too. */
function fits(columns: FieldMap, name: string, input: FieldInput | undefined): boolean {
  const column = Object.hasOwn(columns, name) ? columns[name] : undefined;
  if (column === undefined) return automatic.has(name);
  const [found, requested] = [column, input].map((field) =>
    typeSignatures(parseFields({ [name]: field }).tree.fields),
  );
  return [...(requested ?? [])].every(
    ([path, type]) =>
      found?.get(path) === type || (isRelation(type) && isRelation(found?.get(path) ?? '')),
  );
}

const automatic: ReadonlySet<string> = new Set(['_id', '__v', 'createdAt', 'updatedAt']);

/** The edited fields whose columns are there and are what they were. */
function keptFields(
  columns: FieldMap,
  requested: FieldMap,
): { readonly fields: FieldMap; readonly lost: readonly string[] } {
  const present = Object.entries(requested).filter(([name]) => Object.hasOwn(columns, name));
  const lost = present.filter(([name, input]) => !fits(columns, name, input)).map(([name]) => name);
  // An edit that was lost does not hide the column.
  const fields = present.map(([name, input]): [string, FieldInput] => [
    name,
    lost.includes(name) ? (columns[name] ?? input) : input,
  ]);
  return { fields: Object.fromEntries(fields), lost };
}

/** What a relation leads to is decided by the table, whatever the schema there is called. */
const isRelation = (signature: string): boolean => signature.startsWith('relation:');

/** Throws 400 for names that cannot be. */
function withNames(
  inferred: InferredTable,
  renames: Readonly<Record<string, string>>,
): InferredTable {
  const names = new Map(Object.entries(renames).filter(([from]) => inferred.mapping.columns[from]));
  if (names.size === 0) return inferred;
  const problems = renameProblems(inferred, names);
  if (problems.length > 0) throw invalidSchema(problems);
  const to = (field: string): string => names.get(field) ?? field;
  const keys = <V>(record: Readonly<Record<string, V>>): Record<string, V> =>
    Object.fromEntries(Object.entries(record).map(([field, value]) => [to(field), value]));
  const { mapping, layout } = inferred;
  return {
    ...inferred,
    fields: keys(inferred.fields),
    keyTypes: keys(inferred.keyTypes),
    mapping: {
      ...mapping,
      columns: keys(mapping.columns),
      key: mapping.key.map(to),
      rules: mapValues(mapping.rules, (fields) => fields.map(to)),
    },
    indexes: inferred.indexes.map(
      (index): DescribedIndex => ({ ...index, fields: index.fields.map(to) }),
    ),
    foreignKeys: inferred.foreignKeys.map(
      (key): DescribedKey => (key.field === undefined ? key : { ...key, field: to(key.field) }),
    ),
    layout: {
      indexes: mapValues(layout.indexes, (index) => ({ ...index, columns: index.columns.map(to) })),
      foreignKeys: mapValues(layout.foreignKeys, (key) => ({ ...key, column: to(key.column) })),
    },
  };
}

const mapValues = <V>(
  record: Readonly<Record<string, V>>,
  change: (value: V) => V,
): Record<string, V> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));

function renameProblems({ mapping }: InferredTable, names: ReadonlyMap<string, string>): Problem[] {
  const after = Object.keys(mapping.columns).map((field) => names.get(field) ?? field);
  return [...names].flatMap(([from, to]): Problem[] => {
    const twice =
      after.indexOf(to) < after.lastIndexOf(to)
        ? `there is a field "${shortName(to)}" already`
        : undefined;
    const reserved = automatic.has(to) ? `"${to}" is made by the platform` : undefined;
    const message = twice ?? reserved ?? fieldNameProblem(to, true);
    return message === undefined
      ? []
      : [{ path: `renames.${shortName(from)}`, rule: 'name', message }];
  });
}

/** Names what tells records apart where the database does not. Such records can be read by id, not written. Throws 400. */
function withKey(inferred: InferredTable, key: readonly string[]): InferredTable {
  const { mapping, keyTypes } = inferred;
  if (mapping.writable) throw keyProblem('the table has a key of its own');
  const types = key.map((field) => keyTypes[field]);
  const missing = key.find((_, i) => types[i] === undefined);
  if (missing !== undefined)
    throw keyProblem(`"${shortName(missing)}" is not a field whose values can make an id`);
  if (new Set(key).size < key.length || key.length > 8)
    throw keyProblem('has up to 8 fields, each once');
  return {
    ...inferred,
    mapping: {
      ...mapping,
      key,
      columns: keyedColumns(mapping, new Map(key.map((field, i) => [field, types[i]]))),
    },
  };
}

const keyProblem = (message: string) => invalidSchema([{ path: 'key', rule: 'key', message }]);

function keyedColumns(
  { columns }: TableMapping,
  types: ReadonlyMap<string, KeyType | undefined>,
): TableMapping['columns'] {
  return Object.fromEntries(
    Object.entries(columns).map(([field, column]): [string, MappedColumn] => {
      const keyType = types.get(field);
      return [field, keyType === undefined ? column : { ...column, keyType }];
    }),
  );
}
