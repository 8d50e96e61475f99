/** Reading lists of schemas. */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { fieldMapShape } from '../../../data/schema/language/field-language.ts';
import { systemSchemas } from '../../../data/schema/language/names.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { listRange, sorted } from '../services/listing.ts';
import { uselessPaths } from '../services/query-paths.ts';
import { SchemaView, schemaView } from '../services/schema-views.ts';

export const schemaListOperations = (schemas: SchemaRegistry): readonly Operation[] => [
  list(schemas),
  owners(schemas),
  system(),
  exportAll(schemas),
  databaseType(),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const sortable = [
  'name',
  'ownerModule',
  'collectionName',
  'createdAt',
  'updatedAt',
  '_id',
] as const;

const list = (schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.list',
    about: { owner: 'open' },
    method: 'GET',
    path: '/database/schemas',
    input: {
      query: Type.Object({
        ...listRange,
        search: Type.Optional(
          Type.String({ maxLength: 256, description: 'Part of the name; case does not matter' }),
        ),
        enabled: Type.Optional(
          Type.Boolean({
            description: 'True: with client routes, or extendable. False: without client routes',
          }),
        ),
        owner: Type.Optional(
          Type.Array(Type.String({ maxLength: 64 }), {
            maxItems: 64,
            description: 'Modules that own the schema',
          }),
        ),
      }),
    },
    output: Type.Object({ schemas: Type.Array(SchemaView), count: Type.Integer() }),
    summary: 'List schemas',
    handler(_, { query: { skip = 0, limit = 25, sort, search, enabled, owner } }) {
      const found = [...schemas.all(), ...schemas.leftOut()]
        .filter(({ parentSchema }) => parentSchema === null)
        .filter(
          ({ name }) => search === undefined || name.toLowerCase().includes(search.toLowerCase()),
        )
        .filter(({ ownerModule }) => !owner || owner.length === 0 || owner.includes(ownerModule))
        .filter((schema) => enabled === undefined || matchesEnabled(schema, enabled));
      const page = sorted(found, sort, sortable).slice(skip, skip + limit);
      return {
        schemas: page.map((schema) => schemaView(schema, uselessPaths(schemas, schema))),
        count: found.length,
      };
    },
  });

function matchesEnabled({ modelOptions: { conduit } }: CompiledSchema, enabled: boolean): boolean {
  return enabled ? conduit.cms.enabled || conduit.permissions.extendable : !conduit.cms.enabled;
}

const owners = (schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.owners',
    method: 'GET',
    path: '/database/schemas/owners',
    input: {
      query: Type.Object({
        sort: Type.Optional(Type.String({ maxLength: 64, description: '- in front: descending' })),
      }),
    },
    output: Type.Object({ modules: Type.Array(Type.String()) }),
    summary: 'List the modules that own schemas',
    handler(_, { query: { sort } }) {
      const modules = [...new Set(schemas.all().map(({ ownerModule }) => ownerModule))].sort();
      return { modules: sort?.startsWith('-') ? modules.reverse() : modules };
    },
  });

const system = (): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.system',
    method: 'GET',
    path: '/database/schemas/system',
    input: {},
    output: Type.Object({ databaseSystemSchemas: Type.Array(Type.String()) }),
    summary: 'List the schemas that belong to the database module itself',
    handler: () => ({ databaseSystemSchemas: [...systemSchemas] }),
  });

const exportAll = (schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.export',
    method: 'GET',
    path: '/database/schemas/export',
    input: {
      query: Type.Object({
        all: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Also schemas of admins without client routes',
          }),
        ),
      }),
    },
    output: Type.Object({
      schemas: Type.Array(
        Type.Object({
          name: Type.String(),
          fields: fieldMapShape,
          modelOptions: Type.Record(Type.String(), Type.Unknown()),
          ownerModule: Type.String(),
          collectionName: Type.String(),
        }),
      ),
      extensions: Type.Array(
        Type.Object({
          schemaName: Type.String(),
          extension: Type.Object({ fields: fieldMapShape, ownerModule: Type.String() }),
        }),
      ),
    }),
    summary: 'Export the schemas of admins that have client routes, and the extensions of admins',
    description:
      'Ordered by name, so that two exports of the same schemas are the same. The import takes the answer as it is.',
    handler(_, { query: { all = false } }) {
      const own = schemas
        .all()
        .filter(
          ({ ownerModule, modelOptions }) =>
            ownerModule === adminOwner && (all || modelOptions.conduit.cms.enabled),
        );
      const exported = own.map(({ name, fields, modelOptions, ownerModule, collectionName }) => {
        return {
          name,
          fields,
          modelOptions: modelOptions as unknown as Record<string, unknown>,
          ownerModule,
          collectionName,
        };
      });
      return { schemas: exported, extensions: schemas.all().flatMap(exportedExtensions) };
    },
  });

const exportedExtensions = ({ name, extensions }: CompiledSchema) =>
  extensions
    .filter(({ ownerModule }) => ownerModule === adminOwner)
    .map(({ fields, ownerModule }) => ({ schemaName: name, extension: { fields, ownerModule } }));

const databaseType = (): Operation =>
  defineOperation({
    ...facts,
    id: 'database.type',
    method: 'GET',
    path: '/database/database-type',
    input: {},
    output: Type.Object({ result: Type.String() }),
    summary: 'Name the database',
    handler: () => 'PostgreSQL',
  });
