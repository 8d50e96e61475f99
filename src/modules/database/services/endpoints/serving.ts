/** Which endpoints are served, and their routes. */

import type { TSchema } from 'typebox';
import Type from 'typebox';
import { recordErrors } from '../../../../data/records/errors.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import { adminOwner } from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { errors, type Problem } from '../../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../../../kernel/operations/operation-input.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { createTimeSlices } from '../../../../kernel/time-slices.ts';
import { databaseErrors } from '../../errors.ts';
import { nextCursor } from '../listing.ts';
import { createEndpointAdmin, type EndpointAdmin } from './admin.ts';
import { aggregateRow } from './aggregate.ts';
import { endpointProblems } from './check.ts';
import {
  endpointOperation,
  inputLocation,
  isWrite,
  methodOf,
  type StoredEndpoint,
} from './definition.ts';
import { inputSchemas } from './inputs.ts';
import { liveEndpoint, runEndpoint } from './run.ts';
import { createEndpointStore, type EndpointStore, scopedEndpointStore } from './store.ts';

/* The client route of each endpoint: an operation like any other, made from what the endpoint declares. */

interface RouteParts {
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
}

function endpointRoute(
  { records, schemas }: RouteParts,
  endpoint: StoredEndpoint,
  schema: CompiledSchema,
): Operation {
  const { name, inputs, operation, authentication, endpointDescription } = endpoint;
  const path = inputs
    .filter(({ location }) => location === inputLocation.path)
    .map((input) => `/:${input.name}`);
  return defineOperation({
    id: `database.functions.${name}`,
    surface: 'client',
    method: methodOf[operation] ?? 'GET',
    path: `/database/function/${name}${path.join('')}`,
    access:
      authentication || schema.modelOptions.conduit.authorization.enabled ? 'user' : 'optionalUser',
    limit: standardLimit,
    tag: schema.name,
    heavy: true,
    input: inputSchemas(endpoint, schema),
    output: outputOf(schemas, endpoint, schema),
    errors: errorsOf(endpoint),
    summary: `Call the endpoint ${name}`,
    ...(endpointDescription !== '' && { description: endpointDescription }),
    ...(methodOf[operation] === 'GET' && {
      live: (caller: Caller, input: DecodedInput) =>
        liveEndpoint(records, endpoint, { caller, input }),
    }),
    handler: ({ caller }, input) =>
      runEndpoint(records, endpoint, { caller, input }) as Promise<never>,
  });
}

/** The bodies of spec/database.md 1.2. */
function outputOf(
  schemas: SchemaRegistry,
  { operation, paginated, aggregate }: StoredEndpoint,
  schema: CompiledSchema,
): TSchema {
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
      return paginated
        ? Type.Object({ documents: Type.Array(record), count, nextCursor })
        : Type.Array(record);
  }
}

function errorsOf(endpoint: StoredEndpoint) {
  const {
    RECORD_INVALID,
    DEPENDANT_LIMIT_EXCEEDED,
    RECORD_LIMIT_EXCEEDED,
    RECORD_NOT_UNIQUE,
    RECORD_IN_USE,
    WRITE_CONFLICT,
    POPULATE_FORBIDDEN,
    PERMISSIONS_UNAVAILABLE,
  } = recordErrors;
  const common = [
    schemaErrors.SCHEMA_NOT_FOUND,
    RECORD_INVALID,
    PERMISSIONS_UNAVAILABLE,
    errors.FORBIDDEN,
  ];
  if (endpoint.operation === endpointOperation.delete)
    return [
      ...common,
      databaseErrors.EMPTY_FILTER,
      RECORD_LIMIT_EXCEEDED,
      RECORD_IN_USE,
      DEPENDANT_LIMIT_EXCEEDED,
      WRITE_CONFLICT,
    ];
  if (isWrite(endpoint))
    return [
      ...common,
      databaseErrors.EMPTY_FILTER,
      RECORD_LIMIT_EXCEEDED,
      RECORD_NOT_UNIQUE,
      WRITE_CONFLICT,
    ];
  if (endpoint.operation === endpointOperation.post)
    return [...common, RECORD_NOT_UNIQUE, WRITE_CONFLICT, POPULATE_FORBIDDEN];
  return [...common, RECORD_LIMIT_EXCEEDED, POPULATE_FORBIDDEN];
}

/** A schema that an admin has switched off takes its endpoints with it; modules' schemas have no routes to switch. */
export const isServed = (schema: CompiledSchema | undefined): boolean =>
  schema !== undefined &&
  (schema.modelOptions.conduit.cms.enabled || schema.ownerModule !== adminOwner);

export interface EndpointServing {
  /**
   * What is served, the same operation objects as before for what did not change, and what is not, with the reason. In
   * slices: an import may bring a thousand with long queries, and each change of a schema has all looked at.
   */
  lookAt(endpoints: readonly StoredEndpoint[]): Promise<{
    readonly served: readonly Operation[];
    readonly leftOut: readonly { readonly name: string; readonly reason: string }[];
  }>;
  /** What keeps an endpoint from being served since its schema was changed. */
  problems(endpoint: StoredEndpoint): readonly Problem[];
}

export function createEndpointServing(parts: RouteParts, log: Logger): EndpointServing {
  const { schemas } = parts;
  const made = new WeakMap<
    StoredEndpoint,
    { readonly schema: CompiledSchema; readonly operation: Operation }
  >();

  function routeOf(endpoint: StoredEndpoint, schema: CompiledSchema): Operation {
    const known = made.get(endpoint);
    if (known?.schema === schema) return known.operation;
    const operation = endpointRoute(parts, endpoint, schema);
    made.set(endpoint, { schema, operation });
    return operation;
  }

  function problems(endpoint: StoredEndpoint): readonly Problem[] {
    if (endpoint.damage !== undefined)
      return [{ path: 'definition', rule: 'readable', message: endpoint.damage }];
    const schema = schemas.get(endpoint.selectedSchemaName);
    if (!schema)
      return [
        {
          path: 'selectedSchemaName',
          rule: 'exists',
          message: `the schema ${endpoint.selectedSchemaName} does not exist`,
        },
      ];
    try {
      const found = endpointProblems({ endpoint, schema, schemas });
      if (found.length === 0) routeOf(endpoint, schema);
      return found;
    } catch (error) {
      // One that contradicts itself in a way that nothing looks for must not take the others with it.
      const message = error instanceof Error ? error.message : 'it cannot be served';
      return [{ path: 'name', rule: 'served', message }];
    }
  }

  function operationOf(endpoint: StoredEndpoint, found: readonly Problem[]): readonly Operation[] {
    const schema = schemas.get(endpoint.selectedSchemaName);
    if (!schema || !isServed(schema)) return [];
    if (found.length === 0) return [routeOf(endpoint, schema)];
    log.warn(
      { endpoint: endpoint.name, problems: found },
      'A custom endpoint no longer fits its schema and is not served',
    );
    return [];
  }

  async function lookAt(endpoints: readonly StoredEndpoint[]) {
    const served: Operation[] = [];
    const leftOut: { readonly name: string; readonly reason: string }[] = [];
    const pause = createTimeSlices();
    for (const endpoint of endpoints) {
      const found = problems(endpoint);
      const [first] = found;
      if (first) leftOut.push({ name: endpoint.name, reason: `${first.path}: ${first.message}` });
      served.push(...operationOf(endpoint, found));
      await pause();
    }
    return { served, leftOut };
  }

  return { lookAt, problems };
}

/* Puts the custom endpoints together, and keeps their routes as the stored endpoints and the schemas say. */

export interface Endpoints {
  readonly admin: EndpointAdmin;
  readonly store: EndpointStore;
  readonly serving: EndpointServing;
  readonly schemas: SchemaRegistry;
  /** Withdraws the routes. */
  close(): void;
}

const owner = 'database/endpoints';

export async function createEndpoints(kernel: Kernel, log: Logger): Promise<Endpoints> {
  const { database, bus, events, schemas, records, operations } = kernel;
  const store = scopedEndpointStore(await createEndpointStore({ database, bus, events }), schemas);
  const serving = createEndpointServing({ records, schemas }, log);
  let running = true;
  const publishNow = async (): Promise<void> => {
    const { served, leftOut } = await serving.lookAt(store.all());
    await operations.prepare(owner, served);
    if (!running) return;
    kernel.health.leaveOut('endpoints', leftOut);
    operations.replace(owner, served, ({ id }, name) =>
      log.error({ id, name }, 'A custom endpoint is left out: its route is taken'),
    );
  };
  let queue: Promise<void> = Promise.resolve();
  /** One after the other: the last one sees what is there last. */
  const publish = (): Promise<void> => {
    const next = queue.then(publishNow, publishNow);
    queue = next.catch(() => undefined);
    return next;
  };
  await publish();
  store.onChange(publish);
  // A schema that is changed, switched off or gone changes what its endpoints can do.
  const stopListening = schemas.onChange(publish);
  return {
    admin: createEndpointAdmin(store, schemas, kernel.permissions),
    store,
    serving,
    schemas,
    close() {
      running = false;
      stopListening();
      store.close();
      operations.replace(owner, []);
    },
  };
}
