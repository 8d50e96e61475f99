/** Schemas and extensions as imports write them, which is as exports give them. */

import type { Static } from 'typebox';
import Type from 'typebox';
import { invalidSchema, schemaErrors } from '../../../data/schema/errors.ts';
import type {
  FieldMap,
  IndexDefinition,
  PlatformOptions,
} from '../../../data/schema/language/definition.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import { checkModelOptions } from '../../../data/schema/language/options.ts';
import type { ArrivingSchema, NewExtension } from '../../../data/schema/plan/schema-request.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import { invalid } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';

/** What a change of fields does to the records that are there. */
export const dataChange = {
  renames: Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength: 64 }), {
      description:
        'Old name to new name of top-level fields, which keep their data; `fields` has the new names',
    }),
  ),
  backfill: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Values for records that have none, by top-level field',
    }),
  ),
};

export const ImportedSchema = Type.Object({
  name: Type.String({ maxLength: 1_024 }),
  fields: fieldMapShape,
  modelOptions: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  ownerModule: Type.Optional(Type.String({ maxLength: 64 })),
  ...dataChange,
  migrations: Type.Optional(
    Type.Array(Type.Object({ id: Type.String({ minLength: 1, maxLength: 64 }), ...dataChange }), {
      maxItems: 10_000,
      description:
        'What was done to the records where it comes from; done here too unless it was, which the id tells',
    }),
  ),
});

export const ImportedExtension = Type.Object({
  schemaName: Type.String({ maxLength: 1_024 }),
  extension: Type.Object({
    fields: fieldMapShape,
    ownerModule: Type.Optional(Type.String({ maxLength: 64 })),
    backfill: dataChange.backfill,
  }),
});

export type ImportedSchemaDocument = Static<typeof ImportedSchema>;
export type ImportedExtensionDocument = Static<typeof ImportedExtension>;

/** Only the admins' own extensions can be imported: those of modules come with the modules. `place`: where it stands. */
export function newExtensionOf(
  { schemaName, extension }: ImportedExtensionDocument,
  place: string,
): NewExtension {
  const { fields, ownerModule = adminOwner, backfill } = extension;
  if (ownerModule !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({
      message: `${place}: this extension belongs to the module ${cutText(ownerModule, 64)}`,
    });
  return {
    schema: schemaName,
    owner: adminOwner,
    fields: fields as FieldMap,
    ...(backfill && { backfill }),
  };
}

export function newSchemaOf(
  schemas: SchemaRegistry,
  imported: ImportedSchemaDocument,
  place: string,
): ArrivingSchema {
  const {
    name,
    fields,
    modelOptions = {},
    ownerModule = adminOwner,
    migrations,
    renames,
    backfill,
  } = imported;
  const owner = schemas.get(name)?.ownerModule ?? ownerModule;
  if (owner !== adminOwner)
    throw schemaErrors.SCHEMA_OWNED({
      message: `${place}: ${cutText(name, 64)} belongs to the module ${cutText(owner, 64)}`,
    });
  const problems = checkModelOptions(modelOptions, `${place}.modelOptions`);
  if (problems.length > 0) throw invalidSchema(problems);
  const { timestamps, conduit, indexes } = modelOptions as {
    timestamps?: boolean;
    conduit?: PlatformOptions;
    indexes?: IndexDefinition[];
  };
  if (Object.keys(fields).length === 0)
    throw invalid(`${place}.fields`, 'empty', 'needs at least one field');
  return {
    name,
    fields: fields as FieldMap,
    ...(timestamps !== undefined && { timestamps }),
    ...(conduit && { options: conduit }),
    ...(indexes && { indexes }),
    ...(migrations && { migrations }),
    ...(renames && { renames }),
    ...(backfill && { backfill }),
  };
}
