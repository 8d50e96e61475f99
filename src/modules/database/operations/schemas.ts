/** One schema: reading, declaring, changing and removing it. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { FieldMap, IndexDefinition } from '../../../data/schema/language/definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import { indexShape, platformOptionsShape } from '../../../data/schema/language/options.ts';
import type { SchemaChange } from '../../../data/schema/plan/schema-request.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { errors, invalid, relocated } from '../../../kernel/errors.ts';
import {
  etagOf,
  expectedVersion,
  ifMatch,
  renditionOf,
} from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { databaseErrors } from '../errors.ts';
import { dataChange } from '../services/imported-schema.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { dryRun, PlanView, planView, SchemaView, schemaView } from '../services/schema-views.ts';

export const schemaOperations = (admin: SchemaAdmin): readonly Operation[] => [
  get(admin),
  create(admin),
  replace(admin),
  change(admin),
  remove(admin),
  toggle(admin),
  permissions(admin),
];

const {
  SCHEMA_NOT_FOUND,
  SCHEMA_EXISTS,
  SCHEMA_OWNED,
  SCHEMA_TYPES_INVALID,
  SCHEMA_DATA_CONFLICT,
  SCHEMA_BUSY,
} = schemaErrors;
const { FIELD_IN_USE, EXTENSION_CONFLICT } = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });
const changeErrors = [
  SCHEMA_NOT_FOUND,
  SCHEMA_OWNED,
  SCHEMA_TYPES_INVALID,
  SCHEMA_DATA_CONFLICT,
  SCHEMA_BUSY,
  databaseErrors.AUTHORIZATION_MISSING,
  databaseErrors.ADOPTION_MISSING,
];
/** A misspelt switch must not be dropped silently: it may be the one that closes the schema. */
export const optionsBody = Type.Optional(
  Type.Object(platformOptionsShape.properties, {
    additionalProperties: false,
    closed: 'all',
    description: 'Client routes, logins, row authorization, trash and history',
  }),
);
const indexes = Type.Optional(
  Type.Array(indexShape, {
    maxItems: 32,
    description: 'Indexes over several fields, of texts, or of some records',
  }),
);
const dryRunQuery = Type.Object({ dryRun });
const SchemaOrPlan = Type.Union([SchemaView, PlanView]);

/** The body of a change as the registry takes it. The field map is checked there, where its places can be named. */
export const changeOf = (body: {
  readonly fields?: Record<string, unknown>;
  readonly conduitOptions?: SchemaChange['options'];
  readonly renames?: SchemaChange['renames'];
  readonly backfill?: SchemaChange['backfill'];
}): SchemaChange => ({
  ...(body.fields && { fields: body.fields as FieldMap }),
  ...(body.conduitOptions && { options: body.conduitOptions }),
  ...(body.renames && { renames: body.renames }),
  ...(body.backfill && { backfill: body.backfill }),
});

/** Changes a schema, or shows what that would do. */
function changed(
  admin: SchemaAdmin,
  caller: Caller,
  { id, change, dryRun: dry = false }: ChangeRequest,
) {
  admin.get(id);
  return inBody(async () => {
    if (dry)
      return planView(await admin.plan(caller, { kind: 'update', changes: [{ id, change }] }));
    return schemaReply(admin, await admin.update(caller, id, change));
  });
}

/** A schema with its ETag. Others have a part in how it is shown: relations may lead to what does not exist yet. */
export function schemaReply(admin: Pick<SchemaAdmin, 'warnings'>, schema: CompiledSchema): Reply {
  const view = schemaView(schema, admin.warnings(schema));
  return Reply.value(view, { etag: etagOf(schema.__v, renditionOf(JSON.stringify(view))) });
}

/** A schema is stored with `modelOptions`; the bodies of these routes have what is in them elsewhere. */
export async function inBody<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw relocated(error, (path) =>
      path.replace(/^modelOptions\.conduit\b/, 'conduitOptions').replace(/^modelOptions\./, ''),
    );
  }
}

interface ChangeRequest {
  readonly id: string;
  readonly change: SchemaChange;
  readonly dryRun?: boolean;
}

const get = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.get',
    method: 'GET',
    path: '/database/schemas/:id',
    input: { params },
    output: SchemaView,
    errors: [SCHEMA_NOT_FOUND],
    summary: 'Read a schema',
    description: 'The ETag header has its version, for If-Match.',
    handler: (_, { params: { id } }) => schemaReply(admin, admin.get(id)),
  });

const create = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.create',
    method: 'POST',
    path: '/database/schemas',
    input: {
      query: dryRunQuery,
      body: Type.Object({
        name: Type.String({
          maxLength: 1_024,
          description: 'Letters, digits and _; it is in the paths',
        }),
        fields: fieldMapShape,
        conduitOptions: optionsBody,
        timestamps: Type.Optional(
          Type.Boolean({ default: true, description: 'Records have createdAt and updatedAt' }),
        ),
        indexes,
      }),
    },
    output: SchemaOrPlan,
    errors: [SCHEMA_EXISTS, ...changeErrors],
    summary: 'Declare a schema',
    description: 'Its client routes are there, on every node, when the answer comes.',
    async handler({ caller }, { body: { name, timestamps, indexes: given, ...body }, query }) {
      const input = {
        name,
        fields: body.fields as FieldMap,
        timestamps: timestamps ?? true,
        ...changeOf(body),
        ...(given && { indexes: given as readonly IndexDefinition[] }),
      };
      return inBody(async () => {
        if (query.dryRun) return planView(await admin.plan(caller, { kind: 'create', input }));
        return schemaReply(admin, await admin.create(caller, input));
      });
    },
  });

const replace = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.replace',
    method: 'PUT',
    path: '/database/schemas/:id',
    input: {
      params,
      query: dryRunQuery,
      headers: ifMatch,
      body: Type.Object({ fields: fieldMapShape, conduitOptions: optionsBody, ...dataChange }),
    },
    output: SchemaOrPlan,
    errors: [...changeErrors, FIELD_IN_USE, EXTENSION_CONFLICT, errors.PRECONDITION_FAILED],
    summary: 'Replace the fields of a schema',
    description:
      'Fields that are left out are hidden; their data is kept and comes back with them.',
    async handler({ caller }, { params: { id }, query, headers, body }) {
      return changed(admin, caller, {
        id,
        change: { ...changeOf(body), ...expectedVersion(headers['if-match']) },
        ...query,
      });
    },
  });

const change = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.change',
    method: 'PATCH',
    path: '/database/schemas/:id',
    input: {
      params,
      query: dryRunQuery,
      headers: ifMatch,
      body: Type.Object({
        conduitOptions: optionsBody,
        fields: Type.Optional(fieldMapShape),
        ...dataChange,
      }),
    },
    output: SchemaOrPlan,
    errors: [...changeErrors, FIELD_IN_USE, EXTENSION_CONFLICT, errors.PRECONDITION_FAILED],
    summary: 'Change the options of a schema',
    description: 'With `fields` it acts like PUT; that use is deprecated.',
    async handler({ caller }, { params: { id }, query, headers, body }) {
      if (Object.keys(changeOf(body)).length === 0)
        throw invalid('conduitOptions', 'required', 'is required');
      return changed(admin, caller, {
        id,
        change: { ...changeOf(body), ...expectedVersion(headers['if-match']) },
        ...query,
      });
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
        deleteData: Type.Optional(
          Type.Boolean({ default: false, description: 'Also destroy the table and its records' }),
        ),
        dryRun,
      }),
    },
    output: Type.Union([Type.Object({ result: Type.String() }), PlanView]),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, databaseErrors.SCHEMA_IN_USE],
    summary: 'Remove a schema',
    description:
      'Without `deleteData` the records stay and are there again when a schema of the same name is declared.',
    async handler(
      { caller },
      { params: { id }, query: { deleteData = false, dryRun: dry = false } },
    ) {
      admin.get(id);
      if (dry) return planView(await admin.plan(caller, { kind: 'remove', ids: [id], deleteData }));
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
      await admin.setClientRoutes(caller, [id], { enabled });
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
      body: Type.Object(
        {
          extendable: Type.Optional(Type.Boolean({ description: 'Other modules may add fields' })),
          canCreate: Type.Optional(
            Type.Boolean({ description: 'Other modules may create records' }),
          ),
          canModify: Type.Optional(
            Type.Enum(['Everything', 'Nothing', 'ExtensionOnly'], {
              description: 'What other modules may change',
            }),
          ),
          canDelete: Type.Optional(
            Type.Boolean({ description: 'Other modules may delete records' }),
          ),
        },
        { closed: 'all' },
      ),
    },
    output: Type.Object({ result: Type.String() }),
    errors: changeErrors,
    summary: 'Set what other modules may do with a schema',
    async handler({ caller }, { params: { id }, body }) {
      await admin.update(caller, id, { options: { permissions: body } });
      return 'Schema permissions updated successfully';
    },
  });
