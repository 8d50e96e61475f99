/**
 * Database: what admins do with schemas, and the client routes of every schema.
 * The schema language and the record engine themselves are part of the kernel,
 * because every module keeps its data with them.
 */
import { defineModule } from '../../kernel/module.ts';
import { databaseConfig } from './config.ts';
import { migrations } from './migrations.ts';
import { batchOperation } from './operations/batch.ts';
import { documentOperations } from './operations/documents.ts';
import { endpointTransferOperations } from './operations/endpoint-transfer.ts';
import { endpointOperations } from './operations/endpoints.ts';
import { schemaBatchOperations } from './operations/schema-batch.ts';
import { schemaListOperations } from './operations/schema-list.ts';
import { schemaOperations } from './operations/schemas.ts';
import { createDocuments } from './services/documents.ts';
import { createEndpoints } from './services/endpoints/create.ts';
import { createRecordRoutes } from './services/record-routes.ts';
import { createRowAuthorization } from './services/row-authorization.ts';
import { createSchemaAdmin } from './services/schema-admin.ts';

/** Nothing is offered to other modules: they use `kernel.schemas` and `kernel.records`. */
export type DatabaseService = Readonly<Record<never, never>>;

const recordsOwner = 'database/records';

export const database = defineModule<typeof databaseConfig.schema, DatabaseService>({
  name: 'database',
  description: 'Schemas, and the records that clients keep in them',
  requires: {},
  config: databaseConfig,
  migrations,
  async start({ kernel, config, log }) {
    const { database, schemas, permissions, operations } = kernel;
    const rows = createRowAuthorization({ database, permissions, get: schemas.get });
    const endpoints = await createEndpoints(kernel, log);
    const admin = createSchemaAdmin({ schemas, rows, config, log, endpoints: endpoints.admin });
    const routes = createRecordRoutes(kernel.records, schemas);
    let running = true;
    const publish = (): void => operations.replace(recordsOwner, running ? routes.operations(schemas.all()) : []);
    publish();
    // Also after a change on another node: its route is live here when the changing call returns there.
    schemas.onChange(() => {
      if (running) publish();
    });
    return {
      service: {},
      operations: [
        ...schemaListOperations(schemas),
        ...schemaBatchOperations(admin, schemas),
        ...schemaOperations(admin),
        ...documentOperations(createDocuments(kernel.records, schemas)),
        batchOperation(kernel),
        ...endpointOperations(endpoints),
        ...endpointTransferOperations(endpoints),
      ],
      async stop() {
        running = false;
        publish();
        endpoints.close();
      },
    };
  },
});
