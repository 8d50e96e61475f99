/** Fields that are added to schemas of others (spec/database.md 5.8). */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { FieldMap } from '../../../data/schema/language/definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import { errors } from '../../../kernel/errors.ts';
import { expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { listRange, sorted } from '../services/listing.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { dryRun, ExtensionView, PlanView, planView, SchemaView } from '../services/schema-views.ts';
import { schemaReply } from './schemas.ts';

export const schemaExtensionOperations = (
  admin: SchemaAdmin,
  schemas: SchemaRegistry,
): readonly Operation[] => [set(admin), list(schemas)];

const {
  SCHEMA_NOT_FOUND,
  SCHEMA_INVALID,
  SCHEMA_BUSY,
  SCHEMA_TYPES_INVALID,
  EXTENSION_CONFLICT,
  SCHEMA_NOT_EXTENDABLE,
} = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

const set = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.extensions.set',
    about: { schemaId: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaId/extensions',
    input: {
      params: Type.Object({
        schemaId: Type.String({ maxLength: 64, description: 'Id of the schema' }),
      }),
      query: Type.Object({ dryRun }),
      headers: ifMatch,
      body: Type.Object({ fields: fieldMapShape }),
    },
    output: Type.Union([SchemaView, PlanView]),
    errors: [
      SCHEMA_NOT_FOUND,
      SCHEMA_INVALID,
      SCHEMA_BUSY,
      SCHEMA_TYPES_INVALID,
      EXTENSION_CONFLICT,
      SCHEMA_NOT_EXTENDABLE,
      errors.PRECONDITION_FAILED,
    ],
    summary: 'Add fields to a schema, also to one of a module',
    description:
      'Sets all fields of your extension: those that are left out are taken out, and their data is kept; `{}` takes the extension away. ' +
      'They can be neither required nor unique. Client routes, GraphQL and endpoints have them when the answer comes.',
    async handler(
      { caller },
      { params: { schemaId }, query: { dryRun: dry = false }, headers, body },
    ) {
      const { _id: id } = admin.get(schemaId);
      const seen = expectedVersion(headers['if-match']);
      const request = {
        kind: 'extend',
        id,
        owner: adminOwner,
        fields: body.fields as FieldMap,
        ...seen,
      } as const;
      if (dry) return planView(await admin.plan(caller, request));
      await admin.apply(caller, request);
      return schemaReply(admin, admin.get(schemaId));
    },
  });

const sortable = ['name', '_id', 'createdAt', 'updatedAt'] as const;

const list = (schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.extensions.list',
    method: 'GET',
    path: '/database/schemas/extensions',
    input: { query: Type.Object(listRange) },
    output: Type.Object({
      schemasExtensions: Type.Array(
        Type.Object({
          _id: Type.String({ format: 'uuid' }),
          name: Type.String(),
          extensions: Type.Array(ExtensionView),
        }),
      ),
      count: Type.Integer(),
    }),
    summary: 'List the schemas that have extensions',
    handler(_, { query: { skip = 0, limit = 25, sort } }) {
      const extended = schemas.all().filter(({ extensions }) => extensions.length > 0);
      const page = sorted(extended, sort, sortable).slice(skip, skip + limit);
      return {
        schemasExtensions: page.map(({ _id, name, extensions }) => ({
          _id,
          name,
          extensions: extensions.map((one) => ({ ...one })),
        })),
        count: extended.length,
      };
    },
  });
