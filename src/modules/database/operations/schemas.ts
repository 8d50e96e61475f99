/** One schema: reading, declaring, changing and removing it. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import type { FieldMap } from '../../../kernel/schema/definition.ts';
import { schemaErrors } from '../../../kernel/schema/errors.ts';
import { platformOptionsShape } from '../../../kernel/schema/options.ts';
import type { SchemaChange } from '../../../kernel/schema/registry.ts';
import { databaseErrors } from '../errors.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { fieldMap, ShownSchema, shownSchema } from '../services/shown-schema.ts';

export const schemaOperations = (admin: SchemaAdmin): readonly Operation[] => [
  get(admin),
  create(admin),
  replace(admin),
  change(admin),
  remove(admin),
  toggle(admin),
  permissions(admin),
  plan(admin),
];

const { SCHEMA_NOT_FOUND, SCHEMA_EXISTS, SCHEMA_OWNED, INVALID_SCHEMA_TYPES, SCHEMA_DATA_CONFLICT, SCHEMA_BUSY } = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64 }) });
const changeErrors = [
  SCHEMA_NOT_FOUND,
  SCHEMA_OWNED,
  INVALID_SCHEMA_TYPES,
  SCHEMA_DATA_CONFLICT,
  SCHEMA_BUSY,
  databaseErrors.AUTHORIZATION_MISSING,
  databaseErrors.ADOPTION_MISSING,
];
const options = Type.Optional(platformOptionsShape);

/** The body of a change as the registry takes it. The field map is checked there, where its places can be named. */
const changeOf = (body: {
  readonly fields?: Record<string, unknown>;
  readonly conduitOptions?: SchemaChange['options'];
}): SchemaChange => ({
  ...(body.fields && { fields: body.fields as FieldMap }),
  ...(body.conduitOptions && { options: body.conduitOptions }),
});

const get = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.get',
    method: 'GET',
    path: '/database/schemas/:id',
    input: { params },
    output: ShownSchema,
    errors: [SCHEMA_NOT_FOUND],
    summary: 'Read a schema',
    handler: (_, { params: { id } }) => shownSchema(admin.get(id)),
  });

const create = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.create',
    method: 'POST',
    path: '/database/schemas',
    input: {
      body: Type.Object({
        name: Type.String({ maxLength: 1_024 }),
        fields: fieldMap,
        conduitOptions: options,
        timestamps: Type.Optional(Type.Boolean({ default: true })),
      }),
    },
    output: ShownSchema,
    errors: [SCHEMA_EXISTS, ...changeErrors],
    summary: 'Declare a schema',
    description: 'Its client routes are there, on every node, when the answer comes.',
    async handler({ caller }, { body: { name, timestamps, ...body } }) {
      return shownSchema(
        await admin.create(caller, { name, fields: body.fields as FieldMap, timestamps: timestamps ?? true, ...changeOf(body) }),
      );
    },
  });

const replace = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.replace',
    method: 'PUT',
    path: '/database/schemas/:id',
    input: { params, body: Type.Object({ fields: fieldMap, conduitOptions: options }) },
    output: ShownSchema,
    errors: changeErrors,
    summary: 'Replace the fields of a schema',
    description: 'Fields that are left out are hidden; their data is kept and comes back with them.',
    handler: async ({ caller }, { params: { id }, body }) => shownSchema(await admin.update(caller, id, changeOf(body))),
  });

const change = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.change',
    method: 'PATCH',
    path: '/database/schemas/:id',
    input: { params, body: Type.Object({ conduitOptions: options, fields: Type.Optional(fieldMap) }) },
    output: ShownSchema,
    errors: changeErrors,
    summary: 'Change the options of a schema',
    description: 'With `fields` it acts like PUT; that use is deprecated.',
    async handler({ caller }, { params: { id }, body }) {
      if (!body.conduitOptions && !body.fields) throw invalid('conduitOptions', 'required', 'is required');
      return shownSchema(await admin.update(caller, id, changeOf(body)));
    },
  });

const remove = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.delete',
    method: 'DELETE',
    path: '/database/schemas/:id',
    input: {
      params,
      query: Type.Object({
        deleteData: Type.Optional(Type.Boolean({ default: false, description: 'Also destroy the table and its records' })),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, databaseErrors.SCHEMA_IN_USE],
    summary: 'Remove a schema',
    description: 'Without `deleteData` the records stay and are there again when a schema of the same name is declared.',
    async handler({ caller }, { params: { id }, query: { deleteData = false } }) {
      await admin.remove(caller, [id], { deleteData });
      return 'Schema successfully deleted';
    },
  });

const toggle = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.toggle',
    method: 'POST',
    path: '/database/schemas/:id/toggle',
    input: { params },
    output: Type.Object({ name: Type.String(), enabled: Type.Boolean() }),
    errors: changeErrors,
    summary: 'Switch the client routes of a schema on or off',
    async handler({ caller }, { params: { id } }) {
      const { name, modelOptions } = admin.get(id);
      const enabled = !modelOptions.conduit.cms.enabled;
      await admin.setEnabled(caller, [id], enabled);
      return { name, enabled };
    },
  });

const permissions = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.permissions',
    method: 'PATCH',
    path: '/database/schemas/:id/permissions',
    input: {
      params,
      body: Type.Object({
        extendable: Type.Optional(Type.Boolean()),
        canCreate: Type.Optional(Type.Boolean()),
        canModify: Type.Optional(Type.Enum(['Everything', 'Nothing', 'ExtensionOnly'])),
        canDelete: Type.Optional(Type.Boolean()),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: changeErrors,
    summary: 'Set what other modules may do with a schema',
    async handler({ caller }, { params: { id }, body }) {
      await admin.update(caller, id, { options: { permissions: body } });
      return 'Schema permissions updated successfully';
    },
  });

const plan = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.plan',
    method: 'POST',
    path: '/database/schemas/:id/plan',
    idempotency: false,
    input: { params, body: Type.Object({ fields: Type.Optional(fieldMap), conduitOptions: options }) },
    output: Type.Object({
      schema: Type.String(),
      steps: Type.Array(
        Type.Object({
          statement: Type.String(),
          summary: Type.String(),
          lock: Type.String({ description: 'Lock of PostgreSQL on the table' }),
          destructive: Type.Boolean(),
        }),
      ),
      destructive: Type.Boolean({ description: 'Some step destroys data' }),
    }),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, INVALID_SCHEMA_TYPES],
    summary: 'Show what a change of a schema would do',
    async handler({ caller }, { params: { id }, body }) {
      const { steps, ...rest } = await admin.plan(caller, id, changeOf(body));
      return { ...rest, steps: [...steps] };
    },
  });
