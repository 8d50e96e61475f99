/** What a change of schemas would break that names their fields: endpoints, and what clients may ask about. */
import { PathFault, resolveTarget } from '../../../../data/records/filter/target.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { endpointProblems } from './check.ts';
import type { StoredEndpoint } from './definition.ts';

/** Names of endpoints that fit their schemas now and would not after. `after`: the schemas that change, as they would be. */
export function brokenEndpoints(
  endpoints: readonly StoredEndpoint[],
  schemas: SchemaRegistry,
  after: readonly CompiledSchema[],
): readonly string[] {
  const then = overlay(schemas, after);
  return endpoints.filter((endpoint) => fits(endpoint, schemas) && !fits(endpoint, then)).map(({ name }) => name);
}

function fits(endpoint: StoredEndpoint, schemas: SchemaRegistry): boolean {
  const schema = schemas.get(endpoint.selectedSchemaName);
  return schema !== undefined && endpointProblems({ endpoint, schema, schemas }).length === 0;
}

/** Paths of `cms.query.fields` of other schemas that lead into a changed one and would lead nowhere, each as `Schema.path`. */
export function brokenQueryFields(schemas: SchemaRegistry, after: readonly CompiledSchema[]): readonly string[] {
  const then = overlay(schemas, after);
  return schemas.all().flatMap((schema) => {
    if (after.some(({ name }) => name === schema.name)) return [];
    const paths = schema.modelOptions.conduit.cms.query?.fields ?? [];
    return paths.filter((path) => leads(schema, path, schemas) && !leads(schema, path, then)).map((path) => `${schema.name}.${path}`);
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
    if (error instanceof PathFault) return false;
    throw error;
  }
}
