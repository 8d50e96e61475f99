/** What the database module contributes to the state as a document. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { StateType } from '../../../../kernel/state/state.ts';
import type { Endpoints } from '../endpoints/create.ts';
import type { IndexAdmin } from '../indexes.ts';
import type { RowAuthorization } from '../row-authorization.ts';
import type { SchemaAdmin } from '../schema-admin.ts';
import { createDeclarations } from './declared.ts';
import { endpointState } from './endpoints.ts';
import { extensionState } from './extensions.ts';
import { indexState } from './indexes.ts';
import { schemaState } from './schemas.ts';

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
