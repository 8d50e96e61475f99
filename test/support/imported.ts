/** A platform on a database that was there before it: a sample, imported and offered to clients. */
import { expect } from 'vitest';
import { loadSample, type Sample, type SampleName } from '../samples/index.ts';
import type { Json } from './api.ts';
import { createTestDatabase, type TestServer } from './database.ts';
import { expectStatus } from './node.ts';
import { createTestPlatform, type TestPlatform } from './platform.ts';

export interface ImportedPlatform extends TestPlatform {
  readonly sample: Sample;
  /** What the tables were before the platform started. */
  readonly before: Awaited<ReturnType<Sample['fingerprint']>>;
  /** Id of an imported schema. */
  schemaId(name: string): Promise<string>;
  /** Finalises every pending schema as it is and switches its client routes on. */
  importAll(): Promise<void>;
}

const on = { enabled: true };
/** Everything is offered to everybody. */
export const open = {
  cms: { enabled: true, crudOperations: { create: on, read: on, update: on, delete: on } },
  permissions: { canCreate: true, canModify: 'Everything', canDelete: true },
};

/** `schemas`: where the tables of the sample are. Nothing is introspected yet. */
export async function startOnSample(
  name: SampleName,
  {
    server = 'embedded',
    schemas = ['public'],
  }: { readonly server?: TestServer; readonly schemas?: readonly string[] } = {},
): Promise<ImportedPlatform> {
  const database = await createTestDatabase({ server });
  const sample = await loadSample(name, database.url, schemas);
  const before = await sample.fingerprint();
  const platform = await createTestPlatform({ databaseUrl: database.url });
  const { admin } = platform;
  if (schemas.join() !== 'public')
    expectStatus(
      await admin.patch('/config/database', { introspection: { schemas } }),
      200,
      'config',
    );

  async function declared(): Promise<readonly Json[]> {
    const { body } = await admin.get('/database/schemas', { query: { limit: 1_000 } });
    return body.schemas.filter(({ modelOptions }: Json) => modelOptions.conduit.imported);
  }

  return {
    ...platform,
    sample,
    before,
    async schemaId(requested) {
      return (await declared()).find((schema: Json) => schema.name === requested)?._id;
    },
    async importAll() {
      expectStatus(await admin.post('/database/introspection'), 200, 'introspection');
      const { body } = await admin.get('/database/introspection/schemas', {
        query: { limit: 1_000 },
      });
      expectStatus(
        await admin.post('/database/introspection/schemas/finalize', { schemas: body.schemas }),
        200,
        'finalize',
      );
      for (const { _id } of await declared()) {
        expectStatus(
          await admin.patch(`/database/schemas/${_id}`, { conduitOptions: open }),
          200,
          'exposure',
        );
      }
    },
    async close() {
      await sample.close();
      await platform.close();
      await database.drop();
    },
  };
}

/** Rows of the tables that a test did not write to are what they were, and so is the structure of all of them. */
export async function expectUntouched(
  { sample, before }: ImportedPlatform,
  written: readonly string[],
): Promise<void> {
  const after = await sample.fingerprint();
  expect(after.structure).toBe(before.structure);
  const changed = Object.keys(after.rows).filter(
    (table) => after.rows[table] !== before.rows[table],
  );
  expect(changed.filter((table) => !written.includes(table))).toEqual([]);
}
