/** In which order records that wait are taken. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type KernelDatabases, openKernelDatabase } from '../../../../test/support/kernel.ts';
import { migrations } from '../migrations.ts';
import { claimPending, enqueueChanged, enqueuePage } from './pending.ts';

let kernel: KernelDatabases;
beforeAll(async () => {
  kernel = await openKernelDatabase();
  for (const { run } of migrations) await run(kernel.database);
});
afterAll(() => kernel.close());

it('what somebody has changed goes before what a backfill looks at, also where that comes to it, too', async () => {
  const { database } = kernel;
  const [generationId, configId, runId] = [randomUUID(), randomUUID(), randomUUID()];
  await database.query({
    text: `insert into penstock.embeddings_generations (id, config_id, source_fields, provider, model, dimensions, similarity, language)
      values ($1, $2, '{text}', 'none', '', 0, 'cosine', 'english')`,
    values: [generationId, configId],
  });
  await database.query({
    text: `insert into penstock.embeddings_configs (id, schema_name, target_field, enabled, generation_id) values ($1, 'Note', 'words', true, $2)`,
    values: [configId, generationId],
  });
  const page = { runId, generationId, onlyMissing: false };
  await enqueuePage(database, { ...page, ids: ['a', 'b'] });
  await enqueueChanged(database, 'Note', ['c', 'd']);
  await enqueuePage(database, { ...page, ids: ['d'] });
  const taken: string[] = [];
  for (let i = 0; i < 4; i += 1) {
    const claim = { claim: randomUUID(), purpose: 'vectors', limit: 1, seconds: 60 } as const;
    const rows = await claimPending(database, { ...claim, generations: [generationId] });
    taken.push(...rows.map(({ recordId }) => recordId));
  }
  expect(taken.slice(0, 2).sort()).toEqual(['c', 'd']);
  expect(taken.slice(2).sort()).toEqual(['a', 'b']);
});
