/** Looking at changes of a schema: what one would do, and what has been done. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import { listMigrations } from '../../../data/schema/registry/migration-log.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { databaseErrors } from '../errors.ts';
import { dataChange } from '../services/imported-schema.ts';
import { listRange } from '../services/listing.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { PlanView, planView } from '../services/schema-views.ts';
import { changeOf, inBody, optionsBody } from './schemas.ts';

export const schemaChangeOperations = (
  admin: SchemaAdmin,
  database: Queryable,
): readonly Operation[] => [plan(admin), migrations(admin, database)];

const { SCHEMA_NOT_FOUND, SCHEMA_OWNED, SCHEMA_TYPES_INVALID, EXTENSION_CONFLICT } = schemaErrors;
const { AUTHORIZATION_MISSING, ADOPTION_MISSING } = databaseErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });

const plan = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.plan',
    method: 'POST',
    path: '/database/schemas/:id/plan',
    readOnly: true,
    idempotency: false,
    input: {
      params,
      body: Type.Object({
        fields: Type.Optional(fieldMapShape),
        conduitOptions: optionsBody,
        ...dataChange,
      }),
    },
    output: PlanView,
    errors: [
      SCHEMA_NOT_FOUND,
      SCHEMA_OWNED,
      SCHEMA_TYPES_INVALID,
      EXTENSION_CONFLICT,
      AUTHORIZATION_MISSING,
      ADOPTION_MISSING,
    ],
    summary: 'Show what a change of a schema would do',
    description:
      'Takes the body of PUT. `dryRun=true` does the same for every other change of schemas.',
    async handler({ caller }, { params: { id }, body }) {
      admin.get(id);
      return inBody(async () =>
        planView(
          await admin.plan(caller, { kind: 'update', changes: [{ id, change: changeOf(body) }] }),
        ),
      );
    },
  });

const version = Type.Union([Type.Integer(), Type.Null()]);

const migrations = (admin: SchemaAdmin, database: Queryable): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.migrations',
    method: 'GET',
    path: '/database/schemas/:id/migrations',
    input: {
      params,
      query: Type.Object({
        skip: listRange.skip,
        limit: listRange.limit,
      }),
    },
    output: Type.Object({
      migrations: Type.Array(
        Type.Object({
          _id: Type.String(),
          schema: Type.String(),
          from: version,
          to: version,
          statements: Type.Array(Type.String()),
          state: Type.Enum(['applied', 'failed'], {
            description: 'failed: an index that could not be made',
          }),
          reason: Type.Union([Type.String(), Type.Null()]),
          checksum: Type.String(),
          actor: Type.String({ description: 'Who did it' }),
          startedAt: Type.String({ format: 'date-time' }),
          finishedAt: Type.String({ format: 'date-time' }),
        }),
      ),
      count: Type.Integer(),
    }),
    errors: [SCHEMA_NOT_FOUND],
    summary: 'List what was done to the table of a schema',
    description: 'Youngest first. `from` and `to` are versions of the schema (`__v`).',
    async handler(_, { params: { id }, query: { skip = 0, limit = 25 } }) {
      const { migrations: found, count } = await listMigrations(database, admin.get(id).name, {
        skip,
        limit,
      });
      return {
        migrations: found.map(({ id: number, statements, ...rest }) => ({
          ...rest,
          _id: String(number),
          statements: [...statements],
        })),
        count,
      };
    },
  });
