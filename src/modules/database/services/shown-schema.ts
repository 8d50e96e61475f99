/** A schema as the admin surface shows it. */
import Type, { type Static } from 'typebox';
import { isOffered, needsUser } from '../../../data/records/access/operation-access.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../data/schema/compile/index-definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import type { CrudOperation } from '../../../data/schema/language/options.ts';

const instant = Type.String({ format: 'date-time' });

export const ShownExtension = Type.Object({
  fields: fieldMapShape,
  ownerModule: Type.String(),
  createdAt: instant,
  updatedAt: instant,
});

export const ShownSchema = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  parentSchema: Type.Union([Type.String(), Type.Null()]),
  fields: fieldMapShape,
  extensions: Type.Array(ShownExtension),
  compiledFields: fieldMapShape,
  modelOptions: Type.Record(Type.String(), Type.Unknown()),
  ownerModule: Type.String(),
  collectionName: Type.String(),
  createdAt: instant,
  updatedAt: instant,
  __v: Type.Integer(),
  pendingRelations: Type.Array(Type.String(), { description: 'Schemas that relations point to and that do not exist yet' }),
  droppedFields: Type.Array(Type.String(), { description: 'Fields that were taken out; their data is kept and comes back with them' }),
  warnings: Type.Array(Type.String(), { description: 'What an admin should look at' }),
});

export function shownSchema(schema: CompiledSchema): Static<typeof ShownSchema> {
  return {
    _id: schema._id,
    name: schema.name,
    parentSchema: schema.parentSchema,
    fields: schema.fields,
    extensions: schema.extensions.map((extension) => ({ ...extension })),
    compiledFields: schema.compiledFields,
    modelOptions: schema.modelOptions as unknown as Record<string, unknown>,
    ownerModule: schema.ownerModule,
    collectionName: schema.collectionName,
    createdAt: schema.createdAt,
    updatedAt: schema.updatedAt,
    __v: schema.__v,
    pendingRelations: [...schema.pendingRelations],
    droppedFields: [...schema.droppedFields],
    warnings: warningsOf(schema),
  };
}

function warningsOf(schema: CompiledSchema): string[] {
  const skipped = (schema.modelOptions.indexes ?? []).flatMap((index) => resolveIndex(index, schema.tree, '').skipped ?? []);
  return [
    ...openOperations(schema).map((name) => `"${name}" needs no authentication: anybody who reaches the client surface may do it`),
    ...schema.pendingRelations.map((name) => `"${name}" does not exist yet: relations to it are plain ids until it does`),
    ...skipped.map((reason) => `An index is not made: ${reason}`),
  ];
}

/** Writing operations that need no user. */
export const openOperations = (schema: CompiledSchema): CrudOperation[] =>
  (['create', 'update', 'delete'] as const).filter((operation) => isOffered(schema, operation) && !needsUser(schema, operation));
