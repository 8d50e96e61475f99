/** The stored form of a schema and how it is read, written and compiled. */
import { createHash } from 'node:crypto';
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { FieldMap, ModelOptions } from '../language/definition.ts';
import { mergedFields, type SchemaExtension } from '../language/extension.ts';
import { type Field, type ObjectField, relationOf } from '../language/field.ts';
import type { ResolvedOptions } from '../language/options.ts';
import { parseFields } from '../language/parse.ts';
import { type KeyType, platformKey, type RecordKey } from '../language/record-key.ts';
import { historyOf, ownedTree, softDeleteOf } from '../language/record-options.ts';
import {
  keyOf,
  mappedTree,
  relationName,
  sourceText,
  type TableMapping,
} from '../mapping/table-mapping.ts';
import type { CompiledSchema, DataChange, DroppedFields } from './compiled.ts';
import { boundedText, fieldIndexes, resolveIndex } from './index-definition.ts';
import { deletedColumn, type IndexLayout, type TableLayout, tableName } from './layout.ts';
import { recordShapes } from './shapes.ts';

export type StoredOptions = ModelOptions & {
  readonly timestamps: boolean;
  readonly conduit: ResolvedOptions;
};

/** One row of `penstock.declared_schemas`. */
export interface Declaration {
  readonly id: string;
  readonly name: string;
  readonly ownerModule: string;
  readonly parentSchema: string | null;
  /** As written, without the automatic fields. */
  readonly fields: FieldMap;
  readonly extensions: readonly SchemaExtension[];
  readonly modelOptions: StoredOptions;
  /** What the table has now. */
  readonly layout: TableLayout;
  readonly dropped: DroppedFields;
  /** What its changes did to stored records, oldest first. */
  readonly changes: readonly DataChange[];
  /** Of the definition that a module gave; empty for schemas of admins. */
  readonly checksum: string;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** The declaration is gone, the table was kept. */
  readonly removed: boolean;
  /** Why it cannot be used; the parts that cannot be read are empty here (damaged-declaration.ts). Never stored. */
  readonly problem?: string;
}

/** Every declaration, removed ones included, in one query. */
export async function loadDeclarations(database: Queryable): Promise<Declaration[]> {
  const { rows } = await database.query<Declaration>(sql`
    select id, name, owner_module as "ownerModule", parent_schema as "parentSchema", fields, extensions,
      model_options as "modelOptions", layout, dropped, changes, checksum, version,
      created_at as "createdAt", updated_at as "updatedAt", removed_at is not null as removed
    from penstock.declared_schemas order by name`);
  return rows;
}

export async function saveDeclaration(database: Queryable, d: Declaration): Promise<void> {
  await database.query(sql`
    insert into penstock.declared_schemas (id, name, owner_module, parent_schema, fields, extensions, model_options, layout,
      dropped, changes, checksum, version, created_at, updated_at, removed_at)
    values (${d.id}, ${d.name}, ${d.ownerModule}, ${d.parentSchema}, ${JSON.stringify(d.fields)}, ${JSON.stringify(d.extensions)},
      ${JSON.stringify(d.modelOptions)}, ${JSON.stringify(d.layout)}, ${JSON.stringify(d.dropped)}, ${JSON.stringify(d.changes)}, ${d.checksum}, ${d.version},
      ${d.createdAt}, ${d.updatedAt}, ${d.removed ? new Date() : null})
    on conflict (lower(name)) do update set id = excluded.id, name = excluded.name, owner_module = excluded.owner_module,
      fields = excluded.fields, extensions = excluded.extensions, model_options = excluded.model_options,
      layout = excluded.layout, dropped = excluded.dropped, changes = excluded.changes, checksum = excluded.checksum, version = excluded.version,
      created_at = excluded.created_at, updated_at = excluded.updated_at, removed_at = excluded.removed_at`);
}

export async function forgetDeclaration(database: Queryable, name: string): Promise<void> {
  await database.query(sql`delete from penstock.declared_schemas where name = ${name}`);
}

/** The normalised tree of all fields of a stored (hence valid) declaration. */
export function treeOf(declaration: Described): ObjectField {
  const { tree } = parseFields(mergedFields(declaration));
  return mappedTree(
    boundedText(tree, declaredIndexes(declaration, tree)),
    declaration.layout?.mapping,
  );
}

type Described = Pick<Declaration, 'fields' | 'extensions' | 'modelOptions'> & {
  readonly layout?: TableLayout;
};

/** The indexes that the declaration asks for by itself, and not only through what its fields are. */
export function declaredIndexes(declaration: Described, tree: ObjectField): readonly IndexLayout[] {
  const definitions = [
    ...fieldIndexes(mergedFields(declaration)),
    ...(declaration.modelOptions.indexes ?? []),
  ];
  return definitions.flatMap((definition) => resolveIndex(definition, tree, '').layout ?? []);
}

export const checksumOf = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** A field that compares as one value. */
const isSortable = (field: Field): boolean =>
  !field.hidden &&
  field.kind !== 'json' &&
  field.kind !== 'array' &&
  field.kind !== 'object' &&
  field.kind !== 'vector';

/** Everything that the platform derives from a declaration. `exists`: schemas that are live now. */
export function compileDeclaration(
  declaration: Declaration,
  exists: (name: string) => boolean,
): CompiledSchema {
  const { timestamps, conduit } = declaration.modelOptions;
  const tree = ownedTree(treeOf(declaration), conduit.owner);
  const relations = new Map<string, { model: string; many: boolean }>();
  const { mapping } = declaration.layout;
  const key = mapping ? keyOf(mapping) : platformKey;
  const sortable = new Set([
    ...ordinals(mapping, key),
    ...(timestamps ? ['createdAt', 'updatedAt'] : []),
  ]);
  for (const [name, field] of tree.fields) {
    const relation = relationOf(field);
    if (relation) relations.set(name, { model: relation.field.model, many: relation.many });
    if (isSortable(field)) sortable.add(name);
  }
  const fields = visibleFields(declaration);
  const table = mapping ? relationName(mapping.source) : tableName(declaration.name);
  const softDelete = softDeleteOf(conduit);
  const targets = new Set([...relations.values()].map(({ model }) => model));
  return {
    _id: declaration.id,
    name: declaration.name,
    parentSchema: declaration.parentSchema,
    fields,
    extensions: declaration.extensions,
    compiledFields:
      declaration.extensions.length === 0
        ? fields
        : visibleFields({ ...declaration, fields: mergedFields(declaration) }),
    modelOptions: declaration.modelOptions,
    ownerModule: declaration.ownerModule,
    collectionName: mapping ? collectionName(mapping) : declaration.name,
    createdAt: declaration.createdAt.toISOString(),
    updatedAt: declaration.updatedAt.toISOString(),
    __v: declaration.version,
    shapes: recordShapes(declaration.name, tree, { timestamps, key, mapping }),
    relations,
    pendingRelations: [...targets].filter((model) => !exists(model)).sort(),
    tree,
    droppedFields: Object.keys(declaration.dropped).sort(),
    dropped: declaration.dropped,
    changes: declaration.changes,
    table,
    rows: mapping
      ? sourceText(mapping)
      : softDelete
        ? `(select * from ${table} where "${deletedColumn}" is null)`
        : table,
    mapping,
    key,
    softDelete,
    history: historyOf(conduit),
    layout: declaration.layout,
    sortable,
    ...(declaration.problem === undefined ? {} : { problem: declaration.problem }),
  };
}

/** Fields of every record that can be sorted by. Versions of rows of others have no order, and some have no id. */
const ordinals = (mapping: TableMapping | undefined, key: RecordKey): readonly string[] =>
  mapping ? (key.length > 0 ? ['_id'] : []) : ['_id', '__v'];

/** Tables outside of `public` are called with their schema. */
const collectionName = ({ source }: TableMapping): string =>
  source.schema === 'public' ? source.name : `${source.schema}.${source.name}`;

function visibleFields({ fields, modelOptions, layout }: Declaration): FieldMap {
  const id =
    layout.mapping === undefined || keyOf(layout.mapping).join() === ('uuid' satisfies KeyType);
  return {
    ...(id && { _id: 'ObjectId' }),
    ...fields,
    ...(modelOptions.timestamps && { createdAt: 'Date', updatedAt: 'Date' }),
  };
}
