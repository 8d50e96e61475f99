/** The types of one schema: what goes in and what comes out, with names that are used once. */
import type { GraphQLOutputType } from 'graphql';
import type { JsonSchema } from '../../kernel/operations/json-schema.ts';
import { createInputTypes, type InputTypes } from './input-types.ts';
import { createNamePool } from './names.ts';
import { createOutputTypes, type OutputTypes } from './output-types.ts';

export interface TypeBuilder {
  readonly input: InputTypes;
  output(schema: JsonSchema, name: string): GraphQLOutputType;
  readonly relationsOf: OutputTypes['relationsOf'];
}

export function createTypeBuilder(readable: ReadonlyMap<string, JsonSchema>): TypeBuilder {
  const names = createNamePool();
  const outputs = createOutputTypes(names, readable);
  return { input: createInputTypes(names), output: outputs.typeOf, relationsOf: outputs.relationsOf };
}
