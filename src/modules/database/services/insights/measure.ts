/** Figures of schemas and custom endpoints for monitoring (spec/database.md 6.2); 0 from the start. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Metrics } from '../../../../kernel/telemetry/metrics.ts';
import type { EndpointStore } from '../endpoints/store.ts';

/** Existing panels ask by module. */
const database = { module_name: 'database' };

export function measureDatabase(metrics: Metrics, schemas: Pick<SchemaRegistry, 'all'>, endpoints: Pick<EndpointStore, 'all'>): void {
  metrics.gauge('custom_endpoints_total', 'Custom endpoints that are stored', () => [{ labels: database, value: endpoints.all().length }], [
    'module_name',
  ]);
  metrics.gauge(
    'registered_schemas_total',
    'Schemas, made here or imported from tables of others',
    () => {
      const imported = schemas.all().filter(({ mapping }) => mapping !== undefined).length;
      return [
        { labels: { ...database, imported: 'false' }, value: schemas.all().length - imported },
        { labels: { ...database, imported: 'true' }, value: imported },
      ];
    },
    ['module_name', 'imported'],
  );
}
