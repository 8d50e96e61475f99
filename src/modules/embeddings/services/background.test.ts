/** Which records are looked at again when files change that they hold. */
import { expect, it } from 'vitest';
import type { Transaction } from '../../../kernel/database/database.ts';
import { enqueueHolders, MAX_HOLDERS } from './background.ts';
import type { EmbeddingParts } from './embedding-parts.ts';

const config = { schemaName: 'Paper', enabled: true, current: { sourceFields: ['sheet'] } };
const schema = { name: 'Paper', relations: new Map([['sheet', { model: 'File' }]]) };

/** What is queued, and of which schemas there are more, where one file is held by so many records. */
async function queuedOf(holders: number) {
  const queued: string[] = [];
  const transaction = {
    query: async ({ values }: { readonly values: readonly (readonly string[])[] }) => {
      queued.push(...(values.find((value) => Array.isArray(value)) ?? []));
      return { count: 0, rows: [] };
    },
  } as unknown as Transaction;
  const parts = {
    database: { query: async () => ({ rows: [config] }) },
    schemas: { get: () => schema },
    records: {
      matching: async (_caller: unknown, _schema: string, { limit }: { readonly limit: number }) =>
        Array.from({ length: Math.min(limit, holders) }, (_, n) => `record${n}`),
    },
  } as unknown as Pick<EmbeddingParts, 'database' | 'schemas' | 'records'>;
  const crowded = await enqueueHolders(parts, transaction, new Set(['a file']));
  return { queued, crowded: [...crowded].map(({ schemaName }) => schemaName) };
}

it('queues the records that hold a file', async () => {
  expect(await queuedOf(3)).toEqual({ queued: ['record0', 'record1', 'record2'], crowded: [] });
});

it('says where more records hold it than are queued, so that all of them are compared', async () => {
  const { queued, crowded } = await queuedOf(MAX_HOLDERS + 1);
  expect(queued).toHaveLength(MAX_HOLDERS);
  expect(crowded).toEqual(['Paper']);
});
