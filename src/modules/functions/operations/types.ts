/** Type declarations for whoever writes functions in an editor: `ctx`, and the records of this installation. */
import Type from 'typebox';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { defineOperation, type Operation, Reply } from '../../../kernel/operations/operation.ts';
import { contextTypes } from '../definition/context-types.ts';
import { adminFacts } from './shapes.ts';

const MEDIA_TYPE = 'text/plain; charset=utf-8';

export const typesOperation = (schemas: Pick<SchemaRegistry, 'all'>): Operation =>
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

function typesOf(schemas: Pick<SchemaRegistry, 'all'>): string {
  const typed = schemas.all().map(({ name, shapes }) => ({ name, record: shapes.record }));
  return contextTypes(typed.sort((one, other) => (one.name < other.name ? -1 : 1)));
}
