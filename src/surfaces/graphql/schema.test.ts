import fc from 'fast-check';
import { GraphQLObjectType, printSchema, validateSchema } from 'graphql';
import Type, { type TSchema } from 'typebox';
import { describe, expect, it } from 'vitest';
import { libraryOperations } from '../../../test/support/graphql.ts';
import { silentLog } from '../../../test/support/log.ts';
import { defineOperation, type Operation } from '../../kernel/operations/operation.ts';
import { createOperationRegistry } from '../../kernel/operations/registry.ts';
import { isField } from './fields.ts';
import { buildSchema, createSchemaSource } from './schema.ts';

const parts = {
  resolveWith: () => () => undefined,
  subscribeWith: () => () => undefined,
  log: silentLog,
};
const build = async (operations: readonly Operation[]) =>
  (await buildSchema(operations, parts)).schema;
const library = libraryOperations(() => undefined).filter(isField);

/** Without what is assumed about it. */
const problemsOf = (schema: Awaited<ReturnType<typeof build>>) => {
  Reflect.set(schema, '__validationErrors', undefined);
  return validateSchema(schema);
};

const fieldNames = (type: unknown): string[] =>
  type instanceof GraphQLObjectType ? Object.keys(type.getFields()) : [];

describe('the schema', () => {
  it('has the names and types of the operations', async () => {
    expect(printSchema(await build(library))).toMatchSnapshot();
  });

  it('is valid', async () => {
    expect(problemsOf(await build(library))).toEqual([]);
  });

  it('leaves out what is not for GraphQL', async () => {
    const names = fieldNames((await build(library)).getQueryType());
    expect(names).toContain('getNumbers');
    expect(names).not.toContain('getHidden');
    expect(names).not.toContain('getOld');
  });

  it('gives a name that two paths want to the one that is spelled like it, whatever the order', async () => {
    const named = async (operations: readonly Operation[]) => {
      const { fields } = await buildSchema(operations, parts);
      return ['getAb', 'getAb2', 'getAb3'].map((name) => fields.get(name)?.compiled.operation.path);
    };
    expect(await named(library)).toEqual(['/ab', '/a-b', '/a.b']);
    expect(await named(library.toReversed())).toEqual(['/ab', '/a-b', '/a.b']);
  });

  it('can be made of nothing, and of writes alone', async () => {
    expect(problemsOf(await build([]))).toEqual([]);
    expect(problemsOf(await build(library.filter(({ method }) => method !== 'GET')))).toEqual([]);
  });

  it('survives whatever schemas say', async () => {
    await fc.assert(
      fc.asyncProperty(
        anySchema,
        anySchema,
        fc.constantFrom('PostPlace', 'String', 'Query', '__proto__', 'constructor', 'Date'),
        async (input, output, name) => {
          const record = Type.Object(
            { _id: Type.String(), place: output, [name]: output },
            { record: name },
          );
          const schema = await build([
            operation('POST', '/x', { body: Type.Object({ [name]: input, a: input }), output }),
            operation('GET', '/x', {
              query: Type.Object({ [name]: input, 'a-b': input, 'a.b': input }),
              output: Type.Object({ documents: Type.Array(record) }),
            }),
          ]);
          expect(problemsOf(schema)).toEqual([]);
          expect(printSchema(schema)).toContain('getX(');
        },
      ),
      { numRuns: 200 },
    );
  });
});

const operation = (
  method: 'GET' | 'POST',
  path: string,
  { body, query, output }: { body?: TSchema; query?: never | TSchema; output: TSchema },
): Operation =>
  defineOperation({
    id: `${method}${path}`,
    surface: 'client',
    access: 'public',
    limit: 'standard',
    method,
    path,
    summary: 'Any',
    input: { ...(body ? { body } : {}), ...(query ? { query: query as never } : {}) },
    output,
    handler: () => '',
  });

const { schema: anySchema } = fc.letrec<{ schema: TSchema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, depthSize: 'small' },
    fc.constantFrom<TSchema>(
      Type.String(),
      Type.String({ format: 'uuid', description: '""" \\ \n #' }),
      Type.Integer({ default: 3 }),
      Type.Null(),
      Type.Unknown(),
      Type.Literal('a'),
      Type.Object({}),
      Type.Record(Type.String(), Type.Number()),
      Type.Array(Type.Unknown()),
      Type.Unsafe({ type: 'no such type' }),
      Type.Unsafe({ $ref: 'elsewhere' }),
      Type.Unsafe({ enum: ['a', 1, null] }),
      Type.Unsafe({ type: ['string', 'null', 'number'] }),
    ),
    fc
      .dictionary(
        fc.constantFrom('a', 'b', 'a-b', '1', '__v', 'constructor', 'prototype', 'é'),
        tie('schema'),
        { maxKeys: 3 },
      )
      .map((properties) => Type.Object(properties)),
    tie('schema').map((schema) => Type.Array(schema)),
    tie('schema').map((schema) => Type.Object({ only: Type.Optional(schema) })),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((schemas) => Type.Union(schemas)),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((allOf) => Type.Unsafe({ allOf })),
  ),
}));

describe('the schema of a registry', () => {
  it('is built again only when operations of GraphQL have changed', async () => {
    const registry = createOperationRegistry();
    registry.replace('example', library);
    const source = createSchemaSource(registry, parts);
    const first = await source.current();
    registry.replace(
      'other',
      [operation('GET', '/nothing', { output: Type.String() })].map((one) => ({
        ...one,
        graphql: false,
      })),
    );
    expect(await source.current()).toBe(first);
    registry.replace('more', [operation('GET', '/more', { output: Type.String() })]);
    expect(await source.current()).not.toBe(first);
    expect(fieldNames((await source.current()).schema.getQueryType())).toContain('getMore');
    registry.replace('more', []);
    expect(fieldNames((await source.current()).schema.getQueryType())).not.toContain('getMore');
  });
});
