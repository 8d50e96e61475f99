/** What writers of functions take into their editors: the functions as they are stored, and types of `ctx` and of the records. */
import { createHash } from 'node:crypto';
import Type from 'typebox';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { contextTypes } from '../definition/context-types.ts';
import type { StoredFunction } from '../definition/definition.ts';
import { codesOf } from '../queries/functions.ts';
import { type Functions, fileOf } from '../services/functions.ts';
import { adminFacts, NewFunctionShape } from './shapes.ts';

export interface SourceParts {
  readonly functions: Functions;
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'all'>;
}

export const sourceOperations = (parts: SourceParts): readonly Operation[] => [
  types(parts),
  bundle(parts),
];

const MEDIA_TYPE = 'text/plain; charset=utf-8';

const types = ({ schemas }: SourceParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.types.get',
    method: 'GET',
    path: '/functions/types',
    mcp: false,
    graphql: false,
    input: {},
    output: Type.String(),
    streams: { 'text/plain': 'A TypeScript declaration file' },
    summary: 'Download type declarations for functions',
    description:
      'Save it as `penstock.d.ts` beside your functions: `import type { Context } from "./penstock"`. It knows the schemas as they are now.',
    handler: async () => Reply.text(typesOf(schemas), MEDIA_TYPE),
  });

function typesOf(schemas: SourceParts['schemas']): string {
  const typed = schemas.all().map(({ name, shapes }) => ({ name, record: shapes.record }));
  return contextTypes(typed.sort((one, other) => (one.name < other.name ? -1 : 1)));
}

const Source = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  file: Type.String({ description: 'Name of a file for the code' }),
  ...NewFunctionShape.properties,
  inputs: Type.Unknown(),
  returns: Type.Unknown(),
  enabled: Type.Boolean(),
  version: Type.Integer(),
  checksum: Type.String(),
});

const Bundle = Type.Object({
  checksum: Type.String({ description: 'Changes with any of the functions, and with the types' }),
  functions: Type.Array(Source),
  types: Type.String({ description: 'As of `GET /functions/types`' }),
});

const bundle = ({ functions, database, schemas }: SourceParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.bundle.get',
    method: 'GET',
    path: '/functions/bundle',
    mcp: false,
    graphql: false,
    input: {
      query: Type.Object({
        name: Type.Optional(
          Type.Array(Type.String({ maxLength: 100 }), {
            maxItems: 200,
            description: 'Only these functions',
          }),
        ),
      }),
    },
    output: Bundle,
    summary: 'Download functions with their code, for local work',
    description:
      'Without their secrets. `penstock functions pull` writes it into a folder, and `push` stores what was changed there.',
    async handler(_context, { query: { name } }) {
      const all = functions.store.all().filter((one) => name?.includes(one.name) ?? true);
      const codes = await codesOf(
        database,
        all.map(({ _id }) => _id),
      );
      const types = typesOf(schemas);
      const checksum = createHash('sha256')
        .update(JSON.stringify([types, ...all.map((one) => [one._id, one.checksum, one.enabled])]))
        .digest('hex');
      return { checksum, functions: all.map((one) => sourceOf(one, codes)), types };
    },
  });

function sourceOf(
  { facts, createdAt: _created, updatedAt: _updated, ...stored }: StoredFunction,
  codes: ReadonlyMap<string, string>,
) {
  const functionCode = codes.get(stored._id) ?? '';
  return { ...stored, file: fileOf(stored.name, facts.language), functionCode };
}
