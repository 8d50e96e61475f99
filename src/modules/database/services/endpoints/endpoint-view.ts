/** An endpoint as the admin surface shows it, and as it is exported. */
import Type, { type Static } from 'typebox';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import {
  AggregateShape,
  AssignmentShape,
  InputShape,
  RequiresShape,
  type StoredEndpoint,
} from './definition.ts';
import { isServed } from './serving.ts';

const common = {
  name: Type.String(),
  operation: Type.Integer({
    minimum: 0,
    maximum: 5,
    description: '0 GET, 1 POST, 2 PUT, 3 DELETE, 4 PATCH, 5 aggregate (GET)',
  }),
  selectedSchemaName: Type.String(),
  endpointDescription: Type.String(),
  inputs: Type.Array(InputShape),
  returns: Type.String({ description: 'Schema of the records that it answers' }),
  enabled: Type.Boolean({
    description: 'Whether its route exists: false while its schema is switched off',
  }),
  authentication: Type.Boolean(),
  paginated: Type.Boolean(),
  sorted: Type.Boolean(),
  matchAllWhenEmpty: Type.Boolean({
    description: 'What an OR means when all its inputs are absent: everything, or nothing',
  }),
  query: Type.Unknown({ description: 'Tree of comparisons; null: every record' }),
  assignments: Type.Array(AssignmentShape),
  aggregate: Type.Union([AggregateShape, Type.Null()]),
  requires: Type.Union([RequiresShape, Type.Null()]),
};

export const ExportedEndpoint = Type.Object(common);

export const EndpointView = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  ...common,
  selectedSchema: Type.Union([Type.String({ format: 'uuid' }), Type.Null()]),
  warnings: Type.Array(Type.String(), {
    description:
      'Why it is not served although its schema is switched on, or asks fields that no client may ask',
  }),
  createdAt: Type.String({ format: 'date-time' }),
  updatedAt: Type.String({ format: 'date-time' }),
  __v: Type.Integer({ minimum: 0 }),
});

export function exportedEndpoint(
  endpoint: StoredEndpoint,
  schema: CompiledSchema | undefined,
): Static<typeof ExportedEndpoint> {
  const { inputs, assignments, _id, __v, createdAt, updatedAt, damage, ...rest } = endpoint;
  return {
    ...rest,
    inputs: [...inputs],
    assignments: [...assignments],
    returns: endpoint.selectedSchemaName,
    enabled: isServed(schema),
  };
}

export function endpointView(
  endpoint: StoredEndpoint,
  schema: CompiledSchema | undefined,
  warnings: readonly string[],
): Static<typeof EndpointView> {
  const { _id, __v, createdAt, updatedAt } = endpoint;
  return {
    _id,
    ...exportedEndpoint(endpoint, schema),
    selectedSchema: schema?._id ?? null,
    warnings: [...warnings],
    createdAt,
    updatedAt,
    __v,
  };
}
