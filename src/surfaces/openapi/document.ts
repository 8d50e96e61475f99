/** The OpenAPI 3.1 description of a surface, derived from the operation registry and from nothing else. */
import { readFileSync } from 'node:fs';
import Type from 'typebox';
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
  type AnswerPublisher,
  createAnswerPublisher,
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
  const all = routeEntries(operations.filter(({ operation }) => operation.surface === surface));
  const isLarge = new Set(all.map(({ operation }) => operation.tag)).size > MANY_SCHEMAS;
  const routes = isLarge ? withoutRepeated(all) : all;
  const records = recordsIn(routes.map(({ operation }) => jsonSchema(operation.output)));
  const schemas = createSchemaPublisher(records, { isLarge });
  const publishers: Publishers = {
    isLarge,
    schemas,
    failures: createFailurePublisher(),
    answers: createAnswerPublisher(),
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
    ...(surface === 'client' ? { security: ofMostSchemas } : {}),
    ...tagsOf(routes, isLarge),
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
      responses: { ...publishers.failures.components(), ...publishers.answers.finish() },
      schemas: { Error: errorSchema, ...schemas.components() },
    },
  });
}

/** Tags beyond which what differs by nothing but names stands once: programs read the whole description. */
const MANY_SCHEMAS = 100;

/**
 * Routes of many records (`/database/Post/many`), which every schema has: described once for all of them, with the name
 * of the schema as a parameter. Their bodies hold what the routes for one record take.
 */
function withoutRepeated(routes: readonly RouteEntry[]): readonly RouteEntry[] {
  const families = new Set<string>();
  return routes.flatMap((route) => {
    const { tag } = route.operation;
    const path = tag === undefined ? route.path : route.path.replace(`/${tag}/`, '/:schema/');
    if (path === route.path || !path.endsWith('/many')) return [route];
    const family = `${route.method} ${path}`;
    if (families.has(family)) return [];
    families.add(family);
    return [{ ...route, path, operation: ofAnySchema(route.operation) }];
  });
}

const anyRecords = Type.Object({ docs: Type.Array(Type.Record(Type.String(), Type.Unknown())) });

function ofAnySchema({ tag = '', ...operation }: Operation): Operation {
  const schema = Type.String({ description: `Name of a schema, such as ${tag}` });
  return {
    ...operation,
    id: operation.id.replace(`.${tag}.`, '.'),
    summary: operation.summary.replace(`${tag} records`, 'records of a schema'),
    description:
      'Every schema has this route. The items of `docs` are as for one record of it, with `_id` where records are changed.',
    input: {
      ...operation.input,
      params: Type.Object({ schema }),
      ...(operation.input.body && { body: anyRecords }),
    },
    output: anyRecords,
  };
}

/** Who may call what most schemas offer; operations that differ say so. */
const ofMostSchemas = schemesOf('optionalUser');

/** A tag for each module, and one for each schema of the database; viewers show the second kind below the first. */
function tagsOf(routes: readonly RouteEntry[], isLarge: boolean): Json {
  const groups = new Map<string, Set<string>>();
  for (const { module, operation } of routes) {
    const tags = groups.get(module) ?? new Set();
    groups.set(module, tags.add(operation.tag ?? module));
  }
  const sorted = [...groups].sort(([a], [b]) => compare(a, b));
  const tags = sorted.flatMap(([module, names]) =>
    [...names].sort(compare).map((name) => {
      if (name === module) return { name, description: `The ${name} module.` };
      return isLarge
        ? { name }
        : { name, description: `Records and endpoints of the schema ${name}.` };
    }),
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
  readonly isLarge: boolean;
  readonly schemas: SchemaPublisher;
  readonly answers: AnswerPublisher;
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
    if (!item.parameters) Object.assign(item, sharedParameters(route, template, publishers));
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

/** Operations of one record take the same id: it stands once, beside them. */
function sharedParameters(
  route: RouteEntry,
  template: string,
  { parameters }: Publishers,
): { readonly parameters?: readonly Json[] } {
  const shared = route.operation.tag === undefined ? [] : parameters.ofPath(route, template);
  return shared.length > 0 ? { parameters: shared } : {};
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
  const { schemas, failures, answers } = publishers;
  const { operation, module, alias } = route;
  const isOfSchema = operation.tag !== undefined;
  const description = isOfSchema && publishers.isLarge ? undefined : operation.description;
  const security = schemesOf(operation.access);
  const form = recordForm(operation);
  const parameters = [
    ...(isOfSchema ? [] : publishers.parameters.ofPath(route, place.template)),
    ...publishers.parameters.of(operation.input.query, 'query'),
    ...publishers.parameters.of(operation.input.headers, 'header'),
    ...(takesIdempotencyKey(operation) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
  ];
  return {
    operationId: place.operationId,
    tags: [operation.tag ?? module],
    summary: operation.summary,
    ...(description ? { description } : {}),
    ...(operation.deprecated || operation.legacy || alias ? { deprecated: true } : {}),
    ...(isOfSchema && operation.access === 'optionalUser' ? {} : { security }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(operation, schemas),
    responses: responsesOf(operation, { schemas, failures, answers, form }),
    ...(isOfSchema ? {} : { 'x-operation': operation.id, 'x-module': module }),
    ...(operation.mcp === false || isStreamed(operation) || alias || operation.surface === 'client'
      ? {}
      : { 'x-mcp-tool': mcpToolName(route.method, route.path) }),
    ...(operation.limit === standardLimit ? {} : { 'x-rate-limit': operation.limit }),
  };
}

/** Answers hold whole records in place of ids where the call can ask for that, or always does. */
export function recordForm({ input, populates }: Operation): RecordForm {
  const places = [input.query, input.body].flatMap((place) => (place ? [jsonSchema(place)] : []));
  const asks = places.some(({ properties }) => properties?.populate !== undefined);
  return asks || populates ? 'populated' : 'ids';
}
