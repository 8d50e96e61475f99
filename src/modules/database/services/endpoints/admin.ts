/** What an admin does with endpoints. */

import { PathError, resolveTarget } from '../../../../data/records/filter/target.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { unknownAction } from '../../../../kernel/action-uses.ts';
import {
  type AuthorityObject,
  requireAuthority,
  schemaObject,
} from '../../../../kernel/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import { invalid, type Problem } from '../../../../kernel/errors.ts';
import { overLatest } from '../../../../kernel/over-latest.ts';
import type { PermissionPort } from '../../../../kernel/permissions.ts';
import { createTimeSlices, mapInSlices } from '../../../../kernel/time-slices.ts';
import { databaseErrors } from '../../errors.ts';
import { endpointProblems } from './check.ts';
import {
  type EndpointAggregate,
  type EndpointAssignment,
  type EndpointDefinition,
  type EndpointInput,
  type EndpointRequires,
  emptyEndpoint,
  endpointOperation,
  type StoredEndpoint,
} from './definition.ts';
import { parseTree } from './parse-tree.ts';
import type { EndpointStore } from './store.ts';
import { followedSchemas } from './unseen-fields.ts';

/* What a change of schemas would break that names their fields: endpoints, and what clients may ask about. */

/** Names of endpoints that fit their schemas now and would not after. `after`: the schemas that change, as they would be. */
async function brokenEndpoints(
  endpoints: readonly StoredEndpoint[],
  schemas: SchemaRegistry,
  after: readonly CompiledSchema[],
): Promise<readonly string[]> {
  const then = overlay(schemas, after);
  const broken: string[] = [];
  const pause = createTimeSlices();
  for (const endpoint of endpoints) {
    if (fits(endpoint, schemas) && !fits(endpoint, then)) broken.push(endpoint.name);
    await pause();
  }
  return broken;
}

function fits(endpoint: StoredEndpoint, schemas: SchemaRegistry): boolean {
  const schema = schemas.get(endpoint.selectedSchemaName);
  return schema !== undefined && endpointProblems({ endpoint, schema, schemas }).length === 0;
}

/** Paths of `cms.query.fields` of other schemas that lead into a changed one and would lead nowhere, each as `Schema.path`. */
export function brokenQueryFields(
  schemas: SchemaRegistry,
  after: readonly CompiledSchema[],
): readonly string[] {
  const then = overlay(schemas, after);
  return schemas.all().flatMap((schema) => {
    if (after.some(({ name }) => name === schema.name)) return [];
    const paths = schema.modelOptions.conduit.cms.query?.fields ?? [];
    return paths
      .filter((path) => leads(schema, path, schemas) && !leads(schema, path, then))
      .map((path) => `${schema.name}.${path}`);
  });
}

/** The registry as it would be. */
function overlay(schemas: SchemaRegistry, after: readonly CompiledSchema[]): SchemaRegistry {
  const changed = new Map(after.map((schema) => [schema.name, schema]));
  return { ...schemas, get: (name) => changed.get(name) ?? schemas.get(name) };
}

function leads(schema: CompiledSchema, path: string, schemas: SchemaRegistry): boolean {
  try {
    resolveTarget(schema, path, { schema: (name) => schemas.get(name), hidden: false });
    return true;
  } catch (error) {
    if (error instanceof PathError) return false;
    throw error;
  }
}

/** An endpoint as an admin writes it. */
export interface EndpointBody {
  readonly name?: string;
  readonly operation?: number;
  /** Id of the schema; or its name as `selectedSchemaName`. */
  readonly selectedSchema?: string;
  readonly selectedSchemaName?: string;
  readonly endpointDescription?: string;
  readonly inputs?: readonly EndpointInput[];
  readonly query?: unknown;
  readonly assignments?: readonly EndpointAssignment[];
  readonly authentication?: boolean;
  readonly paginated?: boolean;
  readonly sorted?: boolean;
  readonly matchAllWhenEmpty?: boolean;
  readonly aggregate?: EndpointAggregate;
  /** `null` takes it away. */
  readonly requires?: EndpointRequires | null;
}

export interface EndpointAdmin {
  /** Throws 404. */
  get(id: string): StoredEndpoint;
  /** Throws 400 with all problems, 404 for an unknown schema, 409 for a name that is taken. */
  create(caller: Caller, body: EndpointBody): Promise<StoredEndpoint>;
  /** What the body leaves out stays; name and operation always do. */
  update(caller: Caller, id: string, body: EndpointBody): Promise<StoredEndpoint>;
  remove(caller: Caller, id: string): Promise<void>;
  import(caller: Caller, bodies: readonly EndpointBody[]): Promise<void>;
  /** What a body means beside these schemas, which may not be declared yet. Throws like `create`; `place` comes before each path. */
  defined(body: EndpointBody, place: string, among: SchemaRegistry): EndpointDefinition;
  /**
   * Those who call are not asked about a constant link, nor whether they may read what a condition leads through: whoever
   * writes it has authority over these. Throws 403.
   */
  requireReach(caller: Caller, endpoint: EndpointDefinition, among: SchemaRegistry): void;
  /** Whether a type has an action; true while nobody can say. */
  knowsAction(schema: string, action: string): Promise<boolean>;
  /** Throws 409 when endpoints use one of these schemas. */
  requireUnused(schemas: readonly string[]): void;
  /** Names of the endpoints that use one of these schemas. */
  usersOf(schemas: readonly string[]): readonly string[];
  /** Names of the endpoints that would not fit their schemas any more. */
  brokenBy(after: readonly CompiledSchema[]): Promise<readonly string[]>;
}

export function createEndpointAdmin(
  store: EndpointStore,
  schemas: SchemaRegistry,
  permissions: PermissionPort,
): EndpointAdmin {
  function get(id: string): StoredEndpoint {
    const endpoint = store.byId(id);
    if (!endpoint) throw databaseErrors.ENDPOINT_NOT_FOUND();
    return endpoint;
  }

  const requireReach: EndpointAdmin['requireReach'] = (caller, endpoint, among) =>
    requireAuthority(
      caller,
      ...constantModels(endpoint, among, permissions),
      ...followedSchemas(endpoint, among).flatMap(schemaObject),
    );

  /** What the caller may store of a body. Throws 400 and 403. */
  const checked = (
    caller: Caller,
    body: EndpointBody,
    { current, place = '' }: { current?: EndpointDefinition; place?: string } = {},
  ): EndpointDefinition => {
    const endpoint = checkedDefinition(body, current, { place, among: schemas });
    requireReach(caller, endpoint, schemas);
    return endpoint;
  };

  return {
    get,
    async create(caller, body) {
      const endpoint = checked(caller, body);
      await requireKnownAction(permissions, endpoint);
      return store.create(caller, endpoint);
    },
    update: (caller, id, { name: _name, operation: _operation, ...changes }) =>
      overLatest('This endpoint', async () => {
        const { _id, __v: version, createdAt, updatedAt, damage, ...current } = get(id);
        const endpoint = checked(caller, changes, { current });
        await requireKnownAction(permissions, endpoint);
        return store.update(caller, { id: _id, version }, endpoint);
      }),
    async remove(caller, id) {
      await store.remove(caller, get(id)._id);
    },
    async import(caller, bodies) {
      refuseTwins(bodies);
      const definitions = await mapInSlices(bodies.entries(), ([index, body]) =>
        checked(caller, body, { place: `endpoints.${index}.` }),
      );
      if (definitions.length > 0) await store.import(caller, definitions);
    },
    knowsAction: async (schema, action) =>
      (await permissions.engine?.knows(schema, action)) ?? true,
    requireReach,
    defined: (body, place, among) => checkedDefinition(body, undefined, { place, among }),
    usersOf: (names) => endpointsOf(store, names),
    brokenBy: (after) => brokenEndpoints(store.all(), schemas, after),
    requireUnused: (names) => requireNone(endpointsOf(store, names)),
  };
}

function requireNone(used: readonly string[]): void {
  if (used.length === 0) return;
  const list = used.slice(0, 10);
  throw databaseErrors.SCHEMA_IN_USE({
    message: `Custom endpoints use this schema: ${list.join(', ')}. Remove them first`,
  });
}

const endpointsOf = (store: EndpointStore, schemas: readonly string[]): readonly string[] =>
  store
    .all()
    .filter(({ selectedSchemaName }) => schemas.includes(selectedSchemaName))
    .map(({ name }) => name);

/** What constant links lead to whose own rules would be asked of users. */
function constantModels(
  { selectedSchemaName, assignments }: EndpointDefinition,
  schemas: SchemaRegistry,
  permissions: PermissionPort,
): readonly AuthorityObject[] {
  const relations = schemas.get(selectedSchemaName)?.relations;
  return assignments.flatMap(({ schemaField, assignmentField }) => {
    const model = relations?.get(schemaField)?.model ?? '';
    return assignmentField.type === 'Custom' && permissions.rules.has(model)
      ? schemaObject(schemas.get(model))
      : [];
  });
}

/** Throws 400 for an action that the definition does not have now. One that it loses later lets nobody in. */
async function requireKnownAction(
  { engine }: PermissionPort,
  { requires, selectedSchemaName }: EndpointDefinition,
): Promise<void> {
  if (!requires || !engine) return;
  const schema = requires.record?.schema ?? selectedSchemaName;
  if (await engine.knows(schema, requires.action)) return;
  const message = unknownAction({ schema, action: requires.action });
  throw invalidEndpoint([{ path: 'requires.action', rule: 'action', message }]);
}

/** What a body means. Throws 400 with everything that is wrong with it; `place` comes before each path. */
function checkedDefinition(
  body: EndpointBody,
  current: EndpointDefinition | undefined,
  { place, among }: { readonly place: string; readonly among: SchemaRegistry },
): EndpointDefinition {
  const schema = schemaOf(among, body, place);
  const problems: Problem[] = current ? [] : unasked(body);
  const query =
    body.query === undefined && current ? current.query : parseTree(body.query, 'query', problems);
  const endpoint = { ...definitionOf(body, current), selectedSchemaName: schema.name, query };
  problems.push(...endpointProblems({ endpoint, schema, schemas: among }));
  if (problems.length === 0) return endpoint;
  throw invalidEndpoint(problems.map((one) => ({ ...one, path: place + one.path })));
}

/** A query that was forgotten must not show every record. */
function unasked({ operation = emptyEndpoint.operation, query }: EndpointBody): Problem[] {
  if (query !== undefined || operation !== endpointOperation.get) return [];
  return [{ path: 'query', rule: 'required', message: 'is required; {} stands for every record' }];
}

function invalidEndpoint(problems: readonly Problem[]): Error {
  const [first] = problems;
  return databaseErrors.ENDPOINT_INVALID({
    ...(first && { message: `${first.path}: ${first.message}` }),
    errors: problems,
  });
}

function schemaOf(
  schemas: SchemaRegistry,
  { selectedSchema, selectedSchemaName }: EndpointBody,
  place: string,
): CompiledSchema {
  if (selectedSchema === undefined && selectedSchemaName === undefined) {
    throw invalid(
      `${place}selectedSchema`,
      'required',
      'is required (an id), or selectedSchemaName',
    );
  }
  const schema =
    selectedSchema === undefined
      ? schemas.get(selectedSchemaName ?? '')
      : schemas.byId(selectedSchema);
  if (schema) return schema;
  const path = `${place}${selectedSchema === undefined ? 'selectedSchemaName' : 'selectedSchema'}`;
  const message = 'there is no such schema';
  throw schemaErrors.SCHEMA_NOT_FOUND({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'exists', message }],
  });
}

function definitionOf(
  body: EndpointBody,
  current: EndpointDefinition | undefined,
): typeof emptyEndpoint {
  const before = current ?? emptyEndpoint;
  return {
    name: body.name ?? before.name,
    operation: body.operation ?? before.operation,
    endpointDescription: body.endpointDescription ?? before.endpointDescription,
    inputs: body.inputs ?? before.inputs,
    assignments: body.assignments ?? before.assignments,
    authentication: body.authentication ?? before.authentication,
    paginated: body.paginated ?? before.paginated,
    sorted: body.sorted ?? before.sorted,
    matchAllWhenEmpty: body.matchAllWhenEmpty ?? before.matchAllWhenEmpty,
    aggregate: body.aggregate ?? before.aggregate,
    requires: body.requires === undefined ? before.requires : body.requires,
  };
}

function refuseTwins(bodies: readonly EndpointBody[]): void {
  const seen = new Set<string>();
  const twins = bodies.flatMap(({ name = '' }, index) => {
    const key = name.toLowerCase();
    if (!seen.has(key)) {
      seen.add(key);
      return [];
    }
    return [
      { path: `endpoints.${index}.name`, rule: 'unique', message: 'this name is there twice' },
    ];
  });
  if (twins.length > 0) throw invalidEndpoint(twins);
}
