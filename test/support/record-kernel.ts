/** The schema registry and the record store of one or more nodes on a database of the test's own. */
import { createHash } from 'node:crypto';
import { createHookedRecords } from '../../src/data/records/hook-gate.ts';
import { createRecordStore } from '../../src/data/records/record-store.ts';
import type { RecordStore } from '../../src/data/records/store.ts';
import { migrations as schemaTables } from '../../src/data/schema/migrations.ts';
import type { SchemaRegistry } from '../../src/data/schema/registry/registry.ts';
import { createSchemaRegistry } from '../../src/data/schema/registry/schema-registry.ts';
import type { Database } from '../../src/kernel/database/database.ts';
import { createBus, type NodeBus } from '../../src/kernel/events/create-bus.ts';
import { createEvents } from '../../src/kernel/events/create-events.ts';
import { migrations as databaseOwn } from '../../src/kernel/events/migrations.ts';
import type { Hooks } from '../../src/kernel/hooks/hooks.ts';
import { createPermissionPort, type PermissionPort } from '../../src/kernel/permissions.ts';
import { createMetrics } from '../../src/kernel/telemetry/create-metrics.ts';
import { openTestDatabase, type TestServer } from './database.ts';
import { silentLog } from './log.ts';

export interface RecordNode {
  readonly database: Database;
  readonly schemas: SchemaRegistry;
  readonly records: RecordStore;
  readonly permissions: PermissionPort;
}

export interface RecordKernel extends RecordNode {
  /** A store whose lists by clients have so many milliseconds, on a database that the test has changed. */
  limited(database: Database, searchLimitMs: number): RecordStore;
  /** The store of the first node with hooks before all that it writes. */
  hooked(hooks: Hooks): RecordStore;
  /** A further node on the same database. */
  another(): Promise<RecordNode>;
  /** Ids of the events of a schema, oldest first, each as `operation:id`. */
  events(schema: string): Promise<string[]>;
  close(): Promise<void>;
}

/** The same on every node, as the secret box of an installation is. */
const secrets = {
  digest: (token: string, purpose: string) =>
    createHash('sha256').update(`${purpose}\0${token}`).digest('hex'),
};

export async function openRecordKernel(server: TestServer = 'embedded'): Promise<RecordKernel> {
  const test = await openTestDatabase({
    server,
    migrations: [
      { owner: 'events', migrations: databaseOwn },
      { owner: 'schema', migrations: schemaTables },
    ],
  });
  const buses: NodeBus[] = [];
  const created: Omit<Parameters<typeof createRecordStore>[0], 'database'>[] = [];
  const node = async (database: Database): Promise<RecordNode> => {
    const bus = await createBus({ database, redis: undefined, log: silentLog });
    buses.push(bus);
    const events = createEvents({
      database,
      bus,
      log: silentLog,
      metrics: createMetrics({ metricsPrefix: '', metricsPort: undefined }),
    });
    const permissions = createPermissionPort();
    const schemas = await createSchemaRegistry({ database, bus, events });
    const parts = { schemas, permissions, events, secrets };
    created.push(parts);
    return { database, schemas, permissions, records: createRecordStore({ database, ...parts }) };
  };
  return {
    ...(await node(test.database)),
    limited(database, searchLimitMs) {
      const [parts] = created;
      if (!parts) throw new Error('There is no node');
      return createRecordStore({ ...parts, database, searchLimitMs });
    },
    hooked(hooks) {
      const [parts] = created;
      if (!parts) throw new Error('There is no node');
      return createHookedRecords({ ...parts, database: test.database }, hooks);
    },
    another: async () => node(await test.openAgain()),
    async events(schema) {
      const text =
        "select operation || ':' || id as event from penstock.outbox, unnest(ids) with ordinality i(id, place) where schema = $1 and topic not like '%:schema' order by seq, place";
      const { rows } = await test.database.query<{ event: string }>({ text, values: [schema] });
      return rows.map(({ event }) => event);
    },
    async close() {
      await Promise.all(buses.map((bus) => bus.close()));
      await test.close();
    },
  };
}
