/** What an admin may do with schemas, with the rules that the registry itself does not know. */

import { isOffered, needsUser } from '../../../data/records/access/operation-access.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { PlatformOptions } from '../../../data/schema/language/definition.ts';
import { crudOperations } from '../../../data/schema/language/options.ts';
import type {
  NewSchema,
  SchemaChange,
  SchemaRequest,
} from '../../../data/schema/plan/schema-request.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { ConfigHandle } from '../../../kernel/config/config-definition.ts';
import { type Problem, relocated } from '../../../kernel/errors.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { DatabaseConfig } from '../config.ts';
import { brokenQueryFields, type EndpointAdmin } from './endpoints/admin.ts';
import { uselessPaths } from './query-paths.ts';
import type { RowAuthorization } from './row-authorization.ts';
import { openOperations, type PlanForAdmin } from './schema-views.ts';

export interface SchemaAdmin {
  /** Throws 404. */
  get(id: string): CompiledSchema;
  /** What of it has no effect because of how other schemas are, in words. */
  warnings(schema: CompiledSchema): readonly string[];
  create(caller: Caller, input: NewSchema): Promise<CompiledSchema>;
  update(caller: Caller, id: string, change: SchemaChange): Promise<CompiledSchema>;
  /** What a change would do, with the custom endpoints that it would break. */
  plan(caller: Caller, request: SchemaRequest): Promise<PlanForAdmin>;
  /** A request that needs no more than the registry. */
  apply(caller: Caller, request: SchemaRequest): Promise<readonly CompiledSchema[]>;
  /** Switches the client routes of several schemas, as one change. Throws 404 when one is not there. */
  setClientRoutes(
    caller: Caller,
    ids: readonly string[],
    cms: NonNullable<PlatformOptions['cms']>,
  ): Promise<readonly CompiledSchema[]>;
  remove(caller: Caller, ids: readonly string[], options: { deleteData: boolean }): Promise<void>;
  import(caller: Caller, request: ImportRequest): Promise<void>;
}

export type ImportRequest = Extract<SchemaRequest, { readonly kind: 'import' }>;

interface Dependencies {
  readonly schemas: SchemaRegistry;
  readonly permissions: Pick<PermissionPort, 'engine'>;
  readonly rows: RowAuthorization;
  readonly endpoints: Pick<EndpointAdmin, 'requireUnused' | 'usersOf' | 'brokenBy'>;
  readonly config: ConfigHandle<DatabaseConfig>;
  readonly log: Logger;
}

/** Told of records that are read without a login, and of which the definition shows no visitor any. */
function unseen(
  { permissions: { engine } }: Pick<Dependencies, 'permissions'>,
  schema: CompiledSchema,
): readonly string[] {
  const isOpen =
    schema.modelOptions.conduit.authorization.enabled &&
    isOffered(schema, 'read') &&
    !needsUser(schema, 'read');
  if (!isOpen || engine?.admitsVisitors?.(schema.name) !== false) return [];
  return [
    `"read" needs no authentication, but visitors get 401: nothing in "read" of the resource definition ${schema.name} holds for everybody, by a relation that takes "*" or a rule`,
  ];
}

export function createSchemaAdmin(dependencies: Dependencies): SchemaAdmin {
  const { schemas, rows, endpoints, log } = dependencies;
  const get = (id: string): CompiledSchema => {
    const schema = schemas.byId(id);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  };

  const { withDefaults, withDefaultsIn } = createDefaults(dependencies);

  const warned = (schema: CompiledSchema): CompiledSchema => warnIfOpen(log, schema);

  return {
    get,
    warnings: (schema) => [...uselessPaths(schemas, schema), ...unseen(dependencies, schema)],
    async create(caller, input) {
      await rows.before(caller, input.name, input.options);
      return warned(await schemas.create(caller, withDefaults(input)));
    },
    async update(caller, id, change) {
      if (change.renames) await requireUnnamed(dependencies, caller, id, change);
      const after = await rows.before(caller, get(id).name, change.options);
      const changed = warned(await schemas.update(caller, id, change));
      await after?.();
      return changed;
    },
    async plan(caller, request) {
      const plan = await schemas.plan(caller, withDefaultsIn(request));
      await checkRows(rows, request, (id) => get(id).name);
      if (request.kind !== 'remove')
        return { ...plan, endpoints: await endpoints.brokenBy(plan.after) };
      const used = endpoints.usersOf(request.ids.map((id) => get(id).name));
      return used.length === 0
        ? { ...plan, endpoints: used }
        : { ...plan, endpoints: used, obstacles: [...plan.obstacles, inUse(used)] };
    },
    apply: schemas.apply,
    async setClientRoutes(caller, ids, cms) {
      const changes = [...new Set(ids)].map((id) => ({
        id: get(id)._id,
        change: { options: { cms } },
      }));
      return (await schemas.apply(caller, { kind: 'update', changes })).map(warned);
    },
    async remove(caller, ids, options) {
      const known = ids.filter((id) => schemas.byId(id));
      if (known.length === 0) throw schemaErrors.SCHEMA_NOT_FOUND();
      const names = known.map((id) => get(id).name);
      endpoints.requireUnused(names);
      await schemas.remove(caller, known, options);
      if (options.deleteData) await rows.destroyed(caller, names);
    },
    async import(caller, request) {
      const afterwards = [];
      for (const [i, { name, options }] of request.schemas.entries())
        afterwards.push(await inImport(i, () => rows.before(caller, name, options)));
      const imported = await schemas.apply(caller, withDefaultsIn(request));
      imported.forEach(warned);
      for (const after of afterwards) await after?.();
    },
  };
}

function warnIfOpen(log: Logger, schema: CompiledSchema): CompiledSchema {
  const operations = openOperations(schema);
  const facts = { schema: schema.name, operations };
  if (operations.length > 0) log.warn(facts, 'Anybody may write to this schema without signing in');
  return schema;
}

/** What new schemas get where they say nothing. */
function createDefaults({ schemas, config }: Pick<Dependencies, 'schemas' | 'config'>) {
  const withDefaults = (input: NewSchema): NewSchema =>
    config.current().security.defaultAuthenticated
      ? { ...input, options: closedOptions(input.options) }
      : input;

  function withDefaultsIn(request: SchemaRequest): SchemaRequest {
    if (request.kind === 'create') return { ...request, input: withDefaults(request.input) };
    if (request.kind !== 'import') return request;
    return {
      ...request,
      schemas: request.schemas.map((input) =>
        knownName(schemas, input) ? input : withDefaults(input),
      ),
    };
  }

  return { withDefaults, withDefaultsIn };
}

/** Endpoints and queries of clients name fields: under new ones they would stop. */
async function requireUnnamed(
  { schemas, endpoints }: Pick<Dependencies, 'schemas' | 'endpoints'>,
  caller: Caller,
  id: string,
  change: SchemaChange,
): Promise<void> {
  const { after } = await schemas.plan(caller, { kind: 'update', changes: [{ id, change }] });
  const paths = brokenQueryFields(schemas, after).map((path) => `the query field ${path}`);
  const broken = [
    ...(await endpoints.brokenBy(after)).map((name) => `the custom endpoint ${name}`),
    ...paths,
  ];
  if (broken.length === 0) return;
  const message = `The old names are used by ${broken.slice(0, 10).join(', ')}. Change or remove that first`;
  throw schemaErrors.FIELD_IN_USE({
    message,
    errors: [{ path: 'renames', rule: 'in-use', message }],
  });
}

/** What a change would run into, beside what the registry knows. */
async function checkRows(
  rows: RowAuthorization,
  request: SchemaRequest,
  nameOf: (id: string) => string,
): Promise<void> {
  if (request.kind === 'create') await rows.check(request.input.name, request.input.options);
  if (request.kind === 'update')
    for (const { id, change } of request.changes) await rows.check(nameOf(id), change.options);
  if (request.kind !== 'import') return;
  for (const [i, { name, options }] of request.schemas.entries())
    await inImport(i, () => rows.check(name, options));
}

/** Problems of the options of one schema among many, where they stand in an import. */
async function inImport<T>(index: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw relocated(error, (path) =>
      path.replace(/^conduitOptions\b/, `schemas.${index}.modelOptions.conduit`),
    );
  }
}

const inUse = (names: readonly string[]): Problem & { readonly schema: string } => ({
  schema: '',
  path: 'endpoints',
  rule: 'in-use',
  message: `custom endpoints use this schema: ${names.slice(0, 10).join(', ')}`,
});

const knownName = (schemas: SchemaRegistry, { name }: NewSchema): boolean =>
  schemas.get(name) !== undefined;

/** Options in which every operation that says nothing needs a signed-in user. */
function closedOptions(options: PlatformOptions = {}): PlatformOptions {
  const given = options.cms?.crudOperations ?? {};
  const switches = crudOperations.map((name) => [name, { authenticated: true, ...given[name] }]);
  return { ...options, cms: { ...options.cms, crudOperations: Object.fromEntries(switches) } };
}
