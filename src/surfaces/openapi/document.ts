/** The OpenAPI 3.1 description of a surface, derived from the operation registry and from nothing else. */
import { readFileSync } from 'node:fs';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import {
  type Access,
  isStreamed,
  type Method,
  type Operation,
  type SurfaceName,
  standardLimit,
} from '../../kernel/operations/operation.ts';
import {
  camelName,
  mcpToolName,
  moduleOf,
  type OwnedOperation,
  routesOf,
} from '../../kernel/operations/registry.ts';
import { takesIdempotencyKey } from '../../kernel/pipeline/idempotency/idempotency.ts';
import { createTimeSlices } from '../../kernel/time-slices.ts';
import { createParameterPublisher, type ParameterPublisher, requestBody } from './parameters.ts';
import {
  createFailurePublisher,
  errorSchema,
  type FailurePublisher,
  responsesOf,
} from './responses.ts';
import {
  compare,
  createSchemaPublisher,
  type Json,
  type RecordForm,
  recordsIn,
  type SchemaPublisher,
} from './schemas.ts';

export interface DocumentOptions {
  readonly surface: SurfaceName;
  /** Public base address; empty: wherever the description was read from. */
  readonly hostUrl: string;
}

const manifest: unknown = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);
const version = String(Reflect.get(Object(manifest), 'version'));

/** The same operations give the same bytes. Made in slices of time: a platform may have thousands of operations. */
export async function openApiDocument(
  operations: readonly OwnedOperation[],
  { surface, hostUrl }: DocumentOptions,
): Promise<string> {
  const routes = routeEntries(operations.filter(({ operation }) => operation.surface === surface));
  const records = recordsIn(routes.map(({ operation }) => jsonSchema(operation.output)));
  const schemas = createSchemaPublisher(records);
  const publishers: Publishers = {
    schemas,
    failures: createFailurePublisher(),
    parameters: createParameterPublisher(schemas),
  };
  const paths = await pathsOf(routes, publishers);
  const used = new Set(
    routes.flatMap(({ operation }) =>
      schemesOf(operation.access).flatMap((alternative) => Object.keys(alternative)),
    ),
  );
  const keyed = routes.some(({ operation }) => takesIdempotencyKey(operation));
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: `Penstock ${surface} API`,
      version,
      description: descriptions[surface],
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: hostUrl === '' ? '/' : hostUrl }],
    ...tagsOf(routes),
    paths,
    components: {
      securitySchemes: Object.fromEntries(
        Object.entries(securitySchemes).filter(([name]) => used.has(name)),
      ),
      parameters: {
        ...(keyed ? { IdempotencyKey: idempotencyKey } : {}),
        ...publishers.parameters.finish(),
      },
      headers: { RetryAfter: { description: 'Seconds to wait.', schema: { type: 'integer' } } },
      responses: publishers.failures.components(),
      schemas: { Error: errorSchema, ...schemas.components() },
    },
  });
}

/** A tag for each module, and one for each schema of the database; viewers show the second kind below the first. */
function tagsOf(routes: readonly RouteEntry[]): Json {
  const groups = new Map<string, Set<string>>();
  for (const { module, operation } of routes) {
    const tags = groups.get(module) ?? new Set();
    groups.set(module, tags.add(operation.tag ?? module));
  }
  const sorted = [...groups].sort(([a], [b]) => compare(a, b));
  const tags = sorted.flatMap(([module, names]) =>
    [...names].sort(compare).map((name) => ({
      name,
      description:
        name === module ? `The ${name} module.` : `Records and endpoints of the schema ${name}.`,
    })),
  );
  const tagGroups = sorted.map(([name, names]) => ({ name, tags: [...names].sort(compare) }));
  return { tags, 'x-tagGroups': tagGroups };
}

const descriptions: Readonly<Record<SurfaceName, string>> = {
  client: 'What apps call on behalf of their users.',
  admin: 'What operators and provisioning call. Any one of the three credentials suffices.',
};

const securitySchemes: Readonly<Record<string, Json>> = {
  masterKey: {
    type: 'apiKey',
    in: 'header',
    name: 'masterkey',
    description: 'The master key of this installation.',
  },
  adminToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'Token from `POST /login`, or an API token.',
  },
  apiToken: {
    type: 'apiKey',
    in: 'header',
    name: 'credential',
    description: 'An API token (`cdt_...`).',
  },
  secondFactorToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'Short token of a login that needs its second factor.',
  },
  userToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'Access token of a user.',
  },
  refreshToken: { type: 'http', scheme: 'bearer', description: 'Refresh token of a session.' },
};

const idempotencyKey: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'A call that is repeated with the same key and input within 24 hours happens once and is answered the same.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
};

/** Alternatives, each sufficient. */
function schemesOf(access: Access): readonly Readonly<Record<string, readonly string[]>>[] {
  switch (access) {
    case 'public':
      return [];
    case 'optionalUser':
      return [{ userToken: [] }, {}];
    case 'user':
    case 'partialUser':
      return [{ userToken: [] }];
    case 'refreshToken':
      return [{ refreshToken: [] }];
    case 'admin':
    case 'superAdmin':
      return [{ masterKey: [] }, { adminToken: [] }, { apiToken: [] }];
    case 'masterKey':
      return [{ masterKey: [] }];
    case 'adminSecondFactor':
      return [{ secondFactorToken: [] }];
  }
}

/** What stands once for the whole document. */
interface Publishers {
  readonly schemas: SchemaPublisher;
  readonly failures: FailurePublisher;
  readonly parameters: ParameterPublisher;
}

interface RouteEntry {
  readonly module: string;
  readonly operation: Operation;
  readonly method: Method;
  /** As declared. */
  readonly path: string;
  /** A second spelling of the operation. */
  readonly alias: boolean;
}

/** Every route, by path and method. */
function routeEntries(operations: readonly OwnedOperation[]): readonly RouteEntry[] {
  const entries = operations.flatMap(({ owner, operation }) =>
    routesOf(operation).map(
      ({ method, path }, i): RouteEntry => ({
        module: moduleOf(owner),
        operation,
        method,
        path,
        alias: i > 0,
      }),
    ),
  );
  return entries.sort((a, b) => compare(a.path, b.path) || compare(a.method, b.method));
}

async function pathsOf(routes: readonly RouteEntry[], publishers: Publishers): Promise<Json> {
  const pause = createTimeSlices();
  const paths = new Map<string, Record<string, Json>>();
  const templates = new Map<string, string>();
  const ids = new Set<string>();
  for (const route of routes) {
    // Two templates that differ in the names of parameters only are one path in OpenAPI.
    const shape = route.path.replace(/:\w+/g, ':');
    const template = templates.get(shape) ?? route.path;
    templates.set(shape, template);
    const path = template.replace(/:(\w+)/g, '{$1}');
    const item = paths.get(path) ?? {};
    item[route.method.toLowerCase()] = operationObject(
      route,
      { template, operationId: uniqueId(ids, route) },
      publishers,
    );
    paths.set(path, item);
    await pause();
  }
  return Object.fromEntries(paths);
}

function uniqueId(ids: Set<string>, { method, path }: RouteEntry): string {
  const name = camelName(method, path);
  let id = name;
  for (let i = 2; ids.has(id); i++) id = `${name}${i}`;
  ids.add(id);
  return id;
}

function operationObject(
  route: RouteEntry,
  place: { template: string; operationId: string },
  publishers: Publishers,
): Json {
  const { schemas, failures } = publishers;
  const { operation, module, alias } = route;
  const form = recordForm(operation);
  const parameters = [
    ...publishers.parameters.ofPath(route, place.template),
    ...publishers.parameters.of(operation.input.query, 'query'),
    ...publishers.parameters.of(operation.input.headers, 'header'),
    ...(takesIdempotencyKey(operation) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  return {
    operationId: place.operationId,
    tags: [operation.tag ?? module],
    summary: operation.summary,
    ...(operation.description ? { description: operation.description } : {}),
    ...(operation.deprecated || operation.legacy || alias ? { deprecated: true } : {}),
    security: schemesOf(operation.access),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(operation, schemas),
    responses: responsesOf(operation, { schemas, failures, form }),
    'x-operation': operation.id,
    'x-module': module,
    ...(operation.mcp === false || isStreamed(operation) || alias || operation.surface === 'client'
      ? {}
      : { 'x-mcp-tool': mcpToolName(route.method, route.path) }),
    ...(operation.limit === standardLimit ? {} : { 'x-rate-limit': operation.limit }),
  };
}

/** Answers hold whole records in place of ids where the call can ask for that, or always does. */
function recordForm({ input, populates }: Operation): RecordForm {
  const places = [input.query, input.body].flatMap((place) => (place ? [jsonSchema(place)] : []));
  const asks = places.some(({ properties }) => properties?.populate !== undefined);
  return asks || populates ? 'populated' : 'ids';
}
