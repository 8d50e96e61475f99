import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { platformKey } from '../../../../data/schema/language/record-key.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import { type ImportRequest, importRows } from './import.ts';
import { createReportBuilder } from './report.ts';

/** How many transactions are open when the sender is asked for more, and what is stored. */
async function importing(options: Pick<ImportRequest, 'atomic' | 'dryRun'>, lines: number) {
  let open = 0;
  const seen: number[] = [];
  let stored = 0;
  const database = {
    async transaction(work: () => Promise<unknown>) {
      open += 1;
      try {
        return await work();
      } finally {
        open -= 1;
      }
    },
    part: (work: () => Promise<unknown>) => work(),
  } as unknown as Database;
  const records = {
    async createMany(_caller: unknown, _schema: string, inputs: readonly unknown[]) {
      expect(open).toBe(1);
      stored += inputs.length;
    },
  } as unknown as RecordStore;
  const schema = {
    name: 'Doc',
    key: platformKey,
    tree: { fields: new Map([['title', {}]]) },
    relations: new Map(),
  } as unknown as CompiledSchema;
  async function* slowly(): AsyncGenerator<Buffer> {
    for (let line = 0; line < lines; line += 1) {
      seen.push(open);
      yield Buffer.from(`${JSON.stringify({ title: `t${line}` })}\n`);
    }
    seen.push(open);
  }
  const request = {
    ...{ database, records, schema, chunks: slowly(), ...options },
    ...{ caller: { kind: 'admin' }, mode: 'insert', format: 'ndjson', delimiter: 'comma' },
    ...{ signal: new AbortController().signal, spoolFolder: tmpdir() },
  } as unknown as ImportRequest;
  const report = await importRows(request, createReportBuilder());
  return { seen: new Set(seen), stored, report };
}

it.each([
  ['all rows or none', { atomic: true, dryRun: false }],
  ['a try', { atomic: true, dryRun: true }],
  ['what is valid', { atomic: false, dryRun: false }],
])('holds no transaction open while rows are on their way: %s', async (_name, options) => {
  const { seen, stored, report } = await importing(options, 50);
  expect([...seen]).toEqual([0]);
  expect(stored).toBe(50);
  expect(report).toMatchObject({ read: 50, created: 50, failed: 0 });
});
