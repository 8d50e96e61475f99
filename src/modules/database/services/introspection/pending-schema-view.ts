/** A pending schema as the admin surface shows it. */
import type {
  FieldInput,
  FieldMap,
  FieldOptions,
  PlatformOptions,
} from '../../../../data/schema/language/definition.ts';
import { resolveOptions } from '../../../../data/schema/language/options.ts';
import {
  hasTimestamps,
  type QualifiedName,
} from '../../../../data/schema/mapping/table-mapping.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { type EditedTable, edited } from './edits.ts';
import type { DescribedIndex, DescribedKey, SkippedColumn } from './inferred.ts';
import { isImported } from './names.ts';
import type { PendingRow } from './pending-store.ts';

export interface PendingSchema {
  readonly _id: string;
  readonly name: string;
  readonly fields: FieldMap;
  readonly modelOptions: { readonly timestamps: boolean; readonly conduit: PlatformOptions };
  readonly description: string | null;
  readonly source: { readonly schema: string; readonly table: string; readonly kind: string };
  /** Fields that ids are made of. */
  readonly key: readonly string[];
  readonly readOnly: boolean;
  /** The schema that is laid over the table already, and would be changed. */
  readonly importedAs: string | null;
  readonly skippedColumns: readonly SkippedColumn[];
  readonly foreignKeys: readonly DescribedKey[];
  readonly indexes: readonly DescribedIndex[];
  readonly warnings: readonly string[];
  readonly createdAt: string;
  readonly updatedAt: string;
}

const off = { enabled: false, authenticated: false };

/** Nothing is offered to anybody until an admin says so (spec/database.md 5.2). */
export const importedOptions: PlatformOptions = {
  cms: { enabled: false, crudOperations: { create: off, read: off, update: off, delete: off } },
  permissions: { extendable: false, canCreate: false, canModify: 'Nothing', canDelete: false },
  authorization: { enabled: false },
  imported: true,
};

export interface ShowContext {
  readonly schemas: SchemaRegistry;
  /** The name of the schema over a table. */
  readonly names: (table: QualifiedName) => string | undefined;
}

/** One that a hand in the database has damaged is listed beside the others: introspection finds its table anew. */
export function pendingSchema(row: PendingRow, context: ShowContext): PendingSchema {
  try {
    return wholeSchema(row, context);
  } catch {
    return {
      ...{ _id: row.id, name: row.name, fields: {}, description: null },
      modelOptions: { timestamps: false, conduit: importedOptions },
      source: { schema: row.sourceSchema, table: row.sourceTable, kind: 'table' },
      ...{ key: [], readOnly: true, importedAs: null },
      ...{ skippedColumns: [], foreignKeys: [], indexes: [] },
      warnings: ['What is stored of it cannot be read: run the introspection again'],
      createdAt: row.createdAt.toISOString(),
      updatedAt: row.updatedAt.toISOString(),
    };
  }
}

function wholeSchema(row: PendingRow, { names, schemas }: ShowContext): PendingSchema {
  const { source, kind, writable } = row.inferred.mapping;
  const table = withModels(edited(row.inferred, row.edits), names);
  const imported = schemas.all().find((schema) => isImported(schema, source));
  const options = resolveOptions(
    row.edits.options ?? {},
    imported?.modelOptions.conduit ?? importedOptions,
    false,
  );
  return {
    _id: row.id,
    name: row.name,
    fields: table.fields,
    modelOptions: { timestamps: hasTimestamps(table.mapping), conduit: options },
    description: table.description,
    source: { schema: source.schema, table: source.name, kind },
    key: table.mapping.key,
    readOnly: !writable,
    importedAs: imported?.name ?? null,
    skippedColumns: table.skippedColumns,
    foreignKeys: table.foreignKeys,
    indexes: table.indexes,
    warnings: table.warnings,
    createdAt: row.createdAt.toISOString(),
    updatedAt: row.updatedAt.toISOString(),
  };
}

/** The table with relations that lead to the schemas by the names that they have by now. */
export function withModels(table: EditedTable, names: ShowContext['names']): EditedTable {
  const { columns } = table.mapping;
  const target = (field: string): string | undefined => {
    const references = columns[field]?.references;
    return references && names(references);
  };
  const renamed = (fields: FieldMap): FieldMap =>
    Object.fromEntries(
      Object.entries(fields).map(([field, input]): [string, FieldInput] => {
        const model = target(field);
        return [field, model !== undefined && isRelation(input) ? { ...input, model } : input];
      }),
    );
  const foreignKeys = Object.entries(table.layout.foreignKeys).map(([name, key]) => {
    return [name, { ...key, target: target(key.column) ?? key.target }] as const;
  });
  return {
    ...table,
    fields: renamed(table.fields),
    columns: renamed(table.columns),
    layout: { ...table.layout, foreignKeys: Object.fromEntries(foreignKeys) },
  };
}

const isRelation = (input: FieldInput): input is FieldOptions =>
  typeof input === 'object' && !Array.isArray(input) && (input as FieldOptions).type === 'Relation';
