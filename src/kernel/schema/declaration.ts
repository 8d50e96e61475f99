/** The stored form of a schema and how it is read, written and compiled. */
import { createHash } from 'node:crypto';
import type { Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { CompiledSchema } from './compiled.ts';
import type { FieldMap, ModelOptions } from './definition.ts';
import { tableName } from './diff.ts';
import { type Field, type ObjectField, relationOf } from './field.ts';
import type { TableLayout } from './layout.ts';
import type { ResolvedOptions } from './options.ts';
import { parseFields } from './parse.ts';
import { recordShapes } from './shapes.ts';

export type StoredOptions = ModelOptions & { readonly timestamps: boolean; readonly conduit: ResolvedOptions };

/** One row of `penstock.declared_schemas`. */
export interface Declaration {
  readonly id: string;
  readonly name: string;
  readonly ownerModule: string;
  readonly parentSchema: string | null;
  /** As written, without the automatic fields. */
  readonly fields: FieldMap;
  readonly extensions: readonly unknown[];
  readonly modelOptions: StoredOptions;
  /** What the table has now. */
  readonly layout: TableLayout;
  /** Type signature of each field that was taken out, by dotted path. */
  readonly dropped: Readonly<Record<string, string>>;
  /** Of the definition that a module gave; empty for schemas of admins. */
  readonly checksum: string;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** The declaration is gone, the table was kept. */
  readonly removed: boolean;
}

/** Every declaration, removed ones included, in one query. */
export async function loadDeclarations(database: Queryable): Promise<Declaration[]> {
  const { rows } = await database.query<Declaration>(sql`
    select id, name, owner_module as "ownerModule", parent_schema as "parentSchema", fields, extensions,
      model_options as "modelOptions", layout, dropped, checksum, version,
      created_at as "createdAt", updated_at as "updatedAt", removed_at is not null as removed
    from penstock.declared_schemas order by name`);
  return rows;
}

export async function saveDeclaration(database: Queryable, d: Declaration): Promise<void> {
  await database.query(sql`
    insert into penstock.declared_schemas (id, name, owner_module, parent_schema, fields, extensions, model_options, layout,
      dropped, checksum, version, created_at, updated_at, removed_at)
    values (${d.id}, ${d.name}, ${d.ownerModule}, ${d.parentSchema}, ${JSON.stringify(d.fields)}, ${JSON.stringify(d.extensions)},
      ${JSON.stringify(d.modelOptions)}, ${JSON.stringify(d.layout)}, ${JSON.stringify(d.dropped)}, ${d.checksum}, ${d.version},
      ${d.createdAt}, ${d.updatedAt}, ${d.removed ? new Date() : null})
    on conflict (lower(name)) do update set id = excluded.id, name = excluded.name, owner_module = excluded.owner_module,
      fields = excluded.fields, extensions = excluded.extensions, model_options = excluded.model_options,
      layout = excluded.layout, dropped = excluded.dropped, checksum = excluded.checksum, version = excluded.version,
      created_at = excluded.created_at, updated_at = excluded.updated_at, removed_at = excluded.removed_at`);
}

export async function forgetDeclaration(database: Queryable, name: string): Promise<void> {
  await database.query(sql`delete from penstock.declared_schemas where name = ${name}`);
}

/** The normalised tree of a stored (hence valid) field map. */
export const treeOf = (declaration: Pick<Declaration, 'fields'>): ObjectField => parseFields(declaration.fields).tree;

export const checksumOf = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');

/** A field that compares as one value. */
const isSortable = (field: Field): boolean =>
  !field.hidden && field.kind !== 'json' && field.kind !== 'array' && field.kind !== 'object' && field.kind !== 'vector';

/** Everything that the platform derives from a declaration. `exists`: schemas that are live now. */
export function compileDeclaration(declaration: Declaration, exists: (name: string) => boolean): CompiledSchema {
  const tree = treeOf(declaration);
  const { timestamps } = declaration.modelOptions;
  const relations = new Map<string, { model: string; many: boolean }>();
  const sortable = new Set(['_id', '__v', ...(timestamps ? ['createdAt', 'updatedAt'] : [])]);
  for (const [name, field] of tree.fields) {
    const relation = relationOf(field);
    if (relation) relations.set(name, { model: relation.field.model, many: relation.many });
    if (isSortable(field)) sortable.add(name);
  }
  const fields = shownFields(declaration);
  const targets = new Set([...relations.values()].map(({ model }) => model));
  return {
    _id: declaration.id,
    name: declaration.name,
    parentSchema: declaration.parentSchema,
    fields,
    extensions: declaration.extensions,
    compiledFields: fields,
    modelOptions: declaration.modelOptions,
    ownerModule: declaration.ownerModule,
    collectionName: declaration.name,
    createdAt: declaration.createdAt.toISOString(),
    updatedAt: declaration.updatedAt.toISOString(),
    __v: declaration.version,
    shapes: recordShapes(declaration.name, tree, { timestamps }),
    relations,
    pendingRelations: [...targets].filter((model) => !exists(model)).sort(),
    tree,
    droppedFields: Object.keys(declaration.dropped).sort(),
    table: tableName(declaration.name),
    layout: declaration.layout,
    sortable,
  };
}

function shownFields({ fields, modelOptions }: Declaration): FieldMap {
  return { _id: 'ObjectId', ...fields, ...(modelOptions.timestamps && { createdAt: 'Date', updatedAt: 'Date' }) };
}
