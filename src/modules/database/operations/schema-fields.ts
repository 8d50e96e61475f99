/** Fields that are taken out, come back, or go for good. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DroppedFieldAdmin } from '../services/dropped-fields.ts';
import { dryRun, PlanView, planView, SchemaView, schemaView } from '../services/schema-views.ts';

export const schemaFieldOperations = (fields: DroppedFieldAdmin): readonly Operation[] => [
  list(fields),
  remove(fields),
  restore(fields),
];

const {
  SCHEMA_NOT_FOUND,
  SCHEMA_OWNED,
  SCHEMA_BUSY,
  FIELD_NOT_FOUND,
  FIELD_IN_USE,
  SCHEMA_DATA_CONFLICT,
  EXTENSION_CONFLICT,
} = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({
  id: Type.String({ maxLength: 64, description: 'Its id' }),
  field: Type.String({ maxLength: 512, description: 'Path; dots lead into nested fields' }),
});

const list = (fields: DroppedFieldAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.fields.dropped',
    method: 'GET',
    path: '/database/schemas/:id/fields/dropped',
    input: { params: Type.Object({ id: params.properties.id }) },
    output: Type.Object({
      fields: Type.Array(
        Type.Object({
          field: Type.String(),
          type: Type.String({ description: 'What its data is' }),
          definition: Type.Optional(Type.Unknown({ description: 'As it was declared' })),
          extension: Type.Optional(
            Type.String({ description: 'Owner of the extension that it was part of' }),
          ),
          droppedAt: Type.String({ format: 'date-time' }),
          purgeAfter: Type.Optional(
            Type.String({ format: 'date-time', description: 'When the configured retention ends' }),
          ),
        }),
      ),
    }),
    errors: [SCHEMA_NOT_FOUND],
    summary: 'List the fields that were taken out and whose data is kept',
    handler: (_, { params: { id } }) => ({ fields: [...fields.list(id)] }),
  });

const remove = (fields: DroppedFieldAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.fields.delete',
    method: 'DELETE',
    path: '/database/schemas/:id/fields/:field',
    input: {
      params,
      query: Type.Object({
        purge: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Destroy the data of a field that was taken out before',
          }),
        ),
        dryRun,
      }),
    },
    output: Type.Union([SchemaView, PlanView]),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_BUSY, FIELD_NOT_FOUND, FIELD_IN_USE],
    summary: 'Take a field out, or destroy the data of one that was',
    description:
      'A field that is there is only hidden: it can be restored. With `purge` its data goes, which takes a second call on purpose.',
    async handler(
      { caller },
      { params: { id, field }, query: { purge = false, dryRun: dry = false } },
    ) {
      const request = purge ? fields.purging(id, field) : fields.taking(id, field);
      return dry
        ? planView(await fields.plan(caller, request))
        : schemaView(await fields.apply(caller, request));
    },
  });

const restore = (fields: DroppedFieldAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.fields.restore',
    method: 'POST',
    path: '/database/schemas/:id/fields/:field/restore',
    input: {
      params,
      query: Type.Object({ dryRun }),
      body: Type.Optional(
        Type.Object({
          backfill: Type.Optional(
            Type.Unknown({ description: 'Value for records that have none' }),
          ),
        }),
      ),
    },
    output: Type.Union([SchemaView, PlanView]),
    errors: [
      SCHEMA_NOT_FOUND,
      SCHEMA_OWNED,
      SCHEMA_BUSY,
      FIELD_NOT_FOUND,
      FIELD_IN_USE,
      SCHEMA_DATA_CONFLICT,
      EXTENSION_CONFLICT,
    ],
    summary: 'Bring a field back with its data',
    async handler({ caller }, { params: { id, field }, query: { dryRun: dry = false }, body }) {
      const request = fields.restoring(id, field, body?.backfill);
      return dry
        ? planView(await fields.plan(caller, request))
        : schemaView(await fields.apply(caller, request));
    },
  });
