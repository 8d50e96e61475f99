/** The OpenAPI 3.1 description of a surface, derived from the operation registry and from nothing else. */
import { readFileSync } from 'node:fs';
import { type JsonSchema, jsonSchema } from '../../kernel/operations/json-schema.ts';
import {
  type Access,
  isStreamed,
  type Method,
  type Operation,
  type SurfaceName,
} from '../../kernel/operations/operation.ts';
import type { BodyType } from '../../kernel/operations/operation-input.ts';
import {
  camelName,
  mcpToolName,
  moduleOf,
  type OwnedOperation,
  routesOf,
} from '../../kernel/operations/registry.ts';
import { takesIdempotencyKey } from '../../kernel/pipeline/idempotency/idempotency.ts';
import { createTimeSlices } from '../../kernel/time-slices.ts';
import {
  createFailurePublisher,
  errorSchema,
  type FailurePublisher,
  responsesOf,
} from './responses.ts';
import { compare, createSchemaPublisher, type Json, type SchemaPublisher } from './schemas.ts';

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
  const publishers: Publishers = {
    schemas: createSchemaPublisher(),
    failures: createFailurePublisher(),
  };
  const routes = routeEntries(operations.filter(({ operation }) => operation.surface === surface));
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
    tags: [...new Set(routes.map(({ module }) => module))]
      .sort(compare)
      .map((name) => ({ name, description: `The ${name} module.` })),
    paths,
    components: {
      securitySchemes: Object.fromEntries(
        Object.entries(securitySchemes).filter(([name]) => used.has(name)),
      ),
      ...(keyed ? { parameters: { IdempotencyKey: idempotencyKey } } : {}),
      headers: { RetryAfter: { description: 'Seconds to wait.', schema: { type: 'integer' } } },
      responses: publishers.failures.components(),
      schemas: { Error: errorSchema, ...publishers.schemas.components() },
    },
  });
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
  const parameters = [
    ...pathParameters(route, place.template, schemas),
    ...placeParameters(operation.input.query, 'query', schemas),
    ...placeParameters(operation.input.headers, 'header', schemas),
    ...(takesIdempotencyKey(operation) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  return {
    operationId: place.operationId,
    tags: [module],
    summary: operation.summary,
    ...(operation.description ? { description: operation.description } : {}),
    ...(operation.deprecated || operation.legacy || alias ? { deprecated: true } : {}),
    security: schemesOf(operation.access),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(operation, schemas),
    responses: responsesOf(operation, schemas, failures),
    'x-operation': operation.id,
    'x-module': module,
    ...(operation.mcp === false || isStreamed(operation) || alias || operation.surface === 'client'
      ? {}
      : { 'x-mcp-tool': mcpToolName(route.method, route.path) }),
    'x-rate-limit': operation.limit,
  };
}

/** Path parameters under the names of the template that stands for this path. */
function pathParameters(
  { operation, path }: RouteEntry,
  template: string,
  schemas: SchemaPublisher,
): readonly Json[] {
  const properties = propertiesOf(operation.input.params);
  const own = namesIn(path);
  return namesIn(template).map((name, i) =>
    parameter(name, 'path', properties[own[i] ?? ''] ?? {}, schemas),
  );
}

const namesIn = (path: string): readonly string[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name]) => name ?? '');

/** Headers that OpenAPI describes by other means. */
const describedElsewhere: ReadonlySet<string> = new Set([
  'accept',
  'content-type',
  'authorization',
  'idempotency-key',
]);

function placeParameters(
  schema: Operation['input']['query'],
  place: 'query' | 'header',
  schemas: SchemaPublisher,
): readonly Json[] {
  const required = new Set(schema ? jsonSchema(schema).required : []);
  return Object.entries(propertiesOf(schema))
    .filter(([name]) => place === 'query' || !describedElsewhere.has(name))
    .map(([name, property]) => ({
      ...parameter(name, place, property, schemas),
      required: required.has(name),
    }));
}

const propertiesOf = (schema: Operation['input']['params']): Readonly<Record<string, JsonSchema>> =>
  (schema && jsonSchema(schema).properties) ?? {};

function parameter(
  name: string,
  place: 'path' | 'query' | 'header',
  property: JsonSchema,
  schemas: SchemaPublisher,
): Json {
  const { description, ...schema } = schemas.publish(property);
  return {
    name,
    in: place,
    required: place === 'path',
    ...(typeof description === 'string' ? { description } : {}),
    schema,
  };
}

function requestBody(
  { input: { body, stream }, bodyTypes = ['json'], bodyLimit }: Operation,
  schemas: SchemaPublisher,
): Json {
  if (stream) {
    const { schema: fields, limit = bodyLimit, mayBeEmpty = false } = stream;
    const schema = fields
      ? schemas.publish(fields)
      : {
          type: 'string',
          contentEncoding: 'binary',
          description: `${stream.description} At most ${limit} bytes.`,
        };
    const streamed = Object.fromEntries(stream.contentTypes.map((type) => [type, { schema }]));
    const parsed = body ? { 'application/json': { schema: schemas.publish(body) } } : {};
    return { requestBody: { required: !mayBeEmpty, content: { ...streamed, ...parsed } } };
  }
  if (!body) return {};
  const { required = [], type } = jsonSchema(body);
  const schema = schemas.publish(body);
  const content = Object.fromEntries(bodyTypes.map((written) => [mediaTypes[written], { schema }]));
  return { requestBody: { required: required.length > 0 || type !== 'object', content } };
}

const mediaTypes: Readonly<Record<BodyType, string>> = {
  json: 'application/json',
  form: 'application/x-www-form-urlencoded',
};
