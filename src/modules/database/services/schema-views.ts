/** A schema as the admin surface shows it. */

import type { Static } from 'typebox';
import Type from 'typebox';
import {
  isOffered,
  isOwnersOnly,
  needsUser,
} from '../../../data/records/access/operation-access.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { resolveIndex } from '../../../data/schema/compile/index-definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import type { CrudOperation } from '../../../data/schema/language/options.ts';
import type { SchemaPlan } from '../../../data/schema/plan/schema-plan.ts';

const instant = Type.String({ format: 'date-time' });

export const ExtensionView = Type.Object({
  fields: fieldMapShape,
  ownerModule: Type.String(),
  createdAt: instant,
  updatedAt: instant,
});

export const SchemaView = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  parentSchema: Type.Union([Type.String(), Type.Null()]),
  fields: fieldMapShape,
  extensions: Type.Array(ExtensionView),
  compiledFields: fieldMapShape,
  modelOptions: Type.Record(Type.String(), Type.Unknown()),
  ownerModule: Type.String(),
  collectionName: Type.String(),
  createdAt: instant,
  updatedAt: instant,
  __v: Type.Integer(),
  pendingRelations: Type.Array(Type.String(), {
    description: 'Schemas that relations point to and that do not exist yet',
  }),
  droppedFields: Type.Array(Type.String(), {
    description: 'Fields that were taken out; their data is kept and comes back with them',
  }),
  warnings: Type.Array(Type.String(), { description: 'What an admin should look at' }),
});

/** `warnings`: further ones, of who knows the other schemas too. */
export function schemaView(
  schema: CompiledSchema,
  warnings: readonly string[] = [],
): Static<typeof SchemaView> {
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
    warnings: [...warningsOf(schema), ...warnings],
  };
}

function warningsOf(schema: CompiledSchema): string[] {
  const skipped = (schema.modelOptions.indexes ?? []).flatMap(
    (index) => resolveIndex(index, schema.tree, '').skipped ?? [],
  );
  if (schema.problem !== undefined) return [`It is left out: ${schema.problem}`];
  return [
    ...openOperations(schema).map(
      (name) =>
        `"${name}" needs no authentication: anybody who reaches the client surface may do it`,
    ),
    ...foreignOperations(schema).map(
      (name) =>
        `"${name}" is open to users who may not read the records, which their owner alone may: name it in owner.limit too`,
    ),
    ...schema.pendingRelations.map(
      (name) => `"${name}" does not exist yet: relations to it are plain ids until it does`,
    ),
    ...skipped.map((reason) => `An index is not made: ${reason}`),
  ];
}

/** Writing operations that need no user. */
export const openOperations = (schema: CompiledSchema): CrudOperation[] =>
  (['create', 'update', 'delete'] as const).filter(
    (operation) => isOffered(schema, operation) && !needsUser(schema, operation),
  );

/** Operations on records that their owner alone reads, and anybody may change or delete. */
const foreignOperations = (schema: CompiledSchema): CrudOperation[] =>
  isOwnersOnly(schema, 'read') && !schema.modelOptions.conduit.authorization.enabled
    ? (['update', 'delete'] as const).filter(
        (operation) =>
          isOffered(schema, operation) &&
          !isOwnersOnly(schema, operation === 'update' ? 'edit' : operation),
      )
    : [];

/* What a change would do, as the admin surface shows it. */

const loss = Type.Object({
  schema: Type.String(),
  field: Type.String({ description: 'Path of a field; * for the records themselves' }),
  records: Type.Integer({
    description:
      'Records that have a value there; of a large table the first 100,000 are looked at',
  }),
});

export const PlanView = Type.Object({
  schema: Type.String({ description: 'Names of the schemas that would change' }),
  steps: Type.Array(
    Type.Object({
      schema: Type.String(),
      statement: Type.String(),
      summary: Type.String({ description: 'What changes, in words' }),
      lock: Type.String({ description: 'Lock of PostgreSQL on the table' }),
      destructive: Type.Boolean(),
      rows: Type.Integer({ description: 'Records that the statement reads or writes, about' }),
      later: Type.Optional(
        Type.Boolean({
          description: 'Runs after the change, beside reads and writes of the table',
        }),
      ),
    }),
  ),
  destructive: Type.Boolean({ description: 'Some step destroys data' }),
  renames: Type.Array(
    Type.Object({ schema: Type.String(), from: Type.String(), to: Type.String() }),
    {
      description: 'Fields that would have another name, with their data',
    },
  ),
  hides: Type.Array(loss, { description: 'Fields that would be taken out; their data stays' }),
  loses: Type.Array(loss, { description: 'What would be destroyed' }),
  obstacles: Type.Array(
    Type.Object({ path: Type.String(), rule: Type.String(), message: Type.String() }),
    {
      description: 'Why the change would be refused as things are now',
    },
  ),
  endpoints: Type.Array(Type.String(), {
    description: 'Custom endpoints that would no longer be served',
  }),
  checksum: Type.String({ description: 'Digest of the statements: equal plans have equal ones' }),
});

/** A plan, and the names of the endpoints that would break. */
export type PlanForAdmin = SchemaPlan & { readonly endpoints: readonly string[] };

export const planView = ({
  after: _,
  steps,
  renames,
  hides,
  loses,
  obstacles,
  endpoints,
  ...plan
}: PlanForAdmin): Static<typeof PlanView> => ({
  ...plan,
  steps: steps.map((step) => ({ ...step })),
  renames: [...renames],
  hides: [...hides],
  loses: [...loses],
  obstacles: obstacles.map(({ path, rule, message }) => ({ path, rule, message })),
  endpoints: [...endpoints],
});

/** Query of operations that can show what they would do. */
export const dryRun = Type.Optional(
  Type.Boolean({ default: false, description: 'Do nothing, and answer the plan of the change' }),
);
