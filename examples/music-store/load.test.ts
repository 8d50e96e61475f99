import { describe, expect, it } from 'vitest';
import type { Api } from './api.ts';
import { generate } from './generate.ts';
import { loadRows } from './load.ts';

interface Call {
  readonly table: string;
  readonly docs: readonly Record<string, unknown>[];
}

/** Stores nothing: gives ids and remembers what was sent. */
function fakeApi(): { api: Api; calls: Call[] } {
  const calls: Call[] = [];
  let next = 0;
  const refuse = (): never => {
    throw new Error('not expected');
  };
  const post = async (path: string, body: unknown): Promise<unknown> => {
    const { docs } = body as { docs: Record<string, unknown>[] };
    const table = path.split('/')[2] ?? '';
    calls.push({ table, docs });
    return { docs: docs.map(() => ({ _id: `${table}-${next++}` })) };
  };
  return { api: { get: refuse, delete: refuse, post: post as Api['post'] }, calls };
}

describe('loading', () => {
  it('sends ids in place of references, and at most a thousand rows per call', async () => {
    const { api, calls } = fakeApi();
    await loadRows(api, generate(), () => undefined);
    expect(Math.max(...calls.map(({ docs }) => docs.length))).toBe(1000);
    expect(calls.find(({ table }) => table === 'Album')?.docs[0]?.artist).toMatch(/^Artist-\d+$/);
    expect(JSON.stringify(calls)).not.toContain('"table":"Artist","row"');
  });

  it('stores managers before those who report to them', async () => {
    const { api, calls } = fakeApi();
    await loadRows(api, generate(), () => undefined);
    const batches = calls
      .filter(({ table }) => table === 'Employee')
      .map(({ docs }) => docs.map(({ title }) => title));
    expect(batches[0]).toEqual(['General Manager']);
    expect(batches.flat()).toHaveLength(8);
  });

  it('refuses rows that wait for each other', async () => {
    const { api } = fakeApi();
    const Employee = [{ reportsTo: { table: 'Employee', row: 0 } }] as const;
    await expect(loadRows(api, { ...generate(), Employee }, () => undefined)).rejects.toThrow(
      'Employee: row 0 points to a row that comes later',
    );
  });
});
