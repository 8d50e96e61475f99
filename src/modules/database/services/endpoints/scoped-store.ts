/** Endpoints within the scopes of whoever writes them: one over the records of a module opens that module's data. */

import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { requireAuthority, schemaObject } from '../../../../kernel/authority/authority.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { EndpointStore } from './store.ts';

export function scopedEndpointStore(store: EndpointStore, schemas: Pick<SchemaRegistry, 'get'>): EndpointStore {
  const requireTheirs = (caller: Caller, ...names: readonly (string | undefined)[]): void =>
    requireAuthority(caller, ...names.flatMap((name) => schemaObject(schemas.get(name ?? ''))));
  const before = (id: string): string | undefined => store.byId(id)?.selectedSchemaName;
  return {
    ...store,
    async create(caller, definition) {
      requireTheirs(caller, definition.selectedSchemaName);
      return store.create(caller, definition);
    },
    async update(caller, id, definition) {
      requireTheirs(caller, before(id), definition.selectedSchemaName);
      return store.update(caller, id, definition);
    },
    async remove(caller, id) {
      requireTheirs(caller, before(id));
      await store.remove(caller, id);
    },
    async import(caller, definitions) {
      const replaced = store.all().filter(({ name }) => definitions.some((one) => one.name === name));
      requireTheirs(caller, ...[...replaced, ...definitions].map(({ selectedSchemaName }) => selectedSchemaName));
      await store.import(caller, definitions);
    },
  };
}
