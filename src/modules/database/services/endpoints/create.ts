/** Puts the custom endpoints together, and keeps their routes as the stored endpoints and the schemas say. */

import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { createEndpointAdmin, type EndpointAdmin } from './admin.ts';
import { scopedEndpointStore } from './scoped-store.ts';
import { createEndpointServing, type EndpointServing } from './serving.ts';
import { createEndpointStore, type EndpointStore } from './store.ts';

export interface Endpoints {
  readonly admin: EndpointAdmin;
  readonly store: EndpointStore;
  readonly serving: EndpointServing;
  readonly schemas: SchemaRegistry;
  /** Withdraws the routes. */
  close(): void;
}

const owner = 'database/endpoints';

export async function createEndpoints(kernel: Kernel, log: Logger): Promise<Endpoints> {
  const { database, bus, events, schemas, records, operations } = kernel;
  const store = scopedEndpointStore(await createEndpointStore({ database, bus, events }), schemas);
  const serving = createEndpointServing({ records, schemas }, log);
  let running = true;
  const publish = (): void => {
    if (running) operations.replace(owner, serving.operations(store.all()));
  };
  publish();
  store.onChange(publish);
  // A schema that is changed, switched off or gone changes what its endpoints can do.
  schemas.onChange(publish);
  return {
    admin: createEndpointAdmin(store, schemas),
    store,
    serving,
    schemas,
    close() {
      running = false;
      store.close();
      operations.replace(owner, []);
    },
  };
}
