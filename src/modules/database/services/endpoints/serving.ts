/** Which endpoints are served, and their routes. */

import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { adminOwner } from '../../../../kernel/authority/authority.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import type { Operation } from '../../../../kernel/operation.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { endpointProblems } from './check.ts';
import type { StoredEndpoint } from './definition.ts';
import { endpointRoute, type RouteParts } from './routes.ts';

/** A schema that an admin has switched off takes its endpoints with it; modules' schemas have no routes to switch. */
export const isServed = (schema: CompiledSchema | undefined): boolean =>
  schema !== undefined && (schema.modelOptions.conduit.cms.enabled || schema.ownerModule !== adminOwner);

export interface EndpointServing {
  /** The same operation objects as before for what did not change. */
  operations(endpoints: readonly StoredEndpoint[]): readonly Operation[];
  /** What keeps an endpoint from being served since its schema was changed. */
  problems(endpoint: StoredEndpoint): readonly Problem[];
}

export function createEndpointServing(parts: RouteParts, log: Logger): EndpointServing {
  const { schemas } = parts;
  const made = new WeakMap<StoredEndpoint, { readonly schema: CompiledSchema; readonly operation: Operation }>();

  function problems(endpoint: StoredEndpoint): readonly Problem[] {
    const schema = schemas.get(endpoint.selectedSchemaName);
    if (schema) return endpointProblems({ endpoint, schema, schemas });
    return [{ path: 'selectedSchemaName', rule: 'exists', message: `the schema ${endpoint.selectedSchemaName} does not exist` }];
  }

  function operationOf(endpoint: StoredEndpoint): readonly Operation[] {
    const schema = schemas.get(endpoint.selectedSchemaName);
    if (!schema || !isServed(schema)) return [];
    const faults = problems(endpoint);
    if (faults.length > 0) {
      log.warn({ endpoint: endpoint.name, problems: faults }, 'A custom endpoint no longer fits its schema and is not served');
      return [];
    }
    const known = made.get(endpoint);
    if (known?.schema === schema) return [known.operation];
    const operation = endpointRoute(parts, endpoint, schema);
    made.set(endpoint, { schema, operation });
    return [operation];
  }

  return { operations: (endpoints) => endpoints.flatMap(operationOf), problems };
}
