/** The client route of each endpoint: an operation like any other, made from what the endpoint declares. */
import Type, { type TSchema } from 'typebox';
import { recordErrors } from '../../../../data/records/errors.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { errors } from '../../../../kernel/errors.ts';
import { defineOperation, type Operation, standardLimit } from '../../../../kernel/operation.ts';
import { databaseErrors } from '../../errors.ts';
import { nextCursor } from '../../operations/page-facts.ts';
import { aggregateRow } from './aggregate.ts';
import { endpointOperation, inputLocation, isWrite, methodOf, type StoredEndpoint } from './definition.ts';
import { inputSchemas } from './inputs.ts';
import { runEndpoint } from './run.ts';

export interface RouteParts {
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
}

export function endpointRoute({ records, schemas }: RouteParts, endpoint: StoredEndpoint, schema: CompiledSchema): Operation {
  const { name, inputs, operation, authentication, endpointDescription } = endpoint;
  const path = inputs.filter(({ location }) => location === inputLocation.path).map((input) => `/:${input.name}`);
  return defineOperation({
    id: `database.functions.${name}`,
    surface: 'client',
    method: methodOf[operation] ?? 'GET',
    path: `/database/function/${name}${path.join('')}`,
    access: authentication || schema.modelOptions.conduit.authorization.enabled ? 'user' : 'optionalUser',
    limit: standardLimit,
    heavy: true,
    input: inputSchemas(endpoint, schema),
    output: outputOf(schemas, endpoint, schema),
    errors: errorsOf(endpoint),
    summary: `Call the endpoint ${name}`,
    ...(endpointDescription !== '' && { description: endpointDescription }),
    handler: ({ caller }, input) => runEndpoint(records, endpoint, { caller, input }) as Promise<never>,
  });
}

/** The bodies of spec/database.md 1.2. */
function outputOf(schemas: SchemaRegistry, { operation, paginated, aggregate }: StoredEndpoint, schema: CompiledSchema): TSchema {
  const { record } = schema.shapes;
  const count = Type.Integer({ minimum: 0 });
  switch (operation) {
    case endpointOperation.post:
      return Type.Array(record, { minItems: 1, maxItems: 1 });
    case endpointOperation.put:
      return Type.Array(Type.String(), { minItems: 1, maxItems: 1 });
    case endpointOperation.patch:
      return Type.Object({ matchedCount: count, modifiedCount: count });
    case endpointOperation.delete:
      return Type.Object({ deletedCount: count });
    case endpointOperation.aggregate:
      return Type.Array(aggregate ? aggregateRow({ schema, schemas }, aggregate) : Type.Object({}));
    default:
      return paginated ? Type.Object({ documents: Type.Array(record), count, nextCursor }) : Type.Array(record);
  }
}

function errorsOf(endpoint: StoredEndpoint) {
  const {
    RECORD_INVALID,
    TOO_MANY_DEPENDANTS,
    TOO_MANY_RECORDS,
    RECORD_NOT_UNIQUE,
    RECORD_IN_USE,
    WRITE_CONFLICT,
    POPULATE_FORBIDDEN,
    PERMISSIONS_UNAVAILABLE,
  } = recordErrors;
  const common = [schemaErrors.SCHEMA_NOT_FOUND, RECORD_INVALID, PERMISSIONS_UNAVAILABLE, errors.FORBIDDEN];
  if (endpoint.operation === endpointOperation.delete)
    return [...common, databaseErrors.EMPTY_FILTER, TOO_MANY_RECORDS, RECORD_IN_USE, TOO_MANY_DEPENDANTS, WRITE_CONFLICT];
  if (isWrite(endpoint)) return [...common, databaseErrors.EMPTY_FILTER, TOO_MANY_RECORDS, RECORD_NOT_UNIQUE, WRITE_CONFLICT];
  if (endpoint.operation === endpointOperation.post) return [...common, RECORD_NOT_UNIQUE, WRITE_CONFLICT, POPULATE_FORBIDDEN];
  return [...common, TOO_MANY_RECORDS, POPULATE_FORBIDDEN];
}
