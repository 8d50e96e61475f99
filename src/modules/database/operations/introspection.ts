/** Tables that are there already: found, looked through, and declared as schemas (spec/database.md 2.5). */

import Type, { type Static } from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { FieldMap, PlatformOptions } from '../../../data/schema/language/definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import { platformOptionsShape } from '../../../data/schema/language/options.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { cutText } from '../../../kernel/text.ts';
import { databaseErrors } from '../errors.ts';
import type { Edits } from '../services/introspection/edits.ts';
import type { FinalizeInput } from '../services/introspection/finalize.ts';
import type { Introspection } from '../services/introspection/introspection.ts';
import { pendingSorts } from '../services/introspection/pending-store.ts';

export const introspectionOperations = (introspection: Introspection): readonly Operation[] => [
  status(introspection),
  run(introspection),
  list(introspection),
  get(introspection),
  edit(introspection),
  finalize(introspection),
];

const { INTROSPECTION_RUNNING, TABLE_LIMIT_EXCEEDED, PENDING_SCHEMA_NOT_FOUND, NAME_EXISTS } =
  databaseErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit, mcp: false } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });
const texts = Type.Array(Type.String());
const count = Type.Integer({ minimum: 0 });

const PendingShape = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  name: Type.String({
    description:
      'Finalised, the schema is called `imp_<name>`; a name that you choose is taken as it is',
  }),
  fields: fieldMapShape,
  modelOptions: Type.Record(Type.String(), Type.Unknown()),
  description: Type.Union([Type.String(), Type.Null()], {
    description: 'The comment of the table',
  }),
  source: Type.Object({
    schema: Type.String(),
    table: Type.String(),
    kind: Type.String({ description: 'table, partitioned, view, materialized or foreign' }),
  }),
  key: Type.Array(Type.String(), { description: 'Fields that ids are made of' }),
  readOnly: Type.Boolean({ description: 'A view, or a table without a key' }),
  importedAs: Type.Union([Type.String(), Type.Null()], {
    description:
      'The schema that is laid over this table already: the table has changed, and finalising again takes that over',
  }),
  skippedColumns: Type.Array(
    Type.Object({ column: Type.String(), type: Type.String(), reason: Type.String() }),
    {
      description: 'Columns that cannot be served, and why',
    },
  ),
  foreignKeys: Type.Array(
    Type.Object({
      name: Type.String(),
      columns: texts,
      target: Type.Object({ schema: Type.String(), name: Type.String(), columns: texts }),
      field: Type.Optional(Type.String({ description: 'The Relation that it became' })),
      reason: Type.Optional(Type.String({ description: 'Why it became none' })),
    }),
  ),
  indexes: Type.Array(
    Type.Object({
      name: Type.String(),
      fields: Type.Array(Type.String(), {
        description: 'Empty for an index over expressions or columns that are not served',
      }),
      unique: Type.Boolean(),
      method: Type.String(),
      partial: Type.Boolean(),
    }),
  ),
  warnings: Type.Array(Type.String(), {
    description: 'What you should know before you finalise it',
  }),
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' }),
});

const status = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.status',
    method: 'GET',
    path: '/database/introspection',
    input: {},
    output: Type.Object({
      foreignSchemas: Type.Array(Type.String(), {
        description: 'Tables that nothing is known about yet',
      }),
      foreignSchemaCount: count,
      pendingSchemas: Type.Array(Type.String(), {
        description: 'Tables that wait to be finalised',
      }),
      pendingSchemasCount: count,
      importedSchemas: Type.Array(Type.String(), { description: 'Tables that are served' }),
      importedSchemaCount: count,
      unservedSchemas: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() }), {
        description:
          'Tables that introspection makes no schema of, and why: also those of other schemas of PostgreSQL and of extensions',
      }),
      unservedSchemaCount: count,
    }),
    summary: 'List the tables that are there already',
    description:
      'Of the PostgreSQL schemas that the configuration names (`introspection.schemas`).',
    async handler() {
      const { foreignSchemas, pendingSchemas, importedSchemas, unservedSchemas } =
        await introspection.status();
      return {
        foreignSchemas: [...foreignSchemas],
        foreignSchemaCount: foreignSchemas.length,
        pendingSchemas: [...pendingSchemas],
        pendingSchemasCount: pendingSchemas.length,
        importedSchemas: [...importedSchemas],
        importedSchemaCount: importedSchemas.length,
        unservedSchemas: [...unservedSchemas],
        unservedSchemaCount: unservedSchemas.length,
      };
    },
  });

const run = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.run',
    method: 'POST',
    path: '/database/introspection',
    input: {},
    output: Type.Object({ result: Type.String() }),
    errors: [INTROSPECTION_RUNNING, TABLE_LIMIT_EXCEEDED],
    summary: 'Read the structure of the tables that are there already',
    description:
      'Makes them pending schemas, and renews those that were pending; what you edited stays. ' +
      'Only the catalogue is read, no row of any table. A table whose schema was finalised is pending again when it has changed.',
    async handler() {
      await introspection.run();
      return 'Schemas successfully introspected';
    },
  });

const list = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.list',
    method: 'GET',
    path: '/database/introspection/schemas',
    input: {
      query: Type.Object({
        ...optionalPagingQuery({ maxSkip: 1_000_000 }),
        sort: Type.Optional(
          Type.String({
            maxLength: 256,
            description: `${pendingSorts.join(', ')}; - in front: descending`,
          }),
        ),
        search: Type.Optional(
          Type.String({ maxLength: 128, description: 'Part of the name, whatever its case' }),
        ),
      }),
    },
    output: Type.Object({ schemas: Type.Array(PendingShape), count }),
    summary: 'List the pending schemas',
    async handler(_, { query: { skip = 0, limit = 25, search, sort = '' } }) {
      const terms = sort.split(' ').filter((term) => term !== '');
      const unknown = terms.find((term) => !pendingSorts.includes(term.replace(/^-/, '')));
      if (unknown !== undefined)
        throw invalid(
          'sort',
          'field',
          `"${cutText(unknown, 64)}" is not one of ${pendingSorts.join(', ')}`,
        );
      const found = await introspection.list({ skip, limit, search, sort: terms });
      return {
        schemas: found.schemas as unknown as Static<typeof PendingShape>[],
        count: found.count,
      };
    },
  });

const get = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.get',
    method: 'GET',
    path: '/database/introspection/schemas/:id',
    input: { params },
    output: PendingShape,
    errors: [PENDING_SCHEMA_NOT_FOUND],
    summary: 'Read a pending schema',
    handler: async (_, { params: { id } }) =>
      (await introspection.get(id)) as unknown as Static<typeof PendingShape>,
  });

const editFields = {
  name: Type.Optional(Type.String({ maxLength: 1_024 })),
  fields: Type.Optional(fieldMapShape),
  renames: Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength: 1_024 }), {
      description: 'Names of fields as they were found, and as they shall be',
    }),
  ),
  key: Type.Optional(
    Type.Array(Type.String({ maxLength: 63 }), {
      maxItems: 8,
      description:
        'Only for views and tables without a key: the fields whose values tell records apart',
    }),
  ),
};

const edit = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.edit',
    method: 'PATCH',
    path: '/database/introspection/schemas/:id',
    input: {
      params,
      body: Type.Object({ ...editFields, conduitOptions: Type.Optional(platformOptionsShape) }),
    },
    output: PendingShape,
    errors: [PENDING_SCHEMA_NOT_FOUND],
    summary: 'Edit a pending schema',
    description:
      'Fields that are left out of `fields` will not be shown. The edits stay when the tables are read again.',
    async handler(_, { params: { id }, body }) {
      const { conduitOptions, ...edits } = body;
      return (await introspection.edit(id, editsOf(edits, conduitOptions))) as unknown as Static<
        typeof PendingShape
      >;
    },
  });

const finalizedSchema = Type.Object({
  _id: Type.Optional(Type.String({ maxLength: 64 })),
  ...editFields,
  modelOptions: Type.Optional(Type.Object({ conduit: Type.Optional(platformOptionsShape) })),
});

const finalize = (introspection: Introspection): Operation =>
  defineOperation({
    ...facts,
    id: 'database.introspection.finalize',
    about: { schemas: 'open' },
    method: 'POST',
    path: '/database/introspection/schemas/finalize',
    bodyLimit: 8 * 1024 * 1024,
    input: {
      body: Type.Object({
        schemas: Type.Optional(
          Type.Array(finalizedSchema, {
            minItems: 1,
            maxItems: 1_000,
            description: 'Needed unless `all` is true',
          }),
        ),
        all: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'All that are pending; those in `schemas` as they are there',
          }),
        ),
        conduitOptions: Type.Optional(platformOptionsShape),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: [
      PENDING_SCHEMA_NOT_FOUND,
      NAME_EXISTS,
      schemaErrors.SCHEMA_EXISTS,
      schemaErrors.SCHEMA_TYPES_INVALID,
      schemaErrors.SCHEMA_BUSY,
    ],
    summary: 'Declare pending schemas over their tables',
    description:
      'Takes pending schemas as they are listed, edited or not. All of them are declared, or none. ' +
      'Nothing is offered to clients until you switch it on; the tables stay as they are. ' +
      '`conduitOptions` are for every schema that is new, and go over its own: with them and `all` one call serves a whole database.',
    async handler({ caller }, { body: { schemas, all = false, conduitOptions } }) {
      if (!schemas && !all)
        throw invalid('schemas', 'required', 'is required: name pending schemas, or send all');
      const inputs = (schemas ?? []).map(({ _id, modelOptions, ...edits }): FinalizeInput => {
        return { ...editsOf(edits, modelOptions?.conduit), ...(_id !== undefined && { _id }) };
      });
      const done = await introspection.finalize(caller, {
        inputs,
        all,
        ...(conduitOptions && { options: conduitOptions }),
      });
      return `${done} ${done === 1 ? 'schema' : 'schemas'} finalized successfully`;
    },
  });

/** The field map is checked where its places can be named. */
function editsOf(
  {
    name,
    fields,
    renames,
    key,
  }: {
    readonly name?: string;
    readonly fields?: Record<string, unknown>;
    readonly renames?: Record<string, string>;
    readonly key?: string[];
  },
  options: PlatformOptions | undefined,
): Edits {
  return {
    ...(name !== undefined && { name }),
    ...(fields && { fields: fields as FieldMap }),
    ...(renames && { renames }),
    ...(key && { key }),
    ...(options && { options }),
  };
}
