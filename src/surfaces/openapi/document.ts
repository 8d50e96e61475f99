/** The OpenAPI 3.1 description of a surface, derived from the operation registry and from nothing else. */
import { readFileSync } from 'node:fs';
import { jsonSchema } from '../../kernel/operations/json-schema.ts';
import {
  type Access,
  isStreamed,
  type Operation,
  type SurfaceName,
  standardLimit,
} from '../../kernel/operations/operation.ts';
import { camelName, mcpToolName, type OwnedOperation } from '../../kernel/operations/registry.ts';
import { needsApp } from '../../kernel/pipeline/context.ts';
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
import { isLargeList, type RouteEntry, routeEntries, tagsOf, withoutRepeated } from './routes.ts';
import {
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
  /** What a module is for, in a sentence; its name unless given. */
  readonly about?: (module: string) => string;
  /** Whether registered apps alone may call most operations: they say so by headers. */
  readonly needsApps?: boolean | undefined;
}

const manifest: unknown = JSON.parse(
  readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
);
const version = String(Reflect.get(Object(manifest), 'version'));

/** The same operations give the same bytes. Made in slices of time: a platform may have thousands of operations. */
export async function openApiDocument(
  operations: readonly OwnedOperation[],
  { surface, hostUrl, about = (module) => module, needsApps = false }: DocumentOptions,
): Promise<string> {
  const all = routeEntries(operations.filter(({ operation }) => operation.surface === surface));
  const isLarge = isLargeList(all);
  const routes = isLarge ? withoutRepeated(all) : all;
  const records = recordsIn(routes.map(({ operation }) => jsonSchema(operation.output)));
  const schemas = createSchemaPublisher(records, { isLarge });
  const publishers: Publishers = {
    isLarge,
    needsApps,
    schemas,
    failures: createFailurePublisher({ isLarge }),
    answers: createAnswerPublisher(),
    parameters: createParameterPublisher(schemas),
  };
  const paths = await pathsOf(routes, publishers);
  const used = new Set(
    routes.flatMap(({ operation }) =>
      securityOf(operation, needsApps).flatMap((alternative) => Object.keys(alternative)),
    ),
  );
  const keyed = routes.some(({ operation }) => takesIdempotencyKey(operation));
  return JSON.stringify({
    openapi: '3.1.0',
    info: {
      title: `Penstock ${surface} API`,
      version,
      description: isLarge ? `${descriptions[surface]} ${shortened}` : descriptions[surface],
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: hostUrl === '' ? '/' : hostUrl }],
    ...(surface === 'client' ? { security: ofMostSchemas(needsApps) } : {}),
    ...tagsOf(routes, { isLarge, about }),
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

/** Who may call what most schemas offer; operations that differ say so. */
const ofMostSchemas = (needsApps: boolean): Alternatives => {
  const schemes = schemesOf('optionalUser');
  return needsApps ? ofApps(schemes) : schemes;
};

const descriptions: Readonly<Record<SurfaceName, string>> = {
  client:
    'The API that apps call on behalf of their users. To try it here as a user, sign in with `POST /authentication/local` and paste its `accessToken` under **Authorize**. A schema that is declared on the admin API has its own section here at once.',
  admin:
    'The API for operators and provisioning. Paste one credential under **Authorize**: the master key (`secrets.json` in the data folder), the token of an admin (`POST /login`), or an API token (`cdt_...`).',
};

/** What large descriptions leave out of each operation. */
const shortened =
  'Changes of records take `Idempotency-Key`, changes of one record also `If-Match`: with so many schemas that stands here only.';

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
  clientId: {
    type: 'apiKey',
    in: 'header',
    name: 'clientid',
    description: 'Id of a registered app. Pages of its domain need nothing else.',
  },
  clientSecret: {
    type: 'apiKey',
    in: 'header',
    name: 'clientsecret',
    description: 'Secret of the registered app, for apps that can keep one.',
  },
};

const idempotencyKey: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'A call that is repeated with the same key and input within 24 hours happens once and is answered the same.',
  schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
};

type Alternatives = readonly Readonly<Record<string, readonly string[]>>[];

/** What a call must show: the credential of its caller, and of the app where apps are told apart. */
function securityOf(operation: Operation, needsApps: boolean): Alternatives {
  const schemes = schemesOf(operation.access);
  return needsApps && needsApp(operation) ? ofApps(schemes) : schemes;
}

/** With each alternative, the id of an app and its secret, or the id alone, as pages send it. */
function ofApps(schemes: Alternatives): Alternatives {
  const secrets: Alternatives = [{ clientSecret: [] }, {}];
  return secrets.flatMap((secret) =>
    (schemes.length > 0 ? schemes : [{}]).map((one) => ({ ...one, clientId: [], ...secret })),
  );
}

/** Alternatives, each sufficient. */
function schemesOf(access: Access): Alternatives {
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
  readonly needsApps: boolean;
  readonly schemas: SchemaPublisher;
  readonly answers: AnswerPublisher;
  readonly failures: FailurePublisher;
  readonly parameters: ParameterPublisher;
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
  const { schemas, failures, answers, isLarge, needsApps } = publishers;
  const { operation, module, alias } = route;
  const isOfSchema = operation.tag !== undefined;
  // Of hundreds of schemas, method and path say what an operation does.
  const isShort = isOfSchema && isLarge;
  const texts = isShort ? {} : textsOf(operation);
  const security = securityOf(operation, needsApps);
  const form = recordForm(operation);
  const parameters = [
    ...(isOfSchema ? [] : publishers.parameters.ofPath(route, place.template)),
    ...publishers.parameters.of(operation.input.query, 'query'),
    ...(isShort ? [] : headersOf(operation, publishers)),
  ];
  return {
    operationId: place.operationId,
    tags: [operation.tag ?? module],
    ...texts,
    ...(operation.deprecated || operation.legacy || alias ? { deprecated: true } : {}),
    ...(isOfSchema && operation.access === 'optionalUser' ? {} : { security }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...requestBody(operation, schemas),
    responses: responsesOf(operation, {
      ...{ schemas, failures, answers, form, isLarge, needsApps },
    }),
    ...(isOfSchema || isLarge ? {} : { 'x-operation': operation.id, 'x-module': module }),
    ...(operation.mcp === false || isStreamed(operation) || alias || operation.surface === 'client'
      ? {}
      : { 'x-mcp-tool': mcpToolName(route.method, route.path) }),
    ...(operation.limit === standardLimit ? {} : { 'x-rate-limit': operation.limit }),
  };
}

const textsOf = ({ summary, description }: Operation): Json => ({
  summary,
  ...(description && { description }),
});

const headersOf = (operation: Operation, { parameters }: Publishers): readonly Json[] => [
  ...parameters.of(operation.input.headers, 'header'),
  ...(takesIdempotencyKey(operation) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
];

/** Answers hold whole records in place of ids where the call can ask for that, or always does. */
export function recordForm({ input, populates }: Operation): RecordForm {
  const places = [input.query, input.body].flatMap((place) => (place ? [jsonSchema(place)] : []));
  const asks = places.some(({ properties }) => properties?.populate !== undefined);
  return asks || populates ? 'populated' : 'ids';
}
