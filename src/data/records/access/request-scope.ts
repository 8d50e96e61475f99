/** What the engine works with for one caller: the schemas as they see them. For most callers they are the schemas as they are. */
import type { Caller } from '../../../kernel/caller.ts';
import type { PermissionPort } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { schemaErrors } from '../../schema/errors.ts';
import type { SchemaRegistry } from '../../schema/registry/registry.ts';
import { type Viewer, viewerOf, visibleSchema } from './field-access.ts';
import { requireTheirSchema } from './operation-access.ts';

/** What rights are worked out from; readers and writers have more. */
interface AccessDependencies {
  readonly schemas: SchemaRegistry;
  readonly permissions: PermissionPort;
}

export interface RequestScope<D> {
  readonly dependencies: D;
  /** Set for a caller who may not see or set everything. */
  readonly viewer: Viewer | undefined;
  /** Throws 404. */
  schema(name: string): CompiledSchema;
}

/** For a request about a schema. Answers without waiting unless the caller's roles matter. */
export type OpenRequestScope<D> = (
  caller: Caller,
  schema: string,
) => RequestScope<D> | Promise<RequestScope<D>>;

export function createRequestScopes<D extends AccessDependencies>(
  dependencies: D,
): OpenRequestScope<D> {
  const plain = requestScopeWith(dependencies, undefined);
  return (caller, schema) => {
    const about = dependencies.schemas.get(schema);
    if (about) requireTheirSchema(caller, about);
    const viewer = viewerOf(dependencies, caller, schema);
    if (viewer instanceof Promise)
      return viewer.then((one) => (one ? restrictedScope(dependencies, one) : plain));
    return viewer ? restrictedScope(dependencies, viewer) : plain;
  };
}

function restrictedScope<D extends AccessDependencies>(
  dependencies: D,
  viewer: Viewer,
): RequestScope<D> {
  const { schemas } = dependencies;
  const get = (name: string): CompiledSchema | undefined => {
    const schema = schemas.get(name);
    return schema && visibleSchema(schema, viewer);
  };
  return requestScopeWith({ ...dependencies, schemas: { ...schemas, get } }, viewer);
}

const requestScopeWith = <D extends AccessDependencies>(
  dependencies: D,
  viewer: Viewer | undefined,
): RequestScope<D> => ({
  dependencies,
  viewer,
  schema(name) {
    const schema = dependencies.schemas.get(name);
    if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
    return schema;
  },
});
