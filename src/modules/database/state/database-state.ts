/** What the database module contributes to the state as a document. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { StateType } from '../../../kernel/state.ts';
import type { Endpoints } from '../services/endpoints/serving.ts';
import type { IndexAdmin } from '../services/indexes.ts';
import type { RowAuthorization } from '../services/row-authorization.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';
import { createDeclarations } from './declared.ts';
import { endpointState } from './endpoints.ts';
import { indexState } from './indexes.ts';
import { extensionState, schemaState } from './schemas.ts';

interface Parts {
  readonly schemas: SchemaRegistry;
  readonly admin: SchemaAdmin;
  readonly rows: RowAuthorization;
  readonly indexes: IndexAdmin;
  readonly endpoints: Endpoints;
}

export function databaseState(parts: Parts): readonly StateType[] {
  const declarations = createDeclarations(parts.admin, parts.schemas);
  return [
    schemaState({ ...parts, endpoints: parts.endpoints.admin, declarations }),
    extensionState({ ...parts, declarations }),
    indexState({ ...parts, declarations }),
    endpointState({ ...parts, declarations }),
  ];
}
