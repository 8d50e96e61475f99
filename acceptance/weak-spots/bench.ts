/** What the suites about weak spots share: a platform, a look into its database, and schemas with names of their own. */
import pg from 'pg';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';

export interface WeakSpotBench {
  readonly platform: TestPlatform;
  /** Declares a schema; answers it. */
  schema(fields: Json, conduitOptions?: Json): Promise<Json>;
  /** Stores a custom endpoint over a schema. */
  endpoint(schema: Json, name: string, definition: Json): Promise<Json>;
  /** Creates records as nobody in particular; answers them. */
  fill(schema: Json, docs: readonly Json[]): Promise<Json[]>;
  /** Straight from the database, past the platform. */
  rows(text: string, values?: unknown[]): Promise<Json[]>;
  close(): Promise<void>;
}

export async function openBench(): Promise<WeakSpotBench> {
  const platform = await createTestPlatform();
  const server = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
  await server.connect();
  await platform.admin.patch('/config/router', { rateLimit: { maxRequests: 1_000_000 } });
  let count = 0;
  return {
    platform,
    schema: (fields, conduitOptions) =>
      platform.createSchema({
        name: `Spot${count++}`,
        fields,
        ...(conduitOptions !== undefined && { conduitOptions }),
      }),
    async endpoint(schema, name, definition) {
      const body = { name, selectedSchemaName: schema.name, ...definition };
      return expectStatus(
        await platform.admin.post('/database/customEndpoints', body),
        200,
        `endpoint ${name}`,
      ).body;
    },
    async fill(schema, docs) {
      return expectStatus(
        await platform.client.post(`/database/${schema.name}/many`, { docs }),
        200,
        'records',
      ).body.docs;
    },
    rows: async (text, values = []) => (await server.query(text, values)).rows,
    async close() {
      await server.end();
      await platform.close();
    },
  };
}

/** Row authorization for schemas. */
export const owned = { authorization: { enabled: true } };
