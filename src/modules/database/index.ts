/**
 * Database: what admins do with schemas, and the client routes of every schema.
 * The schema language and the record engine themselves are part of the kernel,
 * because every module keeps its data with them.
 */

import { enqueueIndexJob } from '../../data/schema/registry/index-builds.ts';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule } from '../../host/module.ts';
import { databaseConfig } from './config.ts';
import { pruneHistory, purgeTrash } from './jobs.ts';
import { migrations } from './migrations.ts';
import { batchOperation } from './operations/batch.ts';
import { documentOperations } from './operations/documents.ts';
import { endpointTransferOperations } from './operations/endpoint-transfer.ts';
import { endpointOperations } from './operations/endpoints.ts';
import { adminHistoryOperations } from './operations/history.ts';
import { insightOperations } from './operations/insights.ts';
import { introspectionOperations } from './operations/introspection.ts';
import { adminMoveOperation } from './operations/move.ts';
import { realtimeStatusOperation } from './operations/realtime-status.ts';
import { createRecordRoutes, recordsOwner } from './operations/record-routes.ts';
import { schemaBatchOperations } from './operations/schema-batch.ts';
import { schemaChangeOperations } from './operations/schema-changes.ts';
import { schemaExtensionOperations } from './operations/schema-extensions.ts';
import { schemaFieldOperations } from './operations/schema-fields.ts';
import { schemaIndexOperations } from './operations/schema-indexes.ts';
import { schemaListOperations } from './operations/schema-list.ts';
import { schemaOperations } from './operations/schemas.ts';
import { transferOperations } from './operations/transfer.ts';
import { adminTrashOperations } from './operations/trash.ts';
import { vectorOperations } from './operations/vectors.ts';
import { databasePrompts } from './prompts.ts';
import { createDocuments } from './services/documents.ts';
import { createDroppedFieldAdmin, createPurgeFieldsJob } from './services/dropped-fields.ts';
import { usesOf } from './services/endpoints/requires.ts';
import { createEndpoints } from './services/endpoints/serving.ts';
import { createIndexAdmin } from './services/indexes.ts';
import { measureDatabase } from './services/insights/insights.ts';
import { createIntrospection } from './services/introspection/introspection.ts';
import { createRowAuthorization } from './services/row-authorization.ts';
import { createSchemaAdmin } from './services/schema-admin.ts';
import { databaseState } from './state/schemas.ts';

export const database = defineModule({
  name: 'database',
  description: 'Schemas, and the records that clients keep in them',
  requires: {},
  config: databaseConfig,
  migrations,
  async start({ kernel, config, log }) {
    const { database, schemas, permissions } = kernel;
    const rows = createRowAuthorization({ database, permissions, get: schemas.get });
    const endpoints = await createEndpoints(kernel, log);
    const admin = createSchemaAdmin({ ...kernel, rows, config, log, endpoints: endpoints.admin });
    const indexes = createIndexAdmin({
      admin,
      schemas,
      database,
      build: () => enqueueIndexJob(kernel.jobs, log),
    });
    const routes = createRecordRoutes(kernel.records, schemas, log);
    const documents = createDocuments(kernel.records, schemas);
    permissions.uses.set('database', () => usesOf(endpoints.store.all(), schemas.all()));
    measureDatabase(kernel.metrics, schemas, endpoints.store);
    const stopServing = serveRecords(kernel, routes);
    return {
      service: undefined,
      operations: [
        ...schemaListOperations(schemas),
        ...schemaBatchOperations(admin, schemas),
        ...schemaOperations(admin),
        ...schemaChangeOperations(admin, database),
        ...schemaFieldOperations(createDroppedFieldAdmin(admin, config)),
        ...schemaIndexOperations(indexes),
        ...schemaExtensionOperations(admin, schemas),
        ...vectorOperations(admin, kernel.records, schemas),
        realtimeStatusOperation({
          schemas,
          database,
          listens: kernel.settings.clientSocketPort >= 0,
        }),
        ...documentOperations(documents),
        ...adminTrashOperations(kernel.records, documents),
        adminMoveOperation(kernel.records, documents),
        ...adminHistoryOperations(kernel.records, documents),
        ...transferOperations({ ...kernel, documents }),
        batchOperation(kernel),
        ...introspectionOperations(createIntrospection({ database, schemas, config })),
        ...insightOperations({ ...kernel, engine: kernel, endpoints: endpoints.store }),
        ...endpointOperations(endpoints),
        ...endpointTransferOperations(endpoints),
      ],
      prompts: databasePrompts,
      jobs: [purgeTrash(kernel), pruneHistory(kernel), createPurgeFieldsJob(schemas, config)],
      state: databaseState({ schemas, admin, rows, indexes, endpoints }),
      async stop() {
        stopServing();
        permissions.uses.delete('database');
        endpoints.close();
      },
    };
  },
});

/** Keeps the routes of records as the schemas say. Answers how to withdraw them. */
function serveRecords(
  { schemas, operations }: Pick<Kernel, 'schemas' | 'operations'>,
  routes: ReturnType<typeof createRecordRoutes>,
): () => void {
  let running = true;
  const publish = (): void => {
    const served = running ? routes.operations(schemas.all()) : [];
    operations.replace(recordsOwner, served, routes.skip);
  };
  publish();
  // Also after a change on another node: its route is live here when the changing call returns there.
  const stopListening = schemas.onChange(() =>
    routes.prepare(operations, schemas.all()).then(publish),
  );
  return () => {
    running = false;
    stopListening();
    publish();
  };
}
