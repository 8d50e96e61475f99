/** Several schemas at once: all of a change happens, or nothing. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { crudOperationsShape } from '../../../data/schema/language/options.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { databaseErrors } from '../errors.ts';
import {
  ImportedExtension,
  ImportedSchema,
  newExtensionOf,
  newSchemaOf,
} from '../services/imported-schema.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { dryRun, PlanView, planView, SchemaView, schemaView } from '../services/schema-views.ts';

export const schemaBatchOperations = (
  admin: SchemaAdmin,
  schemas: SchemaRegistry,
): readonly Operation[] => [
  removeMany(admin, schemas),
  toggleMany(admin),
  importAll(admin, schemas),
];

const {
  SCHEMA_NOT_FOUND,
  SCHEMA_OWNED,
  SCHEMA_BUSY,
  SCHEMA_EXISTS,
  SCHEMA_TYPES_INVALID,
  SCHEMA_DATA_CONFLICT,
} = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const ids = Type.Array(Type.String({ maxLength: 64 }), {
  minItems: 1,
  maxItems: 1_000,
  description: 'Their ids',
});

const removeMany = (admin: SchemaAdmin, schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.deleteMany',
    method: 'DELETE',
    path: '/database/schemas',
    input: {
      query: Type.Object({
        ids,
        deleteData: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Also destroy the tables and their records',
          }),
        ),
        dryRun,
      }),
    },
    output: Type.Union([Type.Object({ result: Type.String() }), PlanView]),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, databaseErrors.SCHEMA_IN_USE],
    summary: 'Remove several schemas',
    async handler({ caller }, { query: { ids: given, deleteData = false, dryRun: dry = false } }) {
      if (dry)
        return planView(
          await admin.plan(caller, {
            kind: 'remove',
            ids: given.filter((id) => schemas.byId(id)),
            deleteData,
          }),
        );
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
    input: {
      body: Type.Object({
        ids,
        enabled: Type.Boolean({ description: 'Whether they have client routes' }),
        crudOperations: Type.Optional(crudOperationsShape),
      }),
    },
    output: Type.Object({ updatedSchemas: Type.Array(SchemaView), enabled: Type.Boolean() }),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY],
    summary: 'Switch the client routes of several schemas on or off',
    description:
      'With `crudOperations` also which of their operations there are: those of imported tables are off until then.',
    async handler({ caller }, { body: { ids: given, enabled, crudOperations } }) {
      const cms = { enabled, ...(crudOperations && { crudOperations }) };
      return {
        updatedSchemas: (await admin.setClientRoutes(caller, given, cms)).map((schema) =>
          schemaView(schema, admin.warnings(schema)),
        ),
        enabled,
      };
    },
  });

const importAll = (admin: SchemaAdmin, schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.import',
    about: { schemas: 'inside', extensions: 'inside' },
    method: 'POST',
    path: '/database/schemas/import',
    mcp: false,
    bodyLimit: 8 * 1024 * 1024,
    input: {
      query: Type.Object({ dryRun }),
      body: Type.Object({
        schemas: Type.Array(ImportedSchema, { maxItems: 1_000 }),
        extensions: Type.Optional(Type.Array(ImportedExtension, { maxItems: 1_000 })),
      }),
    },
    output: Type.Union([Type.Object({ result: Type.String() }), PlanView]),
    errors: [
      SCHEMA_EXISTS,
      SCHEMA_OWNED,
      SCHEMA_BUSY,
      SCHEMA_TYPES_INVALID,
      SCHEMA_DATA_CONFLICT,
      schemaErrors.EXTENSION_TARGET_MISSING,
      schemaErrors.EXTENSION_CONFLICT,
      schemaErrors.SCHEMA_NOT_EXTENDABLE,
      databaseErrors.AUTHORIZATION_MISSING,
      databaseErrors.ADOPTION_MISSING,
    ],
    summary: 'Import schemas',
    description:
      'Takes what the export gives. New ones are declared, known ones become what the import says; what is not listed stays.',
    async handler({ caller }, { query: { dryRun: dry = false }, body }) {
      const request = {
        kind: 'import',
        schemas: body.schemas.map((schema, i) => newSchemaOf(schemas, schema, `schemas.${i}`)),
        extensions: (body.extensions ?? []).map((extension, i) =>
          newExtensionOf(extension, `extensions.${i}`),
        ),
      } as const;
      if (dry) return planView(await admin.plan(caller, request));
      await admin.import(caller, request);
      return 'Schemas imported successfully';
    },
  });
