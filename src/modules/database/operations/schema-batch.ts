/** Several schemas at once: all of a change happens, or nothing. */
import Type, { type Static } from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import type { FieldMap, IndexDefinition, PlatformOptions } from '../../../kernel/schema/definition.ts';
import { adminOwner } from '../../../kernel/schema/draft.ts';
import { invalidSchema, schemaErrors } from '../../../kernel/schema/errors.ts';
import { checkModelOptions } from '../../../kernel/schema/options.ts';
import type { NewSchema, SchemaRegistry } from '../../../kernel/schema/registry.ts';
import { databaseErrors } from '../errors.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { fieldMap, ShownSchema, shownSchema } from '../services/shown-schema.ts';

export const schemaBatchOperations = (admin: SchemaAdmin, schemas: SchemaRegistry): readonly Operation[] => [
  removeMany(admin),
  toggleMany(admin),
  importAll(admin, schemas),
];

const { SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, SCHEMA_EXISTS, INVALID_SCHEMA_TYPES, SCHEMA_DATA_CONFLICT } = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const ids = Type.Array(Type.String({ maxLength: 64 }), { minItems: 1, maxItems: 1_000 });

const removeMany = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.deleteMany',
    method: 'DELETE',
    path: '/database/schemas',
    input: {
      query: Type.Object({
        ids,
        deleteData: Type.Optional(Type.Boolean({ default: false, description: 'Also destroy the tables and their records' })),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, databaseErrors.SCHEMA_IN_USE],
    summary: 'Remove several schemas',
    async handler({ caller }, { query: { ids: given, deleteData = false } }) {
      await admin.remove(caller, given, { deleteData });
      return 'Schemas successfully deleted';
    },
  });

const toggleMany = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.toggleMany',
    method: 'POST',
    path: '/database/schemas/toggle',
    input: { body: Type.Object({ ids, enabled: Type.Boolean() }) },
    output: Type.Object({ updatedSchemas: Type.Array(ShownSchema), enabled: Type.Boolean() }),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY],
    summary: 'Switch the client routes of several schemas on or off',
    async handler({ caller }, { body: { ids: given, enabled } }) {
      return { updatedSchemas: (await admin.setEnabled(caller, given, enabled)).map(shownSchema), enabled };
    },
  });

const ImportedSchema = Type.Object({
  name: Type.String({ maxLength: 1_024 }),
  fields: fieldMap,
  modelOptions: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  ownerModule: Type.Optional(Type.String({ maxLength: 64 })),
});

const importAll = (admin: SchemaAdmin, schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.import',
    method: 'POST',
    path: '/database/schemas/import',
    mcp: false,
    bodyLimit: 8 * 1024 * 1024,
    input: {
      body: Type.Object({
        schemas: Type.Array(ImportedSchema, { maxItems: 1_000 }),
        extensions: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 0 })),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: [SCHEMA_EXISTS, SCHEMA_OWNED, SCHEMA_BUSY, INVALID_SCHEMA_TYPES, SCHEMA_DATA_CONFLICT, databaseErrors.AUTHORIZATION_MISSING],
    summary: 'Import schemas',
    description: 'Takes what the export gives. New ones are declared, known ones changed; what is not listed stays.',
    async handler({ caller }, { body }) {
      await admin.import(
        caller,
        body.schemas.map((schema, i) => newSchemaOf(schemas, schema, i)),
      );
      return 'Schemas imported successfully';
    },
  });

function newSchemaOf(schemas: SchemaRegistry, imported: Static<typeof ImportedSchema>, index: number): NewSchema {
  const { name, fields, modelOptions = {}, ownerModule = adminOwner } = imported;
  const owner = schemas.get(name)?.ownerModule ?? ownerModule;
  if (owner !== adminOwner)
    throw SCHEMA_OWNED({ message: `schemas.${index}: ${name.slice(0, 64)} belongs to the module ${owner.slice(0, 64)}` });
  const faults = checkModelOptions(modelOptions, `schemas.${index}.modelOptions`);
  if (faults.length > 0) throw invalidSchema(faults);
  const { timestamps, conduit, indexes } = modelOptions as { timestamps?: boolean; conduit?: PlatformOptions; indexes?: IndexDefinition[] };
  if (Object.keys(fields).length === 0) throw invalid(`schemas.${index}.fields`, 'empty', 'needs at least one field');
  return {
    name,
    fields: fields as FieldMap,
    ...(timestamps !== undefined && { timestamps }),
    ...(conduit && { options: conduit }),
    ...(indexes && { indexes }),
  };
}
